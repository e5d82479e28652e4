"""The one row that was run with the paper's room, network and batch: one seed, few steps, so a shape and no result.

Its records are a version of their own, made by `groundlab reproduce --only knowledge --scale full --experiment
original-network`; whatever folder is drawn, the exhibits show the newest such version under results/. Read first:
`row_table`. Called from: knowledge_exhibits.py. Read next: knowledge.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from groundlab.core import storage
from groundlab.core.paths import repository_root
from groundlab.report.knowledge import POLICIES, Arm, compared, main_world, plain
from groundlab.report.knowledge_figures import curves
from groundlab.report.records import Records, load
from groundlab.report.tables import Table

EXPERIMENT = "original-network"
_PARTS = 4  # of the updates, for which success is told


def version(results: Path) -> Path | None:
    """The folder of the newest version of that experiment; None where it was never run."""
    manifests = {file.parent: storage.read_json(file) for file in results.glob("[!.]*/manifest.json")}
    found = [folder for folder, manifest in manifests.items() if manifest.get("alone") == [EXPERIMENT]]
    return max(found, key=lambda folder: manifests[folder]["created"], default=None)


def _records() -> Records | None:
    found = version(repository_root() / "results")
    return load(found) if found else None


def row_curves(records: Records) -> Figure | None:
    """The exhibit `knowledge-original-network`, whatever was run here."""
    found = _records()
    return curves(found) if found else None


def row_table(records: Records) -> Table | None:
    """The exhibit `knowledge-original-network-table`, whatever was run here."""
    found = _records()
    return table_of(found) if found else None


def table_of(records: Records) -> Table:
    """Arm by arm: success by quarters of training, area under the curve, success and return on the test layouts."""
    found = compared(records)
    base = plain(found, main_world(found))
    lines = [_line(arm, base) for arm in found]
    rows = [_row(arm, line) for arm, line in zip(found, lines, strict=True)]
    made = records.manifest.get("version", records.folder.name)
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), (f"{main_world(found)}, results {made}", *_NOTES))


_NOTES = (
    "one seed an arm and a fiftieth of the paper's steps: a shape, no result",
    "quarters: success of training episodes in each quarter of the updates; area: their mean over all steps",
    "test: success and return on the test layouts, by drawn actions and by the likeliest ones",
)


def _line(arm: Arm, base: Arm | None) -> dict[str, Any]:
    line: dict[str, Any] = {"arm": arm.kind, "knowledge": arm.source, "seeds": len(arm.seeds), "frames": arm.frames}
    line |= {"episodes": int(np.sum(arm.curves["episodes"].to_numpy(dtype=float))), "area": float(arm.areas().mean())}
    line |= {f"quarter {number}": part for number, part in enumerate(quarters(arm), 1)}
    for policy in POLICIES:
        rows = arm.evaluations.loc[arm.evaluations["policy"] == policy]
        line |= {
            f"{metric}, {policy}": float(np.mean(rows[metric].to_numpy(dtype=float)))
            for metric in ("success", "return")
        }
    return line | ({} if base is None or base is arm else {"gap": line["area"] - float(base.areas().mean())})


def quarters(arm: Arm) -> list[float]:
    """Success of the episodes that ended in each quarter of the updates, in percent; NaN where none did."""
    parts = np.array_split(arm.curves.sort_values("iteration")[["success", "episodes"]].to_numpy(dtype=float), _PARTS)
    won, ended = ([np.nansum(part[:, 0] * part[:, 1]) for part in parts], [part[:, 1].sum() for part in parts])
    return [total / count if count else np.nan for total, count in zip(won, ended, strict=True)]


def _row(arm: Arm, line: dict[str, Any]) -> dict[str, str]:
    return {
        "arm": arm.name,
        "knowledge": arm.source or "–",
        "episodes": str(line["episodes"]),
        "quarters": ", ".join(f"{line[f'quarter {number}']:.0f}" for number in range(1, _PARTS + 1)) + " %",
        "area": f"{line['area']:.1f} %",
        "minus φ = 0": f"{line['gap']:+.1f}" if "gap" in line else "–",
        "test, drawn": f"{line['success, sampled']:.0f} %, {line['return, sampled']:.2f}",
        "test, likeliest": f"{line['success, argmax']:.0f} %, {line['return, argmax']:.2f}",
    }
