"""Figures that are kept (`benchmarks/<date>-<machine>.json`), and the check that fails if a speed-up regresses.

    groundlab bench --save         write the figures there
    groundlab bench --check        measure, and compare the ratios with the latest that were kept

Only ratios of two rates of the same run are compared. They differ between machines too, so the tolerance is wide.
"""

import datetime
import re
from pathlib import Path
from typing import Any

from groundlab.bench.measurement import RATIO, Measurement
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import repository_root

TOLERANCE = 0.5
"""A ratio is lost below this share of the one that was kept: Intel and AMD machines differed by up to a third."""


def folder() -> Path:
    """Return the folder where figures are kept."""
    return repository_root() / "benchmarks"


def save(measured: list[Measurement], hardware: dict[str, Any]) -> Path:
    """Add the figures to today's file of this machine; a name that is measured again is replaced."""
    words = re.sub(r"[^a-z0-9]+", "-", hardware["cpu"].lower()).strip("-")
    file = folder() / f"{datetime.date.today():%Y-%m-%d}-{words}.json"
    earlier = [Measurement(**each) for each in storage.read_json(file)["figures"]] if file.is_file() else []
    figures = {each.name: each for each in [*earlier, *measured]}
    storage.write_json(file, {"hardware": hardware, "figures": [each._asdict() for each in figures.values()]})
    return file


def kept_ratios(hardware: dict[str, Any]) -> dict[str, float]:
    """Return the latest kept ratio of each name, of this CPU where it has any. Raises GroundlabError without any."""
    stored = [storage.read_json(file) for file in sorted(folder().glob("*.json"))]
    own = [each for each in stored if each["hardware"]["cpu"] == hardware["cpu"]]
    figures = [figure for content in [*stored, *own] for figure in content["figures"]]
    ratios = {figure["name"]: figure["value"] for figure in figures if figure["unit"] == RATIO}
    if not ratios:
        raise GroundlabError(f"no figures in {folder()} to compare with; write some: groundlab bench --save")
    return ratios


def lost(measured: list[Measurement], kept: dict[str, float]) -> list[str]:
    """Return a line for each ratio below its tolerance, as `name: 80.0 x, was 200.0 x`, or that was never kept."""
    return [
        f"{each.name}: {each.value:.1f} x, was {kept.get(each.name, 0):.1f} x"
        if each.name in kept
        else f"{each.name}: nothing kept to compare with; groundlab bench --save"
        for each in measured
        if each.unit == RATIO and each.value < TOLERANCE * kept.get(each.name, float("inf"))
    ]
