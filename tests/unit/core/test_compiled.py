"""Where compiled code is kept: its folder is named by the files that hold some."""

from pathlib import Path

import groundlab

PACKAGE = Path(groundlab.__file__).parent


def test_a_change_of_the_laboratory_compiles_nothing_anew():
    """The folder is named by the content of every file with these words in it (core/compiled.py)."""
    files = [file for file in PACKAGE.rglob("*.py") if b"groundlab.core.compiled" in file.read_bytes()]
    assert {file.relative_to(PACKAGE).parts[0] for file in files} == {"core", "worlds", "papers"}
