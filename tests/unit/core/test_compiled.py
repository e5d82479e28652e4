"""Where compiled code is kept: its folder is named by what the code is made of, and one is always found."""

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
def small(tmp_path):
    """The core alone, and a kernel in `worlds` that calls another file's function; `small(...)` runs it."""
    home, start = tmp_path / "groundlab", "import os, sys, tempfile; "
    shutil.copytree(PACKAGE / "core", home / "core", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "__init__.py", home)
    (home / "worlds").mkdir()
    for name, text in (("__init__", ""), ("kernel", KERNEL), ("inner", INNER), ("numbers", "WALL = 2\n")):
        (home / "worlds" / f"{name}.py").write_text(text)

    def run(before: str = "", **variables: str | None) -> tuple[int, str, str]:
        given = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""}
        environment = {name: value for name, value in {**given, **variables}.items() if value is not None}
        program = f"{start}{before}\nfrom groundlab.worlds.kernel import kernel\nprint(kernel())"
        words = [sys.executable, "-c", program]
        ended = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
        said = [line for line in ended.stderr.splitlines() if "compiling what this world needs" not in line]
        return ended.returncode, ended.stdout.strip(), "\n".join(said)

    run.worlds = home / "worlds"  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
@pytest.mark.parametrize(
    ("file", "old", "new"), [("inner.py", "return 10", "return 50"), ("numbers.py", "WALL = 2", "WALL = 4")]
)
def test_machine_code_is_never_older_than_what_it_was_made_of(small, tmp_path, variable, file, old, new):
    """The edited file has the size and the times of the old one, and the file of the kernel stays as it is."""
    place, source = {variable: str(tmp_path / "kept")}, small.worlds / file
    assert small(**place) == (0, "12", "")
    assert list((tmp_path / "kept").rglob("*kernel*.nbi")), "kept where the user says"
    times = source.stat()
    source.write_text(source.read_text().replace(old, new))
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert small(**place) == (0, {"inner.py": "52", "numbers.py": "14"}[file], "")


NOWHERE = 'tempfile.tempdir = "/proc/none"'


@pytest.mark.parametrize("before", ["", NOWHERE], ids=["a temporary folder", "no folder at all"])
@pytest.mark.parametrize(
    "variables",
    [
        {"NUMBA_CACHE_DIR": "/proc/none", "XDG_CACHE_HOME": None, "HOME": "/proc/none"},
        {"XDG_CACHE_HOME": "/proc/none"},
        {"XDG_CACHE_HOME": None, "HOME": None, "before": "import pwd; pwd.getpwuid = lambda uid: {}[uid]; "},
    ],
    ids=["read-only", "no cache", "no home"],
)
def test_a_library_whose_user_can_write_nowhere_compiles_for_itself_and_says_so(small, variables, before, tmp_path):
    for folder in ("worlds", "core"):  # root may write anywhere but where a file is in the way
        (small.worlds.parent / folder / "__pycache__").write_text("")
    given = {**variables, "before": variables.get("before", "") + before, "TMPDIR": str(tmp_path)}
    code, out, error = small(**given)
    assert (code, out) == (0, "12") and "\n" not in error
    assert "NUMBA_CACHE_DIR=FOLDER names a place" in error and not list(tmp_path.glob("groundlab-numba-*"))


def test_worlds_that_may_not_be_compiled_are_refused(small):
    code, _, error = small(NUMBA_DISABLE_JIT="1")
    assert code and "expected numba to compile the worlds, got NUMBA_DISABLE_JIT=1" in error.splitlines()[-1]
