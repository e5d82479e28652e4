"""The folder of compiled code is named by the content of the code, and one is always found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import groundlab

PACKAGE = Path(groundlab.__file__).parent
KERNEL = """from groundlab.core.compiled import compiled
from groundlab.worlds.inner import can_enter
from groundlab.worlds.numbers import WALL

@compiled
def kernel():
    return can_enter() + WALL
"""
INNER = "from groundlab.core.compiled import inlined\n\n@inlined\ndef can_enter():\n    return 10\n"


def test_a_change_of_the_laboratory_compiles_nothing_anew():
    """The folder is named by the content of every file with these words in it (core/compiled.py)."""
    files = [file for file in PACKAGE.rglob("*.py") if b"groundlab.core.compiled" in file.read_bytes()]
    assert {file.relative_to(PACKAGE).parts[0] for file in files} == {"core", "worlds", "papers"}


@pytest.fixture
def run(tmp_path):
    """Runs a kernel in `worlds` of a copy that has the core alone: its exit code, what it gives, and stderr."""
    shutil.copytree(PACKAGE / "core", tmp_path / "groundlab" / "core", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "__init__.py", tmp_path / "groundlab")
    (tmp_path / "groundlab" / "worlds").mkdir()
    for name, text in (("__init__", ""), ("kernel", KERNEL), ("inner", INNER), ("numbers", "WALL = 2\n")):
        (tmp_path / "groundlab" / "worlds" / f"{name}.py").write_text(text)

    def run(before: str = "", **variables: str | None) -> tuple[int, str, str]:
        given = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""}
        environment = {name: value for name, value in {**given, **variables}.items() if value is not None}
        words = [sys.executable, "-c", f"{before}\nfrom groundlab.worlds.kernel import kernel\nprint(kernel())"]
        ended = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
        said = [line for line in ended.stderr.splitlines() if "compiling what this world needs" not in line]
        return ended.returncode, ended.stdout.strip(), "\n".join(said)

    return run


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_machine_code_is_never_older_than_what_it_was_made_of(run, tmp_path, variable):
    """An edited file has the size and the times of the old one, and the file of the kernel stays as it is."""
    place = {variable: str(tmp_path / "kept")}
    assert run(**place) == (0, "12", "")
    assert list((tmp_path / "kept").rglob("*kernel*.nbi")), "kept where the user says"
    for name, old, new, result in (("inner", "return 10", "return 50", "52"), ("numbers", "= 2", "= 4", "54")):
        file = tmp_path / "groundlab" / "worlds" / f"{name}.py"
        times = file.stat()
        file.write_text(file.read_text().replace(old, new))
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert run(**place) == (0, result, "")


NAMELESS = "import pwd; pwd.getpwuid = lambda uid: {}[uid]"


@pytest.mark.parametrize("before", ["", "import tempfile; tempfile.tempdir = '/proc/none'"], ids=["temporary", "none"])
@pytest.mark.parametrize("home", ["/proc/none", None], ids=["not to be written to", "no home"])
def test_a_library_whose_user_can_write_nowhere_compiles_for_itself_and_says_so(run, home, before, tmp_path):
    for folder in ("worlds", "core"):  # root may write anywhere but where a file is in the way
        (tmp_path / "groundlab" / folder / "__pycache__").write_text("")
    code, out, error = run(f"{NAMELESS}; {before}", HOME=home, XDG_CACHE_HOME=None, TMPDIR=str(tmp_path))
    assert (code, out) == (0, "12") and "\n" not in error
    assert "NUMBA_CACHE_DIR=FOLDER names a place" in error and not list(tmp_path.glob("groundlab-numba-*"))
