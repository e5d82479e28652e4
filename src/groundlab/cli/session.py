"""One episode at a terminal: by a person's keys, by a trained agent, or by both in turns.

with Keys() as keys:
    play(Stage("BabyAI-GoToLocal-v0", 3), keys, Console())

A terminal shows one screen, drawn over; a pipe gets one after another.
"""

import time
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from groundlab.cli.keys import Keys
from groundlab.papers.stage import Stage
from groundlab.worlds.crafter.rules import ACHIEVEMENTS

if TYPE_CHECKING:
    from groundlab.papers.watching import Watched

_AGENT_HELP = "space: as the agent chose (marked), another key: instead of it, >: on to the end"
_PLANNED_HELP = "space: as the agent chose (marked), 1 or 2: go on or ask instead, >: on to the end, q quit"
_FRAME_SECONDS = 0.33
_STYLES = {
    **{"R": "bold red", "G": "bold green", "B": "bold bright_blue", "P": "bold magenta", "Y": "bold yellow"},
    **{"E": "bold bright_black", "#": "dim", **dict.fromkeys((">>", "VV", "<<", "^^", "@@"), "bold reverse")},
    **{"~~": "blue", "..": "green", "TT": "bold green", "::": "yellow", "%%": "bold red", "co": "bright_black"},
    **{"ir": "bold yellow", "di": "bold bright_cyan", "ta": "bold magenta", "fu": "bold magenta", "pl": "bright_green"},
    **{"Co": "bold white", "Zo": "bold bright_red", "Sk": "bold bright_white", "->": "bright_white"},
}
_BAR = 20  # characters of a probability of one


class Screen:
    """Draws stages of one world. head: what is always in sight at a terminal, and at the beginning of a pipe."""

    def __init__(self, console: Console, head: str, stage: Stage):
        self._console, self._over = console, console.is_terminal and not console.is_dumb_terminal
        self._head = f"{head}\nmap: {stage.family.legend}" if stage.family.legend else head
        self._words = _words_of(stage)
        if not self._over:
            self.say(self._head)

    def draw(self, stage: Stage, odds: Text | None = None, end: str = "") -> None:
        """Draw the map, the words that an agent reads, what it would do, and how the episode ended, if it has."""
        if self._over:
            self._console.clear()
            self.say(self._head)
        grids, seen = getattr(stage.env, "grids", None), stage.observation[stage.family.words_about or "image"]
        rows = str(stage.family.render(grids, seen, "terminal") or "").splitlines()
        width = max(map(len, rows), default=0)
        self.say("")
        for row, line in zip_longest(rows, self._words(stage), fillvalue=""):
            self.say(_coloured(row.ljust(width)).append(f"   {line}" if line else ""))
        if odds:
            self.say(odds)
        self.say(f"step {stage.steps} of {stage.limit}, reward {stage.reward:g}" + (f"\n{end}" if end else ""))

    def say(self, text: "str | Text") -> None:
        """Print below what is there."""
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)


def _coloured(row: str) -> Text:
    """Colour a row of two characters per cell, by the whole cell or by its second character."""
    cells = (row[x : x + 2] for x in range(0, len(row), 2))
    return Text.assemble(*((cell, _STYLES.get(cell) or _STYLES.get(cell[1:], "")) for cell in cells))


def odds(agent: "Watched", probabilities: np.ndarray, choice: int) -> Text:
    """Draw an agent's decisions with their probabilities as bars, the one that it chose marked, and its note."""
    width, text = max(map(len, agent.decisions)), Text()
    for index, (name, share) in enumerate(zip(agent.decisions, probabilities.tolist(), strict=True)):
        line = f"{'>' if index == choice else ' '} {name:<{width}} {share:6.3f} {'#' * round(share * _BAR)}\n"
        text.append(line, "bold cyan" if index == choice else "")
    return text.append(agent.note())


def _words_of(stage: Stage) -> Callable[[Stage], list[str]]:
    """Return the function that gives the lines at the side of the map: the mission, and what an agent reads."""
    if stage.family.name == "door-key":
        from groundlab.papers.mediator.search import Translator  # it plans for this world

        translator = Translator(stage.world.name)
        return lambda stage: [stage.mission, translator.describe(stage.observation["image"])]
    return _sentences


def _sentences(stage: Stage) -> list[str]:
    parts = [part.strip() for text in stage.sentences for part in text.replace(".You", ". You").split(". ")]
    done = [name.replace("_", " ") for name, flag in zip(ACHIEVEMENTS, stage.unlocked, strict=False) if flag]
    achieved = [f"done: {', '.join(done)}"] if done else []
    return [stage.mission, *(f"- {part}" for part in parts or ["(nothing in sight)"]), *achieved]


def keys_of(stage: Stage) -> dict[str, int]:
    """Return the action of each key in a world."""
    if not stage.family.keys:
        return {str(number): number for number in range(min(10, len(stage.actions)))}
    known = {key: [name for name in names if name in stage.actions] for key, names in stage.family.keys.items()}
    return {key: stage.actions.index(names[0]) for key, names in known.items() if names}


def _help(stage: Stage, agent: "Watched | None") -> str:
    if agent is not None and not agent.moves:
        return _PLANNED_HELP
    keys: dict[int, list[str]] = {}
    for key, action in keys_of(stage).items():
        keys.setdefault(action, []).append(key)
    own = ", ".join(f"{'/'.join(names)}: {stage.actions[action]}" for action, names in keys.items())
    return f"{own}, q: quit" + (f"\n{_AGENT_HELP}" if agent else "")


def play(stage: Stage, keys: Keys, console: Console, agent: "Watched | None" = None) -> None:
    """Play one episode by keys, by an agent, or by both in turns."""
    help_text, numbers = _help(stage, agent), keys_of(stage)
    screen = Screen(console, f"{stage.world.name}, layout {stage.layout}: {stage.mission}\n{help_text}", stage)
    odds_text, choice, runs = None, -1, False
    if agent:
        agent.start(stage)
    while not stage.over:
        if agent and odds_text is None:
            probabilities, choice = agent.decide(stage)
            odds_text = odds(agent, probabilities, choice)
        screen.draw(stage, odds_text)
        key = "." if runs else keys.read()
        if key in ("q", ""):
            break
        runs = runs or (key == ">" and agent is not None)
        action = _action("." if runs else key, numbers, agent, choice)
        if action is None:
            screen.say(help_text)
            continue
        if runs and keys.typed:
            time.sleep(_FRAME_SECONDS)
        stage.step(action)
        if agent and not stage.over:
            agent.observe(stage)
        odds_text = None
    screen.draw(stage, end=_ending(stage))


def _ending(stage: Stage) -> str:
    return f"{stage.outcome} after {stage.steps} step{'s' * (stage.steps != 1)}"


def _action(key: str, numbers: dict[str, int], agent: "Watched | None", choice: int) -> int | None:
    """Return the action that a key stands for, after the agent has seen it; None for an unknown key."""
    if agent is None:
        return numbers.get(key)
    if key == ".":
        return agent.act(choice)
    if not agent.moves:
        other = {"1": 0, "2": 1}.get(key)
    elif key in numbers:
        other = agent.choice_of(numbers[key])
    else:
        other = None
    return None if other is None else agent.act(other)
