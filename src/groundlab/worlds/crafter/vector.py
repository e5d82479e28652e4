"""The batched front of Crafter: B lives as a Gymnasium vector environment.

    env = groundlab.worlds.make("Crafter-Text-EatCow", num_envs=16, seed=0)
    observations, info = env.reset()

Observations: "image" uint8 [B, 64, 64, 3], and "codes" uint8 [B, 83], the view that `view.describe` puts into
words. info, of the episode that the step belongs to: "unlocked" bool [B, 22], what was achieved so far, in the order of
`rules.ACHIEVEMENTS`; "success" int64 [B], how much of it this world pays for; "done" bool [B], whether that is all.
"""

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from groundlab.core.compiled import compiled, compiled_for, inlined
from groundlab.core.errors import GroundlabError
from groundlab.worlds.crafter.creatures import balance, update_creature
from groundlab.worlds.crafter.player import act
from groundlab.worlds.crafter.rules import HEALTH, LENGTH, NOOP, VIEW_WIDTH, CrafterWorld
from groundlab.worlds.crafter.state import OBJECTS_USED, PAID_HEALTH, REMOVED, X, Y, close_gaps, distance, empty_lives
from groundlab.worlds.crafter.terrain import generate
from groundlab.worlds.crafter.view import CODES, PIXELS, daylights, draw, draw_codes, drawings
from groundlab.worlds.state import load_arrays, save_arrays
from groundlab.worlds.vector import BatchEnv, check_actions, spread_seeds

_NEAR = 2 * VIEW_WIDTH  # steps from the player within which anything happens
_BALANCED_EVERY = 10  # steps


class Shown(NamedTuple):
    """What a batch hands out; written in place."""

    images: np.ndarray  # uint8 [B, 64, 64, 3]
    codes: np.ndarray  # uint8 [B, 83]
    rewards: np.ndarray  # float64 [B]
    dead: np.ndarray  # bool [B]
    over: np.ndarray  # bool [B]: time is up
    done: np.ndarray  # bool [B]: everything that is paid for was done


def empty_shown(count: int) -> Shown:
    """Zeroed arrays of `count` environments."""
    images, codes = np.zeros((count, PIXELS, PIXELS, 3), np.uint8), np.zeros((count, CODES), np.uint8)
    return Shown(images, codes, np.zeros(count), *np.zeros((3, count), np.bool_))


@compiled_for(
    "void(uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[:, ::1], uint32[::1], int64[::1], "
    "int64[::1], int64[::1], int64, float64, int64, bool_)"
)
def _play(
    materials, occupants, objects, counters, chunks, random, inventory, body, achievements, step, daylight, action, text
):  # fmt: skip
    """What happens in one step; objects that appear in it wait for the next."""
    before = counters[OBJECTS_USED]
    act(materials, occupants, objects, counters, chunks, random, inventory, body, achievements, action, text)
    for row in range(1, before):
        if distance(objects, row, objects[0, X], objects[0, Y]) < _NEAR:
            update_creature(materials, occupants, objects, counters, chunks, random, inventory, body, row)
    if step % _BALANCED_EVERY == 0:
        balance(materials, occupants, objects, counters, chunks, random, daylight)
    if counters[REMOVED]:
        close_gaps(occupants, objects, counters)


@compiled_for("float64(int64[::1], int64[::1], int64[::1], bool_[::1], bool_[::1])")
def _pay(inventory, body, achievements, unlocked, paid):
    """One for anything new that is paid for; where everything is, also a tenth of the change in health."""
    new, everything = False, True
    for number in range(paid.shape[0]):
        if achievements[number] > 0 and not unlocked[number]:
            unlocked[number] = True
            new = new or paid[number]
        everything = everything and paid[number]
    change = inventory[HEALTH] - body[PAID_HEALTH]
    body[PAID_HEALTH] = inventory[HEALTH]
    return (change / 10 if everything else 0.0) + (1.0 if new else 0.0)


@compiled_for("bool_(bool_[::1], bool_[::1])")
def _all_done(unlocked, paid):
    missing = 0
    for number in range(paid.shape[0]):
        missing += paid[number] and not unlocked[number]
    return missing == 0


@inlined
def _show(lives, env, daylight, drawings, shown):
    draw(
        lives.materials[env], lives.occupants[env], lives.objects[env], lives.random[env], lives.inventory[env],
        lives.body[env], daylight, drawings.tiles, drawings.items, drawings.pale, drawings.vignette, shown.images[env],
    )  # fmt: skip
    draw_codes(
        lives.materials[env], lives.occupants[env], lives.objects[env], lives.inventory[env], lives.body[env],
        shown.codes[env],
    )  # fmt: skip


@compiled
def draw_lives(lives, mask, daylights, drawings, shown):
    """Show the environments where `mask` [B] is true as they are."""
    for env in range(mask.shape[0]):
        if mask[env]:
            _show(lives, env, daylights[lives.steps[env]], drawings, shown)
            shown.rewards[env] = 0.0
            shown.dead[env], shown.over[env], shown.done[env] = False, False, False


@compiled
def step_lives(lives, actions, mask, daylights, text, paid, drawings, shown):
    """One step where `mask` [B] is true; actions [B] are the game's, `paid` bool [22], `text`: which variant."""
    for env in range(mask.shape[0]):
        if mask[env]:
            lives.steps[env] += 1
            step, inventory, body = lives.steps[env], lives.inventory[env], lives.body[env]
            achievements, unlocked = lives.achievements[env], lives.unlocked[env]
            _play(
                lives.materials[env], lives.occupants[env], lives.objects[env], lives.counters[env], lives.chunks[env],
                lives.random[env], inventory, body, achievements, step, daylights[step], actions[env], text,
            )  # fmt: skip
            _show(lives, env, daylights[step], drawings, shown)
            shown.rewards[env] = _pay(inventory, body, achievements, unlocked, paid)
            shown.dead[env], shown.over[env] = inventory[HEALTH] <= 0, step >= daylights.shape[0] - 1
            shown.done[env] = _all_done(unlocked, paid)


_SEEDS = 2**31 - 1
_ENDINGS = ("truncated", "terminated")


def observation_space() -> gym.spaces.Dict:
    """The space of one environment's observations."""
    image = gym.spaces.Box(0, 255, (PIXELS, PIXELS, 3), np.uint8)
    return gym.spaces.Dict(image=image, codes=gym.spaces.Box(0, 255, (CODES,), np.uint8))


def world_seed(seed: int, episode: int) -> int:
    """The seed of an environment's episode-th world, counted from 1: the crafter package's own rule."""
    return hash((seed, episode)) % _SEEDS  # the same in every process, and for a seed and its hash, which has 61 bits


class CrafterVectorEnv(BatchEnv):
    """B lives in one of the Crafter worlds; see the module docstring for shapes.

    A seed gives the worlds of `crafter.Env(seed=seed)`, one after another; `reset`, its options and autoreset are those
    of `GridVectorEnv`. The text variant begins with a step of doing nothing, whose reward is dropped
    (docs/papers/knowledge-method.md#s1-2). Death terminates, the time limit truncates. So does, in the text variant,
    having done all that is paid for: that is the original's (docs/papers/knowledge-reference.md#q22);
    `success="terminated"` says what is meant.
    """

    def __init__(
        self,
        world: CrafterWorld,
        num_envs: int,
        seed: int | None = None,
        autoreset: str = "next-step",
        success: str = "truncated",
        length: int = LENGTH,
    ):
        if success not in _ENDINGS:
            raise GroundlabError(f"unknown success {success!r}; use one of {', '.join(_ENDINGS)}")
        if length < 2:
            raise GroundlabError(f"length is {length}; give at least 2 steps")
        self.world, self._success = world, success
        self._declare(num_envs, autoreset, observation_space(), gym.spaces.Discrete(len(world.actions)))
        self.lives, self._shown = empty_lives(num_envs), empty_shown(num_envs)
        self._daylights, self._drawings = daylights(length), drawings()
        self._action_codes, self._paid = world.action_codes, world.paid
        fresh = np.random.default_rng().integers(0, _SEEDS, num_envs)  # for those that get no seed
        given = spread_seeds(seed, num_envs)
        self.lives.seeds[:] = [own if each is None else hash(each) for own, each in zip(fresh, given, strict=True)]

    def _seed(self, env: int, seed: int) -> None:
        self.lives.seeds[env], self.lives.episodes[env] = hash(seed), 0

    def _restart(self, mask: np.ndarray) -> None:
        for env in np.flatnonzero(mask).tolist():
            self.lives.episodes[env] += 1
            generate(self.lives, env, world_seed(int(self.lives.seeds[env]), int(self.lives.episodes[env])))
        if self.world.text:
            self._advance(np.full(self.num_envs, NOOP), mask)
            self._shown.rewards[mask] = 0.0
        else:
            draw_lives(self.lives, mask, self._daylights, self._drawings, self._shown)

    def _advance(self, actions: np.ndarray, mask: np.ndarray) -> None:
        text, drawn = self.world.text, self._drawings
        step_lives(self.lives, actions, mask, self._daylights, text, self._paid, drawn, self._shown)

    def step(self, actions):
        """One step of all environments: (observations, rewards [B], terminated [B], truncated [B], info)."""
        codes = self._action_codes[check_actions(actions, self.num_envs, self.world.actions)]
        standing, again = self._finished, self._finished & (self._mode == AutoresetMode.NEXT_STEP)
        self._shown.rewards[standing] = 0.0
        self._advance(codes, ~standing)
        self._restart(again)
        rewards, info = self._shown.rewards.copy(), self._info()
        terminated, truncated = self._ends()
        self._finished = terminated | truncated
        if self._mode == AutoresetMode.SAME_STEP:
            info |= self._restart_same_step(self._finished)
            self._finished = np.zeros_like(self._finished)
        return self._observations(), rewards, terminated, truncated, info

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Which lives are (terminated, truncated) now."""
        done = self._shown.done & self.world.text  # the public game goes on
        if self._success == "terminated":
            return self._shown.dead | done, self._shown.over.copy()
        return self._shown.dead.copy(), self._shown.over | done

    def _info(self) -> dict[str, Any]:
        unlocked = self.lives.unlocked.copy()
        return {"unlocked": unlocked, "success": (unlocked & self._paid).sum(1), "done": self._shown.done.copy()}

    def _observations(self) -> dict[str, np.ndarray]:
        return {"image": self._shown.images.copy(), "codes": self._shown.codes.copy()}

    def save(self) -> dict[str, np.ndarray]:
        """Everything needed to continue exactly here, as arrays by name."""
        return save_arrays({**self.lives._asdict(), **self._shown._asdict(), "finished": self._finished})

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from what `save` gave. Raises ValueError when the saved environments were others."""
        load_arrays({**self.lives._asdict(), **self._shown._asdict()}, saved)
        self._finished = saved["finished"].copy()
