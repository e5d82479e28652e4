"""Agents that answer in words on a fixed list of layouts, each to its end; or on whichever episodes finish first.

    results = examine(speaker, "Reasoning-GoTo-v0", thinks=True, settings=settings, seed=0)

A row tells success, return (the environment's reward, without penalties), steps of the environment, length (replies,
those that were invalid included) and invalid. A layout's replies are drawn from its own generator, so its row does not
depend on which others are played. "first-finished" counts as the original did (quirk Q9): short episodes come first.
Source: spec reasoning-agents 5. Called from: `learner.py`, `zero_shot.py`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from groundlab import worlds
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.papers.episodes import FIRST_FINISHED, summary
from groundlab.papers.reasoning.rollouts import Speaks
from groundlab.papers.reasoning.settings import TalkingSettings
from groundlab.papers.reasoning.text_env import Row, TextEnv
from groundlab.worlds import GridVectorEnv

WORLDS = tuple(name for name in worlds.WORLDS if name.startswith("Reasoning-"))
SAMPLED = "sampled"


def open_talks(world: str, count: int, thinks: bool, settings: TalkingSettings) -> TextEnv:
    """Conversations in `count` environments that restart when they are told to."""
    envs = GridVectorEnv(
        worlds.find(world), count, autoreset="disabled", kinds="per-episode", num_dists=settings.num_dists
    )
    return TextEnv(envs, thinks, settings)


def examine(speaker: Speaks, world: str, thinks: bool, settings: TalkingSettings, seed: int) -> list[dict[str, Any]]:
    """[{"policy", "mean", "rows"}, ...]: the layouts of the settings there, and whatever else they ask for.

    Policies are "sampled", "first-finished", and the names of the other worlds of `settings.tests`.
    """
    if settings.fidelity.shown_in_evaluation:
        settings = settings.model_copy(update={"hide_invalid": False})
    speaker.forget()
    layouts = parse_layouts(settings.layouts)
    plain = settings.model_copy(update={"transcripts": 0})
    results = [told(SAMPLED, play_layouts(speaker, world, layouts, thinks, settings, seed))]
    results += [told(test, play_layouts(speaker, test, layouts, thinks, plain, seed)) for test in settings.tests]
    if settings.first_finished:
        results.append(told(FIRST_FINISHED, play_first_finished(speaker, world, thinks, settings, seed)))
    return results


def told(policy: str, rows: list[Row]) -> dict[str, Any]:
    """An evaluation of these rows."""
    result = summary(policy, rows)
    result["mean"] |= {name: float(np.mean([row[name] for row in rows])) for name in ("length", "invalid")}
    return result


def play_layouts(
    speaker: Speaks, world: str, layouts: Sequence[int], thinks: bool, settings: TalkingSettings, seed: int
) -> list[Row]:
    """Play each layout (a reset seed) once, to its end; rows in the order of the layouts."""
    talks = open_talks(world, len(layouts), thinks, settings)
    rngs = [generator(seed, "evaluation", layout) for layout in layouts]
    active = list(range(len(layouts)))
    talks.start(active, list(layouts))
    rows: list[Row] = [{} for _ in layouts]
    scripts = {env: {"mission": talks.goal(env), "told": []} for env in active[: settings.transcripts]}
    while active:
        numbers = np.stack([rngs[env].random(settings.max_new_tokens) for env in active])
        ended = _round(speaker, talks, active, numbers, scripts)
        for env, row in ended.items():
            rows[env] = {"layout": layouts[env], **row, **scripts.get(env, {})}
        active = [env for env in active if env not in ended]
    return rows


def play_first_finished(speaker: Speaks, world: str, thinks: bool, settings: TalkingSettings, seed: int) -> list[Row]:
    """The first `first_finished` episodes that end among `num_envs` environments, which restart by themselves."""
    talks, rng = open_talks(world, settings.num_envs, thinks, settings), generator(seed, "evaluation", FIRST_FINISHED)
    everyone = list(range(settings.num_envs))
    talks.start(everyone, everyone)
    rows: list[Row] = []
    while len(rows) < settings.first_finished:
        ended = _round(speaker, talks, everyone, rng.random((len(everyone), settings.max_new_tokens)))
        rows += [{"layout": env, **row} for env, row in ended.items()]
        if ended:
            talks.start(list(ended))
    return rows[: settings.first_finished]


def _round(
    speaker: Speaks,
    talks: TextEnv,
    envs: list[int],
    numbers: np.ndarray,
    scripts: Mapping[int, dict[str, Any]] = MappingProxyType({}),
) -> dict[int, Row]:
    """One reply in each of these environments, written into their scripts; the episodes that are over."""
    read = [talks.messages(env) for env in envs]
    replies = speaker.reply([speaker.prompt(messages) for messages in read], numbers)
    outcomes = talks.act(envs, [reply.text for reply in replies])
    for env, messages, reply, outcome in zip(envs, read, replies, outcomes, strict=True):
        if env in scripts:
            said = {"seen": messages[-1]["content"], "said": reply.text, "valid": outcome.valid}
            scripts[env]["told"].append(said)
    return {env: outcome.row for env, outcome in zip(envs, outcomes, strict=True) if outcome.row is not None}
