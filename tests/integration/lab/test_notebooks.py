"""Notebooks are executed with checked parameters; their errors are one line."""

import sys

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.core.versions import Version
from groundlab.lab.notebooks import run_notebook


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
    assert str(tmp_path / ".executed.ipynb") in line and "\n" not in line
    assert "no such table" in (tmp_path / ".executed.ipynb").read_text()
    assert not (tmp_path / "executed.ipynb").exists(), "it is executed again"


def test_kernels_are_quiet_and_only_our_own_lines_are_printed(laboratory, tmp_path, capfd):
    notebook = laboratory.write_notebook("page.ipynb", "scale = 'quick'", ["import os", "os.system('echo noise >&2')"])
    run_notebook(notebook, {"scale": "full"}, tmp_path / "executed.ipynb")
    out, err = capfd.readouterr()
    assert out == ""
    told = [line.split(" ", 1)[1].split(" after")[0] for line in err.splitlines()]
    assert told == ["notebook page.ipynb", "finished page.ipynb"]
    assert [file.name for file in tmp_path.glob("*executed*")] == ["executed.ipynb"]


def test_a_page_has_this_interpreter_and_nothing_that_the_user_has_kernels_run(laboratory, tmp_path, monkeypatch):
    kernel, startup = tmp_path / "jupyter" / "kernels" / "python3", tmp_path / "ipython" / "profile_default" / "startup"
    for folder in (kernel, startup):
        folder.mkdir(parents=True)
    (kernel / "kernel.json").write_text('{"argv": ["/bin/false"], "display_name": "other", "language": "python"}')
    for file in (startup / "00.py", startup.parent / "ipython_kernel_config.py", tmp_path / "start.py"):
        file.write_text(f"import os; os.environ['SEEN'] = os.environ.get('SEEN', '') + '{file.name} '")
    for name, place in (("JUPYTER_PATH", "jupyter"), ("IPYTHONDIR", "ipython"), ("PYTHONSTARTUP", "start.py")):
        monkeypatch.setenv(name, str(tmp_path / place))
    lines = ["import os, sys", "print('runs', sys.executable, 'after', os.environ.get('SEEN'))"]
    notebook = laboratory.write_notebook("page.ipynb", "scale = 'quick'", lines)
    run_notebook(notebook, {"scale": "full"}, tmp_path / "executed.ipynb")
    assert f"runs {sys.executable} after None" in (tmp_path / "executed.ipynb").read_text()


def test_the_death_of_a_kernel_is_one_line(laboratory, tmp_path):
    notebook = laboratory.write_notebook("page.ipynb", "scale = 'quick'", ["import os", "os._exit(3)"])
    with pytest.raises(GroundlabError, match=r"^page.ipynb: Kernel died; see .*.executed.log$"):
        run_notebook(notebook, {"scale": "full"}, tmp_path / "executed.ipynb")


def test_a_notebook_trains_where_it_is_asked_to_and_shows_what_came_out(laboratory, tmp_path):
    lines = ["from groundlab import lab, report", "folder = lab.version('mediator', scale, source)"]
    lines += ["assert (folder / 'review.html').is_file()", "report.verdicts(folder, 'mediator')"]
    notebook = laboratory.write_notebook("page.ipynb", "source = 'published'\nscale = 'full'", lines)
    run_notebook(notebook, {"source": "fresh", "scale": "smoke"}, tmp_path / "executed.ipynb")
    version = Version(laboratory.results / ".scratch" / "notebook-mediator-smoke")
    assert [run["method"] for run in version.runs("mediator")] == ["always"]
