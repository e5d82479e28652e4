"""Measures what the page of a world says, and keeps it in `assets/worlds.json`, which `groundlab.worlds.facts` reads.

    python -m groundlab.pages.world_facts                     # all worlds: half an hour on one core
    python -m groundlab.pages.world_facts SimpleDoorKey       # this one anew; the others stay

Chance is measured on the layouts 0 to 999 (Crafter: 0 to 199), minigrid's bot on 0 to 99, at the world's own time limit
and with its own objects. Where the published version of scale `full` holds the same, its numbers are taken instead, so
that a page and a claim never disagree; so is the best of BALROG's published agents, whose task is the mixed world.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from groundlab import assets, worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import read_reference
from groundlab.core.paths import repository_root
from groundlab.core.seeding import generator
from groundlab.papers import episodes
from groundlab.papers.worlds import balrog_exhibits, bot, exhibits
from groundlab.papers.worlds.random_agent import RandomPlayer
from groundlab.report import records
from groundlab.report.statistics import Estimate, success_of
from groundlab.worlds import render
from groundlab.worlds.crafter.rules import CrafterWorld
from groundlab.worlds.facts import Facts, Played, Submission, group_of

FILE = Path(assets.__file__).parent / "worlds.json"
LAYOUTS, LIVES, BOT_LAYOUTS = 1000, 200, 100
_MISSIONS = 5  # examples on a page
_ACTIONS = 6  # of a grid world that chance draws from: all but "done", which does nothing
_REWARD = "1 - 0.9 * steps / time limit when the mission is done, else 0"
_TASK = "1, once, for the achievement {}"
_HEALTH = "1 in a step with a new one of 22 achievements, and a tenth of the change in health"
_NO_MISSION = "no observation tells a mission: what is paid for is the task"
_NO_WORDS = "no words of its own: BabyAI-Text describes a view, and this world shows what is remembered"
_SILENT = "nothing is in view at the beginning of layout 0, so nothing is said"
_NO_BOT = "minigrid's planner plans BabyAI's missions, and this world has none"
_NOT_PUBLISHED = "BALROG's published episodes are of BabyAI-MixedTrainLocal-v0"


@dataclass(frozen=True)
class Published:
    """What a published version holds of random actions, the bot and BALROG's submissions, by world."""

    random: dict[str, Played]
    bot: dict[str, Played]
    best: dict[str, Submission]


def measure(name: str) -> Facts:
    """Play a world and say what was found. Raises GroundlabError for an unknown one."""
    world, family = worlds.find(name), worlds.family_of(name)
    common = {"name": name, "family": family.name, "summary": world.summary, "pattern": world.mission}
    common |= {"width": world.width, "height": world.height, "actions": list(family.actions(world))}
    return Facts(**common, **(_of_crafter(world) if isinstance(world, CrafterWorld) else _of_grid(world)))


def _of_grid(world: worlds.World) -> dict[str, Any]:
    family, known = worlds.family_of(world.name), published()
    envs = episodes.make(world.name, range(LAYOUTS))
    observations, _ = envs.reset(seed=list(range(LAYOUTS)))
    image, limits = observations["image"], envs.grids.max_steps
    words = family.describe(world, {"image": image[:1]})[0]
    chance, planned = known.random.get(world.name), known.bot.get(world.name)
    if chance is None:
        player = RandomPlayer(_ACTIONS, generator(0, "random actions"))
        chance = _played(episodes.play_layouts(world.name, range(LAYOUTS), player))
    if planned is None and family.name == "grid":
        planned = _played(bot.play(world.name, list(range(BOT_LAYOUTS))))
    best = known.best.get(world.name)
    missing = {
        "words": "" if words else _SILENT if family.words_about else _NO_WORDS,
        "bot": "" if planned else _NO_BOT,
    }
    return {
        "group": group_of(world),
        "missions": list(dict.fromkeys(observations["mission"]))[:_MISSIONS],
        "words": words,
        "language": world.language if words else "",
        "level": render.level_text(envs.grids),
        "limits": (int(limits.min()), int(limits.max())),
        "reward": _REWARD,
        "chance": chance,
        "bot": planned,
        "published": best,
        "without": {key: why for key, why in missing.items() if why} | ({} if best else {"published": _NOT_PUBLISHED}),
    }


def _of_crafter(world: CrafterWorld) -> dict[str, Any]:
    family = worlds.family_of(world.name)
    observations, _ = worlds.make(world.name, 1).reset(seed=0)
    paid = world.tasks[0] if len(world.tasks) == 1 else ""
    return {
        "group": family.title,
        "missions": [],
        "words": family.describe(world, observations)[0],
        "language": "english",
        "level": "",
        "limits": (world.max_steps, world.max_steps),
        "reward": _TASK.format(paid) if paid else _HEALTH,
        "chance": _played(_lives(world)),
        "bot": None,
        "published": None,
        "without": {"missions": _NO_MISSION, "bot": _NO_BOT, "published": _NOT_PUBLISHED},
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
def published() -> Published:
    """What the published version of scale `full` holds of the worlds."""
    results = repository_root() / "results"
    version = read_reference(results)["worlds"]["full"]
    mine = records.load(results / version, "worlds")
    played: dict[str, dict[str, Played]] = {"random": {}, "bot": {}}
    for agent, found in played.items():
        for row in exhibits.rows_of(mine, agent):
            if row.selector.policy == agent:  # every layout counts once
                name = f"{row.selector.world}/{row.selector.kind}" if row.selector.kind else row.selector.world
                found[name] = _stored(row, version)
    return Published(**played, best=_best(balrog_exhibits.agents(mine), version))


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


def write(names: Sequence[str], file: Path = FILE) -> None:
    """Measure worlds and put them into the file, one after another; what it holds of others stays."""
    kept = json.loads(file.read_text()) if file.exists() else {}
    for number, name in enumerate(names, 1):
        print(f"{number} of {len(names)}: {name}", flush=True)
        kept[name] = measure(name).model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
        storage.write_json(file, {each: kept[each] for each in worlds.names() if each in kept})


def main() -> None:
    """The command of the docstring above; what a person can mend is one line."""
    try:
        write(sys.argv[1:] or worlds.names())
    except GroundlabError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
