"""Notebooks are run with checked parameters, by a process of their own; their errors are one line."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.lab.notebooks import Page, PageProcess, run_notebook

WAITS = ["import os, time", "open(marker, 'w').write(str(os.getpid()))"]
PARENT = """
import sys, time
from pathlib import Path
from groundlab.lab.notebooks import Page, PageProcess
with PageProcess() as pages:
    pages.begin([Page(Path(sys.argv[1]), {"marker": sys.argv[2]}, Path(sys.argv[3]))])
    time.sleep(300)
"""


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
    told = [line.split(" ", 1)[1].split(" after")[0] for line in err.splitlines()]
    assert told == ["notebook page.ipynb", "finished page.ipynb"]
    assert not (tmp_path / "executed.log").exists()


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
    with pytest.raises(GroundlabError, match=r"^page.ipynb: Kernel died; see .*executed.log$"):
        run_notebook(notebook, {"scale": "full"}, tmp_path / "executed.ipynb")


def wait_until(holds, seconds=300):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_pages_are_made_while_the_caller_goes_on(laboratory, tmp_path):
    waiting = "while not pathlib.Path(gate).exists(): time.sleep(0.05)"
    lines = ["import os, pathlib, time", waiting, "print(os.environ['SAID'])"]
    notebook = laboratory.write_notebook("page.ipynb", "gate = ''", lines)
    with PageProcess({"SAID": "by us"}) as pages:
        pages.begin([Page(notebook, {"gate": str(tmp_path / "gate")}, tmp_path / "executed.ipynb")])
        assert pages.is_busy()
        (tmp_path / "gate").touch()  # only now can its cell end
        pages.finish()
        assert not pages.is_busy()
    assert "by us" in (tmp_path / "executed.ipynb").read_text() and "SAID" not in os.environ


def test_a_page_process_that_is_killed_is_told(laboratory, tmp_path):
    notebook = laboratory.write_notebook("page.ipynb", "marker = ''", [*WAITS, "time.sleep(300)"])
    with PageProcess() as pages:
        pages.begin([Page(notebook, {"marker": str(tmp_path / "kernel")}, tmp_path / "executed.ipynb")])
        wait_until((tmp_path / "kernel").exists)
        pages._process.kill()
        with pytest.raises(GroundlabError, match="the same command makes them again"):
            pages.finish()


def test_pages_end_with_a_parent_that_is_killed(laboratory, tmp_path):
    notebook = laboratory.write_notebook("page.ipynb", "marker = ''", [*WAITS, "time.sleep(300)"])
    marker = tmp_path / "kernel"
    given = [str(notebook), str(marker), str(tmp_path / "executed.ipynb")]
    parent = subprocess.Popen([sys.executable, "-P", "-c", PARENT, *given])
    wait_until(lambda: marker.exists() and marker.read_text())
    parent.kill()
    parent.wait()
    wait_until(lambda: not is_running(int(marker.read_text())))
