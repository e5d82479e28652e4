"""GEM: a `gem.Env`. Tried with gem-llm 0.1.0, whose base it subclasses where installed.

gem.register_world("BabyAI-GoToLocal-v0")          # this module's
env = gem.make("groundlab:BabyAI-GoToLocal-v0")    # the package's
"""
# pyright: reportMissingImports=false

from typing import Any

from groundlab.worlds import TextEnv, find
from groundlab.worlds.adapters.replies import find_action

try:
    from gem.core import Env as Base
except ImportError:
    Base = object


class GridEnv(Base):  # type: ignore[misc, valid-type] - a class or object
    """One environment in words; a reply may hold its action in a box, as GEM's prompts ask."""

    def __init__(self, world: str = "BabyAI-GoToLocal-v0", **options: Any):
        super().__init__()
        self._options = {"prompt": "plain", **options}
        self._env = TextEnv(world, **self._options)

    def reset(self, seed: int | None = None, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        """Begin an episode; the seed is the level's alone, and seeds no global generator."""
        return self._env.reset(seed=seed)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do what a reply says."""
        return self._env.step(find_action(action, self._env.actions))

    def sample_random_action(self) -> str:
        """One of the actions, in a box."""
        return f"\\boxed{{{self._env.action_space.sample()}}}"

    def spawn(self, same_state: bool = False, **kwargs: Any) -> "GridEnv":
        """Another environment, in this one's state if asked; kwargs replace options, which a shared state forbids."""
        if kwargs and same_state:
            raise ValueError("an environment in the same state keeps its options; leave them out")
        other = type(self)(self._env.world.name, **{**self._options, **kwargs})
        if same_state:
            other._env.load_state(self._env.state())
        return other


def register_world(world: str, **options: Any) -> str:
    """Register a world with GEM and return its id. Raises GroundlabError for an unknown one."""
    from gem.envs.registration import ENV_REGISTRY, register

    name = f"groundlab:{find(world).name}"
    if name not in ENV_REGISTRY:
        register(name, f"{__name__}:GridEnv", world=world, **options)
    return name
