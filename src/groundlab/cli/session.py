"""One episode at a terminal: by a person's keys, by a trained agent, by both in turns, or as it was recorded.

with Keys() as keys:
    play(Stage("BabyAI-GoToLocal-v0", 3), keys, Console())
"""

import time
from typing import TYPE_CHECKING

from rich.console import Console

from groundlab.cli.keys import Keys
from groundlab.cli.screen import Decision, Screen
from groundlab.papers import recording
from groundlab.papers.recording import Episode
from groundlab.papers.stage import Stage

if TYPE_CHECKING:
    from groundlab.papers.watching import Watched

_GRID_KEYS = {
    **{"a": "left", "left": "left", "d": "right", "right": "right", "w": "forward", "up": "forward"},
    **{"p": "pickup", "x": "drop", "t": "toggle", "n": "done"},
}
_GRID_HELP = "arrows or a d w: turn left, turn right, go forward; p pick up, x drop, t toggle, n nothing, q quit"
_WALKS = {"a": "left", "d": "right", "w": "up", "s": "down", **{way: way for way in ("left", "right", "up", "down")}}
_WORK = {  # the verbs of the text variant, and those of the game
    **{"c": ("collect", "do"), "e": ("eat", "do"), "k": ("drink", "do"), "f": ("attack", "do")},
    **{"z": ("sleep", "sleep"), "n": ("do nothing", "noop"), "r": ("place stone", "place_stone")},
    **{"b": ("place crafting table", "place_table"), "o": ("place furnace", "place_furnace")},
    **{"g": ("place plant", "place_plant")},
}
_CRAFTER_HELP = (
    "arrows or a d w s: walk; c collect, e eat, k drink, f fight, z sleep, n nothing, r place stone, b table, "
    "o furnace, g plant; make with 1-3 pickaxes and 4-6 swords of wood, stone, iron; q quit"
)
_AGENT_HELP = "space: as the agent chose (marked), another key: instead of it, >: on to the end"
_PLANNED_HELP = "space: as the agent chose (marked), 1 or 2: go on or ask instead, >: on to the end, q quit"
_REPLAY_HELP = "space or right: on, left: back, >: on to the end, q quit"
_FRAME_SECONDS = 0.33


def keys_of(stage: Stage) -> dict[str, int]:
    """The action that each key is in a world."""
    if stage.is_grid:
        return {key: stage.actions.index(name) for key, name in _GRID_KEYS.items()}
    if stage.family.name != "crafter":
        return {str(number): number for number in range(min(10, len(stage.actions)))}
    walks = {key: (f"move {way}", f"move_{way}") for key, way in _WALKS.items()}
    names = {key: next(name for name in both if name in stage.actions) for key, both in (walks | _WORK).items()}
    tools = [name for name in stage.actions if name.startswith("make")]
    names |= {str(number): name for number, name in enumerate(tools, 1)}
    return {key: stage.actions.index(name) for key, name in names.items()}


def _help(stage: Stage, agent: "Watched | None") -> str:
    if agent is not None and not agent.moves:
        return _PLANNED_HELP
    numbered = ", ".join(f"{number} {name}" for number, name in enumerate(stage.actions[:10]))
    own = _GRID_HELP if stage.is_grid else _CRAFTER_HELP if stage.family.name == "crafter" else f"{numbered}, q quit"
    return f"{own}\n{_AGENT_HELP}" if agent else own


def play(stage: Stage, keys: Keys, console: Console, agent: "Watched | None" = None) -> None:
    """One episode by keys, an agent's, or both in turns."""
    help_text, numbers = _help(stage, agent), keys_of(stage)
    screen = Screen(console, f"{stage.world.name}, layout {stage.layout}: {stage.mission}\n{help_text}", stage)
    decision, runs = None, False
    if agent:
        agent.start(stage)
    while not stage.over:
        if agent and decision is None:
            decision = Decision(agent.decisions, *agent.decide(stage), agent.note())
        screen.draw(stage, decision)
        key = "." if runs else keys.read()
        if key in ("q", ""):
            break
        runs = runs or (key == ">" and agent is not None)
        action = _action("." if runs else key, numbers, agent, decision)
        if action is None:
            screen.say(help_text)
            continue
        if runs and keys.typed:
            time.sleep(_FRAME_SECONDS)
        stage.step(action)
        if agent and not stage.over:
            agent.observe(stage)
        decision = None
    screen.draw(stage, end=_ending(stage))


def _ending(stage: Stage) -> str:
    return f"{stage.outcome} after {stage.steps} step{'s' * (stage.steps != 1)}"


def _action(key: str, numbers: dict[str, int], agent: "Watched | None", decision: Decision | None) -> int | None:
    """The action that a key stands for, after the agent has seen it; None for an unknown key."""
    if agent is None or decision is None:
        return numbers.get(key)
    if key == ".":
        choice = decision.choice
    elif not agent.moves:
        choice = int(key) - 1 if key in ("1", "2") else None
    else:
        choice = agent.choice_of(numbers[key]) if key in numbers else None
    return None if choice is None else agent.act(choice)


def replay(episode: Episode, keys: Keys, console: Console) -> None:
    """Step through a recorded episode, forth and back. Raises GroundlabError as `recording.replay`."""
    stage = recording.begin(episode)
    by = " ".join(part for part in (episode.method, episode.policy) if part)
    head = f"{episode.world}, layout {episode.layout}: {stage.mission}{f' ({by})' if by else ''}\n{_REPLAY_HELP}"
    screen, runs, last = Screen(console, head, stage), False, len(episode.actions)
    while True:
        screen.draw(stage, end=_said(episode, stage))
        key = ("." if stage.steps < last else "") if runs else keys.read()
        if key in ("q", ""):
            return
        runs = runs or key == ">"
        if runs and keys.typed:
            time.sleep(_FRAME_SECONDS)
        if key in (".", "right", "d", ">") and stage.steps < last:
            recording.go_on(stage, episode)
        elif key in ("left", "a") and stage.steps:
            stage = recording.begin(episode, stage.steps - 1)


def _said(episode: Episode, stage: Stage) -> str:
    """What an agent said at a step of its episode, and did; or how it ended."""
    if stage.steps == len(episode.actions):
        return _ending(stage)
    replies = [reply.rstrip() for reply in episode.replies[stage.steps : stage.steps + 1]]
    return "\n".join([*replies, f"next: {episode.actions[stage.steps]}"])
