"""What a language model reads in LLM-BabyBench's tasks, and what is made of its reply.

    env.reset(seed=3); question = ask("plan", env)
    question.prompt                                   # the rules, this level, its mission, what is wanted
    read_actions("... ANSWER: left, forward")         # ["left", "forward"]; Unreadable where there is no answer

A level is described as in the benchmark's "structured" format (formatters/structured.py of its code): rooms, sizes,
agent, all objects with colour and cell, doors with their state, mission. The words are our own, as is the mark of an
answer; the forms after it (a state, actions, subgoals) are the benchmark's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groundlab import worlds
from groundlab.assets import read_text
from groundlab.papers.babybench.follower import NAMES, Follower, Place, Step
from groundlab.worlds import codes, missions, rules
from groundlab.worlds.adapters.minigrid_bot import NO_PLAN
from groundlab.worlds.codes import ACTIONS, COLOURS, DOOR, DOOR_STATES, EMPTY, HEADINGS, STEP_X, STEP_Y, TYPES, WALL

MARK = "ANSWER:"
_NAMES = {codes.PICKUP: "PickupSubgoal", codes.DROP: "DropSubgoal"}
_HOME = "prompts/babybench"
State = tuple[Place, int]
"""Where the agent is, and its heading."""


class Unreadable(ValueError):
    """A reply without an answer; says in a few words what is missing."""


@dataclass(frozen=True)
class Question:
    """A level that a model is asked about, and what the bot does there."""

    task: str
    world: str
    layout: int
    prompt: str
    actions: list[int]
    """The bot's, from the start to the end of the episode."""
    subgoals: list[Step]
    """The same as subgoals: where it picked up, dropped, toggled, or was where the mission wanted it."""
    end: State
    """Where its actions end."""
    mirrored: State
    """The same in minigrid's own copy of the level, which the bot plans in."""
    added: int
    """Subgoals that the bot puts on its stack without anybody's help (`help_count` of the datasets)."""


def ask(task: str, env: worlds.GridEnv, layout: int) -> Question | None:
    """The question of a layout; None where the bot does not accomplish the mission."""
    observation, _ = env.reset(seed=layout)
    level = f"{read_text(f'{_HOME}/world.txt').strip()}\n\n{describe(env, observation['mission'])}"
    bot, trace = Follower(env), []
    actions, success = follow(bot, env, trace)
    if not success:
        return None
    x, y, heading = env.grids.agents[0].tolist()
    wanted = read_text(f"{_HOME}/{task}.txt").strip()
    prompt = f"{level}\n\n{wanted.replace('{actions}', ', '.join(ACTIONS[each] for each in actions))}"
    return Question(task, env.world.name, layout, prompt, actions, trace, ((x, y), heading), bot.state, bot.added)


def follow(bot: Follower, env: worlds.GridEnv, trace: list[Step]) -> tuple[list[int], bool]:
    """(actions, success) of a bot until the episode ends or nothing of its plan is left; its subgoals enter the trace.

    Without a plan it fails.
    """
    actions, reward, ended = list[int](), 0.0, False
    try:
        while not ended and (action := bot.act()) is not None:
            reward, ended = _take(env, action, trace)
            bot.observe(action)
            actions.append(action)
    except NO_PLAN:
        reward = 0.0
    return actions, reward > 0


def _take(env: worlds.GridEnv, action: int, trace: list[Step]) -> tuple[float, bool]:
    """One step of the bot, added to its trace where it is more than a move; its reward, whether the episode is over."""
    kind, _, state = env.grids.cells[0][_ahead(env)].tolist()
    progress = env.grids.progress[0, : missions.HAND_BEFORE].tolist()
    _, reward, terminated, truncated, _ = env.step(action)
    ahead = _ahead(env)
    if action in _NAMES or (action == codes.TOGGLE and kind == DOOR):
        turned = "CloseSubgoal" if state == codes.OPEN else "OpenSubgoal"
        trace += [("GoNextToSubgoal", ahead), (_NAMES.get(action, turned), None)]
    elif env.grids.progress[0, : missions.HAND_BEFORE].tolist() != progress:
        trace.append(("GoNextToSubgoal", ahead))
    return reward, terminated or truncated


def _ahead(env: worlds.GridEnv) -> Place:
    """The cell that the agent faces."""
    x, y, heading = env.grids.agents[0].tolist()
    return x + STEP_X[heading], y + STEP_Y[heading]


def describe(env: worlds.GridEnv, mission: str) -> str:
    """A level in words, as it is now: its rooms, the agent, all objects row by row, the mission."""
    level, cells = env.grids.levels[env.grids.kind[0]], env.grids.cells[0]
    rows, columns, room = (int(level[number]) for number in (rules.ROWS, rules.COLUMNS, rules.ROOM_SIZE))
    x, y, heading = env.grids.agents[0].tolist()
    lines = [
        f"Rooms: {columns} from west to east, {rows} from north to south, each {room} by {room} cells with its walls",
        f"Grid: {env.grids.sizes[0, 0]} by {env.grids.sizes[0, 1]} cells",
        f"Agent: at {(x, y)}, direction {heading} ({HEADINGS[heading]}), the cell ahead is {_ahead(env)}",
        "Objects:",
    ]
    for down, right in np.argwhere(~np.isin(cells[:, :, 0], (EMPTY, WALL)).T).tolist():
        kind, colour, state = cells[right, down].tolist()
        door = f", {DOOR_STATES[state]}" if kind == DOOR else ""
        lines.append(f"- {COLOURS[colour]} {TYPES[kind]} at {(right, down)}{door}")
    return "\n".join([*lines, f"Mission: {mission}"])


def _answer(reply: str) -> str:
    """What stands after the last mark. Raises Unreadable."""
    _, mark, answer = reply.rpartition(MARK)
    if not mark:
        raise Unreadable("no answer")
    return answer


def read_state(reply: str) -> State:
    """The first three numbers after the mark, as the benchmark reads them. Raises Unreadable."""
    numbers = [int(each) for each in re.findall(r"-?\d{1,9}", _answer(reply))[:3]]
    if len(numbers) < 3:
        raise Unreadable("no state")
    return (numbers[0], numbers[1]), numbers[2]


def read_actions(reply: str) -> list[int]:
    """The actions after the mark; as in the benchmark, what is no action is left out. Raises Unreadable."""
    words = re.split(r"[,\s]+", _answer(reply).lower())
    actions = [ACTIONS.index(word) for word in words if word in ACTIONS]
    if not actions:
        raise Unreadable("no action")
    return actions


def read_subgoals(reply: str) -> list[Step]:
    """The subgoals after the mark, one a line. Raises Unreadable for a line that is none, and where there is none."""
    steps: list[Step] = []
    for line in filter(None, map(str.strip, _answer(reply).splitlines())):
        found = re.fullmatch(r"\(?(\w+)(?:[,:] *\((\d{1,9}), *(\d{1,9})\))?\)?", line)
        place = (int(found[2]), int(found[3])) if found and found[2] else None
        if not found or found[1] not in NAMES or (place is None) == (found[1] == NAMES[0]):
            raise Unreadable("no subgoal")
        steps.append((found[1], place))
    if not steps:
        raise Unreadable("no subgoal")
    return steps


def state_text(state: State) -> str:
    """A state as an answer."""
    return f"{MARK} {state}"


def actions_text(actions: Sequence[int]) -> str:
    """Actions as an answer."""
    return f"{MARK} {', '.join(ACTIONS[each] for each in actions)}"


def subgoals_text(steps: Sequence[Step]) -> str:
    """Subgoals as an answer."""
    return "\n".join([MARK, *(f"({name}, {place})" if place else f"({name})" for name, place in steps)])
