"""Step for step with minigrid: whole episodes and whole streams of a level beside its reference.

    assert compare_level("BabyAI-GoToLocal-v0", {}, states=400) >= 1

Half of the streams are played by minigrid's bot on the reference, with one action in five at random and, in half of the
episodes, things carried about beforehand, so that keys, doors and drops really happen; the others act at random. After
each reset and step everything must be equal: grid, view, pose, hand, reward, ends, mission, limit. A mismatch names
the level, the seed and the actions that lead to it.
"""

import zlib
from collections.abc import Callable

import numpy as np
import pytest
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
from minigrid.core.roomgrid import RoomGrid
from reference import KINDS, Mixture, played_by, reference

from groundlab import worlds
from groundlab.worlds.adapters.minigrid_bot import NO_PLAN
from groundlab.worlds.codes import DROP, FORWARD, LEFT, PICKUP, RIGHT

STREAMS = 8
BOTS = 4  # of the streams have a bot, and finish many more episodes than the others
FEWER_BOTS = {"BabyAI-GoToLocalS8N16-v0": 1}  # minigrid draws 280 levels of it until one has all objects in reach
MOST_CARRYING = 25  # steps
SLIPS = 0.2  # of a bot's actions are random
ACTION_WEIGHTS = (0.13, 0.13, 0.36, 0.16, 0.14, 0.06, 0.02)  # hands are full and empty in turn
EMPTY, WALL = (1, 0, 0), (2, 5, 0)


class Stream:
    """One reference environment, who acts in it, and what was done since its seed.

    Without a bot all actions are random. With one, half of the episodes begin with somebody who carries things about,
    so that the mission's objects are no longer where they were; then the bot takes over.
    """

    def __init__(self, env: RoomGrid | Mixture, seed: int, rng: np.random.Generator, has_bot: bool):
        self.env, self.seed, self._rng, self._has_bot = env, seed, rng, has_bot
        self.episodes: list[list[int]] = []

    def reset(self, seed: int | None = None) -> dict:
        """The next episode of the stream, or with a seed the first of a new one."""
        self.observation, _ = self.env.reset(seed=seed)
        self.outcome = (0.0, False, False)
        self._bot, self._last, self._lost = None, None, not self._has_bot
        self._carries = int(self._rng.integers(1, MOST_CARRYING)) if self._rng.random() < 0.5 else 0
        self.episodes.append([])
        return self.observation

    def choose(self) -> int:
        """The next action."""
        if self._lost:
            return self._at_random()
        if self._bot is None and (self._carries > 0 or self.env.carrying):
            self._carries -= 1
            return self._carrying_about()
        action = self._planned()
        if action is None or self._rng.random() < SLIPS:
            action = self._at_random()
        self._last = action
        return action

    def _at_random(self) -> int:
        return int(self._rng.choice(7, p=ACTION_WEIGHTS))

    def _carrying_about(self) -> int:
        """Pick up what lies ahead, drop it somewhere else."""
        thing = self.env.grid.get(*self.env.front_pos)
        if self.env.carrying is None and thing is not None and thing.can_pickup():
            return PICKUP
        if self.env.carrying is not None and thing is None and self._rng.random() < 0.4:
            return DROP
        return int(self._rng.choice([LEFT, RIGHT, FORWARD], p=[0.2, 0.2, 0.6]))

    def _planned(self) -> int | None:
        self._bot = self._bot or played_by(self.env)
        try:
            action = self._bot.replan(self._last)
        except NO_PLAN:
            action = None
        self._lost = action is None or action == self.env.actions.done
        return None if self._lost else action

    def step(self, action: int) -> None:
        self.episodes[-1].append(action)
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        self.outcome = (float(reward), terminated, truncated)

    @property
    def finished(self) -> bool:
        return self.outcome[1] or self.outcome[2]

    def cells(self, canvas: tuple[int, int]) -> np.ndarray:
        """The whole grid on a canvas of wall: uint8 [W, H, 3]."""
        full = np.full((*canvas, 3), WALL, np.uint8)
        width, height = self.env.width, self.env.height
        codes = [EMPTY if thing is None else thing.encode() for thing in self.env.grid.grid]
        full[:width, :height] = np.array(codes, np.uint8).reshape(height, width, 3).transpose(1, 0, 2)
        return full

    @property
    def hand(self) -> tuple[int, int]:
        thing = self.env.carrying
        return (OBJECT_TO_IDX[thing.type], COLOR_TO_IDX[thing.color]) if thing else (0, 0)


def expected(streams: list[Stream], canvas: tuple[int, int]) -> dict[str, np.ndarray]:
    """What the references show, field by field [B, ...]."""
    envs = [stream.env for stream in streams]
    rewards, terminated, truncated = zip(*(stream.outcome for stream in streams), strict=True)
    facts = {
        "grid": [stream.cells(canvas) for stream in streams], "hand": [stream.hand for stream in streams],
        "pose": [(*env.agent_pos, env.agent_dir) for env in envs],
        "steps": [env.step_count for env in envs], "limit": [env.max_steps for env in envs],
        "reward": rewards, "terminated": terminated, "truncated": truncated,
    }  # fmt: skip
    facts |= {name: [stream.observation[name] for stream in streams] for name in ("image", "direction", "mission")}
    return {name: np.array(values) for name, values in facts.items()}


def shown(env: worlds.GridVectorEnv, observations: dict, outcome: tuple) -> dict[str, np.ndarray]:
    """What the engine shows, field by field [B, ...]; `outcome` is (rewards, terminated, truncated)."""
    grids = env.grids
    return {
        "grid": grids.cells, "image": observations["image"], "direction": observations["direction"],
        "pose": grids.agents, "hand": grids.carried[:, :2], "mission": np.array(observations["mission"]),
        "steps": grids.steps, "limit": grids.max_steps,
        **dict(zip(("reward", "terminated", "truncated"), outcome, strict=True)),
    }  # fmt: skip


def assert_equal(name: str, streams: list[Stream], ours: dict, theirs: dict) -> None:
    for field, values in theirs.items():
        if np.array_equal(ours[field], values):
            continue
        b = next(b for b in range(len(streams)) if not np.array_equal(ours[field][b], values[b]))
        stream = streams[b]
        pytest.fail(
            f"{name}, seed {stream.seed}, environment {b}, episodes of actions {stream.episodes}: "
            f"{field} is {ours[field][b].tolist()}, minigrid's {values[b].tolist()}"
        )


Maker = Callable[[int], RoomGrid | Mixture]


def compare(label: str, env: worlds.GridVectorEnv, make_reference: Maker, states: int) -> int:
    """Play `states` states or more on both; returns how many episodes were completed with success."""
    seeds = np.random.SeedSequence(zlib.crc32(label.encode())).generate_state(env.num_envs).tolist()
    rngs = [np.random.default_rng(seed) for seed in seeds]
    bots = FEWER_BOTS.get(label, BOTS)
    streams = [Stream(make_reference(b), seeds[b], rngs[b], has_bot=b < bots) for b in range(env.num_envs)]
    canvas, outcome = env.grids.cells.shape[1:3], (np.zeros(env.num_envs), *np.zeros((2, env.num_envs), bool))
    observations, _ = env.reset(seed=seeds)
    for stream in streams:
        stream.reset(seed=stream.seed)
    assert_equal(label, streams, shown(env, observations, outcome), expected(streams, canvas))
    successes = 0
    for _ in range(-(-states // env.num_envs)):
        actions = [stream.choose() for stream in streams]
        observations, *outcome, _ = env.step(np.array(actions))
        for stream, action in zip(streams, actions, strict=True):
            stream.step(action)
        assert_equal(label, streams, shown(env, observations, tuple(outcome)), expected(streams, canvas))
        successes += int(outcome[1].sum())
        finished = np.array([stream.finished for stream in streams])
        if finished.any():
            _begin_anew(label, env, streams, finished)
    return successes


def _begin_anew(label: str, env: worlds.GridVectorEnv, streams: list[Stream], finished: np.ndarray) -> None:
    """Finished streams go on to their next episode, without a new seed."""
    observations, _ = env.reset(options={"reset_mask": finished})
    for b in np.flatnonzero(finished):
        streams[b].reset()
    nothing = np.zeros(env.num_envs)
    ours, theirs = shown(env, observations, (nothing,) * 3), expected(streams, env.grids.cells.shape[1:3])
    for field in ("reward", "terminated", "truncated"):
        theirs[field] = nothing  # no step was taken
    assert_equal(label, streams, ours, theirs)


def make(name: str, **options) -> worlds.GridVectorEnv:
    env = worlds.make(name, STREAMS, seed=0, autoreset="disabled", **options)
    assert isinstance(env, worlds.GridVectorEnv)
    return env


def kind_of(env: worlds.GridVectorEnv, name: str, b: int) -> str:
    """The id of what environment b plays: mixed worlds hold five kinds."""
    return f"{name}/{KINDS[env.grids.kind[b]]}" if len(env.world.levels) > 1 else name


def compare_level(name: str, options: dict, states: int) -> int:
    env = make(name, **options)
    label = f"{name} {options}" if options else name
    return compare(label, env, lambda b: reference(kind_of(env, name, b), **options), states)
