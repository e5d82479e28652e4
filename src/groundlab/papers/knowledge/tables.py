"""The knowledge paper's tables: sample efficiency, success after training, quirks, other rooms, and what ships.

The area under a curve is the mean success of training episodes over all steps, in percent. What arms are and how they
are held against phi = 0 is in arms.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from groundlab import assets
from groundlab.core import storage
from groundlab.papers.knowledge.arms import (
    POLICIES,
    QUIRKS,
    REWARDS,
    Gain,
    KnowledgeArm,
    gain,
    knowledge_arms,
    main_world,
    paired_areas,
    plain_ppo,
    tabled_arms,
)
from groundlab.report.arms import difference
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate
from groundlab.report.tables import POINTS, Column, Table

# --- Against phi = 0


@exhibit("knowledge-efficiency", "Sample efficiency of every arm against φ = 0", methods=("knowledge",))
def improvement_table(records: Records) -> Table:
    """Arm by arm: the area under the curve, and its distance from phi = 0 and from the random potential."""
    shown = tabled_arms(knowledge_arms(records))
    base, noise = plain_ppo(shown), next((arm for arm in shown if arm.kind == "random"), None)
    gains = [(arm, gain(arm, base)) for arm in shown]
    rows = [(arm, over_base, gain(arm, noise) if over_base else None) for arm, over_base in gains]
    return Table.of(rows, _IMPROVEMENT, _IMPROVEMENT_NOTES)


_IMPROVEMENT_NOTES = (
    "area under the curve: mean success of training episodes over all steps, in percent, [95 % interval] over seeds; "
    "actions are drawn by chance. Short episodes end first, so early updates flatter, weak arms most",
    "p of more: exact one-sided permutation test of the seeds' areas against those of φ = 0. Three seeds against three "
    "cannot go below 0.05, and several arms are compared",
    "controls: the oracle potential is 1 while the mission's thing is in view, which background knowledge cannot know; "
    "the random potential is a number drawn for each view",
    "rewards in the style of ELLM (Du et al. 2023) and of Motif (Klissarov et al. 2023) are paid as they are, once a "
    "goal and less at each visit, so they can change which policy is best; each has one weight, which was not tuned",
    "RND: as in collection, or with the rewards, time limits and normalised advantages of the other arms, its weights "
    "not tuned",
    "the hand-written program pays half a point for facing a thing for the first time, which is what ends a GoTo task, "
    "but for the colour; its authors knew this family of tasks",
)


def _row_name(arm: KnowledgeArm) -> str:
    return f"{arm.title}, one weight, not tuned" if arm.kind in REWARDS else arm.title


def _shaping(arm: KnowledgeArm) -> float | None:
    """How much shaping an arm pays a step, beside 10 for success at once; None where nothing is shaped."""
    paid = arm.curves["shaping"].dropna().to_numpy(dtype=float) if "shaping" in arm.curves else np.zeros(0)
    return float(np.mean(paid)) if paid.any() else None


_IMPROVEMENT: list[Column[tuple[KnowledgeArm, Gain | None, Gain | None]]] = [  # over phi = 0, over the random potential
    Column("arm", lambda row: row[0].kind, text=lambda row: _row_name(row[0])),
    Column("world", lambda row: row[0].world, caption=""),
    Column("knowledge", lambda row: row[0].source),
    Column("seeds", lambda row: len(row[0].seeds)),
    Column("frames", lambda row: row[0].frames, caption=""),
    Column("area", lambda row: row[0].efficiency(), "success", "area under the curve"),
    Column("gap", lambda row: row[1] and row[1].gap, POINTS, "minus φ = 0"),
    Column("p", lambda row: row[1] and row[1].p, "{:.3f}", "p of more than φ = 0"),
    Column("", lambda row: row[2] and row[2].gap, POINTS, "minus random potential"),
    Column("", lambda row: _shaping(row[0]), "{:.3f}", "mean |F| a step"),
]


# --- After training


@exhibit("knowledge-final", "Success after training", methods=("knowledge",))
def final_table(records: Records) -> Table:
    """Arm by arm: success on the test layouts after training, by chance and by the likeliest action."""
    shown = tabled_arms(knowledge_arms(records))
    base = plain_ppo(shown)
    lines = [
        {"arm": arm.kind, "world": arm.world, "policy": policy, "seeds": len(arm.seeds), **vars(estimate)}
        for arm in shown
        for policy in POLICIES
        if (estimate := arm.estimate(policy))
    ]

    def gap(arm: KnowledgeArm) -> Estimate | None:
        return difference((arm, "sampled"), (base, "sampled")) if base and base is not arm else None

    columns: list[Column[KnowledgeArm]] = [
        Column("arm", _row_name),
        Column("knowledge", lambda arm: arm.source),
        Column("seeds", lambda arm: len(arm.seeds)),
        *(Column(policy, lambda arm, policy=policy: arm.estimate(policy), "success") for policy in POLICIES),
        Column("minus φ = 0", gap, POINTS),
    ]
    return Table.of([arm for arm in shown if arm.estimate("sampled")], columns, _FINAL_NOTES, data=lines)


_FINAL_NOTES = (
    "success on the test layouts after the last update, mean [95 % interval] over seeds and layouts",
    "argmax: the likeliest action, by which the original evaluates; an agent without memory may turn for ever then",
    "minus φ = 0: of sampled actions, paired by layout. Correct shaping leaves the optimal policy alone, so what "
    "differs here is how far learning got",
)


# --- The original's quirks


def _without_quirks(arm: KnowledgeArm, every: list[KnowledgeArm]) -> KnowledgeArm | None:
    """The arm of the same kind without quirks: that of the same study, if it has one, else the usual one."""
    clean = [each for each in every if each.kind == arm.kind and not each.quirks]
    return min(clean, key=lambda each: (each.study != arm.study, not each.usual), default=None)


@exhibit("knowledge-quirks", "What each of the original's quirks does to learning", methods=("knowledge",), beside=())
def quirks_table(records: Records) -> Table | None:
    """Quirk by quirk, in the main world: areas under the curve with it and without, for the same seeds and frames."""
    every = knowledge_arms(records)
    home, base = main_world(every), plain_ppo(every)
    mine = [each for each in every if each.world == home]
    pairs = [(arm, _without_quirks(arm, mine)) for arm in mine if arm.quirks]
    rows = [(arm, usual, base) for arm, usual in pairs if usual is not None]
    return Table.of(rows, _QUIRK_COLUMNS, _QUIRK_NOTES) if rows else None


_QUIRK_NOTES = (
    "area under the curve, in percent, with the quirk and without it, over the frames and seeds that both have; "
    "docs/papers/knowledge-reference.md#s11 says what each is",
    "one seed gives no verdict: what differs may be chance. Late payment, episodes that are not kept apart and a "
    "scale that drifts break the guarantee that shaping leaves the optimal policies alone",
)


_QUIRK_COLUMNS: list[Column[tuple[KnowledgeArm, KnowledgeArm, KnowledgeArm | None]]] = [  # with, without, phi = 0
    Column("arm", lambda row: row[0].kind, text=lambda row: row[0].style.label),
    Column("quirks", lambda row: " ".join(row[0].quirks), caption=""),
    Column("", lambda row: "; ".join(QUIRKS[name] for name in row[0].quirks), caption="quirk"),
    Column("world", lambda row: row[0].world, caption=""),
    Column("seeds", lambda row: len(paired_areas(*row[:2])[0])),
    Column("frames", lambda row: min(row[0].frames, row[1].frames), "{:,.0f}", "steps"),
    Column("area", lambda row: paired_areas(*row[:2])[0].mean(), "{:.1f} %", "with it"),
    Column("area without", lambda row: paired_areas(*row[:2])[1].mean(), "{:.1f} %", "without"),
    Column("", lambda row: _mean_gap(*row[:2]), POINTS, "difference"),
    Column("area of phi 0", lambda row: row[2] and paired_areas(row[0], row[2])[1].mean(), "{:.1f} %", "φ = 0"),
]


def _mean_gap(arm: KnowledgeArm, other: KnowledgeArm) -> float:
    """How far the areas of an arm lie above those of another, for the seeds and the frames that both have."""
    ours, theirs = paired_areas(arm, other)
    return float((ours - theirs).mean())


# --- Other tasks, rooms and settings


@exhibit("knowledge-worlds", "Other tasks and rooms", methods=("knowledge",))
def worlds_table(records: Records) -> Table | None:
    """World by world and arm by arm: the area under the curve and final success, beside phi = 0 of that world."""
    every = knowledge_arms(records)
    home = main_world(every)
    shown = sorted((each for each in every if each.world != home), key=lambda each: each.world)  # phi = 0 first
    return Table.of([(arm, _base_of(arm, shown)) for arm in shown], _WORLD_COLUMNS, _WORLD_NOTES) if shown else None


_WORLD_NOTES = (
    "area under the curve: mean success of training episodes over all frames, in percent; final: success of sampled "
    "actions on the test layouts",
    "minus φ = 0: areas, over the frames and seeds that both have. Few seeds give no verdict: no interval is given",
)


def _base_of(arm: KnowledgeArm, shown: list[KnowledgeArm]) -> KnowledgeArm | None:
    same = [each for each in shown if each.kind == "none" and each.world == arm.world]
    return next((each for each in same if each.variant == arm.variant), same[0] if same else None)


def _over_base(arm: KnowledgeArm, base: KnowledgeArm | None) -> float | None:
    """None for phi = 0 itself, and where it shares no seed."""
    if base is None or base is arm or not set(arm.seeds) & set(base.seeds):
        return None
    return _mean_gap(arm, base)


_WORLD_COLUMNS: list[Column[tuple[KnowledgeArm, KnowledgeArm | None]]] = [
    Column("world", lambda row: row[0].world, lambda world: world.removeprefix("BabyAI-Text-")),
    Column("arm", lambda row: row[0].kind, text=lambda row: row[0].title),
    Column("", lambda row: row[0].source, caption="knowledge"),
    Column("", lambda row: row[0].settings.get("network"), caption="network"),
    Column("varied", lambda row: row[0].variant, caption=""),
    Column("seeds", lambda row: len(row[0].seeds)),
    Column("frames", lambda row: row[0].frames, "{:,.0f}", "steps"),
    Column("area", lambda row: row[0].training_success().mean(), "{:.1f} %", "area under the curve"),
    Column("final", lambda row: _final(row[0]), caption=""),
    Column("gap", lambda row: _over_base(*row), POINTS, "minus φ = 0"),
    Column("", lambda row: _final(row[0]), "{:.0f} %", "final"),
]


def _final(arm: KnowledgeArm) -> float:
    final = arm.estimate("sampled")
    return final.value if final else np.nan


# --- The dataset that ships

DATASETS = Path(assets.__file__).parent / "knowledge"


def cards(home: Path = DATASETS) -> dict[str, dict[str, Any]]:
    """The cards of the datasets in a folder, by the name of their folder."""
    return {file.parent.name: storage.read_json(file) for file in sorted(home.glob("*/card.json"))}


@exhibit("knowledge-dataset", "The dataset that ships: what was played before any label")
def dataset_table() -> Table | None:
    return card_table(cards())


def card_table(by_name: dict[str, dict[str, Any]]) -> Table | None:
    """One row a snapshot of the policy that played, and one for the whole of each dataset."""
    lines = [line for name, card in by_name.items() for line in _card_lines(name, card)]
    if not lines:
        return None
    recipes = (f"{name} was made by `{card['recipe']}`" for name, card in by_name.items() if "recipe" in card)
    return Table(pd.DataFrame(lines), pd.DataFrame([_card_row(line) for line in lines]), (*_CARD_NOTES, *recipes))


_CARD_NOTES = (
    "policy: after how many steps of PPO with curiosity it was kept, the first after one update; drawn actions, so the "
    "first one all but plays at random",
    "return: 1 minus 0.9 times the share of the time limit that was used, for success; in Crafter what its rewards add "
    "up to; cells: the share of the room's cells on which some agent stood; views, captions: distinct ones",
)


def _card_lines(name: str, card: dict[str, Any]) -> list[dict[str, Any]]:
    cells = card.get("cells_visited", {})
    parts = [
        {"dataset": name, "snapshot": int(key), **values, "cells_visited": cells.get(key)}
        for key, values in card["snapshots"].items()
    ]
    whole = {"dataset": name, "snapshot": None, "episodes": card["episodes"], "steps": card["steps"]}
    whole |= {"distinct_views": card["distinct_views"], "distinct_captions": card["distinct_captions"]}
    return [*parts, whole]


def _card_row(line: dict[str, Any]) -> dict[str, str]:
    whole, cells = line["snapshot"] is None, line.get("cells_visited")
    return {
        "dataset": line["dataset"],
        "policy after": "all" if whole else f"{line['snapshot']:,} steps",
        "episodes": str(line["episodes"]),
        "success": f"{100 * line['success']:.0f} %" if "success" in line else "–",
        "return": "–" if whole else f"{line['return']:.2f}",
        "steps": f"{line['steps']:,}" if whole else f"{line['length'] * line['episodes']:,.0f}",
        "cells": "–" if cells is None else f"{100 * cells:.0f} %",
        "views": f"{line['distinct_views']:,}",
        "captions": f"{line['distinct_captions']:,}" if whole else "–",
    }
