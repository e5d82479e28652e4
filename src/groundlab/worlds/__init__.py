"""The worlds: batched grid environments, compiled, with MiniGrid's rules. No learning, no torch.

    from groundlab import worlds
    env = worlds.make("SimpleDoorKey", num_envs=64, seed=0)

Reading order: `codes.py`, `state.py`, `dynamics.py`, `view.py`, `doorkey.py`, `levels.py`, then the fronts
`vector.py` and `single.py`. `registry.py` lists the worlds by name.
"""

from gymnasium.vector import VectorEnv

from groundlab.worlds.registry import WORLDS, find
from groundlab.worlds.single import GridEnv, register_worlds
from groundlab.worlds.vector import GridVectorEnv

__all__ = ["WORLDS", "GridEnv", "GridVectorEnv", "find", "make"]

register_worlds()


def make(id: str, num_envs: int, seed: int | None = None, **options) -> VectorEnv:
    """A vector environment of `num_envs` copies of the world `id` (options: `autoreset`; see GridVectorEnv).

    Raises GroundlabError for an unknown world, naming the nearest one.
    """
    return GridVectorEnv(find(id), num_envs, seed, **options)
