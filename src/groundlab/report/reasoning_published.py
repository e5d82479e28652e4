"""What the report on reasoning agents prints: its three tables of success and reward, for comparison beside ours.

All are of Llama-3.2-3B-Instruct, 50 episodes a cell, the first that finished (spec reasoning-agents 4.2 to 4.4). Our
`quick` agents are a model of 0.9 million weights in one of the two training worlds: what can be compared is the shape.
Called from: reasoning_agents.py, reasoning_studies.py; a test holds the numbers in configs/claims.yaml to these.
"""

from typing import NamedTuple


class Cell(NamedTuple):
    """One printed cell."""

    success: float  # percent
    reward: float


_Row = tuple[str, str, float, float, float, float]  # world, variant, success R and NR, reward R and NR
TABLES: dict[int, tuple[_Row, ...]] = {
    0: (
        ("GoTo", "zero-shot", 0.66, 0.94, 0.55, 0.69),
        ("GoTo", "trained", 1.00, 1.00, 0.85, 0.91),
        ("GoTo", "trained", 1.00, 1.00, 0.90, 0.92),
        ("Pickup", "zero-shot", 0.64, 0.68, 0.47, 0.47),
        ("Pickup", "trained", 0.88, 1.00, 0.69, 0.85),
        ("Pickup", "trained", 1.00, 1.00, 0.88, 0.86),
        ("GoToTest", "zero-shot", 0.44, 0.96, 0.36, 0.75),
        ("GoToTest", "trained", 0.98, 1.00, 0.82, 0.91),
        ("GoToTest", "trained", 1.00, 1.00, 0.90, 0.92),
        ("PickupTest", "zero-shot", 0.72, 0.82, 0.53, 0.50),
        ("PickupTest", "trained", 0.96, 1.00, 0.80, 0.87),
        ("PickupTest", "trained", 1.00, 1.00, 0.87, 0.87),
    ),
    3: (
        ("GoTo", "zero-shot", 0.46, 0.80, 0.34, 0.53),
        ("GoTo", "trained", 0.98, 0.98, 0.88, 0.86),
        ("GoTo", "trained", 0.14, 1.00, 0.13, 0.89),
        ("Pickup", "zero-shot", 0.18, 0.42, 0.12, 0.30),
        ("Pickup", "trained", 0.96, 0.74, 0.86, 0.63),
        ("Pickup", "trained", 0.22, 0.82, 0.20, 0.68),
        ("GoToTest", "zero-shot", 0.62, 0.86, 0.48, 0.62),
        ("GoToTest", "trained", 1.00, 0.98, 0.91, 0.85),
        ("GoToTest", "trained", 0.20, 1.00, 0.19, 0.90),
        ("PickupTest", "zero-shot", 0.28, 0.38, 0.19, 0.27),
        ("PickupTest", "trained", 0.92, 0.82, 0.80, 0.73),
        ("PickupTest", "trained", 0.10, 0.72, 0.08, 0.60),
    ),
    5: (
        ("GoTo", "zero-shot", 0.46, 0.72, 0.33, 0.52),
        ("GoTo", "trained", 0.86, 1.00, 0.75, 0.88),
        ("Pickup", "zero-shot", 0.20, 0.32, 0.15, 0.21),
        ("Pickup", "trained", 0.86, 0.80, 0.74, 0.68),
        ("GoToTest", "zero-shot", 0.41, 0.90, 0.34, 0.63),
        ("GoToTest", "trained", 0.88, 1.00, 0.79, 0.87),
        ("PickupTest", "zero-shot", 0.22, 0.30, 0.17, 0.22),
        ("PickupTest", "trained", 0.82, 0.80, 0.72, 0.70),
    ),
}
"""Distractors -> the rows of the printed table; a trained row a trial."""


def cells(distractors: int, world: str, variant: str, thinks: bool) -> list[Cell]:
    """The printed cells of "GoTo", "zero-shot" or "trained": one a trial, none where the report has no such row."""
    found = [row[2:] for row in TABLES.get(distractors, ()) if row[:2] == (world, variant)]
    own = slice(0, None, 2) if thinks else slice(1, None, 2)
    return [Cell(round(100 * row[own][0], 6), row[own][1]) for row in found]


def printed(found: list[Cell], metric: str) -> str:
    """`66 %`, or `98 %, 14 %` for two trials; a dash for none."""
    if metric == "success":
        return ", ".join(f"{cell.success:.0f} %" for cell in found) or "–"
    return ", ".join(f"{cell.reward:.2f}" for cell in found) or "–"
