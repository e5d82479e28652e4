"""The batched front: B copies of a world as a Gymnasium vector environment, stepped in one compiled call.

    env = groundlab.worlds.make("BabyAI-GoToLocal-v0", num_envs=256, seed=0)
    observations, info = env.reset()
    observations, rewards, terminated, truncated, info = env.step(actions)

Observations: "image" uint8 [B, 7, 7, 3] (door-key worlds [B, 10, 10, 4]), "direction" int64 [B], "mission" a list of B
strings.
"""

import operator
import string
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, create_shared_memory

from groundlab.core.errors import GroundlabError, shown_value, unknown_name
from groundlab.worlds.codes import ACTIONS
from groundlab.worlds.levels import reset_envs, step_envs
from groundlab.worlds.missions import mission_text
from groundlab.worlds.pcg64 import seed_row
from groundlab.worlds.registry import World, with_distractors
from groundlab.worlds.state import empty_grids, load_arrays, save_arrays

_AUTORESET = {
    "next-step": AutoresetMode.NEXT_STEP,
    "same-step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}
_KINDS = ("fixed-per-env", "per-episode")
Kinds = str | Sequence[str]
Step = tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
"""(observations, rewards [B], terminated [B], truncated [B], info)."""


class Texts(gym.spaces.Text):
    """Texts of a world. Memory that processes share is refused: Gymnasium reads a text from there once, too early."""


@create_shared_memory.register
def _refuse_shared_memory(space: Texts, n: int = 1, ctx: Any = None) -> NoReturn:
    problem = "expected shared_memory=False, which texts need, got True"
    raise GroundlabError(f'{problem}; give it to AsyncVectorEnv, or make_vec vector_kwargs={{"shared_memory": False}}')


def observation_space(image_shape: tuple[int, ...]) -> gym.spaces.Dict:
    """The space of one environment's observations."""
    return gym.spaces.Dict(
        image=gym.spaces.Box(0, 255, image_shape, np.uint8),
        direction=gym.spaces.Discrete(4),
        mission=Texts(400, charset=string.printable),
    )


def configure(world: World, kinds: Kinds = "fixed-per-env", num_dists: int | None = None) -> World:
    """The world with its options. Raises GroundlabError for an option that it does not have, and for no grid world."""
    if not isinstance(world, World):
        raise GroundlabError(
            f"{world.name} is no grid world, and this works on grids only; groundlab worlds lists them"
        )
    if num_dists is not None:
        world = with_distractors(world, num_dists)
    if isinstance(kinds, str) and kinds not in _KINDS:
        raise GroundlabError(f"unknown kinds {kinds!r}; use one of {', '.join(_KINDS)}, or a list of kinds")
    drawn = int(kinds == "per-episode")
    return replace(world, levels=tuple(level._replace(per_episode=drawn) for level in world.levels))


def spread_kinds(world: World, kinds: Kinds, count: int) -> list[int]:
    """Which level each of `count` environments starts with: i modulo their number, or as listed by name."""
    if isinstance(kinds, str):
        return [env % len(world.levels) for env in range(count)]
    if not world.kinds:
        raise GroundlabError(f"{world.name} has one kind of task; leave out kinds")
    if len(kinds) != count:
        raise GroundlabError(f"{len(kinds)} kinds for {count} environments; give one each")
    if unknown := set(kinds) - set(world.kinds):
        raise unknown_name("kind", sorted(unknown)[0], world.kinds)
    return [world.kinds.index(kind) for kind in kinds]


def check_autoreset(mode: str) -> AutoresetMode:
    """Gymnasium's mode of that name. Raises GroundlabError naming all."""
    if mode not in _AUTORESET:
        raise GroundlabError(f"unknown autoreset {mode!r}; use one of {', '.join(_AUTORESET)}")
    return _AUTORESET[mode]


def check_actions(actions: Any, count: int, names: Sequence[str] = ACTIONS) -> np.ndarray:
    """`actions` as int64 [count], of those named. Raises GroundlabError for another shape, dtype or range."""
    given = np.asarray(actions)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise GroundlabError(f"actions are {given.dtype} of shape {given.shape}; give {count} integers")
    if given.min() < 0 or given.max() >= len(names):
        named = ", ".join(f"{number} {name}" for number, name in enumerate(names))
        raise GroundlabError(f"action {given[(given < 0) | (given >= len(names))][0]} does not exist; use {named}")
    return given.astype(np.int64, copy=False)


def as_seed(seed: Any) -> int:
    """A seed as an integer of Python's, from any type of integer. Raises GroundlabError for anything else."""
    with suppress(TypeError):
        if not isinstance(seed, bool) and (number := operator.index(seed)) >= 0:
            return number
    expected = "expected a whole number from 0 on as seed"
    raise GroundlabError(f"{expected}, got {shown_value(seed)}; give one, or a batch a list with one for each")


def spread_seeds(seed: Any, count: int) -> list[int | None]:
    """One seed an environment: seed + i for an integer, None for None. Raises GroundlabError for anything else."""
    if seed is None:
        return [None] * count
    if not getattr(seed, "ndim", isinstance(seed, Sequence)) or isinstance(seed, str | bytes | bytearray | memoryview):
        return [as_seed(seed) + i for i in range(count)]
    if len(seed) != count:
        raise GroundlabError(f"{len(seed)} seeds for {count} environments; give one each")
    return [each if each is None else as_seed(each) for each in seed]


def reset_mask(options: dict[str, Any] | None, count: int) -> np.ndarray:
    """Which environments a reset concerns: bool [count], all unless options hold "reset_mask"."""
    options = options or {}
    if unknown := set(options) - {"reset_mask"}:
        raise GroundlabError(f"unknown reset option {sorted(unknown)[0]!r}; there is reset_mask, a bool [{count}]")
    mask = np.asarray(options.get("reset_mask", np.ones(count, np.bool_)))
    if mask.dtype != np.bool_ or mask.shape != (count,):
        raise GroundlabError(f"reset_mask is {mask.dtype} of shape {mask.shape}; give a bool [{count}]")
    return mask


class BatchEnv(gym.vector.VectorEnv):
    """Base of the batches of all games: spaces, seeds and resets."""

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def _declare(self, num_envs: int, autoreset: str, observations: gym.spaces.Dict, actions: Any) -> None:
        """Take over the number, the mode, and the spaces of one. Raises GroundlabError for less than one."""
        if num_envs < 1:
            raise GroundlabError(f"num_envs is {num_envs}; give at least 1")
        self.num_envs, self._mode = num_envs, check_autoreset(autoreset)
        self.metadata = {**self.metadata, "autoreset_mode": self._mode}  # type: dict[str, Any]
        self.single_observation_space = observations  # type: gym.spaces.Dict
        self.single_action_space = actions  # type: gym.spaces.Discrete[np.int64]
        self.observation_space = batch_space(observations, num_envs)  # type: gym.Space[Any]
        self.action_space = batch_space(actions, num_envs)  # type: gym.Space[Any]
        self._finished = np.zeros(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start new episodes; see `GridVectorEnv` for `seed` and `options`."""
        mask = reset_mask(options, self.num_envs)
        for env, each in enumerate(spread_seeds(seed, self.num_envs)):
            if mask[env] and each is not None:
                self._seed(env, each)
        self._restart(mask)
        self._finished = self._finished & ~mask
        return self._observations(), self._info()

    def _restart_same_step(self, finished: np.ndarray) -> dict[str, Any]:
        if not finished.any():
            return {}
        info = {"final_obs": self._observations(), "_final_obs": finished.copy()}
        self._restart(finished)
        return info

    def _info(self) -> dict[str, Any]:
        return {}

    @abstractmethod
    def _seed(self, env: int, seed: int) -> None: ...

    @abstractmethod
    def _restart(self, mask: np.ndarray) -> None: ...

    @abstractmethod
    def _observations(self) -> dict[str, Any]: ...


class GridVectorEnv(BatchEnv):
    """B copies of one world; see the module docstring for shapes.

    reset(seed=int) seeds environment i with seed + i, a list gives each its own seed (None: its stream goes on),
    reset() continues each stream;
    reset(options={"reset_mask": bool [B]}) restarts only those. Autoreset is Gymnasium's next-step mode unless
    `autoreset` says "same-step" or "disabled" (then a finished environment stands still until it is reset).
    Mixed worlds: environment i keeps kind i mod 5, balanced and seeded ("fixed-per-env"; the original draws it
    unseeded, docs/papers/glam-reference.md#env-q3), each episode draws its kind (kinds="per-episode"), or `kinds` lists
    one name an environment. `num_dists`: see `registry.with_distractors`.
    """

    def __init__(
        self,
        world: World,
        num_envs: int,
        seed: int | None = None,
        autoreset: str = "next-step",
        kinds: Kinds = "fixed-per-env",
        num_dists: int | None = None,
    ):
        self.world = configure(world, kinds, num_dists)
        self._declare(num_envs, autoreset, observation_space(world.image_shape), gym.spaces.Discrete(len(ACTIONS)))
        self._missions = [""] * num_envs
        self._allocate(spread_kinds(self.world, kinds, num_envs))
        for env, each in enumerate(spread_seeds(seed, num_envs)):
            self.grids.random[env] = seed_row(each)

    def _allocate(self, kinds: list[int]) -> None:
        count = self.num_envs
        self.grids = empty_grids(count, self.world.width, self.world.height, self.world.levels, kinds)
        self._images = np.zeros((count, *self.world.image_shape), np.uint8)
        self._rewards = np.zeros(count)
        self._terminated, self._truncated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self._everyone, self._nobody = np.ones(count, np.bool_), np.zeros(count, np.bool_)

    @property
    def kinds(self) -> list[str]:
        """The task kind that each environment of a mixed world plays now; empty strings elsewhere."""
        names = self.world.kinds
        return [names[kind] if names else "" for kind in self.grids.kind]

    def _seed(self, env: int, seed: int) -> None:
        self.grids.random[env] = seed_row(seed)

    def _restart(self, mask: np.ndarray) -> None:
        reset_envs(self.grids, mask, self._images)
        self._read_missions(mask)

    def _read_missions(self, mask: np.ndarray) -> None:
        missions = self.grids.missions
        for env in mask.nonzero()[0].tolist():
            self._missions[env] = mission_text(missions[env])

    def step(self, actions: Any) -> Step:
        """One step of all environments: (observations, rewards [B], terminated [B], truncated [B], info)."""
        actions = check_actions(actions, self.num_envs)
        mask, resets = self._everyone, self._nobody
        if self._mode == AutoresetMode.NEXT_STEP:
            resets = self._finished
        elif self._mode == AutoresetMode.DISABLED:
            mask = ~self._finished
            self._rewards[self._finished] = 0.0
        step_envs(self.grids, actions, mask, resets, self._images, self._rewards, self._terminated, self._truncated)
        self._read_missions(resets)
        finished = self._terminated | self._truncated
        info = self._restart_same_step(finished) if self._mode == AutoresetMode.SAME_STEP else {}
        self._finished = finished
        return self._observations(), self._rewards.copy(), self._terminated.copy(), self._truncated.copy(), info

    def _observations(self) -> dict[str, Any]:
        return {
            "image": self._images.copy(),
            "direction": self.grids.agents[:, 2].copy(),
            "mission": list(self._missions),
        }

    def save(self) -> dict[str, np.ndarray]:
        """Everything needed to continue exactly here, as arrays by name."""
        own = {"images": self._images, "finished": self._finished}
        own |= {"terminated": self._terminated, "truncated": self._truncated}
        return save_arrays(self.grids._asdict() | own)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from what `save` gave. Raises ValueError when the saved environments were others."""
        load_arrays(self.grids._asdict(), saved)
        self._images[...] = saved["images"]
        self._finished = saved["finished"].copy()
        self._terminated[...], self._truncated[...] = saved["terminated"], saved["truncated"]
        self._read_missions(self._everyone)
