"""What ships of the knowledge paper: the dataset's card, as its maker wrote it beside the arrays.

All is read from the `card.json` files of assets/knowledge; nothing is unpacked and no run is needed. Called from:
knowledge_exhibits.py. Read next: `methods/knowledge/dataset.py`, which writes a card; `lab/knowledge_gallery.py`.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from groundlab import assets
from groundlab.core import storage
from groundlab.report.records import Records
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
    "return: 1 minus 0.9 times the share of the time limit that was used, for success; cells: the share of the room's "
    "cells on which some agent stood; views, captions: distinct ones",
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
        "success": "–" if whole else f"{100 * line['success']:.0f} %",
        "return": "–" if whole else f"{line['return']:.2f}",
        "steps": f"{line['steps']:,}" if whole else f"{line['length'] * line['episodes']:,.0f}",
        "cells": "–" if cells is None else f"{100 * cells:.0f} %",
        "views": f"{line['distinct_views']:,}",
        "captions": f"{line['distinct_captions']:,}" if whole else "–",
    }
