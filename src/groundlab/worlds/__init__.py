"""The worlds: batched grid environments, compiled, with MiniGrid's rules, and what BabyAI-Text says of them. No torch.

    from groundlab import worlds
    env = worlds.make("BabyAI-GoToLocal-v0", num_envs=64, seed=0)

Reading order: `codes.py`, `state.py`, `dynamics.py`, `view.py`, `rules.py`, `rooms.py`, `babyai.py` and `doorkey.py`,
`missions.py`, `levels.py`, then the fronts `vector.py` and `single.py`; `text.py` puts a view into words.
`registry.py` lists the worlds by name, `package.py` runs all other minigrid ids. `crafter/` is another game altogether.
"""

from typing import TYPE_CHECKING, Any

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.worlds.crafter.rules import CRAFTER_WORLDS
from groundlab.worlds.registry import WORLDS, find, register_worlds

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from groundlab.worlds.single import GridEnv
    from groundlab.worlds.vector import GridVectorEnv

__all__ = ["CRAFTER_WORLDS", "WORLDS", "GridEnv", "GridVectorEnv", "find", "make"]

register_worlds()


def __getattr__(name: str) -> Any:
    """The fronts when they are first used: they load the compiled engine, which a list of worlds does without."""
    if name == "GridEnv":
        from groundlab.worlds.single import GridEnv

        return GridEnv
    if name == "GridVectorEnv":
        from groundlab.worlds.vector import GridVectorEnv

        return GridVectorEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def make(id: str, num_envs: int, seed: int | None = None, **options) -> "VectorEnv":
    """A vector environment of `num_envs` copies of the world `id`.

    options: `autoreset`, `kinds`, `num_dists` (see GridVectorEnv); Crafter's worlds take `autoreset`, `success` and
    `length` (see CrafterVectorEnv). Ids that only the minigrid package has run through it, slower (`package.py`).
    Raises GroundlabError for an unknown world or option, naming the nearest or all.
    """
    from groundlab.worlds import package  # here, because minigrid takes a second to import

    native = id in WORLDS or id not in package.package_ids()
    allowed = ("autoreset", "kinds", "num_dists") if native else ("autoreset",)
    allowed = ("autoreset", "success", "length") if id in CRAFTER_WORLDS else allowed
    for option in options:
        if option not in allowed:
            raise unknown_name("option", option, allowed, f"{id} takes {', '.join(allowed)}")
    if not isinstance(num_envs, int):
        raise GroundlabError(f"num_envs is {num_envs!r}; give a whole number")
    if id in CRAFTER_WORLDS:
        from groundlab.worlds.crafter.vector import CrafterVectorEnv  # here, because it loads the crafter package

        return CrafterVectorEnv(CRAFTER_WORLDS[id], num_envs, seed, **options)
    if native:
        from groundlab.worlds.vector import GridVectorEnv  # here, because it loads the compiled engine

        return GridVectorEnv(find(id), num_envs, seed, **options)
    return package.PackageVectorEnv(id, num_envs, seed, **options)
