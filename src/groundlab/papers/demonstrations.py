"""Episodes of an agent as training data: prompts, captions, images, actions, rewards, seeds.

    card = export(Path("out/bot"), play("BabyAI-GoToLocal-v0", range(1_000_000, 1_000_100), "bot"))

`steps.jsonl` holds one step per line (`pandas.read_json(..., lines=True)`), `card.json` the totals and the seeds. An
agent is asked for its actions alone. Each episode is then played again from its seed, in words and in pictures, so that
the episodes of all agents hold the same columns:

    episode, step           numbers from 0
    world, seed, agent      the world (with the kind of task where it mixes several), its reset seed, who acted
    mission                 what is to be done
    prompt, caption         what a language model reads before it acts, and the view alone in words
    image, direction        7 x 7 cells of type, colour and state; where the agent looks: 0 right, 1 down, 2 left, 3 up
    action, word            the action that followed, as number and as word
    reward, return          of the step, and from it to the end of the episode, undiscounted
    terminated, truncated   whether the step ended the episode, by its rules or by its time limit
    success                 whether the episode fulfilled its mission
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from groundlab import __version__, worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Checkpoint
from groundlab.papers import recording, registry
from groundlab.papers.method import Request
from groundlab.papers.protocols import PLAIN
from groundlab.worlds import GridEnv, TextEnv
from groundlab.worlds.codes import ACTIONS

AGENTS = {"bot": "bot", "random": "random", "reflex": "chat"}
"""The methods by which agents play that need no training."""
Steps = list[dict[str, Any]]


def play(
    world: str,
    layouts: range,
    agent: str = "bot",
    num_dists: int | None = None,
    seed: int = 0,
    checkpoint: Checkpoint | None = None,
) -> Iterator[Steps]:
    """Play each layout (a reset seed) once, in order; layout s of a mixed world is of kind s mod 5.

    agent: one of AGENTS, or the method of the checkpoint, which acts greedily where it can.
    Raises GroundlabError for an unknown agent, one that lacks its checkpoint, and a world without words or cells.
    """
    if getattr(worlds.find(world), "kinds", None) is None:
        raise GroundlabError(f"expected a world of cells, got {world}; export a BabyAI, Reasoning or MiniGrid world")
    TextEnv(world)  # refuses a world without words
    if checkpoint is None and agent not in AGENTS:
        if any(method.learns and method.name == agent for _, method in registry.methods()):
            raise GroundlabError(f"{agent} needs a trained agent; give --checkpoint FOLDER of a run")
        raise unknown_name("agent", agent, AGENTS)
    if checkpoint is not None and agent != checkpoint.spec.method:
        raise GroundlabError(f"the checkpoint is of {checkpoint.spec.method}; give --agent {checkpoint.spec.method}")
    for episode in _episodes(world, layouts, agent, num_dists, seed, checkpoint):
        actions = [ACTIONS.index(name) for name in episode.actions]
        yield replay(episode.world, episode.layout, actions, agent, num_dists)


def _episodes(
    world: str, layouts: range, agent: str, num_dists: int | None, seed: int, checkpoint: Checkpoint | None
) -> list[recording.Episode]:
    """Return an agent's recorded episodes, those of its greedy policy where it has several."""
    method, given = (checkpoint.spec.method, checkpoint.spec.settings) if checkpoint else (AGENTS[agent], {})
    known = registry.schema_of(registry.get(method, world)).model_fields
    own = {**PLAIN, "layouts": f"{layouts.start}-{layouts.stop - 1}", "num_dists": num_dists}
    given = {**given, **{name: value for name, value in own.items() if name in known}}
    settings = registry.resolve_settings(method, world, given)
    with recording.recorded() as kept:
        results = registry.evaluate(Request(method, world, seed, settings, checkpoint))
    best = next((each for each in results if each["policy"] == "greedy"), results[0])
    return sorted(recording.by_policy(kept, [best], method), key=lambda episode: episode.layout)


def replay(world: str, layout: int, actions: list[int], agent: str, num_dists: int | None = None) -> Steps:
    """Return the steps of the episode in which these actions are taken, one dict of the columns above per step."""
    text, grid = TextEnv(world, num_dists=num_dists), GridEnv(world, num_dists=num_dists)
    prompt, info = text.reset(seed=layout)
    view, _ = grid.reset(seed=layout)
    steps: Steps = []
    for action in actions:
        if action >= len(text.actions):
            raise GroundlabError(f"the agent took action {action} in {world}, which has no word; give it another agent")
        before = {"prompt": prompt, "caption": ", ".join(info["descriptions"]), "image": view["image"].tolist()}
        direction, word = int(view["direction"]), text.actions[action]
        prompt, reward, terminated, truncated, info = text.step(word)
        view, *_ = grid.step(action)
        after = {"reward": reward, "return": 0.0, "terminated": terminated, "truncated": truncated}
        steps.append({**before, "direction": direction, "action": action, "word": word, **after})
    returns = np.cumsum([step["reward"] for step in reversed(steps)])[::-1].tolist()
    about = {"world": world, "seed": layout, "agent": agent, "mission": str(info["mission"])}
    return [
        {"step": number, **about, **step, "return": rest, "success": bool(info["success"])}
        for number, (step, rest) in enumerate(zip(steps, returns, strict=True))
    ]


def check(folder: Path) -> None:
    """Raise GroundlabError for a folder that holds demonstrations, or that cannot be written."""
    if (folder / "card.json").exists():
        raise GroundlabError(f"{folder} holds demonstrations; delete it, or choose another with --out")
    storage.check_writable(folder)


def export(folder: Path, episodes: Iterable[Steps]) -> dict[str, Any]:
    """Write steps.jsonl and card.json, and return the card. Raises GroundlabError as `check`."""
    check(folder)
    played = list(episodes)
    lines = [
        json.dumps({"episode": number, **step}, ensure_ascii=False) + "\n"
        for number, steps in enumerate(played)
        for step in steps
    ]
    storage.write_atomic(folder / "steps.jsonl", "".join(lines))
    card = {
        "world": played[0][0]["world"].partition("/")[0] if len(played) > 1 else played[0][0]["world"],
        "agent": played[0][0]["agent"],
        "episodes": len(played),
        "steps": len(lines),
        "successes": sum(steps[0]["success"] for steps in played),
        "return": float(np.mean([steps[0]["return"] for steps in played])),
        "seeds": [steps[0]["seed"] for steps in played],
        "groundlab": __version__,
        "sha256": {"steps.jsonl": storage.digest_bytes((folder / "steps.jsonl").read_bytes())},
    }
    storage.write_json(folder / "card.json", card)
    return card
