"""What ships of the knowledge paper: the dataset's card, as its maker wrote it, and where its agents went.

All is read from `card.json` and `coverage.json` beside the arrays in assets/knowledge; nothing is unpacked, no run is
needed. Called from: knowledge_exhibits.py. Read next: `methods/knowledge/coverage.py`, which counts the steps.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from groundlab import assets
from groundlab.core import storage
from groundlab.report.records import Records
from groundlab.report.style import new_figure
from groundlab.report.tables import Table

HOME = Path(assets.__file__).parent / "knowledge"


def cards(home: Path = HOME) -> dict[str, dict[str, Any]]:
    """The cards of the datasets in a folder, by the name of their folder."""
    return {file.parent.name: storage.read_json(file) for file in sorted(home.glob("*/card.json"))}


def dataset_table(records: Records) -> Table | None:
    """The exhibit `knowledge-dataset`: of what ships, whatever was run."""
    return card_table(cards())


def card_table(found: dict[str, dict[str, Any]]) -> Table | None:
    """One row a snapshot of the policy that played, and one for the whole of each dataset."""
    lines = [line for name, card in found.items() for line in _lines(name, card)]
    if not lines:
        return None
    recipes = (f"{name} was made by `{card['recipe']}`" for name, card in found.items() if "recipe" in card)
    return Table(pd.DataFrame(lines), pd.DataFrame([_row(line) for line in lines]), (*_NOTES, *recipes))


_NOTES = (
    "policy: after how many steps of PPO with curiosity it was kept, the first after one update; drawn actions, so the "
    "first one all but plays at random",
    "return: 1 minus 0.9 times the share of the time limit that was used, for success; in Crafter what its rewards add "
    "up to; cells: the share of the room's cells on which some agent stood; views, captions: distinct ones",
)


def _lines(name: str, card: dict[str, Any]) -> list[dict[str, Any]]:
    cells = card.get("cells_visited", {})
    parts = [
        {"dataset": name, "snapshot": int(key), **values, "cells_visited": cells.get(key)}
        for key, values in card["snapshots"].items()
    ]
    whole = {"dataset": name, "snapshot": None, "episodes": card["episodes"], "steps": card["steps"]}
    whole |= {"distinct_views": card["distinct_views"], "distinct_captions": card["distinct_captions"]}
    return [*parts, whole]


def _row(line: dict[str, Any]) -> dict[str, str]:
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


# --- Where the agents went


def visits(folder: Path) -> dict[int, np.ndarray]:
    """Steps on each cell, int64 [height, width], by snapshot, as `methods/knowledge/coverage.py` stored them."""
    stored = storage.read_json(folder / "coverage.json")
    return {int(key): np.array([row.split() for row in rows], np.int64) for key, rows in stored.items()}


def coverage(records: Records) -> Figure | None:
    """The exhibit `knowledge-coverage`: a room for each snapshot of what ships, its rooms laid over one another."""
    found = [(HOME / name, card) for name, card in cards().items() if (HOME / name / "coverage.json").is_file()]
    rooms = [(card, *room) for folder, card in found for room in visits(folder).items()]
    if not rooms:
        return None
    figure, axes = new_figure(3.7 * len(rooms), 3.9, 1, len(rooms))
    for axis, room in zip(axes[0], rooms, strict=True):
        _draw_room(axis, *room)
        figure.colorbar(axis.images[0], ax=axis, label="steps on a cell (logarithmic)", shrink=0.8)
    return figure


def _draw_room(axis: Axes, card: dict[str, Any], snapshot: int, counts: np.ndarray) -> None:
    facts, share = card["snapshots"][str(snapshot)], card["cells_visited"][str(snapshot)]
    axis.imshow(np.where(counts > 0, counts, np.nan), cmap="viridis", norm=LogNorm())
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(True)
    told = f"{facts['episodes']} episodes, success {100 * facts['success']:.0f} %, {100 * share:.0f} % of the cells"
    axis.set_title(f"after {snapshot:,} steps of training\n{told}", fontsize=8)
