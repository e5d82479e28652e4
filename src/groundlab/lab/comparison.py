"""Two sets of results, run by run: which records are equal to the byte, which differ, and what that means.

Runs are paired by method, world, seed and settings, defaults filled in on both sides: a setting that only one of the
two codes knows makes no difference while it has its default. Equal are those whose records have equal digests. How a
version compares with the published ones is kept in its comparison.json, which the review page shows.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import Manifest, made_by, read_run, sessions
from groundlab.core.run import COMPARED, RunSpec
from groundlab.core.sources import sources
from groundlab.core.storage import digest_json
from groundlab.core.versions import Version, find_published, is_version
from groundlab.papers import registry

FILE = "comparison.json"


CAUSES = {
    "name": "{} of them were made with other packages, inputs or behaviour numbers",
    "rounding": "{} of them were made where numbers are rounded differently, which changes a training about as much as "
    "another seed does",
    "": "{} of them differ although inputs, packages and rounding are the same: that is a fault, of groundlab (changed "
    "results without a new behaviour number) or of this machine, and their numbers must not be trusted",
}
"""Causes of runs that differ, each with the line that is printed of them."""


@dataclass(frozen=True)
class Difference:
    """A run whose records are not those of its counterpart."""

    label: str
    record: str
    """The first record that differs."""
    cause: str
    """A key of CAUSES; rounding explains nothing of a run that trains nothing and reads no model."""


@dataclass
class Comparison:
    """The runs of one side by what came of comparing their records with the other's, as labels."""

    reference: list[str] = field(default_factory=list)
    """The names of the versions on the other side."""
    equal: list[str] = field(default_factory=list)
    differing: list[Difference] = field(default_factory=list)
    only_fresh: list[str] = field(default_factory=list)
    only_reference: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Runs that could not be made again, each with its error."""

    def __add__(self, other: "Comparison") -> "Comparison":
        """Of other runs, with another version, as well."""
        both = {name: [*getattr(self, name), *getattr(other, name)] for name in vars(self)}
        return Comparison(**both | {"reference": list(dict.fromkeys(both["reference"]))})

    def add(self, ours: Manifest, theirs: Manifest) -> None:
        """Compare a run with its counterpart by the digests of their records; one that neither has is equal."""
        digests = ({name: each["sha256"] for name, each in run["records"].items()} for run in (ours, theirs))
        here, there = digests
        unequal = [name for name in COMPARED if here.get(name) != there.get(name)]
        if not unequal:
            self.equal.append(label_of(theirs))
            return
        computed = "device" in theirs["settings"] or _learns(theirs)
        rounded = computed and len(roundings_of(ours) | roundings_of(theirs)) > 1
        cause = "name" if ours["hash"] != theirs["hash"] else "rounding" if rounded else ""
        self.differing.append(Difference(label_of(theirs), unequal[0], cause))

    def count(self, *causes: str) -> int:
        """Return how many runs differ for one of these causes."""
        return sum(each.cause in causes for each in self.differing)

    def summary(self) -> list[str]:
        """What to print: the count, then a sentence for each cause of differences."""
        counts = ((self.only_fresh, "have no counterpart there"), (self.only_reference, "of theirs are not here"))
        unpaired = "".join(f", {len(labels)} {what}" for labels, what in counts if labels)
        found = [f"{len(self.equal)} runs are equal to the byte, {len(self.differing)} differ{unpaired}"]
        return found + [line.format(count) for cause, line in CAUSES.items() if (count := self.count(cause))]

    def lines(self, most: int = 20) -> list[str]:
        """The summary, then the runs that are not equal or have no counterpart, at most so many of each kind."""
        found = self.summary()
        differing = [f"{each.label}: {each.record}" for each in self.differing]
        kinds = {"differs": differing, "failed": self.failed}
        kinds |= {"only fresh": self.only_fresh, "only reference": self.only_reference}
        for name, labels in kinds.items():
            found += [f"{name}: {label}" for label in labels[:most]]
            found += [f"{name}: {len(labels) - most} more"] if len(labels) > most else []
        return found


def compare(fresh: Path, reference: Path, papers: Iterable[str] | None = None) -> Comparison:
    """Compare the finished runs of two folders, each a version or one with a store of runs; of these papers, or of all.

    Raises GroundlabError for a folder without runs.
    """
    ours, theirs = _runs(fresh, papers), _runs(reference, papers)
    result = Comparison([reference.name])
    for key in sorted(ours.keys() | theirs.keys()):
        if key in theirs and key in ours:
            result.add(*max(product(ours[key], theirs[key]), key=_match))
        else:
            (result.only_fresh if key in ours else result.only_reference).append(label_of((ours | theirs)[key][-1]))
    return result


def _match(pair: tuple[Manifest, Manifest]) -> tuple[Any, ...]:
    """Of the runs of one spec on both sides those of one name are compared, else the newest, of today's code first."""
    ages = ((made_by(each) == sources(), each["history"][-1].get("started", "")) for each in pair if each["history"])
    return pair[0]["hash"] == pair[1]["hash"], *ages


def beside_published(version: Path, papers: Iterable[str], scale: str) -> Comparison | None:
    """A version's runs beside the published ones of its papers at its scale; None where nothing of them is published.

    Raises GroundlabError as `compare`.
    """
    published: dict[Path, list[str]] = {}
    for paper in papers:
        if (reference := find_published(paper, scale, version.parent)) and reference != version:
            published.setdefault(reference, []).append(paper)
    found = [compare(version, reference, theirs) for reference, theirs in published.items()]
    return sum(found[1:], found[0]) if found else None


def _runs(folder: Path, papers: Iterable[str] | None) -> dict[str, list[Manifest]]:
    """The finished runs by what was run; a store that lived through a change of code has several of one."""
    if is_version(folder):
        found = [run for run in Version(folder).runs() if papers is None or run["paper"] in papers]
    else:
        stored = (read_run(file.parent) for file in sorted(folder.glob(".runs/*/manifest.json")))
        found = [run for run in stored if run and run["status"] == "finished"]
    if not found:
        raise GroundlabError(f"{folder} holds no finished runs; name a results folder or one version in it")
    runs: dict[str, list[Manifest]] = {}
    for each in found:
        runs.setdefault(_key(each), []).append(each)
    return runs


def spec_of(run: Manifest) -> RunSpec:
    """Return the spec of a stored run as today's code knows it. Raises GroundlabError where it does not."""
    stored = RunSpec(**{name: run[name] for name in RunSpec.model_fields})
    return registry.stored_spec(stored, run.get("changed"))


def _key(run: Manifest) -> str:
    """Return a digest of method, world, seed and settings with their defaults."""
    with suppress(GroundlabError):  # a setting that this code does not know: comparable with its like only
        return digest_json(spec_of(run).model_dump())
    return digest_json({name: run[name] for name in RunSpec.model_fields})


def _learns(run: Manifest) -> bool:
    with suppress(GroundlabError):
        return registry.get(run["method"], run["world"]).learns
    return True


def label_of(run: Manifest) -> str:
    """Return what a run is called here: method, world, seed and name."""
    return f"{run['method']}-{run['world']}-s{run['seed']} ({run['hash']})"


def roundings_of(manifest: Manifest) -> set[tuple[str, str]]:
    """Return of each session the rounding digest (lab/rounding.py), or the CPU in older manifests, and the GPU."""
    of_each = ((each.get("rounding"), each.get("hardware", {})) for each in sessions(manifest))
    return {(rounding or hardware.get("cpu", "unknown"), hardware.get("gpu") or "") for rounding, hardware in of_each}
