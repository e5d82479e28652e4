"""Measure what is known of each world and write it to `assets/worlds.json`, which `groundlab.worlds.facts` reads.

    python tools/world_facts.py                     # all worlds: half an hour on one core
    python tools/world_facts.py SimpleDoorKey       # this one again; the others stay

Random actions play the layouts 0 to 999 (Crafter: 0 to 199), minigrid's bot 0 to 99, at the world's own time limit and
with its own objects. Where the published version of scale `full` holds the same, its numbers are taken instead, so that
a page and a claim never disagree; so is the best of BALROG's published agents, whose task is the mixed world.
"""

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from groundlab import assets, worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import repository_root
from groundlab.core.seeding import generator
from groundlab.core.versions import read_reference
from groundlab.papers import episodes
from groundlab.papers.worlds import balrog_exhibits, bot, exhibits
from groundlab.papers.worlds.random_agent import RandomPlayer
from groundlab.report import records
from groundlab.report.statistics import Estimate, success_of
from groundlab.worlds import render
from groundlab.worlds.crafter.rules import CrafterWorld
from groundlab.worlds.facts import Facts, Played, Submission, group_of

FILE = Path(assets.__file__).parent / "worlds.json"
LAYOUTS, LIVES, BOT_LAYOUTS, MISSIONS = 1000, 200, 100, 5
ACTIONS = 6  # of a grid world that chance draws from: all but "done", which does nothing
NO_MISSION = "no observation tells a mission: what is paid for is the task"
NO_WORDS = "no words of its own: BabyAI-Text describes a view, and this world shows what is remembered"
SILENT = "nothing is in view at the beginning of layout 0, so nothing is said"
NO_BOT = "minigrid's planner plans BabyAI's missions, and this world has none"
NOT_PUBLISHED = "BALROG's published episodes are of BabyAI-MixedTrainLocal-v0"


def measure(name: str) -> Facts:
    """Play a world and return its facts. Raises GroundlabError for an unknown one."""
    world, family = worlds.find(name), worlds.family_of(name)
    facts = {"name": name, "family": family.name, "summary": world.summary, "pattern": world.mission}
    facts |= {"width": world.width, "height": world.height, "actions": list(family.actions(world))}
    return Facts(**facts, **(_of_crafter(world) if isinstance(world, CrafterWorld) else _of_grid(world)))


def _of_grid(world: worlds.World) -> dict[str, Any]:
    family, (random, bots, best) = worlds.family_of(world.name), published()
    envs = episodes.make(world.name, range(LAYOUTS))
    observations, _ = envs.reset(seed=list(range(LAYOUTS)))
    limits, words = envs.grids.max_steps, family.describe(world, {"image": observations["image"][:1]})[0]
    chance, planned, submission = random.get(world.name), bots.get(world.name), best.get(world.name)
    if chance is None:
        player = RandomPlayer(ACTIONS, generator(0, "random actions"))
        chance = _played(episodes.play_layouts(world.name, range(LAYOUTS), player))
    if planned is None and family.name == "grid":
        planned = _played(bot.play(world.name, list(range(BOT_LAYOUTS))))
    missing = {
        "words": "" if words else SILENT if family.words_about else NO_WORDS,
        "bot": "" if planned else NO_BOT,
        "published": "" if submission else NOT_PUBLISHED,
    }
    return {
        "group": group_of(world),
        "missions": list(dict.fromkeys(observations["mission"]))[:MISSIONS],
        "words": words,
        "language": world.language if words else "",
        "level": render.level_text(envs.grids),
        "limits": (int(limits.min()), int(limits.max())),
        "reward": "1 - 0.9 * steps / time limit when the mission is done, else 0",
        "chance": chance,
        "bot": planned,
        "published": submission,
        "without": {name: why for name, why in missing.items() if why},
    }


def _of_crafter(world: CrafterWorld) -> dict[str, Any]:
    family = worlds.family_of(world.name)
    observations, _ = worlds.make(world.name, 1).reset(seed=0)
    reward = "1 in a step with a new one of 22 achievements, and a tenth of the change in health"
    if len(world.tasks) == 1:
        reward = f"1, once, for the achievement {world.tasks[0]}"
    return {
        "group": family.title,
        "missions": [],
        "words": family.describe(world, observations)[0],
        "language": "english",
        "level": "",
        "limits": (world.max_steps, world.max_steps),
        "reward": reward,
        "chance": _played(_lives(world)),
        "without": {"missions": NO_MISSION, "bot": NO_BOT, "published": NOT_PUBLISHED},
    }


def _lives(world: CrafterWorld) -> list[dict[str, Any]]:
    """Random actions in Crafter, each life to its end: rows as `episodes.play_layouts` gives them."""
    env = worlds.make(world.name, LIVES, autoreset="disabled", success="terminated")
    env.reset(seed=0)  # environment i has the seed i
    rng, running = generator(0, "random actions"), np.ones(LIVES, np.bool_)
    steps, total, done = np.zeros(LIVES, np.int64), np.zeros(LIVES), np.zeros(LIVES, np.bool_)
    while running.any():
        steps += running
        _, rewards, terminated, truncated, info = env.step(rng.integers(0, len(world.actions), LIVES))
        total += rewards
        done |= info["done"]
        running &= ~(terminated | truncated)
    return [{"layout": env, "steps": steps[env], "success": done[env], "return": total[env]} for env in range(LIVES)]


def _played(rows: Sequence[dict[str, Any]]) -> Played:
    return Played(
        **_percent(success_of(rows)),
        steps=round(float(np.mean([row["steps"] for row in rows])), 2),
        returns=round(float(np.mean([row["return"] for row in rows])), 4),
        episodes=len(rows),
        layouts=f"{rows[0]['layout']}-{rows[-1]['layout']}",
        no_plan=sum(row.get("no_plan", False) for row in rows),
    )


def _percent(success: Estimate) -> dict[str, Any]:
    return {"success": round(success.value, 2), "low": round(success.low, 2), "high": round(success.high, 2)}


@cache
def published() -> tuple[dict[str, Played], dict[str, Played], dict[str, Submission]]:
    """(random actions, the bot, BALROG's best submissions), by world, in the published version of scale `full`."""
    version = read_reference(repository_root() / "results")["worlds"]["full"]
    stored = records.load(repository_root() / "results" / version, "worlds")
    played: list[dict[str, Played]] = []
    for agent in ("random", "bot"):
        rows = [row for row in exhibits.rows_of(stored, agent) if row.selector.policy == agent]  # each layout once
        names = ["/".join(filter(None, (row.selector.world, row.selector.kind))) for row in rows]
        played.append({name: _stored(row, version) for name, row in zip(names, rows, strict=True)})
    return played[0], played[1], _best(balrog_exhibits.agents(stored), version)


def _stored(row: exhibits.Row, version: str) -> Played:
    layouts = np.unique(row.episodes["layout"].to_numpy(dtype=int))
    return Played(
        **_percent(row.success),
        steps=round(row.mean("steps"), 2),
        returns=round(row.mean("return"), 4),
        episodes=len(row.episodes),
        layouts=f"{layouts[0]}-{layouts[-1]}" + (f", one of {layouts[1] - layouts[0]}" if row.selector.kind else ""),
        seeds=len(set(row.episodes["seed"])),
        source=version,
    )


def _best(agents: list[balrog_exhibits.Agent], version: str) -> dict[str, Submission]:
    """The submission with most success on the mixed world, and on each of its kinds; of equals the best in all."""
    rivals = [agent for agent in agents if agent.group and set(agent.rows["num_dists"]) == {0}]
    best = {}
    for kind in (None, *balrog_exhibits.KINDS):
        scores = [agent.success(kind).value for agent in rivals]
        first = rivals[int(np.argmax(scores))]
        best[f"{balrog_exhibits.WORLD}/{kind}" if kind else balrog_exhibits.WORLD] = Submission(
            agent=first.name,
            **_percent(first.success(kind)),
            episodes=first.total("episodes", kind),
            num_dists=0,
            equals=scores.count(max(scores)) - 1,
            source=version,
        )
    return best


def main() -> None:
    """Measure worlds, by default all, and put each into the file; the file's other worlds stay."""
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in sys.argv[1:] or worlds.names():
        print(name, flush=True)
        stored[name] = measure(name).model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
        storage.write_json(FILE, {each: stored[each] for each in worlds.names() if each in stored})


if __name__ == "__main__":
    try:
        main()
    except GroundlabError as error:
        sys.exit(str(error))
