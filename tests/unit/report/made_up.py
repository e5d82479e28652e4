"""Records of a whole plan, made up without training: the files, policies, rows and metrics that each method writes.

    write_version(plan, folder)               # a version of the runs of a plan
    write_store(plan)                         # the same runs as finished ones of the plan's own store
    store_run(folder, "glam", "drrn", world, 0, evaluations, metrics)    # one more run, with records of the test's own
    rewrite(folder, change, **facts)          # the version again, with other facts, runs or records
    evaluations, metrics = records_of(spec)   # those of one run

Numbers are plausible and mean nothing. They depend on a run's method, world, seed and settings alone, so they stay when
code changes. Episodes and updates are few: reading and drawing them takes the time. `test_whole_version.py` holds their
shape against that of published runs.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import yaml

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.storage import digest_bytes, digest_json
from groundlab.core.versions import Scale, Version, is_version
from groundlab.papers import registry
from groundlab.report.claims import Claim

EPISODES = 12  # of an evaluation
UPDATES = 12  # of a training: the reasoning agents' curves show means of ten
TEST_EVERY = 4  # updates
LIMIT = 64  # steps of an episode
PROBES = {1: 11, 2: 2}  # GLAM's prompts by `probe_template`
TEXT = "You see a wall 6 steps forward\nYou see a green key 1 step right and 2 steps forward"
FIELDS = ("grid", "image", "direction", "mission", "reward", "end")  # that `facts` compares

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml, where it was built in

Record = dict[str, Any]
Made = tuple[list[Record], list[Record]]  # evaluations, metrics
Random = np.random.Generator

MACHINE: Record = {"git": {"commit": None, "dirty": False}, "python": "3.12.0", "platform": "Linux", "packages": {}}
MACHINE |= {"hardware": {}, "inputs": {}}
MANIFEST: Record = {"status": "finished", "error": None, "history": [], **MACHINE}
MANIFEST |= {"wall_seconds": 2.5, "cpu_seconds": 2.0, "peak_memory_mib": 100.0}
VERSION: Record = {"command": "groundlab reproduce", "created": "2026-01-01T00:00:00+00:00", "alone": [], **MACHINE}
VERSION |= {"plan_digest": "0" * 64, "notebooks": {}}
Change = Callable[[Record, dict[str, bytes]], object]
"""Changes the facts and records of a run; one that returns False leaves it out."""


def write_version(plan: Any, folder: Path) -> Path:
    """A version of the runs of a plan; returns the folder."""
    begin(folder).add(_made(run) for run in plan.runs)
    return folder


def write_store(plan: Any) -> None:
    """The runs of a plan as finished ones of its store, so that nothing of it is left to train."""
    for run in plan.runs:
        facts, records = _made(run)
        for name, content in records.items():
            storage.write_atomic(plan.folder_of(run) / name, content)
        storage.write_json(plan.folder_of(run) / "manifest.json", facts)


def _made(run: Any) -> tuple[Record, dict[str, bytes]]:
    spec = run.spec.model_dump()
    named = {"paper": run.paper, "hash": run.hash, "label": run.label, "arm": run.arm, "arm_label": run.arm_label}
    return _sealed({**MANIFEST, **spec, **named}, _written(spec, *records_of(spec)))


def begin(folder: Path, **facts: Any) -> Version:
    """The version that is there, or a new one without runs."""
    if is_version(folder):
        return Version(folder)
    scale = next((each for each in get_args(Scale) if f"-{each}-" in folder.name), "quick")
    return Version.begin(folder, {**VERSION, "version": folder.name, "scale": scale, "papers": [], **facts})


def _sealed(facts: Record, records: dict[str, bytes]) -> tuple[Record, dict[str, bytes]]:
    digests = {name: {"bytes": len(each), "sha256": digest_bytes(each)} for name, each in records.items()}
    return {**facts, "records": digests}, records


def store_run(
    folder: Path,
    paper: str,
    method: str,
    world: str,
    seed: int,
    evaluations: dict[str, list[Record]] | list[Record],
    metrics: list[Record] | tuple[Record, ...] = ({"iteration": 1},),
    settings: Record | None = None,
    **facts: Any,
) -> None:
    """Add one run to a version with these records, evaluations whole or as rows by policy."""
    spec = {"method": method, "world": world, "seed": seed, "settings": settings or {}}
    if isinstance(evaluations, dict):
        evaluations = [{"policy": policy, "mean": {}, "rows": rows} for policy, rows in evaluations.items()]
    named = {
        "paper": paper,
        "hash": digest_json({**spec, "arm": facts.get("arm", "")})[:16],
        "arm": "",
        "arm_label": "",
    }
    run = {**MANIFEST, **named, **spec, "wall_seconds": 1.0, **facts}
    begin(folder).add([_sealed(run, _written(spec, evaluations, metrics))])


def rewrite(
    folder: Path, change: Change = lambda run, records: None, more: Iterable[Record] = (), **facts: Any
) -> None:
    """Write a version again, with other facts; more: runs that have not finished."""
    version = Version(folder)
    runs = [(run, {name: version.read(run, name) for name in run["records"]}) for run in version.planned]
    runs = [_sealed(run, records) for run, records in runs if change(run, records) is not False]
    for paper in {run["paper"] for run in version.planned}:
        shutil.rmtree(folder / paper / "runs", ignore_errors=True)
    rest = {key: value for key, value in version.facts.items() if key not in ("origins", "variants")}
    Version.begin(folder, {**rest, "version": folder.name, **facts}).add([*runs, *((run, {}) for run in more)])


def lost(run: Record, **facts: Any) -> Record:
    """A run that was planned like another one and has not finished."""
    return {**run, "records": {}, "history": [], **facts}


def _written(spec: Record, evaluations: list[Record], metrics: Iterable[Record]) -> dict[str, bytes]:
    lines = "".join(json.dumps(record) + "\n" for record in metrics)
    texts = {"config.yaml": yaml.dump(spec, Dumper=_DUMPER, sort_keys=True), "metrics.jsonl": lines}
    return {name: each.encode() for name, each in {**texts, "evaluation.json": json.dumps(evaluations)}.items()}


def claim(paper: str, tolerance: str, **given: Any) -> Claim:
    """A claim of a paper with what a test gives of it."""
    facts = {"id": "a", "paper": paper, "locus": "Table 1, x, y", "statement": "s", "source": "t"}
    return Claim.model_validate({**facts, "tolerance": tolerance, **given})


def change_rows(changes: Callable[[Record], Record]) -> Change:
    """For `rewrite`: change each row of the first evaluation of every run by what `changes` says of it."""

    def change(run: Record, records: dict[str, bytes]) -> None:
        stored = json.loads(records["evaluation.json"])
        for row in stored[0]["rows"]:
            row |= changes(row)
        records["evaluation.json"] = json.dumps(stored).encode()

    return change


def records_of(spec: Record) -> Made:
    """What the method of a run would write."""
    methods = _ASKERS if "plans" in spec["settings"] else _METHODS  # two methods are called `random`
    return methods[spec["method"]](spec, np.random.default_rng(int(digest_json(spec)[:12], 16)))


def evaluation(policy: str, rows: list[Record]) -> Record:
    """An evaluation with the mean of whatever its rows count; of several kinds of task, also the success of each."""
    counted = [key for key, value in rows[0].items() if key != "layout" and isinstance(value, bool | int | float)]
    mean = {key: float(np.mean([row[key] for row in rows])) for key in counted}
    kinds = {row["kind"] for row in rows if "kind" in row} if policy != "first-finished" else set()
    for kind in sorted(kinds) if len(kinds) > 1 else ():
        mean[f"success_{kind}"] = float(np.mean([row["success"] for row in rows if row["kind"] == kind]))
    return {"policy": policy, "mean": mean, "rows": rows}


def episodes(rng: Random, world: str = "", skill: float | None = None) -> list[Record]:
    """Rows of layout, steps, success and return; on a mixed world also the kind of task."""
    skill = rng.uniform(0.2, 0.95) if skill is None else skill
    kinds = worlds.find(world).kinds if world in worlds.WORLDS else ()
    rows = []
    for layout in range(EPISODES):
        success, steps = bool(rng.random() < skill), int(rng.integers(2, LIMIT))
        row = {"layout": layout, "steps": steps if success else LIMIT, "success": success}
        row["return"] = 1 - 0.9 * steps / LIMIT if success else 0.0
        rows.append({**row, "kind": kinds[layout % len(kinds)]} if kinds else row)
    return rows


def played_once(evaluations: list[Record]) -> Made:
    """The records of a method that only evaluates."""
    return evaluations, [{"iteration": 1, **evaluations[0]["mean"]}]


def numbers(rng: Random, *names: str) -> Record:
    """Some small number for each name."""
    return {name: float(rng.uniform(0.01, 0.5)) for name in names}


def ended(rng: Random, update: int, count: int = 40) -> Record:
    """What the training episodes of an update came to: more success from update to update."""
    success = min(1.0, 0.2 + 0.06 * update + rng.uniform(0, 0.1))
    return {"episodes": count, "success": success, "return": 0.7 * success, "length": float(rng.uniform(5, 60))}


# --- The worlds' own agents


def _random(spec: Record, rng: Random) -> Made:
    world = spec["world"]
    evaluations = [evaluation("random", episodes(rng, world, 0.3))]
    if spec["settings"]["first_finished"]:
        evaluations.append(evaluation("first-finished", episodes(rng, world, 0.4)))
    return played_once(evaluations)


def _facts(spec: Record, rng: Random) -> Made:
    row = {"layout": 0, "states": spec["settings"]["states"], "episodes": 90, "mismatches": 0}
    return played_once([evaluation("facts", [{**row, **{f"{field}_mismatches": 0 for field in FIELDS}}])])


def _chat(spec: Record, rng: Random) -> Made:
    rows = [{**row, "invalid": 0} for row in episodes(rng, spec["world"], 0.5)]
    return played_once([evaluation("chat", rows)])


@cache
def _replayed() -> list[Record]:
    """One episode a cell of the real method: its policies are the names of submissions, and it is quick."""
    settings = {"episodes": 1}
    return registry.evaluate(registry.Request("balrog", "BabyAI-MixedTrainLocal-v0", 0, settings))


# --- GLAM


def _glam_evaluations(spec: Record, rng: Random) -> list[Record]:
    settings, world = spec["settings"], spec["world"]
    control = ("fixed-mission",) if settings["fixed_mission"] else ()
    names = [f"{choice} {test}".strip() for test in ("", *control) for choice in ("sampled", "greedy")]
    played = [(name, world) for name in names]
    for test in settings["tests"]:
        elsewhere = [word for word in test.split() if word in worlds.WORLDS]
        played.append((f"sampled {test}", elsewhere[0] if elsewhere else world))
    played += [("first-finished", world)] if settings["first_finished"] else []
    played += [(f"sampled format-{name}", world) for name in settings.get("test_formats", ())]
    return [evaluation(policy, episodes(rng, place)) for policy, place in played]


def _frames(spec: Record) -> Iterable[tuple[int, Record]]:
    """(update, its first fields) of a training that is told in so many frames."""
    for update in range(1, UPDATES + 1):
        yield update, {"iteration": update, "frames": spec["settings"]["frames"] * update // UPDATES}


def _tuned(*figures: str) -> Callable[[Record, Random], Made]:
    """A learner of GLAM's that logs these figures beside its episodes."""

    def make(spec: Record, rng: Random) -> Made:
        template, heads = spec["settings"].get("probe_template"), spec["method"] in ("npae", "npa", "aflan")
        metrics = []
        for update, first in _frames(spec):
            if template and not heads:
                actions = np.ones(spec["settings"]["action_space"])
                first["probe"] = rng.dirichlet(actions, PROBES[template]).ravel().tolist()
            metrics.append({**first, **ended(rng, update), **numbers(rng, *figures)})
        return _glam_evaluations(spec, rng), metrics

    return make


def _zero_shot(spec: Record, rng: Random) -> Made:
    plain = {**spec, "settings": {**spec["settings"], "tests": [], "first_finished": 0}}
    others = [each for each in _glam_evaluations(plain, rng) if each["policy"].startswith("sampled")]
    hotter = [{**each, "policy": f"{each['policy']} temperature-1"} for each in others]
    return played_once([*_glam_evaluations(spec, rng), *hotter])


def _turns(spec: Record, rng: Random) -> Made:
    rows = [{"layout": k, "success": bool(rng.random() < 0.9)} for k in range(EPISODES)]
    return played_once([evaluation("turns", rows)])


def _cloning(spec: Record, rng: Random) -> Made:
    metrics = [{**first, **numbers(rng, "loss", "accuracy")} for _, first in _frames(spec)]
    return _glam_evaluations(spec, rng), metrics


_LOSSES = ("loss", "policy_loss", "value_loss", "entropy")
_LANGUAGE_MODEL = _tuned(*_LOSSES, "kl", "grad_norm")

# --- Reasoning agents


def _conversations(rng: Random, told: int = 0) -> list[Record]:
    rows = [
        {**row, "invalid": (invalid := int(rng.integers(0, 4))), "length": row["steps"] + invalid}
        for row in episodes(rng)
    ]
    for row in rows[:told]:
        said = {"seen": TEXT, "said": "i see a green key.\nfinal answer: turn right", "valid": True}
        row |= {"mission": "go to the green key", "told": [said] * row["length"]}
    return rows


def _talked(spec: Record, rng: Random) -> list[Record]:
    settings = spec["settings"]
    names = [*settings["tests"], *(["first-finished"] if settings["first_finished"] else [])]
    if spec["method"] == "reasoning" and settings["swapped"]:
        names += ["thought emptied", "another's thought"]
    own = evaluation("sampled", _conversations(rng, min(settings["transcripts"], EPISODES)))
    return [own, *(evaluation(name, _conversations(rng)) for name in names)]


_OF_THOUGHTS = ("echo_rate", "grounded_rate", "hallucination_rate")
_OF_PROBES = ("mi_retrieval", "retrieval_accuracy", "thought_entropy", "swap_empty", "swap_other")
_OF_LEARNING = (
    *("drawing_gap", "kl", "kl_coefficient", "value", "reference_kl", "approx_kl", "policy_kl", "ratio"),
    *("clip_fraction", "value_clip_fraction", "grad_norm", *_LOSSES),
)


def _spoken(spec: Record, rng: Random) -> Made:
    thinks, metrics = spec["method"] == "reasoning", []
    for update in range(UPDATES + 1):
        record: Record = {"iteration": update, "frames": 128 * update}
        if update:
            record |= ended(rng, update, count=int(rng.integers(1, 20))) | {"invalid": float(rng.uniform(0, 2))}
            record |= {"replies": 128, "reply_tokens": 6.0, "said": "turn left", "epochs": 1.0, "cut_off": 0.0}
            record |= numbers(rng, "valid", *_OF_LEARNING)
            if thinks:
                words = {"thought_words": 6.0, "thought_words_median": 6.0, "thought_words_p10": 5.0}
                record |= words | {"thought_words_p90": 8.0} | numbers(rng, *_OF_THOUGHTS)
        if update % TEST_EVERY == 0:
            mean = evaluation("", _conversations(rng))["mean"]
            record |= {f"test_{name}": mean[name] for name in ("success", "return", "length", "invalid")}
            record |= {"probed": 24, "mi_bound": 3.2, **numbers(rng, *_OF_PROBES)} if thinks else {}
        metrics.append(record)
    return _talked(spec, rng), metrics


# --- The mediator


def _asked(rng: Random, asks: bool = True) -> list[Record]:
    rows = []
    for row in episodes(rng):
        game = row.pop("return")
        questions = {"interactions": int(rng.integers(2, 30)), "asked": int(rng.integers(0, 30))} if asks else {}
        charged = game - 0.01 * questions.get("interactions", 0)
        rows.append({"layout": row.pop("layout"), **questions, **row, "opened": row["success"]})
        rows[-1] |= {"return": charged, "game_return": game}
    return rows


def _asking(spec: Record, rng: Random) -> Made:
    asks, metrics = spec["method"] == "mediator", []
    names = [*(["interactions"] if asks else []), "steps", "success", "return", "game_return"]
    for update in range(1, UPDATES + 1):
        mean = evaluation("", _asked(rng, asks))["mean"]
        record = {"iteration": update, "timesteps": 300 * update, **{name: mean[name] for name in names}}
        record |= numbers(rng, "return_std", "game_return_std", *_LOSSES)
        record |= {f"test_{name}": mean[name] for name in names}
        if update % TEST_EVERY == 0:
            record["test"] = {each["policy"]: each["mean"] for each in _both_ways(rng, asks)}
        metrics.append(record)
    return _both_ways(rng, asks), metrics


def _taught(spec: Record, rng: Random) -> Made:
    metrics: list[Record] = [
        {"iteration": update, "timesteps": 300 * update, **numbers(rng, "loss", "agreement")}
        for update in range(1, UPDATES + 1)
    ]
    metrics[-1]["test"] = {each["policy"]: each["mean"] for each in _both_ways(rng, True)}
    return _both_ways(rng, True), metrics


def _both_ways(rng: Random, asks: bool) -> list[Record]:
    found = [evaluation(policy, _asked(rng, asks)) for policy in ("sampled", "argmax")]
    for each in found if asks else []:
        each["mean"] |= numbers(rng, "p_ask", "p_ask_max", "p_ask_above_half")
    return found


# --- Background knowledge


def _shaped(spec: Record, rng: Random) -> Made:
    shapes, world = spec["method"] == "knowledge", spec["world"]
    sizes = {"scale": 1.0} if shapes else {}
    sizes |= {"strength": 1.0} if spec["settings"].get("effect") is not None else {}
    metrics = []
    for update, first in _frames(spec):
        record = {**first, **sizes, "episodes": 0}
        record |= ended(rng, update) if update > 1 else {}  # in the first update no episode ends
        if spec["settings"].get("test_every"):
            record["test"] = {policy: evaluation("", episodes(rng))["mean"] for policy in ("argmax", "sampled")}
        metrics.append(record | numbers(rng, "potential", "shaping", "novelty", *_LOSSES, "prediction"))
    lives = {"achievements": ["collect_drink"]} if world.startswith("Crafter") else {}
    rows = {policy: [{**row, **lives} for row in episodes(rng)] for policy in ("argmax", "sampled")}
    return [evaluation(policy, each) for policy, each in rows.items()], metrics


_RULES = ("hard-coded", "always", "random", "on-change", "nothing-changed", "new-object", "untrained")
_ASKERS: dict[str, Callable[[Record, Random], Made]] = {
    **{"mediator": _asking, "never": _asking, "rule-cloning": _taught},
    **dict.fromkeys(_RULES, lambda spec, rng: played_once([evaluation("rule", _asked(rng))])),
}
_METHODS: dict[str, Callable[[Record, Random], Made]] = {
    **dict.fromkeys(("glam", "glam-extended", "npae", "npe", "npa", "aflan"), _LANGUAGE_MODEL),
    **dict.fromkeys(("direct", "reasoning"), _spoken),
    **dict.fromkeys(("direct-zero-shot", "reasoning-zero-shot"), lambda *given: played_once(_talked(*given))),
    **dict.fromkeys(("knowledge", "rnd"), _shaped),
    "random": _random,
    "bot": lambda spec, rng: played_once([evaluation("bot", episodes(rng, spec["world"], 1.0))]),
    "facts": _facts,
    "balrog": lambda spec, rng: played_once(_replayed()),
    "chat": _chat,
    "drrn": _tuned("loss", "remembered"),
    "symbolic": _tuned(*_LOSSES),
    "zero-shot": _zero_shot,
    "own-answers": lambda spec, rng: played_once(_glam_evaluations(spec, rng)),
    "turns": _turns,
    "cloning": _cloning,
}
