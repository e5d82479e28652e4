"""Options and their scripted skills: how a plan becomes one primitive action a step.

    executor = PlanExecutor(plan, image, memory, skill_settings)
    action, plan_done = executor.act(image)

`image` is always the memory image [10, 10, 4] of the present step. Source: docs/papers/mediator-method.md#s2.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from groundlab.papers.mediator.search import TIES, cell_ahead, is_explored, shortest_path
from groundlab.worlds.codes import (
    BALL,
    BOX,
    DONE,
    DOOR,
    DROP,
    EAST,
    EMPTY,
    FORWARD,
    KEY,
    LEFT,
    NORTH,
    PICKUP,
    RIGHT,
    SOUTH,
    STEP_X,
    STEP_Y,
    TOGGLE,
    WALL,
    WEST,
)
from groundlab.worlds.view import agent_pose

# Option codes of the original.
EXPLORE, GO_TO, PICK_UP, DROP_OBJECT, TOGGLE_OBJECT, UNKNOWN = 0, 1, 2, 3, 4, 6
OPTION_NAMES = {EXPLORE: "explore", GO_TO: "go to", PICK_UP: "pick up", DROP_OBJECT: "drop", TOGGLE_OBJECT: "toggle"}
NO_OBJECT = EMPTY
NO_OP = DONE


class Option(NamedTuple):
    """One entry of a plan: what to do, with which kind of object, and where that was last seen."""

    action: int
    object: int = NO_OBJECT
    coordinate: tuple[int, int] | None = None


Plan = tuple[Option, ...]


@dataclass(frozen=True)
class SkillSettings:
    """`avoid_objects`: Explore turns at keys, boxes and balls too (the original walks into them for ever, Q1)."""

    avoid_objects: bool = False
    ties: str = "original"


class Skill(Protocol):
    """`finished` tells, before the first step, whether there is nothing to do; `step` gives (action, done)."""

    finished: bool

    def step(self, image: np.ndarray) -> tuple[int, bool]: ...


class Explore:
    """Go west, north, then sweep rows three apart until walls close a loop round seen cells."""

    _TURN_WEST = ([LEFT, LEFT], [RIGHT], [], [LEFT])  # by heading

    def __init__(
        self, image: np.ndarray, previous: "Explore | None", settings: SkillSettings, rng: np.random.Generator
    ):
        if previous is None:
            self.path, self.sweeping = list(self._TURN_WEST[agent_pose(image)[2]]), False
        else:
            self.path, self.sweeping = previous.path, previous.sweeping
        self._blocks = (WALL, DOOR, KEY, BALL, BOX) if settings.avoid_objects else (WALL, DOOR)
        self._rng = rng
        self.finished = is_explored(image)

    def step(self, image: np.ndarray) -> tuple[int, bool]:
        blocked, heading = cell_ahead(image) in self._blocks, agent_pose(image)[2]
        action = self._sweep(blocked, heading) if self.sweeping else self._to_corner(blocked, heading)
        return action, is_explored(image)

    def _to_corner(self, blocked: bool, heading: int) -> int:
        if self.path:
            return self.path.pop(0)
        if not blocked:
            return FORWARD
        self.sweeping = heading == NORTH
        return RIGHT

    def _sweep(self, blocked: bool, heading: int) -> int:
        if not blocked:
            return self.path.pop(0) if self.path else FORWARD
        if heading == EAST:
            self.path = [FORWARD, FORWARD, FORWARD, RIGHT]
            return RIGHT
        if heading == WEST:
            self.path = [FORWARD, FORWARD, FORWARD, LEFT]
            return LEFT
        if heading == SOUTH:
            action = self.path[-1] if self.path else int(self._rng.integers(2))
            self.path = []
            return action
        return RIGHT


class GoTo:
    """Walk a shortest seen path to a pose beside the target, facing it; plans again when something stood in
    the way (MovingObstacle only: elsewhere nothing moves)."""

    def __init__(self, image: np.ndarray, target: tuple[int, int], settings: SkillSettings):
        self._target, self._ties = target, TIES[settings.ties]
        self._plan(image)
        self.finished = not self._actions

    def _plan(self, image: np.ndarray) -> None:
        self._pose = agent_pose(image)
        self._actions = shortest_path(image, *self._pose, *self._target, self._ties).tolist()

    def step(self, image: np.ndarray) -> tuple[int, bool]:
        if agent_pose(image) != self._pose:
            self._plan(image)
        if not self._actions:
            return NO_OP, True
        action = self._actions.pop(0)
        self._pose = _pose_after(self._pose, action)
        return action, not self._actions


def _pose_after(pose: tuple[int, int, int], action: int) -> tuple[int, int, int]:
    x, y, heading = pose
    if action == FORWARD:
        return x + STEP_X[heading], y + STEP_Y[heading], heading
    return x, y, (heading + (1 if action == RIGHT else 3)) % 4


class Pickup:
    """Pick up what is ahead; with a full hand, first put that down on a cell that blocks no door."""

    _TURNS = ([], [RIGHT], [LEFT, LEFT], [LEFT])  # by quarter turns to the right
    _SEARCH_LIMIT = 30  # cells walked in search of a place, as in the original

    def __init__(self, image: np.ndarray):
        self._image = image
        pose = agent_pose(image)
        carrying = image[pose[0], pose[1], 0] != EMPTY
        put_down = self._put_down(pose, (2, 1, 3), self._SEARCH_LIMIT) if carrying else []
        self._actions = None if put_down is None else [*put_down, PICKUP]
        self.finished = self._actions is None

    def step(self, image: np.ndarray) -> tuple[int, bool]:
        assert self._actions, "a finished skill is never stepped"
        action = self._actions.pop(0)
        return action, not self._actions

    def _put_down(self, pose: tuple[int, int, int], turns: tuple[int, ...], tries: int) -> list[int] | None:
        """Actions that drop what is carried and come back to `pose`; None when no place is found."""
        for turn in turns:
            if self._droppable(*self._ahead(pose, turn)):
                return [*self._TURNS[turn], DROP, *self._TURNS[-turn % 4]]
        walkable = [turn for turn in turns if self._type(*self._ahead(pose, turn)) == EMPTY]
        if not walkable or tries == 0:
            return None
        turn = walkable[-1]
        heading = (pose[2] + turn) % 4
        detour = self._put_down((*self._ahead(pose, turn), heading), (0, 1, 3), tries - 1)
        if detour is None:
            return None
        back = [*self._TURNS[2], FORWARD, *self._TURNS[(2 - turn) % 4]]
        return [*self._TURNS[turn], FORWARD, *detour, *back]

    @staticmethod
    def _ahead(pose: tuple[int, int, int], turn: int) -> tuple[int, int]:
        heading = (pose[2] + turn) % 4
        return pose[0] + STEP_X[heading], pose[1] + STEP_Y[heading]

    def _type(self, x: int, y: int) -> int:
        inside = 0 <= x < self._image.shape[0] and 0 <= y < self._image.shape[1]
        return int(self._image[x, y, 0]) if inside else WALL

    def _droppable(self, x: int, y: int) -> bool:
        beside_door = any(self._type(x + dx, y + dy) == DOOR for dx, dy in zip(STEP_X, STEP_Y, strict=True))
        return self._type(x, y) == EMPTY and not beside_door


class Toggle:
    """One toggle of what is ahead."""

    finished = False

    def step(self, image: np.ndarray) -> tuple[int, bool]:
        return TOGGLE, True


@dataclass
class SweepMemory:
    """The last Explore of the episode, whose sweep the next one continues; a GoTo in between forgets it."""

    rng: np.random.Generator
    explore: Explore | None = field(default=None)


def start_skill(option: Option, image: np.ndarray, memory: SweepMemory, settings: SkillSettings) -> Skill | None:
    """The skill of an option; None for options that have none (drop, unknown, or no coordinate to go to: Q7)."""
    if option.action == EXPLORE:
        memory.explore = Explore(image, memory.explore, settings, memory.rng)
        return memory.explore
    if option.action == GO_TO and option.coordinate is not None:
        memory.explore = None
        return GoTo(image, option.coordinate, settings)
    if option.action == PICK_UP:
        return Pickup(image)
    return Toggle() if option.action == TOGGLE_OBJECT else None


class PlanExecutor:
    """Carries out a plan, skipping options that have no skill or nothing to do."""

    def __init__(self, plan: Plan, image: np.ndarray, memory: SweepMemory, settings: SkillSettings):
        self._plan, self._memory, self._settings = plan, memory, settings
        self._index = -1
        self._skill: Skill | None = None
        self._skill_done = False
        self._next(image)

    def _next(self, image: np.ndarray) -> None:
        self._skill, self._skill_done = None, False
        while self._skill is None and self._index + 1 < len(self._plan):
            self._index += 1
            skill = start_skill(self._plan[self._index], image, self._memory, self._settings)
            self._skill = None if skill is None or skill.finished else skill

    def act(self, image: np.ndarray) -> tuple[int, bool]:
        """(primitive action, whether the plan is done); a plan that ran out costs one no-op (Q21)."""
        if self._skill_done:
            self._next(image)
        if self._skill is None:
            return NO_OP, True
        action, self._skill_done = self._skill.step(image)
        return action, self._skill_done and self._index == len(self._plan) - 1

    @property
    def option(self) -> Option | None:
        """The option being carried out."""
        return None if self._skill is None else self._plan[self._index]

    @property
    def remaining(self) -> Plan:
        """What is left of the plan: the present option, unless it is done, and those after it."""
        return () if self._skill is None else self._plan[self._index + self._skill_done :]
