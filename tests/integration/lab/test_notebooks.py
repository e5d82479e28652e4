"""Notebooks are run with checked parameters, and their errors are one line."""

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.lab.reproduce import run_notebook


def test_a_misspelt_parameter_is_refused_with_the_nearest_name(laboratory, tmp_path):
    notebook = laboratory.write_notebook("page.ipynb", "scale = 'quick'\nseeds = None", ["print(scale)"])
    with pytest.raises(GroundlabError, match="'scael'; did you mean 'scale'"):
        run_notebook(notebook, {"scael": "full"}, tmp_path / "executed.ipynb")
    assert not (tmp_path / "executed.ipynb").exists()


def test_a_failing_cell_is_one_line_with_its_number_and_the_executed_copy(laboratory, tmp_path, capfd):
    notebook = laboratory.write_notebook("page.ipynb", "scale = 'quick'", ["raise ValueError('no such table')"])
    with pytest.raises(GroundlabError) as caught:
        run_notebook(notebook, {"scale": "full"}, tmp_path / "executed.ipynb")
    line = str(caught.value)
    assert "page.ipynb failed in cell" in line and "ValueError: no such table" in line
    assert str(tmp_path / "executed.ipynb") in line and "\n" not in line
    assert "no such table" in (tmp_path / "executed.ipynb").read_text()


def test_kernels_are_quiet_and_only_our_own_lines_are_printed(laboratory, tmp_path, capfd):
    notebook = laboratory.write_notebook("page.ipynb", "scale = 'quick'", ["import os", "os.system('echo noise >&2')"])
    run_notebook(notebook, {"scale": "full"}, tmp_path / "executed.ipynb")
    out, err = capfd.readouterr()
    assert out == ""
    assert [line.split(" ", 1)[1].split(" after")[0] for line in err.splitlines()] == [
        "notebook page.ipynb",
        "finished page.ipynb",
    ]
    assert not (tmp_path / "executed.log").exists()


def test_a_missing_notebook_is_said_so(laboratory, tmp_path):
    with pytest.raises(GroundlabError, match="does not exist"):
        run_notebook(tmp_path / "nothing.ipynb", {}, tmp_path / "executed.ipynb")
