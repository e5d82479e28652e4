"""What git knows about the repository: the commit, uncommitted changes, and the last change of some files."""

import io
import json
import os
import re
import subprocess
import tarfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from groundlab.core.paths import find_root, is_root
from groundlab.core.sources import package_folder, sources
from groundlab.core.storage import digest_bytes, digest_json

# What a change of makes a result incomparable; results/, docs/ and tests/ may differ freely.
_WHAT_MAKES_RESULTS = ("src", "configs", "notebooks", "requirements", "pyproject.toml")


# Of git's variables only these count: the others, which hooks and `git rebase --exec` set, name another repository.
_KEPT = ("GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_TEST_")
_UNKNOWN: dict[str, Any] = {"commit": None, "dirty": None}


@cache
def facts() -> dict[str, Any]:
    """Return `{commit, dirty}` of this process's code; dirty = code, configs or notebooks differ from the commit.

    The commit is the current clone's if that holds the running package, else that of the clone the package lies in;
    without git an archive's or, in a container, `GROUNDLAB_COMMIT`. None is unknown, which is not clean.
    """
    here, own = find_root(), package_folder().resolve().parents[1]
    root = here if here and (here == own or _committed_sources(here) == sources()) else own
    if not is_root(root):
        return _UNKNOWN
    if commit := _archived(root):
        return {"commit": commit, "dirty": None}
    if not (root / ".git").exists():
        named = os.environ.get("GROUNDLAB_COMMIT", "") if root == here else ""
        return {"commit": named, "dirty": False} if re.fullmatch("[0-9a-f]{6,64}", named) else _UNKNOWN
    top, _, commit = (_git("rev-parse", "--show-toplevel", "HEAD", folder=root) or "").partition("\n")
    committed = _committed_sources(root)
    if Path(top) != root or committed is None:
        return _UNKNOWN
    folders = {root, here or root, *([own] if is_root(own) else [])}  # configs of one clone, files of another's package
    differ = {committed != sources(), *(_differ(*_WHAT_MAKES_RESULTS, folder=each) for each in folders)}
    return {"commit": commit, "dirty": True if True in differ else None if None in differ else False}


def _committed_sources(root: Path) -> str | None:
    """The digest of a commit's own code (core/sources.py), whatever the working tree holds; None without a commit."""
    home, packed = "src/groundlab/", _git("archive", "HEAD", "src/groundlab/*.py", folder=root) or ""
    with suppress(tarfile.ReadError), tarfile.open(fileobj=io.BytesIO(packed.encode(errors="surrogateescape"))) as tar:
        files = [(each.name.removeprefix(home), file.read()) for each in tar if (file := tar.extractfile(each))]
        return digest_json(sorted((name, digest_bytes(content)) for name, content in files))
    return None  # also where attributes keep the code out of archives


def _archived(root: Path) -> str | None:
    """The commit that an archive says it is of (tools/crate.py); its files may have changed since."""
    file = root / "ro-crate-metadata.json"
    graph = json.loads(file.read_text())["@graph"] if file.is_file() else []
    return next((entity["identifier"] for entity in graph if entity["@id"] == "src/"), None)


def last_change(*paths: str | Path) -> str | None:
    """The commit that last changed some files of the repository; None for files that it does not hold as they are."""
    names = [str(path) for path in paths]
    return _git("log", "-1", "--format=%H", "--", *names) or None if _differ(*names) is False else None


def _differ(*names: str, folder: Path | None = None) -> bool | None:
    """True if files differ from the commit; None where git fails, or was asked not to look at some of them."""
    options = ("--porcelain", "--untracked-files=all", "--ignore-submodules=none")
    changes = _git("status", *options, "--", *names, folder=folder)
    tags = _git("ls-files", "-v", "--", *names, folder=folder)  # "h" and "S": assume-unchanged, skip-worktree
    others = _git("ls-files", "--others", "--exclude-per-directory=.gitignore", "--", *names, folder=folder)
    if changes or others or None in (changes, others, tags):
        return bool(changes or others) or None
    return None if any(not line.startswith("H ") for line in (tags or "").splitlines()) else False


def date_of(commit: str) -> str:
    """The day of a commit, `2026-11-23`."""
    return _git("log", "-1", "--format=%cs", commit) or ""


def is_tracked(file: Path) -> bool:
    """Whether git tracks a file."""
    return bool(_git("ls-files", "--", file.name, folder=file.parent))


def _git(*arguments: str, folder: Path | None = None) -> str | None:
    """Return git's output for a folder, by default the repository; None if it fails."""
    folder = folder or find_root()
    if folder is None:
        return None
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    # GIT_OPTIONAL_LOCKS: looking at the tree must not take the index lock from a person who commits meanwhile.
    environment = {**kept, "GIT_OPTIONAL_LOCKS": "0"}
    options = ("--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "core.checkStat=default", "-C", str(folder))
    try:
        answer = subprocess.run(["git", *options, *arguments], capture_output=True, env=environment, check=False)
    except OSError:  # no git, or one that cannot be started
        return None
    return answer.stdout.decode(errors="surrogateescape").strip() if answer.returncode == 0 else None
