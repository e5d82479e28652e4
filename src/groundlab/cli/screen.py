"""What a person sees of a world in a terminal: the level in colours, what an agent reads, its probabilities, a legend.

The map has two characters a cell: what it is, and its colour (render.py), which is also drawn in that colour where the
terminal has colours. A terminal is drawn over, a pipe gets one screen after another.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.text import Text

from groundlab.papers.stage import Stage
from groundlab.worlds import render
from groundlab.worlds.crafter.rules import ACHIEVEMENTS, ITEMS, NAMES, VIEW_HEIGHT, VIEW_WIDTH, VITALS

_SEEN_FLOOR, _UNSEEN_FLOOR = ". ", "  "
_STYLES = {
    **{"R": "bold red", "G": "bold green", "B": "bold bright_blue", "P": "bold magenta", "Y": "bold yellow"},
    **{"E": "bold bright_black", "#": "dim"},
}
_AGENT = "bold reverse"
_ARROWS = (">>", "VV", "<<", "^^")
_BAR, _MOST_DECISIONS = 20, 9  # characters of a probability of one; decisions that are shown
_CRAFTER = {
    **{"None": ("  ", ""), "water": ("~~", "blue"), "grass": ("..", "green"), "stone": ("##", "white")},
    **{"path": ("  ", ""), "sand": ("::", "yellow"), "tree": ("TT", "bold green"), "lava": ("^^", "bold red")},
    **{"coal": ("co", "bright_black"), "iron": ("ir", "bold yellow"), "diamond": ("di", "bold bright_cyan")},
    **{"table": ("ta", "bold magenta"), "furnace": ("fu", "bold magenta"), "player": ("@@", _AGENT)},
    **{"cow": ("Co", "bold white"), "zombie": ("Zo", "bold bright_red"), "skeleton": ("Sk", "bold bright_white")},
    **{"arrow": ("->", "bright_white"), "plant": ("pl", "bright_green")},
}


class Decision(NamedTuple):
    """What an agent would do: the probabilities [A] of its decisions by name, which was drawn, and a note."""

    names: Sequence[str]
    probabilities: np.ndarray
    choice: int
    note: str = ""


class Screen:
    """Draws one stage. head: what is always in sight at a terminal, and at the beginning of a pipe."""

    def __init__(self, console: Console, head: str, stage: Stage):
        self._console, self._head, self._over = console, head, console.is_terminal and not console.is_dumb_terminal
        self._map = {"grid": level_map, "door-key": room_map, "crafter": crafter_map}.get(
            stage.family.name, lambda stage: []
        )
        self._side = planner_words(stage) if stage.family.name == "door-key" else _sentences
        self.legend = legend(stage)
        if not self._over:
            self.say(f"{head}\n{self.legend}")

    def draw(self, stage: Stage, decision: Decision | None = None, end: str = "") -> None:
        """The stage as it is, what an agent would do, and how it ended where `end` says so."""
        if self._over:
            self._console.clear()
            self.say(f"{self._head}\n{self.legend}")
        rows = list(self._map(stage))
        width = max((len(row.plain) for row in rows), default=0)
        body = Text()
        for row, line in zip_longest(rows, self._side(stage)):
            row = row or Text()
            body.append(row).append(" " * (width - len(row.plain))).append(f"   {line}\n" if line else "\n")
        if decision:
            body.append("\n").append(odds(decision))
        self.say("")
        self._console.print(body, end="", soft_wrap=True, highlight=False)
        self.say(f"step {stage.steps} of {stage.limit}, reward {stage.reward:g}{chr(10) if end else ''}{end}")

    def say(self, words: str) -> None:
        self._console.print(words, markup=False, highlight=False, soft_wrap=True)


def odds(decision: Decision) -> Text:
    """A line a decision, its probability as a number and a bar; the one that was drawn has a `>`.

    Of many decisions only the likeliest are shown, and the one that was drawn.
    """
    shown = np.arange(len(decision.names))
    if len(shown) > _MOST_DECISIONS:
        likeliest = np.argsort(-decision.probabilities, kind="stable")[:_MOST_DECISIONS]
        shown = np.union1d(likeliest, [decision.choice])
    width, text = max(len(name) for name in decision.names), Text()
    for index in shown.tolist():
        share, mark = float(decision.probabilities[index]), ">" if index == decision.choice else " "
        line = f"{mark} {decision.names[index]:<{width}} {share:6.3f} {'#' * round(share * _BAR)}\n"
        text.append(line, "bold cyan" if index == decision.choice else "")
    return text.append(f"{decision.note}\n") if decision.note else text


def level_map(stage: Stage) -> list[Text]:
    """The whole level; floor that the agent does not see is blank."""
    lit = render.lit_cells(stage.env.grids)
    return [
        _coloured(row.ljust(2 * len(lit)), lambda x, y=y: bool(lit[x, y]))
        for y, row in enumerate(render.level_text(stage.env.grids).splitlines())
    ]


def room_map(stage: Stage) -> list[Text]:
    return [_coloured(row, lambda x: True) for row in render.as_text(stage.observation["image"]).splitlines()]


def _coloured(row: str, lit: Callable[[int], bool]) -> Text:
    """A row of two characters a cell, each in the colour that its second names."""
    text = Text()
    for x in range(-(-len(row) // 2)):
        cell = row[2 * x : 2 * x + 2]
        if cell == _SEEN_FLOOR:
            text.append(cell if lit(x) else _UNSEEN_FLOOR)
        else:
            text.append(cell, _AGENT if cell in _ARROWS else _STYLES.get(cell[-1:], ""))
    return text


def crafter_map(stage: Stage) -> list[Text]:
    """What the player sees of Crafter."""
    cells = stage.observation["codes"][: VIEW_WIDTH * VIEW_HEIGHT].reshape(VIEW_WIDTH, VIEW_HEIGHT)
    return [Text().join(Text(*_CRAFTER[NAMES[code]]) for code in row) for row in cells.T.tolist()]


def _sentences(stage: Stage) -> list[str]:
    if stage.family.name == "crafter":
        parts = (part.strip() for line in stage.sentences for part in line.replace(".You ", ". You ").split(". "))
        own = ("Your status", "Your have", "You have nothing")  # about what one has
        return [*_belongings(stage), *(f"- {part}" for part in parts if part and not part.startswith(own))]
    return [stage.mission, *(f"- {sentence}" for sentence in stage.sentences or ["(nothing in sight)"])]


def _belongings(stage: Stage) -> list[str]:
    """What the player has, and what was achieved so far."""
    numbers = dict(zip(ITEMS, stage.observation["codes"][-len(ITEMS) :].tolist(), strict=True))
    vitals = ", ".join(f"{name} {numbers.pop(name)}" for name in VITALS)
    bag = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items() if number) or "nothing"
    done = [name for name, flag in zip(ACHIEVEMENTS, stage.unlocked, strict=True) if flag]
    return [stage.mission, vitals, f"has {bag}", f"done {', '.join(done).replace('_', ' ') or 'nothing yet'}"]


def planner_words(stage: Stage) -> Callable[[Stage], list[str]]:
    """The line that the mediator's planner reads, of an episode."""
    from groundlab.papers.mediator.search import Translator

    translator = Translator(stage.world.name)
    return lambda stage: [stage.mission, translator.describe(stage.observation["image"])]


def legend(stage: Stage) -> str:
    if stage.family.name == "crafter":
        named = ((mark, name) for name, (mark, _) in _CRAFTER.items() if mark.strip())
        return "map: " + ", ".join(f"{mark} {name}" for mark, name in named)
    if not stage.is_grid:
        return ""
    colours = f"then its colour: {', '.join(render.COLOUR_LEGEND)}"
    return f"map: >> you, {', '.join(render.LEGEND)}; {colours}"
