"""What is known of each world: mission, words, time limit, chance, minigrid's bot, the best published agent.

    from groundlab.worlds import facts
    facts.of("BabyAI-GoToLocal-v0").chance.success     # percent of the episodes
    [each.name for each in facts.every() if each.bot is None]

They were measured once and are stored in `assets/worlds.json` (`tools/world_facts.py`), so nothing is compiled
or played here. `groundlab worlds NAME` prints them, and `nox -s site` draws a page of each.
"""

import json
from functools import cache

from groundlab import assets
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict, parse
from groundlab.worlds.family import find, names
from groundlab.worlds.registry import ALIASES, WORLDS, World
from groundlab.worlds.rules import ROOM_GRID

FILE = "worlds.json"
"""The name of the file among the assets."""
GROUPS = DOOR_KEY, BABYAI, REASONING, KNOWLEDGE, OTHER_BABYAI, MINIGRID, OTHER_PACKAGES = (
    "door-key worlds (mediator)",
    "BabyAI and BabyAI-Text (GLAM)",
    "levels of the reasoning paper",
    "levels of the knowledge paper",
    "BabyAI's other levels",
    "MiniGrid's rooms and doors",
    "worlds of other packages",
)
"""What lists of the grid engine's worlds are divided by."""


class Played(Strict):
    """The episodes of one agent in one world."""

    success: float
    """Percent of the episodes that end with the mission done, or with all that is paid for."""
    low: float
    high: float
    """The ends of its 95 % interval over layouts."""
    steps: float
    returns: float
    """Their means; the return is undiscounted."""
    episodes: int
    layouts: str
    """The reset seeds, "first-last"."""
    seeds: int = 1
    """How often each layout was played, with other random actions."""
    no_plan: int = 0
    """Episodes in which minigrid's planner had no plan: they count as failures."""
    source: str = ""
    """The published version that these numbers are of; empty where they were measured for this file."""


class Submission(Strict):
    """The best published agent on a world's task: a submission to BALROG's leaderboard."""

    agent: str
    success: float
    low: float
    high: float
    episodes: int
    num_dists: int
    """Objects besides the mission's own."""
    equals: int = 0
    """How many other submissions have the same success."""
    source: str
    """The published version in which its episodes were played again."""


class Facts(Strict):
    """One world. What it does not have is None or empty, and `without` says why."""

    name: str
    group: str
    """The heading of lists that it stands under: one of GROUPS, or the title of its family."""
    family: str
    summary: str
    pattern: str
    """Its missions: C is a colour, T a type, X and Y are objects."""
    missions: list[str]
    """The first different missions of the layouts 0, 1, 2, ..."""
    words: list[str]
    """What is said of the first observation of layout 0, in `language`."""
    language: str
    level: str
    """Layout 0 in characters (`GridFamily.legend`); empty for Crafter."""
    width: int
    height: int
    limits: tuple[int, int]
    """The shortest and the longest time limit in steps: it may depend on the kind of task and on the mission."""
    actions: list[str]
    reward: str
    chance: Played
    """Uniformly random actions: the first six, without "done", or all of Crafter's."""
    bot: Played | None = None
    published: Submission | None = None
    without: dict[str, str]
    """Why it has no "missions", "words", "bot" or "published"."""

    @property
    def line(self) -> str:
        """The line of Python that makes it."""
        return f'worlds.make("{self.name}", num_envs=64, seed=0)'


@cache
def stored() -> dict[str, Facts]:
    """All that the file holds, by name. Raises GroundlabError for a file that was changed by hand and is wrong."""
    rows = json.loads(assets.read_text(FILE))
    return {name: parse(Facts, {"name": name, **row}, f"{FILE}, {name}") for name, row in rows.items()}


def of(name: str) -> Facts:
    """The facts of a world. Raises GroundlabError for an unknown one, and for one of another package."""
    name = ALIASES.get(name, name)
    find(name)
    if name not in stored():
        raise GroundlabError(
            f"nothing was measured of {name}, a world of another package; see it: groundlab play {name}"
        )
    return stored()[name]


def every() -> list[Facts]:
    """The facts of all worlds that ship, in the order of `groundlab worlds`."""
    return [stored()[name] for name in names() if name in stored()]


def group_of(world: World) -> str:
    """The heading of GROUPS that a world of the grid engine is listed under."""
    if world.name not in WORLDS:
        return OTHER_PACKAGES
    babyai = OTHER_BABYAI if world.levels[0].family == ROOM_GRID else BABYAI
    prefixes = {"BabyAI-Text-": KNOWLEDGE, "BabyAI-": babyai, "Reasoning-": REASONING, "MiniGrid-": MINIGRID}
    return next((group for prefix, group in prefixes.items() if world.name.startswith(prefix)), DOOR_KEY)


def lines(world: Facts) -> list[tuple[str, list[str]]]:
    """Return the facts of a world as headings with their lines."""
    return [
        ("what it is", [f"{world.summary}; {world.width} x {world.height} cells; {world.group}"]),
        ("mission", world.missions or [_without(world, "missions")]),
        ("words", world.words or [_without(world, "words")]),
        ("actions", [", ".join(f"{number} {name}" for number, name in enumerate(world.actions))]),
        ("time limit", [" to ".join(f"{limit:,}" for limit in dict.fromkeys(world.limits)) + " steps"]),
        ("reward", [world.reward]),
        ("chance", [_played(world.chance)]),
        ("bot", [_played(world.bot) if world.bot else _without(world, "bot")]),
        ("best published agent", [_submission(world.published) if world.published else _without(world, "published")]),
        ("made by", [world.line]),
    ]


def _without(world: Facts, what: str) -> str:
    return f"none: {world.without[what]}"


def _played(agent: Played) -> str:
    plan = f"; no plan in {agent.no_plan} of them, which count as failures" if agent.no_plan else ""
    seeds = f", {agent.seeds} seeds" if agent.seeds > 1 else ""
    source = f"; {agent.source}" if agent.source else ""
    return (
        f"{_success(agent)}, {agent.steps:.1f} steps, return {agent.returns:.3f} "
        f"({agent.episodes:,} episodes: layouts {agent.layouts}{seeds}{plan}{source})"
    )


def _submission(best: Submission) -> str:
    equals = f"; {best.equals} others have the same" if best.equals else ""
    return (
        f"{best.agent}, {_success(best)} ({best.episodes} episodes of BALROG with {best.num_dists} distractors, "
        f"played again here{equals}; {best.source})"
    )


def _success(agent: Played | Submission) -> str:
    return f"{agent.success:.1f} % [{agent.low:.1f}, {agent.high:.1f}]"
