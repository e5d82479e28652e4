"""No room of the repository is larger than budget.toml allows, whatever file its code stands in.

python tests/contract/test_budget.py          today's counts, in the form of budget.toml
python tests/contract/test_budget.py write    put them into budget.toml, below its comments
"""

import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUDGET = ROOT / "budget.toml"
PAGES = {".js", ".css", ".j2", ".html"}
Counts = dict[str, dict[str, int]]


def tracked() -> list[Path]:
    """The files that git tracks, by their path in the repository; those that are gone from the folder are left out."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in names if name and (ROOT / name).is_file()]


def room(file: Path) -> str | None:
    """What a file's lines count for; None for prose, data and results."""
    top = file.parts[0]
    if top == "results":
        return None
    if file.suffix in (".py", ".pyi"):
        return "/".join(file.parts[:3]) if top == "src" and len(file.parts) > 3 else top
    if file.suffix in PAGES and top == "src":
        return "templates, scripts and styles in src"
    if file.suffix == ".ipynb":
        return "code of notebooks"
    if file.suffix in (".yaml", ".yml"):
        return top if top == "configs" else f"YAML in {top}"
    if file.suffix in (".sh", ".def") or file.name == "Dockerfile" or file.parent.name == ".ci":
        return "shell and recipes"
    return None


def lines(file: Path) -> int:
    """Lines of a file, of a notebook those in its code cells."""
    text = (ROOT / file).read_text()
    if file.suffix == ".ipynb":
        cells = (cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")
        text = "\n".join(cell if isinstance(cell, str) else "".join(cell) for cell in cells)
    return len(text.splitlines())


def is_prose(file: Path) -> bool:
    """Whether people wrote these words to be read: README and docs, without the log and the generated references."""
    docs = file.parts[0] == "docs" and "log" not in file.parts and not file.stem.endswith("-reference")
    return file.suffix == ".md" and (docs or file == Path("README.md"))


def counts() -> Counts:
    """Today's size of every room."""
    files = tracked()
    of_rooms: Counter[str] = Counter()
    for file in files:
        if (name := room(file)) is not None:
            of_rooms[name] += lines(file)
    words = sum(len((ROOT / file).read_text().split()) for file in files if is_prose(file))
    return {"lines": dict(sorted(of_rooms.items())), "words": {"docs": words}, "files": {"tracked": len(files)}}


def excesses(allowed: Counts, found: Counts) -> list[str]:
    """One line for each room that is too large; a room without a number may hold nothing."""
    return [
        f"{name}: expected at most {most} {unit}, got {size}; remove some, or raise budget.toml in its own commit"
        for unit, sizes in found.items()
        for name, size in sizes.items()
        if size > (most := allowed.get(unit, {}).get(name, 0))
    ]


def as_toml(found: Counts) -> str:
    """Counts as they stand in budget.toml."""
    tables = (
        f"[{unit}]\n" + "".join(f'"{name}" = {size}\n' for name, size in sizes.items()) for unit, sizes in found.items()
    )
    return "\n".join(tables)


def test_no_room_is_larger_than_its_budget():
    if not ((ROOT / ".git").exists() and shutil.which("git")):
        pytest.skip("not a git clone, or git is not installed")
    found = excesses(tomllib.loads(BUDGET.read_text()), counts())
    assert not found, "\n" + "\n".join(found)


def test_an_excess_and_a_room_without_a_number_are_named():
    allowed, found = {"lines": {"core": 2, "lab": 2}}, {"lines": {"core": 3, "lab": 2, "new": 1}, "words": {"docs": 1}}
    assert [line.partition(";")[0] for line in excesses(allowed, found)] == [
        "core: expected at most 2 lines, got 3",
        "new: expected at most 0 lines, got 1",
        "docs: expected at most 0 words, got 1",
    ]
    assert excesses(tomllib.loads(as_toml(found)), found) == []


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        comments = takewhile(lambda line: line.startswith("#"), BUDGET.read_text().splitlines(keepends=True))
        BUDGET.write_text("".join(comments) + "\n" + as_toml(counts()))
    else:
        print(as_toml(counts()), end="")
