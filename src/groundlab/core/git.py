"""What git knows about the repository: the commit, uncommitted changes, and the last change of some files."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from groundlab.core.paths import find_root

# What a change of makes a result incomparable; results/, docs/ and tests/ may differ freely.
_WHAT_MAKES_RESULTS = ("src", "configs", "notebooks", "requirements", "pyproject.toml")


@cache
def facts() -> dict[str, Any]:
    """`{commit, dirty}`: dirty = code, configs or notebooks differ from the commit.

    Outside a git clone the commit is `GROUNDLAB_COMMIT`, which a container names itself by, or an archive's, or None.
    """
    if commit := _archived():
        return {"commit": commit, "dirty": False}
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return {"commit": os.environ.get("GROUNDLAB_COMMIT"), "dirty": False}
    return {"commit": commit, "dirty": bool(_git("status", "--porcelain", "--", *_WHAT_MAKES_RESULTS))}


def _archived() -> str | None:
    """The commit that an archive says it is of (tools/crate.py); its files may have changed since."""
    file = (find_root() or Path()) / "ro-crate-metadata.json"
    graph = json.loads(file.read_text())["@graph"] if file.is_file() else []
    return next((entity["identifier"] for entity in graph if entity["@id"] == "src/"), None)


def last_change(*paths: str | Path) -> str | None:
    """The commit that last changed some files of the repository; None for files that it does not hold as they are."""
    names = [str(path) for path in paths]
    differ = _git("status", "--porcelain", "--", *names)
    return None if differ else _git("log", "-1", "--format=%H", "--", *names) or None


def date_of(commit: str) -> str:
    """The day of a commit, `2026-11-23`."""
    return _git("log", "-1", "--format=%cs", commit)


def is_tracked(file: Path) -> bool:
    """Whether git tracks a file."""
    return bool(_git("ls-files", "--", file.name, folder=file.parent))


def _git(*arguments: str, folder: Path | None = None) -> str:
    """What git says of a folder, by default of the repository; empty where it says nothing."""
    folder = folder or find_root()
    if folder is None:
        return ""
    # GIT_OPTIONAL_LOCKS: looking at the tree must not take the index lock from a person who commits meanwhile.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except FileNotFoundError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
