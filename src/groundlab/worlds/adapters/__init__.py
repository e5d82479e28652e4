"""Worlds of other packages run here, and these worlds run in other packages' trainers.

`minigrid_package.py` and `minigrid_bot.py` run what minigrid has. The others give `TextEnv` the interface of a trainer,
one file each, imported by name (docs/adapters.md):

    from groundlab.worlds import adapters
    trl = adapters.load("trl")

Each says the version it was tried with. Interfaces move; these files are short, to be changed with them.
"""

from importlib import import_module
from types import ModuleType

from groundlab.core.errors import GroundlabError, unknown_name

ADAPTERS = ("openenv", "openenv-client", "trl", "verifiers")


def load(name: str) -> ModuleType:
    """The adapter of that name. Raises GroundlabError for an unknown one, and where its package is not installed."""
    if name not in ADAPTERS:
        raise unknown_name("adapter", name, ADAPTERS)
    try:
        return import_module(f"{__name__}.{name.replace('-', '_')}")
    except ImportError as error:
        package = (error.name or name).split(".")[0]
        raise GroundlabError(
            f"the adapter {name} needs the package {package}, which is not installed here; requirements/adapters.txt "
            "has the versions it was tried with"
        ) from None
