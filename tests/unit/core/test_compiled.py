"""Where compiled code is kept: its folder is named by the files that hold some."""

from pathlib import Path

import groundlab

PACKAGE = Path(groundlab.__file__).parent


def test_a_change_of_the_laboratory_compiles_nothing_anew():
    """The folder is named by the content of every file with these words in it (core/compiled.py)."""
    named = {file.relative_to(PACKAGE).parts[0] for file in PACKAGE.rglob("*.py") if _holds_the_words(file)}
    assert named == {"core", "worlds", "papers"}


def _holds_the_words(file: Path) -> bool:
    return b"groundlab.core.compiled" in file.read_bytes()
