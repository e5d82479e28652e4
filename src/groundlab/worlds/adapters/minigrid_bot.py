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
    AfterInstr,
    BeforeInstr,
    GoToInstr,
    Instr,
    ObjDesc,
    OpenInstr,
    PickupInstr,
    PutNextInstr,
)
from minigrid.utils.baby_ai_bot import BabyAIBot

from groundlab.worlds import missions, rules
from groundlab.worlds.codes import EMPTY, WALL
from groundlab.worlds.single import GridEnv

_VERBS: dict[int, Callable[..., Instr]] = {
    missions.GO_TO: GoToInstr,
    missions.PICK_UP: PickupInstr,
    missions.OPEN: OpenInstr,
    missions.PUT_NEXT: PutNextInstr,
}


def _described(row: np.ndarray, column: int) -> ObjDesc:
    kind, colour = int(row[column]), int(row[column + 1])
    return ObjDesc(IDX_TO_OBJECT[kind], None if colour == missions.ANY else IDX_TO_COLOR[colour])


def _part(row: np.ndarray, part: int) -> Instr:
    column = missions.part_column(part)
    verb = int(row[column + missions.VERB])
    slots = (missions.FIRST, missions.SECOND) if verb == missions.PUT_NEXT else (missions.FIRST,)
    return _VERBS[verb](*(_described(row, column + slot) for slot in slots))


def instruction(row: np.ndarray) -> Instr:
    """A mission row of the engine [15] as minigrid's instruction; "B after you A" keeps its parts in told order."""
    if row[missions.ORDER] == missions.SINGLE:
        return _part(row, 0)
    first, second = _part(row, 0), _part(row, 1)
    return BeforeInstr(first, second) if row[missions.ORDER] == missions.BEFORE else AfterInstr(second, first)


class _Mirror(RoomGridLevel):
    """A minigrid level in the state of ours at the start of an episode; it shows nothing and draws nothing."""

    def __init__(self, env: GridEnv):
        self._grids = env.grids
        level = env.grids.levels[env.grids.kind[0]]
        super().__init__(room_size=int(level[rules.ROOM_SIZE]), num_rows=1, num_cols=int(level[rules.COLUMNS]))
        self.reset(seed=0)  # its generator places doorways, which are overwritten

    def gen_mission(self) -> None:
        cells = self._grids.cells[0, : self.width, : self.height]
        for x, y in np.argwhere((cells[:, :, 0] != EMPTY) & (cells[:, :, 0] != WALL)).tolist():
            thing = WorldObj.decode(*(int(code) for code in cells[x, y]))
            assert thing is not None  # not an empty cell
            thing.init_pos = thing.cur_pos = (x, y)
            self.grid.set(x, y, thing)
        x, y, heading = self._grids.agents[0]
        self.agent_pos, self.agent_dir = np.array((x, y)), int(heading)
        self.instrs = instruction(self._grids.missions[0])

    def validate_instrs(self, instr: Instr) -> None:
        """The engine has drawn a valid level."""

    def gen_obs(self) -> dict[str, Any]:
        """Nothing: observations are nine tenths of a minigrid step, and the planner looks for itself."""
        return {}


class Bot:
    """Plans one episode of `env`, which has just been reset.

    bot = Bot(env); then before each step `action = bot.act()`, and after it `bot.observe(action)` with the action that
    was really taken: the bot also corrects the slips of another agent.
    """

    def __init__(self, env: GridEnv):
        self._mirror = _Mirror(env)
        self._planner, self._last = BabyAIBot(self._mirror), None

    def act(self) -> int:
        """The action that the plan asks for now.

        After slips that it cannot undo (an opened box, an object out of reach) minigrid's planner raises
        AssertionError or DisappearedBoxError.
        """
        return int(self._planner.replan(self._last))  # type: ignore[arg-type] - never None: the loop ends with one

    def observe(self, action: int) -> None:
        """Say which action the environment was given."""
        self._mirror.step(action)
        self._last = action
