"""Recorded episodes as a page plays them: what is shown, read, said and done at every step, without the engine.

    playback = Playback()
    playback.add(episode)                        # of recording.py: the engine plays it once more
    storage.write_json(file, playback.data())    # what assets/site/player.js reads

A state is a grid of tiles, row by row; a tile is a number in its family's `sheet`. An episode is its first grid and,
for each step, the cells that changed: [cell, tile, cell, tile, ...]. Texts repeat, so they stand in tables, each once:

    sentences, texts    a text is a list of sentences
    lights              the cells in view, a bit each, as hexadecimal digits; "" where a world shows no light
    words               names of actions, and of what is carried
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count, product
from typing import TYPE_CHECKING, Any

import numpy as np

from groundlab.core.errors import GroundlabError
from groundlab.papers import recording
from groundlab.papers.recording import Episode
from groundlab.papers.stage import Stage
from groundlab.worlds import codes, family_of, render
from groundlab.worlds.text_env.prompts import text_actions
from groundlab.worlds.view import NOT_HERE

if TYPE_CHECKING:
    from groundlab.papers.watching import Watched  # which loads torch

FAMILIES = ("grid", "door-key", "crafter")
"""Those whose pictures are made of tiles."""
FORMAT = 1
"""Of the data; a player refuses any other."""
TILE = 48  # pixels of a tile of grid worlds
GRID_TILES = (
    *((codes.AGENT, codes.RED, heading) for heading in range(len(codes.HEADINGS))),
    *((codes.UNSEEN, 0, 0), (codes.EMPTY, 0, 0), (codes.WALL, codes.GREY, 0)),
    *((codes.GOAL, codes.GREEN, 0), (codes.LAVA, codes.RED, 0)),
    *product((codes.KEY, codes.BALL, codes.BOX, codes.FLOOR), range(len(codes.COLOURS)), (0,)),
    *product((codes.DOOR,), range(len(codes.COLOURS)), range(len(codes.DOOR_STATES))),
)
"""(type, colour, state) of each tile of grid worlds; the first four are the agent by heading."""
WORDS: dict[str, str] = dict(zip(codes.ACTIONS, text_actions(6), strict=False))
"""What actions of grid worlds are called, by their names in the engine."""


class Playback:
    """Episodes of one family of worlds, and the tables that they share.

    view: how a sentence is written, where agents read it otherwise than BabyAI-Text has it.
    """

    def __init__(self, view: Callable[[str], str] = str):
        self._view = view
        # things by number, each once, in the order of their first use
        tables = (defaultdict[Any, int](count().__next__) for _ in range(4))
        self._sentences, self._texts, self._lights, self._words = tables
        self._episodes: list[dict[str, Any]] = []
        self._sheet = ""

    def add(self, episode: Episode, by: str = "", agent: "Watched | None" = None) -> None:
        """Play an episode once more and keep what a page shows of it.

        by: who played it, for readers; agent: the one that played it, to tell how likely its choices were.
        Raises GroundlabError as `recording.replay`, and for an agent that would have acted otherwise.
        """
        steps: dict[str, list[Any]] = {name: [] for name in ("changes", "read", "lit", "hand", "did", "shares")}
        before, stage = np.zeros(0, np.int64), None
        for stage, action, reply in recording.replay(episode):
            shown = tiles(stage)
            if not len(before):
                start, size = shown.ravel().tolist(), shown.shape[::-1]
            else:
                changed = np.flatnonzero(shown.ravel() != before)
                steps["changes"].append(np.stack([changed, shown.ravel()[changed]], axis=1).ravel().tolist())
            before = shown.ravel()
            sentences = tuple(self._sentences[self._view(sentence)] for sentence in stage.sentences)
            steps["read"].append(self._texts[sentences])
            is_level = stage.family.name == "grid"  # whose cells that the agent sees are lit, row by row
            lit = np.packbits(render.lit_cells(stage.env.grids).T).tobytes().hex() if is_level else ""
            steps["lit"].append(self._lights[lit])
            steps["hand"].append(self._words[_hand(stage)])
            if action:
                steps["did"].append(self._words[WORDS.get(action, action)])
                if agent is not None:
                    steps["shares"].append(_shares(agent, stage, action, reply))
        assert stage is not None
        self._sheet = "crafter" if stage.family.name == "crafter" else "grid"
        self._episodes.append(
            {
                **episode.model_dump(include={"world", "layout", "method", "policy", "success"}),
                "by": by or f"{episode.method} ({episode.policy})",
                "mission": stage.mission,
                "limit": stage.limit,
                "outcome": stage.outcome,
                "size": size,
                "start": start,
                **steps,
                "said": episode.replies,
                "captions": episode.captions,
                "prompt": episode.prompt,
                "decisions": list(agent.decisions) if agent else [],
            }
        )

    def data(self, **facts: Any) -> dict[str, Any]:
        """What a page needs to play them, with further facts: how they were made."""
        tables = {"sentences": self._sentences, "texts": self._texts, "lights": self._lights, "words": self._words}
        return {
            "format": FORMAT,
            "sheet": self._sheet,
            **facts,
            **{name: list(table) for name, table in tables.items()},
            "episodes": self._episodes,
        }


@cache
def _numbers() -> np.ndarray:
    """int64 [types, colours, states]: the tile of a cell."""
    numbers = np.full((len(codes.TYPES), len(codes.COLOURS), 4), GRID_TILES.index((codes.EMPTY, 0, 0)))
    for number, code in enumerate(GRID_TILES):
        numbers[code] = number
    return numbers


def tiles(stage: Stage) -> np.ndarray:
    """int64 [rows, columns]: a whole level, what was seen of a room, or what Crafter's player sees, by tiles."""
    if stage.family.name == "crafter":
        return _crafter_tiles(stage.observation["codes"])
    grids = stage.env.grids
    (width, height), (x, y, heading) = grids.sizes[0], grids.agents[0]
    cells = grids.cells[0, :width, :height] if stage.family.name == "grid" else stage.observation["image"]
    numbers = _numbers()[cells[..., 0], cells[..., 1], cells[..., 2]]
    numbers[x, y] = heading
    return numbers.T


def _crafter_tiles(view: np.ndarray) -> np.ndarray:
    """The cells of a view in codes, the player by where it faces."""
    from groundlab.worlds.crafter import rules  # here, as Crafter's own package loads with its view
    from groundlab.worlds.crafter.view import ASLEEP, FACING_X, FACING_Y, VIEW_CELLS

    numbers = view[:VIEW_CELLS].astype(np.int64).reshape(rules.VIEW_WIDTH, rules.VIEW_HEIGHT)
    x, y = view[FACING_X], view[FACING_Y]
    way = 4 if view[ASLEEP] else 0 if x < 1 else 1 if x > 1 else 2 if y < 1 else 3
    numbers[rules.VIEW_WIDTH // 2, rules.VIEW_HEIGHT // 2] = len(rules.NAMES) + way
    return numbers.T


def _hand(stage: Stage) -> str:
    """What is carried, in words."""
    if not stage.is_grid:
        return ""
    kind, colour = stage.env.grids.carried[0, :2].tolist()
    return f"{codes.COLOURS[colour]} {codes.TYPES[kind]}" if kind else ""


def _shares(agent: "Watched", stage: Stage, action: str, reply: str) -> list[int]:
    """How likely each decision was, in thousandths; the agent goes on with what was recorded."""
    if stage.steps:
        agent.observe(stage)
    else:
        agent.start(stage)
    probabilities, _ = agent.decide(stage)
    number = stage.actions.index(action)
    choice = agent.choice_of(number) if agent.moves else int(bool(reply))  # an asking agent's replies are its plans
    if choice is None or agent.act(choice) != number:
        raise GroundlabError(f"step {stage.steps} of layout {stage.layout} is not this agent's; give its own folder")
    return [round(1000 * float(share)) for share in probabilities]


def sheet(name: str) -> np.ndarray:
    """uint8 [tile, n * tile, 3]: the n tiles of "grid" or "crafter" side by side, drawn as worlds draw them."""
    if name == "crafter":
        return _crafter_sheet()
    image = np.zeros((len(GRID_TILES), 3, 4), np.uint8)  # no grid of minigrid is narrower
    image[:, 0, :3], image[:, :, 3] = GRID_TILES, NOT_HERE
    pictures = []
    for heading in range(len(codes.HEADINGS)):
        alone = image.copy()
        alone[0, 0, 3] = heading
        pictures.append(render.as_picture(alone, TILE)[:TILE])
    agents = [picture[:, :TILE] for picture in pictures]
    return np.concatenate([*agents, pictures[0][:, len(agents) * TILE :]], axis=1)


def _crafter_sheet() -> np.ndarray:
    """Materials, then creatures on the ground that they live on, then the player by where it faces, and asleep."""
    from groundlab.worlds.crafter import rules
    from groundlab.worlds.crafter.view import drawings

    all_tiles = drawings().tiles
    layers = len(all_tiles) // (len(rules.MATERIALS) + 1)
    above = {rules.COW: 6, rules.ZOMBIE: 7, rules.SKELETON: 8, rules.ARROW: 11, rules.PLANT: 13, rules.PLAYER: 4}
    ground = {rules.SKELETON: rules.PATH, rules.ARROW: rules.PATH}
    chosen = [
        ground.get(code, rules.GRASS) * layers + above[code] if code in above else code * layers
        for code in range(len(rules.NAMES))
    ]
    chosen += [rules.GRASS * layers + way for way in range(1, 6)]
    return np.concatenate([all_tiles[number].transpose(1, 0, 2) for number in chosen], axis=1)


def of(episodes: Sequence[Episode], agent: "Watched | None" = None, **facts: Any) -> dict[str, Any]:
    """The data of recorded episodes; agent: the one that played them, to say how likely its choices were.

    It says so where it was tested as it was trained: other tests change its words. Worlds of other games are left out.
    """
    playback = Playback()
    for episode in sorted(episodes, key=lambda each: each.layout):
        if family_of(episode.world).name in FAMILIES:
            as_trained = episode.policy in ("sampled", "greedy", "argmax")
            playback.add(episode, agent=agent if as_trained else None)
    return playback.data(**facts)
