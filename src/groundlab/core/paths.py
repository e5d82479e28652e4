"""Where the repository is: configs, notebooks, results and figures are found from its root.

The repository is the unit of use. `GROUNDLAB_ROOT` names the root; without it the folders above the
current one, then those above this file, are searched for groundlab's `pyproject.toml`.
"""

import os
from functools import cache
from pathlib import Path

from groundlab.core.errors import GroundlabError


def _is_root(folder: Path) -> bool:
    project = folder / "pyproject.toml"
    return project.is_file() and 'name = "groundlab"' in project.read_text()


@cache
def repository_root() -> Path:
    """The root folder of the repository. Raises GroundlabError when none is found."""
    named = os.environ.get("GROUNDLAB_ROOT")
    if named:
        if _is_root(Path(named)):
            return Path(named).resolve()
        raise GroundlabError(f"GROUNDLAB_ROOT is {named!r}, which holds no groundlab pyproject.toml; set it to a clone")
    for start in (Path.cwd(), Path(__file__)):
        for folder in (start, *start.parents):
            if _is_root(folder):
                return folder.resolve()
    raise GroundlabError("no groundlab repository found from here; run inside a clone or set GROUNDLAB_ROOT to one")
