"""What is read and said, word by word: the same first layout before and after training, for both agents.

No episode is picked: it is the first layout of the test list, of the first seed. Read first: `transcripts`.
Called from: exhibits.py.
"""

from typing import Any

import pandas as pd

from groundlab.report.reasoning import LOOKS, SAMPLED, UNTUNED, Arm, main_arms
from groundlab.report.records import Records
from groundlab.report.tables import Table

FIRST, LAST = 6, 3  # replies of an episode that are shown
EPISODES = 1  # of each agent


def transcripts(records: Records) -> Table | None:
    """One row a reply: agent by agent, untuned before trained, an episode from its beginning."""
    found = main_arms(records)
    order = [name for pair in ((UNTUNED[name], name) for name in UNTUNED) for name in pair]
    lines = [line for name in order if name in found for line in _episodes(found[name])]
    if not lines:
        return None
    return Table(pd.DataFrame(lines), pd.DataFrame([row for line in lines for row in _readable(line)]), _NOTES)


_NOTES = (
    f"the first layout of the test list, first seed: not picked; its first {FIRST} replies and its last {LAST}",
    "✗: an invalid reply, after which the world stands still and an error text is read",
)


def _episodes(arm: Arm) -> list[dict[str, Any]]:
    """One line a reply of the first told episodes of the first seed."""
    rows = arm.evaluations.loc[arm.evaluations["policy"] == SAMPLED]
    if "told" not in rows or rows["told"].dropna().empty:
        return []
    rows = rows.loc[rows["told"].notna()]
    rows = rows.loc[rows["seed"] == rows["seed"].min()].sort_values("layout").head(EPISODES)
    return [
        {"agent": _name(arm), "layout": int(row["layout"]), "mission": row["mission"], "success": row["success"] > 0}
        | {"reply": number, "replies": len(row["told"]), **each}
        for row in rows.to_dict("records")
        for number, each in enumerate(row["told"], start=1)
    ]


def _name(arm: Arm) -> str:
    return f"{LOOKS[arm.method].label}, trained" if arm.trained else LOOKS[arm.method].label


def _readable(line: dict[str, Any]) -> list[dict[str, str]]:
    """A reply as a row; an episode's first row names it, its last is followed by how it went."""
    number, last = line["reply"], line["replies"]
    hidden = range(FIRST + 1, last - LAST + 1)
    if number in hidden:
        return (
            [{"episode": "", "reply": "…", "reads": f"({len(hidden)} more)", "says": ""}] if number == hidden[0] else []
        )
    row = {"episode": "", "reply": str(number), "reads": _one_line(line["seen"]), "says": _quoted(line["said"])}
    if not line["valid"]:
        row["says"] += " ✗"
    if number == 1:
        row["episode"] = f"{line['agent']}, layout {line['layout']}: {line['mission']}"
    ending = f"{'success' if line['success'] else 'no success'} after {last} replies"
    return [row, {"episode": ending, "reply": "", "reads": "", "says": ""}] if number == last else [row]


def _one_line(text: str) -> str:
    """Lines as sentences of one line, which a table's cell is."""
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip()) or "(nothing)"


def _quoted(reply: str) -> str:
    """A reply in quotes, its line breaks shown."""
    plain = " ⏎ ".join(" ".join(line.split()) for line in reply.splitlines() if line.strip())
    return f"“{plain}”"
