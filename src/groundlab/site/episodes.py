"""Episodes that play in the browser: those that others published, and each paper's agent beside bot, rule and chance.

    episodes.write(source, limit)      # episodes/*.md, and _static/episodes/: tiles and data

Data comes from seeds and actions: the engine plays every episode once more (papers/playback.py). What trained agents
did ships as recordings (assets/episodes/README.md); the others play here. assets/site/player.js shows all of them, on
pages with layouts of assets/site.
"""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from groundlab import assets
from groundlab.core.schema import parse_layouts
from groundlab.papers import episodes as players
from groundlab.papers import playback, recording, registry
from groundlab.papers.method import Request
from groundlab.papers.playback import Playback
from groundlab.papers.recording import Episode
from groundlab.papers.worlds.balrog_exhibits import KIND_NAMES, submission_name
from groundlab.papers.worlds.published import TRAIN, Episodes, load_episodes, observation_text
from groundlab.papers.worlds.reflex import ReflexPlayer
from groundlab.site import pages, sample
from groundlab.worlds.codes import ACTIONS

ASSETS = Path(assets.__file__).parent / "episodes"
LAYOUTS = "0-9"


@dataclass(frozen=True)
class Comparison:
    """The same ten layouts played by several agents: a page."""

    paper: str
    title: str
    text: str
    world: str
    recordings: dict[str, str]
    """Files of assets/episodes, and the words for readers about the agent of each."""
    plays: dict[str, str]
    """Methods that play when the site is made, and the words for readers; "rule" is the stated rule."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of those methods."""


_BESIDE = {"rule": "a stated rule", "bot": "minigrid's bot", "random": "random actions"}
COMPARISONS = (
    Comparison(
        "glam",
        "GLAM: a language model as the policy",
        "The agent reads what stands under *reads* inside a [prompt](../docs/papers/glam-method.md#env), and the "
        "bars are its probabilities of the six actions. Untuned is the same model before it has met the task.",
        "BabyAI-GoToLocalS8N4-v0",
        {"glam": "GLAM, tuned by PPO", "glam-untuned": "the same model, untuned"},
        _BESIDE,
    ),
    Comparison(
        "reasoning",
        "Reasoning: to think before acting",
        "Both agents are the same small chat model, tuned alike. One answers with an action, the other thinks first; "
        "what they said stands under *says*.",
        "Reasoning-GoTo-v0",
        {"reasoning": "thinks, then acts", "direct": "acts at once"},
        _BESIDE,
        {"num_dists": 0},
    ),
    Comparison(
        "mediator",
        "Mediator: when to ask the planner",
        "The picture is what the agent has seen so far. It decides whether to ask its planner now, and the bars say "
        "how likely that was; each question is shown with the plan that came back.",
        "ColoredDoorKey",
        {"mediator": "learned when to ask"},
        {"always": "asks at every step", "hard-coded": "asks when a plan is done", "random": "asks by chance"},
    ),
    Comparison(
        "knowledge",
        "Background knowledge: shaped rewards",
        "The first two agents are the same network after as many steps of PPO; one was also paid for progress that a "
        "program of written knowledge sees. They read the codes of the view, which the words under *reads* tell.",
        "BabyAI-Text-GoToLocal-RedBall-S10",
        {"knowledge": "shaped by knowledge", "knowledge-plain": "plain PPO"},
        _BESIDE,
    ),
)


def write(source: Path, limit: int | None) -> None:
    """Write the pages, the sheets of tiles, and the data."""
    static = source / "_static" / "episodes"
    static.mkdir(parents=True)
    for name in ("grid", "crafter"):
        Image.fromarray(playback.sheet(name)).quantize(128).save(static / f"{name}.png", optimize=True)
    _write_balrog(source, static, load_episodes(), limit)
    for comparison in COMPARISONS:
        _write_comparison(source, static, comparison)
    pages.write(source, "episodes/index", "episodes.md.j2", comparisons=COMPARISONS)


def _write_data(folder: Path, name: str, data: dict[str, Any]) -> None:
    """A script that hands data to the page: one opened from a disk may not fetch."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    start = "window.groundlabEpisodes = window.groundlabEpisodes || {};\nwindow.groundlabEpisodes"
    (folder / f"{name}.js").write_text(f"{start}[{json.dumps(name)}] = {text};\n", encoding="utf-8")


def balrog(published: Episodes, submission: int) -> dict[str, Any]:
    """The data of a submission; a text is to the letter what its model read."""
    playback = Playback(view=lambda sentence: observation_text([sentence]))
    for each in published.of(submission).tolist():
        playback.add(_published_episode(published, each), by=_model(published, submission))
    return playback.data()


def _published_episode(published: Episodes, number: int) -> Episode:
    actions = published.actions[published.steps(number)].tolist()
    return Episode.model_construct(  # its seeds are larger than those that a recording may have
        world=f"{TRAIN}/{published.kinds[published.kind[number]]}",
        layout=int(published.seed[number]),
        num_dists=int(published.num_dists[published.submission[number]]),
        actions=[ACTIONS[action] for action in actions],
        method="balrog",
        steps=len(actions),
        success=bool(published.success[number]),
    )


def _model(published: Episodes, submission: int) -> str:
    return submission_name(published.submissions[submission], int(published.num_dists[submission]))


def _write_balrog(source: Path, static: Path, published: Episodes, limit: int | None) -> None:
    """A row a submission, the best first: what it reached of each kind of task, a link to the first episode of each."""
    wins = [int(published.success[published.of(number)].sum()) for number in range(len(published.submissions))]
    choices, rows = [], []
    for number in sample(sorted(range(len(wins)), key=lambda number: -wins[number]), limit):
        name, label = published.submissions[number].replace("/", "-"), _model(published, number)
        _write_data(static, name, balrog(published, number))
        choices.append({"name": name, "label": label, "files": [name]})
        mine, cells = published.of(number), []
        for kind in range(len(published.kinds)):
            of_kind = np.flatnonzero(published.kind[mine] == kind)
            done = f"{int(published.success[mine[of_kind]].sum())}/{len(of_kind)}"
            cells.append((done, _address(name, int(of_kind[0]))))
        rows.append([label, *cells])
    pages.write(source, "episodes/balrog", "balrog.md.j2", choices=choices, kinds=KIND_NAMES, rows=rows, all=published)


def shipped(name: str, by: str) -> dict[str, Any]:
    """What `groundlab evaluate --record` left of an agent, in assets/episodes: the episodes of its sampled policy."""
    data = json.loads(gzip.decompress((ASSETS / f"{name}.json.gz").read_bytes()))
    return data | {"episodes": [each | {"by": by} for each in data["episodes"] if each["policy"] == "sampled"]}


def beside(comparison: Comparison) -> dict[str, Any]:
    """The same layouts played now."""
    playback, layouts = Playback(), parse_layouts(LAYOUTS)
    for method, by in comparison.plays.items():
        with recording.recorded() as kept:
            if method == "rule":
                player = ReflexPlayer(len(layouts))
                rows = players.play_layouts(comparison.world, layouts, player, **comparison.settings)
                results = [players.summary(method, rows)]
            else:
                spec = registry.resolve(method, comparison.world, 0, {"layouts": LAYOUTS, **comparison.settings})
                results = registry.evaluate(Request(method, spec.world, spec.seed, spec.settings))
        for episode in recording.by_policy(kept, results, method):
            playback.add(episode, by=by)
    return playback.data()


def _write_comparison(source: Path, static: Path, comparison: Comparison) -> None:
    """A row a layout: what each agent made of it."""
    files = [*comparison.recordings, f"{comparison.paper}-beside"]
    data = [*(shipped(*each) for each in comparison.recordings.items()), beside(comparison)]
    for name, each in zip(files, data, strict=True):
        _write_data(static, name, each)
    agents = [*comparison.recordings.values(), *comparison.plays.values()]
    ends: dict[str, dict[str, str]] = {}
    for episode in (episode for each in data for episode in each["episodes"]):
        end = f"{'done' if episode['success'] else 'not done'} in {len(episode['did'])}"
        ends.setdefault(f"{episode['layout']}: {episode['mission']}", {})[episode["by"]] = end
    rows = [
        [(layout, _address(comparison.paper, number)), *(mine[agent] for agent in agents)]
        for number, (layout, mine) in enumerate(ends.items())
    ]
    choices = [{"name": comparison.paper, "label": comparison.title, "files": files}]
    made = [each["made"] for each in data if each.get("made", {}).get("run")]
    values = {"choices": choices, "agents": agents, "rows": rows, "made": made, "layouts": LAYOUTS}
    pages.write(source, f"episodes/{comparison.paper}", "comparison.md.j2", comparison=comparison, **values)


def _address(choice: str, episode: int) -> str:
    """Of an episode in this page's player; it is a place on the page, too, where there are no scripts."""
    return f"choice={choice}&episode={episode}"
