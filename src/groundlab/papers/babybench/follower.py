"""The bot that knows the whole level and can be handed somebody else's plan: LLM-BabyBench's judge of decompositions.

    bot = Follower(env)                                           # its own plan
    bot = Follower(env, [("GoNextToSubgoal", (3, 5)), ("PickupSubgoal", None)])
    while (action := bot.act()) is not None: ...; bot.observe(action)
    bot.added                                                     # subgoals that it had to add

minigrid's planner, with what the benchmark changes of it (its "OmniBot"): every cell is known, a shut door is no wall
but something in the way, subgoals that make no sense where they come are passed over, and a key that has opened its
door is kept. What lies behind a locked door is looked for when nothing else is left. These are facts of the authors'
code (choukrani/llm-babybench); where this bot differs from theirs is said in docs/papers/worlds-method.md#babybench.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from minigrid.utils.baby_ai_bot import (
    CloseSubgoal,
    DropSubgoal,
    ExploreSubgoal,
    GoNextToSubgoal,
    OpenSubgoal,
    PickupSubgoal,
    Subgoal,
)

from groundlab.worlds.adapters.minigrid_bot import Bot, PatientBot
from groundlab.worlds.single import GridEnv

Place = tuple[int, int]
Step = tuple[str, Place | None]
"""A subgoal by its name in minigrid, and where: only GoNextToSubgoal has a place."""


class _Lenient(Subgoal, ABC):
    """Passed over where it makes no sense."""

    @abstractmethod
    def makes_sense(self) -> bool:
        """Whether it can be carried out here and now."""

    def replan_before_action(self) -> Any:
        if self.makes_sense():
            return super().replan_before_action()
        self.bot.stack.pop()
        return None


class _Open(_Lenient, OpenSubgoal):
    def __init__(self, bot: Any, datum: Any = None, reason: str | None = None):
        super().__init__(bot, datum, "KeepKey")  # else the key is dropped, which takes two subgoals more

    def makes_sense(self) -> bool:
        return self.fwd_cell is not None and self.fwd_cell.type == "door"


class _Close(_Lenient, CloseSubgoal):
    def makes_sense(self) -> bool:
        return self.fwd_cell is not None and self.fwd_cell.type == "door" and self.fwd_cell.is_open


class _Drop(_Lenient, DropSubgoal):
    def makes_sense(self) -> bool:
        return self.carrying is not None and self.fwd_cell is None


class _Pickup(PickupSubgoal):
    def replan_before_action(self) -> Any:
        if not self.carrying:
            return super().replan_before_action()
        self.bot.stack.append(GoNextToSubgoal(self.bot, tuple(self.fwd_pos)))
        self.bot.stack.append(DropSubgoal(self.bot))
        self.bot.stack.append(GoNextToSubgoal(self.bot, self.bot._find_drop_pos()))
        return None


class _Explore(ExploreSubgoal):
    def replan_before_action(self) -> None:
        """Unlock the nearest locked door: all that lies before it is known."""
        _, place, _ = self.bot._shortest_path(
            lambda place, cell: cell is not None and cell.type == "door" and cell.is_locked, try_with_blockers=True
        )
        assert place, "nowhere left to look"
        self.bot.stack.pop()
        self.bot.stack.append(OpenSubgoal(self.bot))
        self.bot.stack.append(GoNextToSubgoal(self.bot, self.bot.mission.grid.get(*place), reason="Open"))


def _is_shut(cell: Any) -> bool:
    """Whether nobody gets through without a key: a wall or a locked door."""
    return cell.type == "wall" or (cell.type == "door" and cell.is_locked)


_LENIENT = {
    CloseSubgoal: _Close,
    DropSubgoal: _Drop,
    ExploreSubgoal: _Explore,
    OpenSubgoal: _Open,
    PickupSubgoal: _Pickup,
}
_NAMED = {each.__name__: each for each in (GoNextToSubgoal, OpenSubgoal, CloseSubgoal, PickupSubgoal, DropSubgoal)}
NAMES = tuple(_NAMED)
"""The subgoals of a decomposition; exploring is the bot's own."""


class _Stack(list[Subgoal]):
    """A plan, the next subgoal last; what is put on top is counted and made lenient."""

    added = 0

    def append(self, subgoal: Subgoal) -> None:
        self.added += 1
        lenient = _LENIENT.get(type(subgoal))
        super().append(lenient(subgoal.bot, subgoal.datum, subgoal.reason) if lenient else subgoal)


class _Planner(PatientBot):
    def __init__(self, mission: Any, plan: Sequence[Step] | None):
        super().__init__(mission)
        own, self.stack = self.stack, _Stack()
        for subgoal in own if plan is None else [_NAMED[name](self, place) for name, place in reversed(plan)]:
            self.stack.append(subgoal)
        if plan is not None:
            self.stack.added = 0

    def _process_obs(self) -> None:
        """What can be reached without a key is known."""
        here = [(*self.mission.agent_pos, 1, 0)]
        *_, reached = self._breadth_first_search(here, lambda place, cell: False, ignore_blockers=True)
        self.vis_mask[:] = False
        self.vis_mask[tuple(np.array(list(reached)).T)] = True

    def _breadth_first_search(self, initial_states: Iterable[tuple], accept_fn: Callable, ignore_blockers: bool) -> Any:
        """minigrid's search, straight on first; a shut door blocks as an object does, a locked one as a wall."""
        self._searches += 1
        assert self._searches < self._PATIENCE, "no plan in sight"
        previous: dict[Place, Place | None] = {}
        queue: deque[tuple[Any, Place | None]] = deque((map(int, state), None) for state in initial_states)
        while queue:
            (x, y, ahead_x, ahead_y), origin = queue.popleft()
            if (x, y) in previous:
                continue
            previous[x, y], cell = origin, self.mission.grid.get(x, y)
            if accept_fn((x, y), cell):
                path, place = [], (x, y)
                while place:
                    path.append(place)
                    place = previous[place]
                return path, (x, y), previous
            if cell is None or (ignore_blockers and not _is_shut(cell)) or (cell.type == "door" and cell.is_open):
                turns = ((ahead_x, ahead_y), (ahead_y, ahead_x), (-ahead_y, -ahead_x), (-ahead_x, -ahead_y))
                queue.extend(((x + right, y + down, right, down), (x, y)) for right, down in turns)
        return None, None, previous


class Follower(Bot):
    """Plays one episode of `env`, which has just been reset, by its own plan or by `plan`, first subgoal first."""

    def __init__(self, env: GridEnv, plan: Sequence[Step] | None = None):
        super().__init__(env)
        self._planner = _Planner(self._mirror, plan)

    @property
    def added(self) -> int:
        """Subgoals that were put on the stack: of its own plan all, of another's those that were missing."""
        return self._planner.stack.added

    @property
    def state(self) -> tuple[Place, int]:
        """Where the agent is in minigrid's copy of the episode, and its heading."""
        x, y = self._mirror.agent_pos
        return (int(x), int(y)), int(self._mirror.agent_dir)

    def act(self) -> int | None:
        """The next action; None when nothing of the plan is left. Raises one of `NO_PLAN`."""
        action = super().act()
        return action if self._planner.stack else None
