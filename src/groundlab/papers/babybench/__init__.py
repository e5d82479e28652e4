"""LLM-BabyBench's three tasks for language models, the bot and chance (Malek, Choukrani et al., arXiv 2505.12135).

    groundlab evaluate chat --protocol babybench-plan --set maker=openai --model NAME --ledger out/ledger.jsonl
    outcome = play("plan", "bot", layouts="0-9")      # in Python; `protocols.play` calls it

predict     the level and the bot's actions are told, the end state is asked: right to the last digit, or wrong
plan        actions are asked, and played: success, and the bot's length over theirs (`efficiency`)
decompose   subgoals are asked, and the bot follows them. It may add what is missing: success is then the benchmark's
            comprehension rate, `precision` that it added nothing, `assistance` its curve's integral (below)

One question a layout, one reply, no examples. A reply that cannot be read is wrong, and counted by what it lacks. What
is as published and what is not: docs/papers/worlds-method.md#babybench.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.schema import parse, parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.chat.factory import chat_model
from groundlab.papers import recording
from groundlab.papers.babybench import questions
from groundlab.papers.babybench.answerers import RULE, by_bot, by_chance
from groundlab.papers.babybench.follower import Follower
from groundlab.papers.babybench.questions import Question
from groundlab.papers.worlds.settings import ChatAgentSettings
from groundlab.report.statistics import bounds_of, mean_interval, success_of
from groundlab.worlds.codes import ACTIONS

_LEVELS = (
    *("GoToObj", "GoToRedBallGrey", "GoToRedBall", "GoToLocal", "PutNextLocal", "PickupLoc", "GoToObjMaze", "GoTo"),
    *("Pickup", "UnblockPickup", "Open", "Synth", "SynthLoc", "GoToSeq", "SynthSeq", "BossLevel"),
)
LEVELS = tuple(f"BabyAI-{level}-v0" for level in _LEVELS)
"""The levels of predict and decompose (generate_predict.py, generate_decompose.py), in the benchmark's order."""
LAYOUTS = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)
"""Its seeds: the first twenty primes (create_yamls.py)."""
WORLDS = {"predict": LEVELS, "plan": ("BabyAI-GoToRedBallGrey-v0",), "decompose": LEVELS}
"""By task. Of plan's sixteen rooms only this one, "Small-7Dists", is a level of BabyAI."""
METHODS = ("chat", "bot", "random")
MEASURES = {"predict": ("distance",), "plan": ("efficiency",), "decompose": ("precision", "assistance")}
"""What is measured besides success; precision in percent."""
Judged = tuple[dict[str, Any], list[int]]
"""What a row says of an answer, and the actions that were played for it."""


def check_method(protocol: str, method: str) -> None:
    """Raises GroundlabError, one line, for a method that answers no questions."""
    if method not in METHODS:
        raise GroundlabError(f"{method} cannot play {protocol}: it answers no questions; give {', '.join(METHODS)}")


def play(
    task: str,
    method: str,
    settings: dict[str, Any] | None = None,
    layouts: str | None = None,
    seed: int = 0,
    world: str | None = None,
    record: Path | None = None,
) -> dict[str, Any]:
    """Ask a task's questions: rows, and by level and in all success and the task's measures, each with its interval.

    layouts: "first-last"; the benchmark's twenty where not given. world: one of LEVELS instead of the task's own.
    record: a folder that gets every prompt, reply and what was played. Layouts that the bot fails are "left_out".
    """
    protocol = f"babybench-{task}"
    check_method(protocol, method)
    if world is not None and world not in LEVELS:
        raise unknown_name("world", world, LEVELS, hint=f"of {protocol}")
    answer = _answerer(protocol, method, settings or {}, seed)
    chosen = (
        parse_layouts(parse(ChatAgentSettings, {"layouts": layouts}, "--layouts").layouts)
        if layouts is not None
        else LAYOUTS
    )
    if record is not None:
        storage.make_folder(record)
    rows, left_out = [], {}
    for level in WORLDS[task] if world is None else (world,):
        env = worlds.GridEnv(level)
        for layout in chosen:
            question = questions.ask(task, env, layout)
            if question is None:
                left_out[f"{level} {layout}"] = f"{level}, layout {layout}: the bot has no plan"
                continue
            reply = answer(question)
            row, played = _judge(question, env, reply)
            rows.append({"kind": level, "layout": layout, **row, "reply": reply})
            if record is not None:
                _record(record, question, rows[-1], played, method)
    if not rows:
        raise GroundlabError(f"{protocol} has nothing to ask: the bot has no plan for these layouts; give others")
    kinds = [[row for row in rows if row["kind"] == level] for level in dict.fromkeys(row["kind"] for row in rows)]
    measured = [{"kind": each[0]["kind"], **_measured(task, each)} for each in kinds]
    outcome = {"policy": method, "in_all": {"kind": "in all", **_measured(task, rows)}, "kinds": measured, "rows": rows}
    return {"protocol": protocol, "method": method, "seed": seed, "left_out": left_out, "policies": [outcome]}


def _answerer(protocol: str, method: str, given: dict[str, Any], seed: int) -> Callable[[Question], str]:
    """Who answers. Raises GroundlabError for settings that mean nothing here."""
    usable = ("maker", "chat", "ledger", "layouts") if method == "chat" else ("layouts",)
    if strange := sorted(given.keys() - set(usable)):
        raise GroundlabError(f"{protocol} has no use for the setting {strange[0]} of {method}; leave it out")
    if method != "chat":
        return by_bot if method == "bot" else partial(by_chance, rng=generator(seed, "babybench"))
    settings = parse(ChatAgentSettings, given, "settings of chat")
    ledger = Path(settings.ledger) if settings.ledger else None
    maker = RULE if settings.maker == "scripted" else chat_model(settings.maker, settings.chat, ledger)

    def reply(question: Question) -> str:
        return str(maker.reply([{"role": "user", "content": question.prompt}], settings.chat.sampling(question.layout)))

    return reply


def _judge(question: Question, env: worlds.GridEnv, reply: str) -> Judged:
    """A reply's row: success, the task's measures (None where there is nothing to measure), what it lacks."""
    try:
        row, played = _JUDGES[question.task](question, env, reply)
        return {**row, "unreadable": ""}, played
    except questions.Unreadable as error:
        worst = 0.0 if question.task == "decompose" else None
        return {"success": False, **dict.fromkeys(MEASURES[question.task], worst), "unreadable": str(error)}, []


def _judge_state(question: Question, env: worlds.GridEnv, reply: str) -> Judged:
    """The end state itself; `distance`: cells from its place, of wrong answers (a wrong direction alone is 0)."""
    state = questions.read_state(reply)
    away = [abs(theirs - ours) for theirs, ours in zip(state[0], question.end[0], strict=True)]
    right = state == question.end
    return {"success": right, "distance": None if right else float(sum(away))}, question.actions


def _judge_actions(question: Question, env: worlds.GridEnv, reply: str) -> Judged:
    """Played to their end or the episode's; all that were given count for the efficiency of a success."""
    actions = questions.read_actions(reply)
    env.reset(seed=question.layout)
    played, success, ended = 0, False, False
    while played < len(actions) and not ended:
        _, reward, terminated, truncated, _ = env.step(actions[played])
        played, success, ended = played + 1, reward > 0, terminated or truncated
    efficiency = len(question.actions) / len(actions) if success else None
    return {"success": success, "efficiency": efficiency}, actions[:played]


def _judge_subgoals(question: Question, env: worlds.GridEnv, reply: str) -> Judged:
    """Followed by the bot until nothing of the plan is left.

    assistance: the share of k = 0, 1, ... below the number of subgoals that the bot puts on its stack by itself for
    which k additions were enough. That is the area under success against k, cut there.
    """
    plan = questions.read_subgoals(reply)
    env.reset(seed=question.layout)
    bot = Follower(env, plan)
    played, success = questions.follow(bot, env, [])
    spared = max(0.0, 1 - bot.added / question.added) if success else 0.0
    precision = 100.0 * (success and bot.added == 0)
    return {"success": success, "precision": precision, "assistance": spared, "added": bot.added}, played


_JUDGES = {"predict": _judge_state, "plan": _judge_actions, "decompose": _judge_subgoals}


def _measured(task: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Success in percent and the task's measures with 95 % intervals, and how many replies lacked what."""
    success = success_of(rows)
    lacking = dict(Counter(row["unreadable"] for row in rows if row["unreadable"]))
    ends = {"success": success.value, "low": success.low, "high": success.high}
    measures = {name: _interval(name, rows) for name in MEASURES[task]}
    return {"episodes": len(rows), **ends, **measures, "unreadable": lacking}


def _interval(name: str, rows: list[dict[str, Any]]) -> dict[str, float | int | None]:
    """The mean of what was measured, with its ends; of one answer without, and None of no answer."""
    values = [row[name] for row in rows if row[name] is not None]
    if not values:
        return {"value": None, "low": None, "high": None, "episodes": 0}
    bounds = bounds_of("success") if name == "precision" else None
    found = mean_interval(np.array([values]), trained=False, bounds=bounds)
    return {**found.as_json(), "episodes": len(values)}


def _record(folder: Path, question: Question, row: dict[str, Any], played: list[int], method: str) -> None:
    """Prompt, reply and verdict as text, and what was played as a file for `groundlab play --replay`."""
    stem = folder / f"{question.world}-{question.layout}"
    rest = (f"{name}: {value}" for name, value in row.items() if name not in ("kind", "layout", "reply"))
    text = "\n".join([question.prompt, "", *(f"> {line}" for line in row["reply"].splitlines()), "", *rest])
    storage.write_atomic(stem.with_suffix(".txt"), text + "\n")
    episode = recording.Episode(
        world=question.world,
        layout=question.layout,
        num_dists=None,
        captions=[],
        actions=[ACTIONS[action] for action in played],
        replies=[row["reply"]],
        method=method,
        policy=method,
        steps=len(played),
        success=question.task == "predict" or row["success"],
    )
    if played:
        recording.save(stem.with_suffix(".json"), episode)
