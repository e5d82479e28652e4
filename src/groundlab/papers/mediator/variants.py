"""The exhibit of what was varied: quirks mended, other penalties, and a planner that errs (scale full)."""

import json

import pandas as pd

from groundlab.papers.mediator import WORLDS
from groundlab.papers.mediator.arms import OF_TABLE_1
from groundlab.report.claims import Selector
from groundlab.report.exhibits import exhibit
from groundlab.report.judging import estimate, select_rows
from groundlab.report.records import Records
from groundlab.report.tables import Table, measured

_VARIED = ("fidelity", "epsilon", "ask_lambda", "entropy_anneal_from", "heads")
_KEPT = ("plans", "probability", "anneal_from", "iterations")
_METRICS = ("interactions", "asked", "steps", "success", "return")


@exhibit(
    "mediator-variants",
    "Quirks mended, other penalties, and a planner that errs",
    methods=("hard-coded", "always"),
    beside=(),
)
def variants(records: Records) -> Table | None:
    """One row a method, world and variant: questions, steps, success and return; None where nothing was varied."""
    found: dict[str, tuple[Selector, str]] = {}
    runs = records.runs[["method", "world", "settings", "arm", "arm_label"]].itertuples(index=False)
    for method, world, settings, arm, words in runs:
        study = arm.split("/")[1] if "/" in arm else ""
        for policy in ("rule", "sampled") if study and study not in OF_TABLE_1 else ():
            kept = {key: settings[key] for key in (*_VARIED, *_KEPT) if key in settings}
            selector = Selector(method=method, world=world, policy=policy, settings=kept)
            if not select_rows(records, selector).empty:
                found[selector.key] = selector, words
    if not found:
        return None
    ordered = sorted(found.values(), key=lambda each: (each[1], each[0].method, WORLDS.index(each[0].world)))
    rows = [_measurements(records, *each) for each in ordered]
    return Table(pd.DataFrame([row[0] for row in rows]), pd.DataFrame([row[1] for row in rows]), _NOTES)


_NOTES = (
    "no language model was asked: the planner is a script; epsilon is the share of its replies that are wrong",
    "what each quirk is: docs/papers/mediator.md, Quirks; the usual settings are the rows of Table 1",
    "mean [95 % interval] over seeds and test layouts; trained policies are sampled",
)


def _measurements(records: Records, selector: Selector, words: str) -> tuple[dict, dict]:
    """The row as numbers, and as text."""
    stored = select_rows(records, selector)
    metrics = [metric for metric in _METRICS if metric in stored and not any(stored[metric].isna())]
    found = {metric: estimate(selector, metric, records) for metric in metrics}
    seeds = stored["seed"].nunique()
    about = {"variant": words, "world": selector.world, "method": selector.method, "seeds": seeds}
    numbers = {f"{metric}{end}": getattr(each, part) for metric, each in found.items() for end, part in _ENDS}
    texts = {metric: measured(found.get(metric), metric) for metric in _METRICS}
    settings = json.dumps(selector.settings, sort_keys=True)
    return about | {"settings": settings} | numbers, about | texts | {"seeds": str(seeds)}


_ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))
