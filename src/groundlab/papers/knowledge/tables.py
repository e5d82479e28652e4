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
from groundlab.core.manifests import read_version
from groundlab.core.paths import repository_root
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
    usual_arms,
)
from groundlab.report.arms import difference, signed
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records, load
from groundlab.report.tables import Table, measured

# --- Against phi = 0


@exhibit("knowledge-efficiency", "Sample efficiency of every arm against φ = 0", methods=("knowledge",))
def improvement_table(records: Records) -> Table:
    """Arm by arm: the area under the curve, and its distance from phi = 0 and from the random potential."""
    shown = usual_arms(knowledge_arms(records))
    base, noise = plain_ppo(shown), next((arm for arm in shown if arm.kind == "random"), None)
    gains = [(arm, gain(arm, base)) for arm in shown]
    rows = [_improvement_row(arm, over_base, gain(arm, noise) if over_base else None) for arm, over_base in gains]
    lines = [_improvement_line(arm, over_base) for arm, over_base in gains]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _IMPROVEMENT_NOTES)


_IMPROVEMENT_NOTES = (
    "area under the curve: mean success of training episodes over all steps, in percent, [95 % interval] over seeds; "
    "actions are drawn by chance. Short episodes end first, so the first update flatters every arm alike",
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


def _improvement_row(arm: KnowledgeArm, over_base: Gain | None, over_noise: Gain | None) -> dict[str, str]:
    area = arm.efficiency()
    return {
        "arm": _row_name(arm),
        "knowledge": arm.source or "–",
        "seeds": str(len(arm.seeds)),
        "area under the curve": measured(area, "success"),
        "minus φ = 0": signed(over_base.gap) if over_base else "–",
        "p of more than φ = 0": f"{over_base.p:.3f}" if over_base and over_base.p == over_base.p else "–",
        "minus random potential": signed(over_noise.gap) if over_noise else "–",
        "mean |F| a step": _shaping_cell(arm),
    }


def _shaping_cell(arm: KnowledgeArm) -> str:
    """How much shaping an arm pays a step, beside 10 for success at once; a dash where nothing is shaped."""
    paid = arm.curves["shaping"].dropna() if "shaping" in arm.curves else pd.Series(dtype=float)
    return f"{paid.mean():.3f}" if len(paid) and paid.to_numpy(dtype=float).any() else "–"


def _improvement_line(arm: KnowledgeArm, over_base: Gain | None) -> dict[str, Any]:
    area = arm.efficiency()
    line: dict[str, Any] = {"arm": arm.kind, "world": arm.world, "knowledge": arm.source, "seeds": len(arm.seeds)}
    line |= {"frames": arm.frames, "area": area.value}
    line |= {"area_low": area.low, "area_high": area.high}
    if over_base:
        gap = over_base.gap
        line |= {"gap": gap.value, "gap_low": gap.low, "gap_high": gap.high, "p": over_base.p}
    return line


# --- After training


@exhibit("knowledge-final", "Success after training", methods=("knowledge",))
def final_table(records: Records) -> Table:
    """Arm by arm: success on the test layouts after training, by chance and by the likeliest action."""
    shown = usual_arms(knowledge_arms(records))
    base = plain_ppo(shown)
    rows = [_final_row(arm, base) for arm in shown if arm.scores("sampled") is not None]
    lines = [
        {"arm": arm.kind, "world": arm.world, "policy": policy, "seeds": len(arm.seeds), **vars(estimate)}
        for arm in shown
        for policy in POLICIES
        if (estimate := arm.estimate(policy))
    ]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _FINAL_NOTES)


_FINAL_NOTES = (
    "success on the test layouts after the last update, mean [95 % interval] over seeds and layouts",
    "argmax: the likeliest action, by which the original evaluates; an agent without memory may turn for ever then",
    "minus φ = 0: of sampled actions, paired by layout. Correct shaping leaves the optimal policy alone, so what "
    "differs here is how far learning got",
)


def _final_row(arm: KnowledgeArm, base: KnowledgeArm | None) -> dict[str, str]:
    gap = difference((arm, "sampled"), (base, "sampled")) if base and base is not arm else None
    estimates = {policy: measured(arm.estimate(policy), "success") for policy in POLICIES}
    row = {"arm": _row_name(arm), "knowledge": arm.source or "–", "seeds": str(len(arm.seeds))}
    return row | estimates | {"minus φ = 0": signed(gap)}


# --- The original's quirks


def quirk_pairs(records: Records) -> list[tuple[KnowledgeArm, KnowledgeArm]]:
    """(arm with some of the original's quirks, the same without), in the main world."""
    every = knowledge_arms(records)
    home = main_world(every)
    mine = [each for each in every if each.world == home]
    pairs = [(arm, _without_quirks(arm, mine)) for arm in mine if arm.quirks]
    return [(arm, usual) for arm, usual in pairs if usual is not None]


def _without_quirks(arm: KnowledgeArm, every: list[KnowledgeArm]) -> KnowledgeArm | None:
    """The arm of the same kind without quirks: that of the same study, if it has one, else the usual one."""
    clean = [each for each in every if each.kind == arm.kind and not each.quirks]
    return min(clean, key=lambda each: (each.study != arm.study, not each.usual), default=None)


@exhibit(
    "knowledge-quirks",
    "What each of the original's quirks does to learning",
    methods=("knowledge",),
    beside=(),
)
def quirks_table(records: Records) -> Table | None:
    """Quirk by quirk: areas under the curve with it and without, for the same seeds and frames."""
    pairs = quirk_pairs(records)
    if not pairs:
        return None
    base = plain_ppo(knowledge_arms(records))
    lines = [_quirk_line(arm, usual, base) for arm, usual in pairs]
    rows = [_quirk_row(arm, line) for (arm, _), line in zip(pairs, lines, strict=True)]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _QUIRK_NOTES)


_QUIRK_NOTES = (
    "area under the curve, in percent, with the quirk and without it, over the frames and seeds that both have; "
    "docs/papers/knowledge.md#s11 says what each is",
    "one seed gives no verdict: what differs may be chance. Late payment, episodes that are not kept apart and a "
    "scale that drifts break the guarantee that shaping leaves the optimal policies alone",
)


def _quirk_line(arm: KnowledgeArm, usual: KnowledgeArm, base: KnowledgeArm | None) -> dict[str, Any]:
    ours, theirs = paired_areas(arm, usual)
    line: dict[str, Any] = {"arm": arm.kind, "quirks": " ".join(arm.quirks), "world": arm.world, "seeds": len(ours)}
    line |= {"frames": min(arm.frames, usual.frames), "area": ours.mean(), "area without": theirs.mean()}
    return line | ({"area of phi 0": paired_areas(arm, base)[1].mean()} if base else {})


def _quirk_row(arm: KnowledgeArm, line: dict[str, Any]) -> dict[str, str]:
    return {
        "arm": arm.style.label,
        "quirk": "; ".join(QUIRKS[name] for name in arm.quirks),
        "seeds": str(line["seeds"]),
        "steps": f"{line['frames']:,.0f}",
        "with it": f"{line['area']:.1f} %",
        "without": f"{line['area without']:.1f} %",
        "difference": f"{line['area'] - line['area without']:+.1f}",
        "φ = 0": f"{line['area of phi 0']:.1f} %" if "area of phi 0" in line else "–",
    }


# --- Other tasks, rooms and settings


def elsewhere(records: Records) -> list[KnowledgeArm]:
    """Arms in other worlds than the main one, world by world, phi = 0 first."""
    every = knowledge_arms(records)
    home = main_world(every)
    return sorted((each for each in every if each.world != home), key=lambda each: each.world)


@exhibit("knowledge-worlds", "Other tasks and rooms", methods=("knowledge",))
def worlds_table(records: Records) -> Table | None:
    """World by world and arm by arm: the area under the curve and final success, beside phi = 0 of that world."""
    shown = elsewhere(records)
    if not shown:
        return None
    lines = [_world_line(arm, _base_of(arm, shown)) for arm in shown]
    rows = [_world_row(arm, line) for arm, line in zip(shown, lines, strict=True)]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _WORLD_NOTES)


_WORLD_NOTES = (
    "area under the curve: mean success of training episodes over all frames, in percent; final: success of sampled "
    "actions on the test layouts",
    "minus φ = 0: areas, over the frames and seeds that both have. Few seeds give no verdict: no interval is given",
)


def _base_of(arm: KnowledgeArm, shown: list[KnowledgeArm]) -> KnowledgeArm | None:
    same = [each for each in shown if each.kind == "none" and each.world == arm.world]
    return next((each for each in same if each.variant == arm.variant), same[0] if same else None)


def _world_line(arm: KnowledgeArm, base: KnowledgeArm | None) -> dict[str, Any]:
    final = arm.estimate("sampled")
    line: dict[str, Any] = {"world": arm.world, "arm": arm.kind, "varied": arm.variant, "seeds": len(arm.seeds)}
    line |= {"frames": arm.frames, "area": arm.training_success().mean(), "final": final.value if final else np.nan}
    if base is not None and base is not arm and set(arm.seeds) & set(base.seeds):
        ours, theirs = paired_areas(arm, base)
        line["gap"] = float((ours - theirs).mean())
    return line


def _world_row(arm: KnowledgeArm, line: dict[str, Any]) -> dict[str, str]:
    return {
        "world": arm.world.removeprefix("BabyAI-Text-"),
        "arm": arm.title,
        "knowledge": arm.source or "–",
        "network": arm.settings.get("network", "–"),
        "seeds": str(line["seeds"]),
        "steps": f"{line['frames']:,.0f}",
        "area under the curve": f"{line['area']:.1f} %",
        "minus φ = 0": f"{line['gap']:+.1f}" if "gap" in line else "–",
        "final": f"{line['final']:.0f} %" if np.isfinite(line["final"]) else "–",
    }


# --- The original's network, one seed

EXPERIMENT = "original-network"
_PARTS = 4  # of the updates, each with its success


def original_network_version(results: Path) -> Path | None:
    """The folder of the newest version of that experiment; None where it was never run."""
    versions = {file.parent: read_version(file.parent) for file in results.glob("[!.]*/manifest.json")}
    alone = [folder for folder, manifest in versions.items() if manifest.get("alone") == [EXPERIMENT]]
    return max(alone, key=lambda folder: versions[folder]["created"], default=None)


def original_network_records() -> Records | None:
    """The records of that version, whatever else was run."""
    folder = original_network_version(repository_root() / "results")
    return load(folder) if folder else None


@exhibit("knowledge-original-network-table", "The paper's room, network and batch, one seed: the numbers")
def original_network_table(records: Records) -> Table | None:
    """The exhibit `knowledge-original-network-table`, whatever was run here."""
    published = original_network_records()
    return one_seed_table(published) if published else None


def one_seed_table(records: Records) -> Table:
    """Arm by arm: success by quarters of training, area under the curve, success and return on the test layouts."""
    shown = usual_arms(knowledge_arms(records))
    base = plain_ppo(shown)
    lines = [_one_seed_line(arm, base) for arm in shown]
    rows = [_one_seed_row(arm, line) for arm, line in zip(shown, lines, strict=True)]
    version = records.manifest.get("version", records.folder.name)
    notes = (f"{main_world(shown)}, results {version}", *_ONE_SEED_NOTES)
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), notes)


_ONE_SEED_NOTES = (
    "one seed an arm and a fiftieth of the paper's steps: no result",
    "quarters: success of training episodes in each quarter of the updates; area: their mean over all steps",
    "test: success and return on the test layouts, by drawn actions and by the likeliest ones; area and test need not "
    "agree: the one is about the way, the other about its end",
    "BK-Goal pays most for seeing nothing here: its threshold was set on the dataset, and an empty view is what such a "
    "room shows most",
)


def _one_seed_line(arm: KnowledgeArm, base: KnowledgeArm | None) -> dict[str, Any]:
    line: dict[str, Any] = {"arm": arm.kind, "knowledge": arm.source, "seeds": len(arm.seeds), "frames": arm.frames}
    line |= {
        "episodes": int(np.sum(arm.curves["episodes"].to_numpy(dtype=float))),
        "area": float(arm.training_success().mean()),
    }
    line |= {f"quarter {number}": part for number, part in enumerate(quarters(arm), 1)}
    for policy in POLICIES:
        rows = arm.evaluations.loc[arm.evaluations["policy"] == policy]
        line |= {
            f"{metric}, {policy}": float(np.mean(rows[metric].to_numpy(dtype=float)))
            for metric in ("success", "return")
        }
    return line | ({} if base is None or base is arm else {"gap": line["area"] - float(base.training_success().mean())})


def quarters(arm: KnowledgeArm) -> list[float]:
    """Success of the episodes that ended in each quarter of the updates, in percent; NaN where none did."""
    parts = np.array_split(arm.curves.sort_values("iteration")[["success", "episodes"]].to_numpy(dtype=float), _PARTS)
    won, ended = ([np.nansum(part[:, 0] * part[:, 1]) for part in parts], [part[:, 1].sum() for part in parts])
    return [total / count if count else np.nan for total, count in zip(won, ended, strict=True)]


def _source_and_network(arm: KnowledgeArm) -> str:
    """Whose knowledge, and which preference network stands between it and the agent; the small one is ours."""
    if arm.kind not in ("preference", "motif"):
        return arm.source or "–"
    size = arm.settings.get("labelling", {}).get("train", {}).get("network", "small")
    return f"{arm.source}, {'our small' if size == 'small' else 'the published'} preference network"


def _one_seed_row(arm: KnowledgeArm, line: dict[str, Any]) -> dict[str, str]:
    return {
        "arm": arm.title,
        "knowledge": _source_and_network(arm),
        "episodes": str(line["episodes"]),
        "quarters": ", ".join(f"{line[f'quarter {number}']:.0f}" for number in range(1, _PARTS + 1)) + " %",
        "area": f"{line['area']:.1f} %",
        "minus φ = 0": f"{line['gap']:+.1f}" if "gap" in line else "–",
        "test, drawn": f"{line['success, sampled']:.0f} %, {line['return, sampled']:.2f}",
        "test, likeliest": f"{line['success, argmax']:.0f} %, {line['return, argmax']:.2f}",
    }


# --- The dataset that ships

DATASETS = Path(assets.__file__).parent / "knowledge"


def cards(home: Path = DATASETS) -> dict[str, dict[str, Any]]:
    """The cards of the datasets in a folder, by the name of their folder."""
    return {file.parent.name: storage.read_json(file) for file in sorted(home.glob("*/card.json"))}


@exhibit("knowledge-dataset", "The dataset that ships: what was played before any label")
def dataset_table(records: Records) -> Table | None:
    """The exhibit `knowledge-dataset`: of what ships, whatever was run."""
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
