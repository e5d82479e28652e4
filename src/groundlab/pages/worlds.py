"""The worlds as a page shows them: pictures beside words, the table of actions, what is hidden, the list of worlds.

    from groundlab.pages import worlds
    worlds.scene("BabyAI-GoToLocal-v0", seed=3)     # the level, the agent's view, and its text in two languages
    worlds.listing("BabyAI-Go")                     # worlds by the start of their name
    worlds.speed("BabyAI-GoToLocal-v0", 256)        # steps a second, now
    worlds.draw_families(Path("figures"))           # one picture of each kind of world, for the README

Each function gives an object that a notebook draws.
"""

import html
import io
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from groundlab import worlds
from groundlab.report.style import data_uri, house_style, new_figure, save
from groundlab.worlds import render, text
from groundlab.worlds.codes import COLOURS, TYPES

_TILE, _WIDEST = 24, 400  # pixels: a cell, and a picture that is shown in smaller cells
_ACTIONS = (
    ("turn left", "turns on the spot"),
    ("turn right", "turns on the spot"),
    ("go forward", "one cell ahead, if that is empty or an open door"),
    ("pick up", "takes the key, ball or box ahead, if the hand is free"),
    ("drop", "puts what is carried on the cell ahead, if that is empty"),
    ("toggle", "opens or closes a door; unlocks one whose key is carried; breaks a box open"),
    ("done", "nothing; costs a step. The papers' sixth action is toggle: this one is left out"),
)


@dataclass(frozen=True, repr=False)
class Page:
    """HTML that a notebook shows, and the same in plain text."""

    markup: str
    plain: str

    def _repr_html_(self) -> str:
        return self.markup

    def __repr__(self) -> str:
        return self.plain

    def with_note(self, note: str) -> "Page":
        """The page with a line in small print below it."""
        markup = f"{self.markup}<p style='font-size:85%'>{html.escape(note)}</p>"
        return Page(markup, f"{self.plain}\n{note}")


def scene(world: str, seed: int, actions: tuple[int, ...] = ()) -> Page:
    """One level after some actions: the grid (the view lit), the agent's view, and its words in two languages.

    Door-key worlds show what has been seen so far; no text of BabyAI-Text belongs to them.
    """
    env = worlds.GridEnv(world)
    observation, _ = env.reset(seed=seed)
    for action in actions:
        observation, *_ = env.step(action)
    goal = observation["mission"]
    family = worlds.families()[env.world.family]
    kind, colour = env.grids.carried[0, :2].tolist()
    carried = (TYPES[kind], COLOURS[colour]) if kind else None
    pictures = family.pictures(env.grids, observation["image"], _TILE, _WIDEST)
    captions = [(name, text.describe(observation["image"], carried, name)) for name in family.languages]
    drawn = "".join(_figure(caption, picture) for caption, picture in pictures)
    words = "<div>" + "".join(_list(language, sentences) for language, sentences in captions) + "</div>"
    heading = f"<p><b>{html.escape(world)}</b>, layout {seed}. Goal: <i>{html.escape(goal)}</i></p>"
    row = f'<div style="display:flex;flex-wrap:wrap;gap:20px;align-items:flex-start">{drawn}{words}</div>'
    spoken = [sentence for _, sentences in captions for sentence in sentences]
    lines = [f"{world}, layout {seed}. Goal: {goal}", *spoken]
    return Page(heading + row, "\n".join(lines))


def _figure(caption: str, picture: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    image = f'<img alt="{html.escape(caption)}" src="{data_uri(buffer.getvalue())}" style="max-width:none">'
    return f'<figure style="margin:0">{image}<figcaption>{html.escape(caption)}</figcaption></figure>'


def _list(language: str, sentences: list[str]) -> str:
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    list_of = f'<ul style="margin:2px 0 8px">{items}</ul>'
    return f'<div style="text-align:left;line-height:1.3"><b>{language.capitalize()}</b>{list_of}</div>'


_FAMILIES = (
    ("BabyAI-GoToLocal-v0", 3, "one room, seven cells in view"),
    ("BabyAI-GoTo-v0", 5, "nine rooms and doors"),
    ("SimpleDoorKey", 0, "a key and a locked door"),
    ("Crafter-Text-EatCow", 0, "Crafter: an open world"),
)
"""A world of each kind, the level that is drawn, and what is to be seen in it."""


def draw_families(folder: Path) -> list[Path]:
    """Write `worlds-families.png` and `.pdf` to a folder: a level of each kind of world; returns the two files."""
    with house_style():
        figure, axes = new_figure(9.0, 3.1, 1, len(_FAMILIES))
        for axis, (world, seed, words) in zip(axes[0], _FAMILIES, strict=True):
            picture, goal = first_picture(world, seed)
            axis.imshow(picture, interpolation="nearest")
            axis.grid(False)
            axis.set(xticks=[], yticks=[], title=f"{world.removesuffix('-v0')}\n{words}")
            axis.title.set_fontsize(8.5)
            axis.set_xlabel(goal, fontsize=8.5, style="italic")
            axis.spines[:].set_visible(False)
        return save(figure, folder, "worlds-families")


def first_picture(world: str, seed: int) -> tuple[np.ndarray, str]:
    """(picture uint8 [H, W, 3], goal) of the beginning of a level, drawn whole where it is of the grid engine."""
    if worlds.family_of(world).image.endswith("a picture"):
        observations, _ = worlds.make(world, 1, seed=seed).reset(seed=seed)
        return observations["image"][0], str(worlds.find(world).mission)
    env = worlds.GridEnv(world)
    observation, _ = env.reset(seed=seed)
    tile = min(_TILE, _WIDEST // env.grids.cells.shape[1])
    return render.level_picture(env.grids, tile=tile), observation["mission"]


def actions() -> Page:
    """What an agent can do."""
    rows = [(str(number), name, what) for number, (name, what) in enumerate(_ACTIONS)]
    return table(("index", "action", "what it does"), rows)


def listing(start: str = "") -> Page:
    """The worlds whose names begin so, with size, time limit and missions."""
    chosen = [world for name, world in worlds.WORLDS.items() if name.startswith(start) and "/" not in name]
    rows = [
        (each.name, f"{each.width} x {each.height}", str(each.max_steps), each.mission, each.summary) for each in chosen
    ]
    return table(("world", "cells", "steps", "mission", "what it is"), rows)


def speed(world: str, num_envs: int, seconds: float = 1.0) -> str:
    """Steps a second of a batch under random actions, on this machine now."""
    env = worlds.make(world, num_envs, seed=0)
    env.reset()
    plan = np.random.default_rng(0).integers(0, 7, (64, num_envs))
    env.step(plan[0])  # compiles
    steps, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        for row in plan:
            env.step(row)
        steps += plan.size
    return f"{world}, {num_envs} environments: {steps / passed:,.0f} steps a second on this machine now"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Page:
    """Rows of text under their headings."""
    style = ' style="text-align:left"'
    top = "".join(f"<th{style}>{html.escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td{style}>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    plain = "\n".join("  ".join(row) for row in [head, *rows])
    return Page(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>", plain)
