"""The digest of an import closure: which modules it holds, and which edits of them it sees."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import groundlab
from groundlab.lab import import_closure

FILES = {
    "__init__.py": '__version__ = "1"\n',
    "agent.py": """
        from typing import TYPE_CHECKING
        import numpy as np
        from sample import formulas
        from sample.inner import LIMIT
        from .late import start as begin
        if TYPE_CHECKING:
            from sample.types_only import Kind
        FRONT = "sample.front:Window"
        WORKER = "worker.py"
        def act(x: "Kind"):
            '''Acts.'''
            from sample import lazy
            return f"{np.abs(x):.{LIMIT}f} {{" 'of' f" {formulas.double(x)!r}" + lazy.word(begin)
        """,
    "formulas.py": "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n",
    "inner/__init__.py": "from sample.inner.numbers import LIMIT\nPAPER = ['sample.figures']\n",
    "inner/numbers.py": "LIMIT = 3\n",
    "late.py": "start = 1\n",
    "lazy.py": "def word(x, /, *, more=None):\n    return -x if x else b'\\xff' + ascii('\\N{BULLET}')\n",
    "front.py": "class Window:\n    size: int = 4\n    '''How large.'''\n",
    "worker.py": "match [1]:\n    case [None]:\n        DONE = 1e9\n",
    "types_only.py": "Kind = int\n",
    "figures.py": "COLOUR = 'red'\n",
}
NUMPY, FORMULAS = "import numpy as np", "from sample import formulas"
GOLDEN = "c387fb16dfbaca98c86a1727b7bac4728c2403ba08591e89bb481eebced07ff3"


class Sample:
    """A small package on disk."""

    def __init__(self, home: Path):
        self.home = home
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        lines = text.splitlines()
        cut = "        " if lines and not lines[0] else ""
        (self.home / name).parent.mkdir(parents=True, exist_ok=True)
        (self.home / name).write_text("\n".join(line.removeprefix(cut) for line in lines) + "\n")

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.home / name).read_text()
        assert old in text
        (self.home / name).write_text(text.replace(old, new))

    @property
    def digest(self) -> str:
        return import_closure.digest(["sample.agent"], {"sample": self.home})

    @property
    def modules(self) -> set[str]:
        names = import_closure.closure(["sample.agent"], {"sample": self.home})
        return {name.removeprefix("sample").lstrip(".") for name in names}


@pytest.fixture
def sample(tmp_path) -> Sample:
    return Sample(tmp_path / "sample")


def test_the_closure_follows_imports_of_every_kind_but_those_for_type_checkers_and_of_tables(sample):
    assert sample.modules == {"", "agent", "formulas", "inner", "inner.numbers", "late", "lazy", "front", "worker"}


def test_a_start_that_is_no_module_is_refused(sample):
    with pytest.raises(FileNotFoundError, match=r"sample\.nothing"):
        import_closure.digest(["sample.nothing"], {"sample": sample.home})


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("__init__.py", '"1"', '"2"'),
        ("agent.py", "'''Acts.'''", "'''Does.'''"),
        ("agent.py", "FRONT =", "# a comment\n\nFRONT ="),
        ("agent.py", f"{NUMPY}\n{FORMULAS}", f"{FORMULAS}\n{NUMPY}"),
        ("front.py", "'''How large.'''", "'''How small.'''"),
        ("inner/__init__.py", "'sample.figures'", "'sample.figures', 'sample.more'"),
        ("inner/__init__.py", "PAPER = [", "_HERE = 'x'\nPAPER = [_HERE, "),
    ],
)
def test_what_decides_nothing_keeps_the_digest(sample, name, old, new):
    before = sample.digest
    sample.edit(name, old, new)
    assert sample.digest == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("formulas.py", "2 * x", "3 * x"),
        ("inner/numbers.py", "3", "3.0"),
        ("agent.py", "import numpy as np", "import torch as np"),
        ("agent.py", "formulas.double", "formulas.half"),
        ("agent.py", "from .late import start", "from .inner.numbers import LIMIT"),
        ("agent.py", "'of'", "'off'"),
        ("agent.py", "!r", "!s"),
        ("agent.py", ":.{LIMIT}f", ":.{LIMIT}e"),
        ("lazy.py", "*, more=None", "more=None"),
        ("lazy.py", "BULLET", "ACUTE ACCENT"),
        ("front.py", "4", "5"),
        ("worker.py", "[None]", "[True]"),
    ],
)
def test_what_decides_something_changes_the_digest(sample, name, old, new):
    before = sample.digest
    sample.edit(name, old, new)
    assert sample.digest != before


def test_a_constant_that_takes_the_value_of_one_of_the_same_name_elsewhere_changes_the_digest(sample):
    for name, value in (("late.py", 5), ("formulas.py", 7), ("lazy.py", 5)):
        text = (sample.home / name).read_text()
        sample.write(name, f"_SIZE = {value}\n{text}\n\ndef size_of_{name[:-3]}():\n    return _SIZE\n")
    before = sample.digest
    sample.edit("late.py", "_SIZE = 5", "_SIZE = 7")
    assert sample.digest != before


def test_a_function_may_move_whether_it_is_imported_by_name_or_by_module(sample):
    before = sample.digest
    sample.edit("formulas.py", "def double(x):\n    return 2 * x\n\n\n", "")
    sample.write("late.py", "start = 1\n\n\ndef double(x):\n    return 2 * x\n")
    sample.edit("agent.py", "from sample import formulas", "from sample import late")
    sample.edit("agent.py", "formulas.double", "late.double")
    sample.edit("agent.py", "WORKER", "from sample import formulas\nWORKER")
    assert sample.digest == before


def test_a_module_names_its_tables_and_helpers_that_only_tables_use_go_with_them(sample):
    table = "HASHED_BY_ROW = ('ROWS',)\n\n\ndef _row(x):\n    return {}\n\n\nROWS = [_row(x) for x in range(4)]\n"
    sample.write("late.py", f"start = 1\n{table.format('x')}")
    before = sample.digest
    sample.write("late.py", f"start = 1\n{table.format('2 * x').replace('4', '5')}")
    assert sample.digest == before
    sample.write("late.py", f"start = 1\n{table.format('2 * x')}\n\ndef other(x):\n    return _row(x)\n")
    first = sample.digest
    sample.edit("late.py", "2 * x", "3 * x")
    assert sample.digest != first


DIGEST = """
import sys
sys.path.insert(0, sys.argv[1])
import import_closure
from pathlib import Path
print(import_closure.digest([sys.argv[2]], {sys.argv[2].split(".")[0]: Path(sys.argv[3])}))
"""


def _interpreters() -> list[str]:
    """This Python, and others of the supported versions where they are installed."""
    homes = Path.home() / ".pyenv" / "versions"
    found = (
        shutil.which(f"python3.{minor}", path=str(next(homes.glob(f"3.{minor}.*/bin"), "")))
        or shutil.which(f"python3.{minor}")
        for minor in {11, 12, 13} - {sys.version_info.minor}
    )
    return [sys.executable, *(python for python in found if python)]


@pytest.mark.parametrize("python", _interpreters())
def test_every_supported_python_gives_the_same_digest(sample, python):
    package = Path(groundlab.__file__).parent
    answers = {}
    for start, home in (("sample.agent", sample.home), ("groundlab.lab.worker", package)):
        command = [python, "-c", DIGEST, str(Path(import_closure.__file__).parent), start, str(home)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode and "command not found" in answer.stderr:
            pytest.skip(f"{python} is a shim of a version that is not installed")
        assert answer.returncode == 0, answer.stderr
        answers[start] = answer.stdout.strip()
    expected = import_closure.digest(["groundlab.lab.worker"], {"groundlab": package})
    assert answers == {"sample.agent": GOLDEN, "groundlab.lab.worker": expected}
