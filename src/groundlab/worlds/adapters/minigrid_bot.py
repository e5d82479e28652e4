"""Minigrid's planner in a room of ours: it knows the whole level's rules and sees only what the agent has seen.

BabyAI's bot reads a minigrid environment, so each episode is mirrored: the level that our engine drew is rebuilt once
as a minigrid level, and then stepped beside ours without ever drawing an observation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT
from minigrid.core.world_object import WorldObj
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
from minigrid.envs.babyai.core.verifier import (
    LOC_NAMES,
    AfterInstr,
    AndInstr,
    BeforeInstr,
    GoToInstr,
    Instr,
    ObjDesc,
    OpenInstr,
    PickupInstr,
    PutNextInstr,
)
from minigrid.utils.baby_ai_bot import BabyAIBot, DisappearedBoxError

from groundlab.core.errors import GroundlabError
from groundlab.worlds import missions, rules
from groundlab.worlds.codes import EMPTY, WALL
from groundlab.worlds.single import GridEnv

if not __debug__:
    raise GroundlabError("expected minigrid's bot, which gives up by assertions, got Python's -O; unset PYTHONOPTIMIZE")
_VERBS: dict[int, Callable[..., Instr]] = {
    rules.GO_TO: GoToInstr,
    rules.PICK_UP: PickupInstr,
    rules.OPEN: OpenInstr,
    rules.PUT_NEXT: PutNextInstr,
}


def _described(row: np.ndarray, part: int, slot: int) -> ObjDesc:
    column = missions.description_column(part, slot)
    kind, colour, place = row[column : column + missions.MANY].tolist()
    return ObjDesc(
        None if kind == rules.ANY else IDX_TO_OBJECT[kind],
        None if colour == rules.ANY else IDX_TO_COLOR[colour],
        None if place == missions.ANYWHERE else LOC_NAMES[place - 1],
    )


def _part(row: np.ndarray, part: int) -> Instr:
    verb = int(row[missions.part_column(part) + missions.VERB])
    slots = (0, 1) if verb == rules.PUT_NEXT else (0,)
    strict = {} if verb == rules.GO_TO else {"strict": bool(row[missions.STRICT] >> part & 1)}
    return _VERBS[verb](*(_described(row, part, slot) for slot in slots), **strict)


def _group(row: np.ndarray, group: int) -> Instr:
    first = _part(row, group)
    return AndInstr(first, _part(row, group + 2)) if row[missions.JOINED] >> group & 1 else first


def instruction(row: np.ndarray) -> Instr:
    """A mission row of the engine [39] as minigrid's instruction; "B after you A" keeps the order of its words."""
    if row[missions.ORDER] == rules.SINGLE:
        return _group(row, 0)
    first, second = _group(row, 0), _group(row, 1)
    return BeforeInstr(first, second) if row[missions.ORDER] == rules.BEFORE else AfterInstr(second, first)


class _Mirror(RoomGridLevel):
    """A minigrid level in the state of ours at the start of an episode; it shows nothing and draws nothing."""

    def __init__(self, env: GridEnv):
        self._grids = env.grids
        level = env.grids.levels[env.grids.kind[0]]
        super().__init__(
            room_size=int(level[rules.ROOM_SIZE]), num_rows=int(level[rules.ROWS]), num_cols=int(level[rules.COLUMNS])
        )
        self.reset(seed=0)  # its generator places doorways, which are overwritten
        self._take_up()

    def gen_mission(self) -> None:
        cells, contents = self._grids.cells[0], self._grids.contents[0]
        for x, y in np.ndindex(self.width, self.height):
            kind = int(cells[x, y, 0])
            if kind == EMPTY:
                self.grid.set(x, y, None)  # a doorway, or a wall that was taken away
            elif kind != WALL:
                self._put(x, y, cells[x, y].tolist(), contents[x, y].tolist())
        self._held = self._put_back()
        x, y, heading = self._grids.agents[0]
        self.agent_pos, self.agent_dir = np.array((x, y)), int(heading)
        self.instrs = instruction(self._grids.missions[0])

    def _put(self, x: int, y: int, codes: list[int], content: list[int]) -> WorldObj:
        thing = WorldObj.decode(*codes)
        assert thing is not None  # not an empty cell
        thing.init_pos = thing.cur_pos = (x, y)
        thing.contains = WorldObj.decode(content[0], content[1], 0) if content[0] else None  # pyright: ignore[reportAttributeAccessIssue]
        self.grid.set(x, y, thing)
        return thing

    def _put_back(self) -> WorldObj | None:
        """What the agent holds from the first step on, back where the mission was given."""
        kind, colour = self._grids.carried[0, :2].tolist()
        if kind == 0:
            return None
        here, believed = self._grids.tracked[0, :, :, 0], self._grids.tracked[0, :, :, 1]
        ((x, y),) = np.argwhere((believed & 1 == 1) & (here & 1 == 0)).tolist()
        return self._put(x, y, [kind, colour, 0], [0])

    def _take_up(self) -> None:
        if self._held is not None and self._held.init_pos is not None:
            self.grid.set(*self._held.init_pos, None)
            self.carrying = self._held

    def validate_instrs(self, instr: Instr) -> None:
        """The engine has drawn a valid level."""

    def gen_obs(self) -> dict[str, Any]:
        """Nothing: observations are nine tenths of a minigrid step, and the planner looks for itself."""
        return {}


NO_PLAN = (AssertionError, DisappearedBoxError, TypeError, AttributeError)
"""How minigrid's planner says that it has no plan."""


class PatientBot(BabyAIBot):
    """minigrid's planner, which gives up (AssertionError) where the original would plan for ever."""

    _PATIENCE = 200

    def replan(self, action_taken=None):
        """The next action, after the one that was taken last."""
        self._searches = 0
        return super().replan(action_taken)

    def _breadth_first_search(self, *arguments, **options):
        self._searches += 1
        assert self._searches < self._PATIENCE, "no plan in sight"
        return super()._breadth_first_search(*arguments, **options)


class Bot:
    """Plans one episode of `env`, which has just been reset.

    bot = Bot(env); then before each step `action = bot.act()`, and after it `bot.observe(action)` with the action that
    was really taken: the bot also corrects the slips of another agent.
    """

    def __init__(self, env: GridEnv):
        self._mirror = _Mirror(env)
        self._planner, self._last = PatientBot(self._mirror), None

    def act(self) -> int:
        """The action that the plan asks for now.

        After slips that it cannot undo (an opened box, an object out of reach), and where a key lies in a box or the
        mission's object is in the hand from the start, minigrid's planner raises one of `NO_PLAN`.
        """
        return int(self._planner.replan(self._last))  # type: ignore[arg-type] - never None: the loop ends with one

    def observe(self, action: int) -> None:
        """Say which action the environment was given."""
        self._mirror.step(action)
        self._last = action
