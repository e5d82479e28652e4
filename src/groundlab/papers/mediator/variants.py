"""The exhibit of what was varied: quirks mended, other penalties, and a disturbed planner (scale full)."""

import json
from functools import partial

from groundlab.papers.mediator import WORLDS
from groundlab.papers.mediator.arms import OF_TABLE_1
from groundlab.report.claims import Selector
from groundlab.report.exhibits import exhibit
from groundlab.report.judging import estimate, select_rows
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate
from groundlab.report.tables import Column, Table

_VARIED = ("fidelity", "planner", "epsilon", "ask_lambda", "entropy_anneal_from", "heads")
_KEPT = ("plans", "probability", "anneal_from", "iterations")
_METRICS = ("interactions", "asked", "steps", "success", "return")


@exhibit(
    "mediator-variants",
    "Quirks mended, other penalties, and a disturbed planner",
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
    columns: list[Column[tuple[Selector, str]]] = [
        Column("variant", lambda row: row[1]),
        Column("world", lambda row: row[0].world),
        Column("method", lambda row: row[0].method),
        Column("seeds", lambda row: select_rows(records, row[0])["seed"].nunique()),
        Column("settings", lambda row: json.dumps(row[0].settings, sort_keys=True), caption=""),
        *(Column(metric, partial(_estimate, records, metric), metric) for metric in _METRICS),
    ]
    return Table.of(ordered, columns, _NOTES)


_NOTES = (
    "the planner is a script but where a language model is named, whose replies are recorded; epsilon is the share of "
    "the script's replies that are disturbed, about half of which become a wrong plan",
    "what each quirk is: docs/papers/mediator-reference.md, Quirks; the usual settings are the rows of Table 1",
    "mean [95 % interval] over seeds and test layouts; trained policies are sampled",
)


def _estimate(records: Records, metric: str, row: tuple[Selector, str]) -> Estimate | None:
    """The mean of a metric with its interval; None where it was not recorded of all."""
    stored = select_rows(records, row[0])
    recorded = metric in stored and not any(stored[metric].isna())
    return estimate(row[0], metric, records) if recorded else None
