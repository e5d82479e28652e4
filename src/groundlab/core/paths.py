"""Where the repository is: configs, notebooks, results and figures are found from its root.

`GROUNDLAB_ROOT` names the root; without it the folders above the current one, then those above this file, are searched
for groundlab's `pyproject.toml`. An installed wheel runs, evaluates and plays without one: only groundlab's own papers,
whose configs, notebooks and published results no wheel holds, need it.
"""

import os
from functools import cache
from pathlib import Path

from groundlab.core.errors import GroundlabError

RESULTS_VARIABLE = "GROUNDLAB_RESULTS"


def is_root(folder: Path) -> bool:
    """Return True if a folder is the root of a clone of groundlab."""
    project = folder / "pyproject.toml"
    return project.is_file() and 'name = "groundlab"' in project.read_text(encoding="utf-8")


@cache
def find_root() -> Path | None:
    """The root folder of the repository; None outside a clone. Raises GroundlabError where GROUNDLAB_ROOT is none."""
    named = os.environ.get("GROUNDLAB_ROOT")
    if named:
        if is_root(Path(named)):
            return Path(named).resolve()
        raise GroundlabError(f"GROUNDLAB_ROOT is {named!r}, which holds no groundlab pyproject.toml; set it to a clone")
    folders = (folder for start in (Path.cwd(), Path(__file__)) for folder in (start, *start.parents))
    return next((folder.resolve() for folder in folders if is_root(folder)), None)


def results_folder(given: str | Path | None = None) -> Path:
    """The results folder: as given, else `GROUNDLAB_RESULTS`, else `results/` in the repository or, outside, here."""
    default = (find_root() or Path.cwd()) / "results"
    return Path(given or os.environ.get(RESULTS_VARIABLE) or default).absolute()


def user_cache(name: str) -> Path:
    """A folder in the user's cache, `~/.cache` or XDG_CACHE_HOME. Raises GroundlabError for a user without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundlab" / name
    except RuntimeError:
        raise GroundlabError("expected a home folder, got a user without one; set HOME or XDG_CACHE_HOME") from None


def repository_root() -> Path:
    """The root folder of the repository. Raises GroundlabError outside a clone."""
    root = find_root()
    if root is None:
        raise GroundlabError(
            "no groundlab repository found from here, and only a clone holds the configs, notebooks and published "
            "results of groundlab's own papers; run inside one, or set GROUNDLAB_ROOT to it"
        )
    return root
