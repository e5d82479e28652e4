"""Past measurements (`benchmarks/<date>-<machine>.json`), and a check that no ratio won there is lost here.

    groundlab bench --save         write the figures there
    groundlab bench --check        measure, and compare the ratios with the latest file; exit code 1 if one is lost

Seconds of two machines cannot be compared, and of one machine hardly. Ratios against a peer timed in the same run can:
they are the measurements in `x`. Two machines still differ in them, so the band is wide.
"""

import datetime
import re
from pathlib import Path
from typing import Any

from groundlab.bench.measurement import Measurement
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import repository_root

SAME_RUN = "x"
"""The unit of a ratio of two rates that were timed in one run."""
BAND = 0.5
"""A ratio is lost below this share of what it was: Intel and AMD machines differed by up to a third."""


def folder() -> Path:
    """Where figures are kept."""
    return repository_root() / "benchmarks"


def save(measured: list[Measurement], hardware: dict[str, Any], home: Path | None = None) -> Path:
    """Add the figures to today's file of this machine: a name that is measured again is replaced."""
    words = re.sub(r"[^a-z0-9]+", "-", hardware["cpu"].lower()).strip("-")
    file = (home or folder()) / f"{datetime.date.today():%Y-%m-%d}-{words}.json"
    earlier = _figures(file) if file.is_file() else {}
    figures = {**earlier, **{each.name: each for each in measured}}
    storage.write_json(file, {"hardware": hardware, "figures": [each._asdict() for each in figures.values()]})
    return file


def latest(hardware: dict[str, Any], home: Path | None = None) -> Path:
    """The latest file with ratios of this kind of CPU, or else of any. Raises GroundlabError when there is none."""
    found = sorted((home or folder()).glob("*.json"))
    files = [file for file in found if any(each.unit == SAME_RUN for each in _figures(file).values())]
    if not files:
        raise GroundlabError(f"no figures in {home or folder()} to compare with; write some: groundlab bench --save")
    of_this = [file for file in files if storage.read_json(file)["hardware"]["cpu"] == hardware["cpu"]]
    return (of_this or files)[-1]


def lost(measured: list[Measurement], file: Path) -> list[str]:
    """A line for each ratio that is below its band, as `name: 80.0 x, was 200.0 x`."""
    earlier, now = _figures(file), {each.name: each.value for each in measured if each.unit == SAME_RUN}
    before = {name: each.value for name, each in earlier.items() if each.unit == SAME_RUN and name in now}
    return [
        f"{name}: {now[name]:.1f} x, was {value:.1f} x" for name, value in before.items() if now[name] < BAND * value
    ]


def _figures(file: Path) -> dict[str, Measurement]:
    try:
        return {each["name"]: Measurement(**each) for each in storage.read_json(file)["figures"]}
    except (TypeError, KeyError):
        raise GroundlabError(f"{file} is not what `groundlab bench --save` writes; delete it") from None
