"""Two results folders run by run: which records are equal to the byte, which differ, and which have no counterpart.

    groundlab compare results results/0.1.0-quick-20261122-ab12cd3

Runs are paired by method, world, seed and settings, defaults filled in on both sides: a setting that only one of the
two codes knows makes no difference while it has its default.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from groundlab.core.errors import GroundlabError
from groundlab.core.hashing import digest_json
from groundlab.lab import run_hash

RECORDS = ("metrics.jsonl", "evaluation.json")


@dataclass
class Comparison:
    """Labels of runs, by what came of comparing their records."""

    equal: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    """With the first record that differs."""
    only_fresh: list[str] = field(default_factory=list)
    only_reference: list[str] = field(default_factory=list)

    def lines(self, most: int = 20) -> list[str]:
        """What to print: the count, then the runs that are not equal, at most so many of each kind."""
        found = [f"{len(self.equal)} runs equal to the byte, {len(self.differing)} differ"]
        kinds = (("differs", self.differing), ("only fresh", self.only_fresh), ("only reference", self.only_reference))
        for name, labels in kinds:
            found += [f"{name}: {label}" for label in labels[:most]]
            found += [f"{name}: {len(labels) - most} more"] if len(labels) > most else []
        return found


def compare(fresh: Path, reference: Path) -> Comparison:
    """Compare the finished runs of two folders, each a store of runs or a version.

    Raises GroundlabError for a folder without runs.
    """
    ours, theirs = _runs(fresh), _runs(reference)
    result = Comparison()
    for key in sorted(ours.keys() | theirs.keys()):
        if key not in theirs:
            result.only_fresh.append(ours[key].name)
        elif key not in ours:
            result.only_reference.append(theirs[key].name)
        elif unequal := [name for name in RECORDS if _content(ours[key] / name) != _content(theirs[key] / name)]:
            result.differing.append(f"{_label(theirs[key])}: {unequal[0]}")
        else:
            result.equal.append(_label(theirs[key]))
    return result


def _runs(folder: Path) -> dict[str, Path]:
    """The folders of finished runs by what was run."""
    places = [*folder.glob(".runs/*/evaluation.json"), *folder.glob("*/runs/*/evaluation.json")]
    if not places:
        raise GroundlabError(f"{folder} holds no finished runs; name a results folder or one version in it")
    return dict(sorted(_keyed(file.parent for file in places)))


def _keyed(places: Iterable[Path]) -> Iterable[tuple[str, Path]]:
    for place in places:
        config = _config(place)
        try:
            spec = run_hash.resolve(config["method"], config["world"], config["seed"], config["settings"])
            asked: Any = spec.settings
        except GroundlabError:  # a setting that this code does not know: comparable with its like only
            asked = config["settings"]
        yield digest_json([config["method"], config["world"], config["seed"], asked]), place


def _config(place: Path) -> dict[str, Any]:
    content = yaml.safe_load((place / "config.yaml").read_text())
    return {"settings": {}, **content}


def _label(place: Path) -> str:
    config = _config(place)
    return f"{config['method']}-{config['world']}-s{config['seed']} ({place.name})"


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""
