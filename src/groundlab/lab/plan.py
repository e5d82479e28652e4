"""A plan: the list of runs (method x world x seed x settings) that papers need at a scale, counted before it starts.

    from groundlab import lab
    print(lab.plan("mediator", scale="quick"))     # a table with runs, estimated time and disk

Each run is named by its hash and knows whether the store already holds it.
"""

import io
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

from groundlab.assets import needs_revision, unshipped
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError, names_in_line, unknown_name
from groundlab.core.paths import results_folder
from groundlab.core.run import RunSpec
from groundlab.core.sources import sources
from groundlab.core.storage import digest_json
from groundlab.core.versions import Scale
from groundlab.lab import config, machine, run_folder
from groundlab.lab.config import Entry, Estimate, Experiment
from groundlab.lab.machine import needs_gpu
from groundlab.lab.run_hash import hash_seeds
from groundlab.papers import registry


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan; `given` are the settings that only its entry names, `status` is what the store holds of it."""

    spec: RunSpec
    paper: str
    hash: str
    estimate: Estimate
    status: run_folder.Status
    other_sources: bool = False
    """True if other sources than today's finished it."""
    given: str = ""
    note: str = ""
    experiments: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    """What versions hold of it beside its records (run_copy.py)."""
    arm: str = ""
    arm_label: str = ""

    @property
    def label(self) -> str:
        """`mediator-SimpleDoorKey-s0`."""
        return self.spec.label

    @property
    def needs_gpu(self) -> bool:
        """Whether it asks for a GPU; its estimate is then for one."""
        return needs_gpu(self.spec.settings)


@dataclass(frozen=True, repr=False)
class Plan:
    """What is to be run, for which experiments, and the results folder that holds it."""

    scale: Scale
    experiments: tuple[Experiment, ...]
    runs: tuple[PlannedRun, ...]
    results: Path
    part: bool = False
    """Only some methods or experiments: enough for a figure, never a version of the paper's results."""
    again: bool = False
    """True if runs that other sources finished are made again."""
    sources: str = field(default_factory=sources)
    """The digest of the code that made the plan; a worker with other code refuses its runs."""
    alone: tuple[str, ...] = ()
    """The experiments of a plan whose runs are no part of the whole one (`Entry.alone`); they are a version."""

    @property
    def papers(self) -> list[str]:
        return [experiment.paper for experiment in self.experiments]

    @property
    def digest(self) -> str:
        """SHA-256 over the hashes of all runs: equal for equal plans, whatever is finished."""
        return digest_json([self.scale, self.papers, sorted(run.hash for run in self.runs)])

    def by_paper(self) -> list["Plan"]:
        """A plan a paper, the shortest first, so that the first pages are there after minutes."""
        parts = [
            replace(
                self,
                experiments=tuple(each for each in self.experiments if each.paper == paper),
                runs=tuple(run for run in self.runs if run.paper == paper),
            )
            for paper in dict.fromkeys([*self.papers, *(run.paper for run in self.runs)])
        ]
        return sorted(parts, key=lambda part: sum(run.estimate.seconds for run in part.runs))

    def folder_of(self, run: PlannedRun) -> Path:
        """Where the store keeps a run."""
        return run_folder.path_of(self.results, run.hash)

    def forget_others(self) -> None:
        """Remove the runs that other sources finished, if they are to be made again."""
        for run in self.runs:
            if self.again and run.other_sources:
                shutil.rmtree(self.folder_of(run), ignore_errors=True)

    def pending(self) -> list[PlannedRun]:
        """The runs that the store does not hold finished at this moment."""
        standing = [(run, *run_folder.standing(self.folder_of(run))) for run in self.runs]
        return [run for run, status, other in standing if status != "finished" or (self.again and other)]

    def describe(self, verbose: bool = False) -> RenderableType:
        """The plan as people read it; verbose: a line for each choice of settings, and all notes."""
        if verbose:
            return Group(_table(self, verbose), *self.notes)
        left_out = [f"{len(self.notes)} notes on settings and on what this scale leaves out: --verbose"]
        return Group(
            _table(self, verbose), *_made_by_others(self), *_notes_on_estimates(self), *(left_out if self.notes else [])
        )

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=110, markup=False).print(self.describe(verbose=True))
        return text.getvalue()

    @property
    def notes(self) -> list[str]:
        """What the configs say below the table: settings that many entries share, and what this scale leaves out."""
        blocks = [block for experiment in self.experiments for block in experiment.shared.items()]
        shared = [f"shared settings, {name}: {_named_settings(settings)}" for name, settings in blocks]
        left_out = (f"not run at this scale: {line}" for each in self.experiments for line in each.not_run)
        origins = (f"estimates of {each.paper}: {each.estimates}" for each in self.experiments if each.estimates)
        return [*_made_by_others(self), *shared, *_notes_on_estimates(self), *origins, *left_out]


@dataclass
class Outcome:
    """How the runs of a plan ended: how many finished, which failed (hash -> error line), which are left (labels)."""

    finished: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0, 1 when a run failed, 75 when runs are left to do."""
        if self.unfinished:
            return UNFINISHED_EXIT_CODE
        return 1 if self.failed else 0


def outcome_of(plan: Plan, failed_now: dict[str, str], waiting: Collection[str] = ()) -> Outcome:
    """How the runs of a plan stand in the store.

    failed_now: hash -> error, holds also where it cannot be written. waiting: hashes of runs that go on elsewhere,
    whatever an earlier attempt has left in the store.
    """
    outcome = Outcome()
    for each in plan.runs:
        manifest = run_folder.read_manifest(plan.folder_of(each)) or {"error": None}
        error = failed_now.get(each.hash, manifest["error"])
        if run_folder.status_of(plan.folder_of(each)) == "finished":
            outcome.finished += 1
        elif error and each.hash not in waiting:
            outcome.failed[each.hash] = error
        else:
            outcome.unfinished.append(each.label)
    return outcome


def plan(
    *papers: str,
    scale: str = "quick",
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
    results: str | Path | None = None,
    experiments: Sequence[str] | None = None,
    device: str | None = None,
    wanted: Callable[[str, RunSpec], bool] | None = None,
    again: bool = False,
) -> Plan:
    """The plan of some papers (all by default) at a scale.

    seeds: how many, instead of the config's, for runs that depend on the seed; methods, experiments: only these.
    device: of language models, and where the config names one, `cpu` or `cuda`.
    again: runs that other sources finished count as new (`Plan.forget_others` removes them).
    wanted: says of (paper, spec) whether it is one of the runs, also of those that are no part of the whole plan.
    Raises GroundlabError for unknown papers, scales, methods, experiments, worlds and settings, naming the nearest.
    """
    checked, folder = config.check_scale(scale), results_folder(results)
    files = tuple(config.load(paper, checked) for paper in papers or config.known_papers())
    methods, experiments = list(methods or ()), list(experiments or ())
    chosen = _chosen(files, methods, experiments, alone=wanted is not None)
    planned = list[PlannedRun]()
    for file, entry in chosen:
        for world in entry.worlds:
            first = registry.resolve(entry.method, world, 0, _on_device(entry, world, device))
            specs = [first.model_copy(update={"seed": seed}) for seed in _seeds(entry, seeds)]
            specs = [spec for spec in specs if wanted is None or wanted(file.paper, spec)]
            if specs:
                _check_revision(first)
                names = hash_seeds(first, [spec.seed for spec in specs])
                planned += [_planned_run(file, entry, *run, folder, again) for run in zip(specs, names, strict=True)]
    planned = list({(run.paper, run.hash): run for run in planned}.values())  # what two entries plan is run once
    if wanted is None:
        _check_arms(planned)
    shown = tuple(file for file in files if not experiments or any(file is each for each, _ in chosen))
    alone = tuple(experiments) if experiments and not methods and all(entry.alone for _, entry in chosen) else ()
    part = bool(methods or experiments or wanted) and not alone
    return Plan(checked, shown, tuple(planned), folder, part=part, again=again, alone=alone)


def _on_device(entry: Entry, world: str, device: str | None) -> dict[str, Any]:
    """The settings of an entry, with another device where it has a language model, or names a device itself.

    Other networks are small, so that a plan leaves them on the CPU.

    Raises GroundlabError for a device that has no such name, and for a numbered GPU: workers see one GPU each.
    """
    known = registry.schema_of(registry.get(entry.method, world)).model_fields
    moves = device and "device" in known and ("dtype" in known or "device" in entry.settings)
    settings = {**entry.settings, "device": device} if moves else entry.settings
    inner = {key: value for key, value in settings.items() if isinstance(value, dict) and "device" in value}
    settings = {**settings, **{key: {**value, "device": device or value["device"]} for key, value in inner.items()}}
    for each in machine.devices_of(settings):
        if machine.gpu_number(each) is not None and each != "cuda":
            raise GroundlabError(f"{entry.method} names {each}; write device: cuda, and choose by --device {each}")
    return settings


def _chosen(
    files: Sequence[Experiment], methods: list[str], experiments: list[str], alone: bool
) -> list[tuple[Experiment, Entry]]:
    """The entries of these methods and experiments, each with its file; alone: also of those that stand alone."""
    pairs = [(file, entry) for file in files for entry in file.runs]
    check_known("method", methods, {entry.method for _, entry in pairs})
    check_known("experiment", experiments, {name for _, entry in pairs for name in entry.experiments})
    return [
        (file, entry)
        for file, entry in pairs
        if (not methods or entry.method in methods)
        and (not set(experiments).isdisjoint(entry.experiments) if experiments else alone or not entry.alone)
    ]


def _seeds(entry: Entry, asked: int | None) -> range:
    count = 1 if entry.seeds is None else asked or entry.seeds
    return range(entry.first_seed, entry.first_seed + count)


def _check_arms(planned: list[PlannedRun]) -> None:
    """Raises GroundlabError where one arm would have two runs of a seed in one world."""
    arms: dict[tuple[str, ...], PlannedRun] = {}
    for run in planned:
        other = arms.setdefault((run.paper, run.arm, run.spec.world, str(run.spec.seed)), run)
        if other is not run:
            ours, theirs = run.spec.settings, other.spec.settings
            differing = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
            raise GroundlabError(
                f"two entries of {run.paper} are arm {run.arm!r} in {run.spec.world}, but differ in "
                f"{names_in_line(differing)}; name one, e.g. arm: {run.arm.partition('/')[0]}/{differing[0]}/VALUE, "
                "with a label, or ask for one experiment at a time"
            )


def check_known(kind: str, asked: Sequence[str], known: set[str]) -> None:
    """Raises GroundlabError for the first name that a plan does not know, naming the nearest."""
    for name in asked:
        if name not in known:
            raise unknown_name(f"{kind} of this plan", name, sorted(known))


def _planned_run(
    file: Experiment, entry: Entry, spec: RunSpec, run_hash: str, results: Path, again: bool
) -> PlannedRun:
    status, other = run_folder.standing(run_folder.path_of(results, run_hash))
    shared = [item for block in file.shared.values() for item in block.items()]
    own_settings = {key: value for key, value in entry.settings.items() if (key, value) not in shared}
    return PlannedRun(
        spec=spec,
        paper=file.paper,
        hash=run_hash,
        estimate=entry.estimate,
        status="new" if again and other else status,
        other_sources=other and status == "finished",
        given=_named_settings(own_settings),
        note=entry.note,
        experiments=tuple(entry.experiments),
        keep=tuple(entry.keep) if (spec.world, spec.seed) == (entry.worlds[0], 0) else (),
        arm=entry.arm or entry.method,
        arm_label=entry.label,
    )


def _check_revision(spec: RunSpec) -> None:
    """Raises GroundlabError for a model of the hub without a revision: machines may have other snapshots of it."""
    chat = "chat" if "local" in (spec.settings.get("planner"), spec.settings.get("maker")) else ""
    for settings in (spec.settings, *(spec.settings.get(name) or {} for name in ("teacher", chat))):
        for setting, revision in (("model", "revision"), ("encoder", "encoder_revision")):
            if (name := settings.get(setting)) and needs_revision(name) and not settings.get(revision, name):
                line = f"expected {revision} next to {setting}: {name} of {spec.label}, got none"
                raise GroundlabError(f"{line}; give the commit of the repository on the hub")


def _named_settings(settings: dict[str, Any]) -> str:
    """As plans print them; of a long list or many settings inside, how many there are."""
    long = {key: isinstance(value, list | dict) and len(value) > 2 for key, value in settings.items()}
    return ", ".join(f"{key}={f'({len(value)} of them)' if long[key] else value}" for key, value in settings.items())


_HEADINGS = ("method", "worlds and settings", "runs", "finished", "CPU time left", "disk")


def _title(the_plan: Plan) -> str:
    return f"{' + '.join(the_plan.papers)} at scale {the_plan.scale}"


def _rows(the_plan: Plan) -> list[list[str]]:
    groups = groupby(the_plan.runs, key=lambda run: (run.paper, run.spec.method, run.given, run.experiments))
    return [_row(list(group)) for _, group in groups]


def _totals(the_plan: Plan) -> list[str]:
    """The last line, with what this machine has."""
    count, gpus = len(machine.gpu_names()), ""
    if any(run.needs_gpu for run in the_plan.runs):
        gpus = f", {count or 'no'} GPU{'s' * (count > 1)}"
    return ["total", f"{machine.core_count()} cores{gpus}", *_amounts(the_plan.runs)]


def _amounts(runs: Sequence[PlannedRun]) -> list[str]:
    """Count runs and finished ones, and sum up CPU time and disk of the others."""
    left = [run.estimate for run in runs if run.status != "finished"]
    seconds, megabytes = sum(cost.seconds for cost in left), sum(cost.megabytes for cost in left)
    return [str(len(runs)), str(len(runs) - len(left)), duration(seconds), _size(megabytes)]


def _made_by_others(the_plan: Plan) -> list[str]:
    count = sum(run.other_sources and run.status == "finished" for run in the_plan.runs)
    return [f"{count} finished by other sources; --again repeats them"] if count else []


def _notes_on_estimates(the_plan: Plan) -> list[str]:
    """List the runs that a machine without a GPU cannot execute, and the models that runs pretrain."""
    left, found = [run for run in the_plan.runs if run.status != "finished"], list[str]()
    if models := {model for run in left for model in unshipped(run.spec.settings)}:
        found.append(f"do not ship, so that the first run of each pretrains it: {names_in_line(sorted(models))}")
    asking = [run for run in left if run.needs_gpu]
    if asking and not machine.gpu_names():
        hours, methods = duration(sum(run.estimate.seconds for run in asking)), {run.spec.method for run in asking}
        found.append(
            f"{len(asking)} runs want a GPU, which this machine does not have ({', '.join(sorted(methods))}); "
            f"their {hours} are for one GPU elsewhere"
        )
    return found


def _table(the_plan: Plan, verbose: bool) -> Table:
    """A line a choice of settings; else one a method and a sum a paper, which fits a terminal of 80 columns."""
    table = Table(title=_title(the_plan), title_justify="left", show_footer=True)
    headings = _HEADINGS if verbose else ("paper", "method", *_HEADINGS[2:])
    for number, (heading, total) in enumerate(zip(headings, _totals(the_plan), strict=True)):
        no_wrap, justify = number == 0 or not verbose, "left" if number < 2 else "right"
        table.add_column(heading, footer=total, no_wrap=no_wrap, justify=justify)
    for row in _rows(the_plan) if verbose else ():
        table.add_row(*row)
    for paper, group in groupby(() if verbose else the_plan.runs, key=lambda run: run.paper):
        runs = list(group)
        for name in dict.fromkeys(run.spec.method for run in runs):
            table.add_row("", name, *_amounts([run for run in runs if run.spec.method == name]))
        table.add_row(paper, "", *_amounts(runs), end_section=True, style="bold")
    return table


def _row(group: list[PlannedRun]) -> list[str]:
    """One method with one choice of settings."""
    worlds = list(dict.fromkeys(run.spec.world for run in group))
    notes = [text for text in (group[0].given, group[0].note) if text]
    named = f"{' '.join(group[0].experiments)}: " if group[0].experiments else ""
    return [group[0].spec.method, named + "; ".join([", ".join(worlds), *notes]), *_amounts(group)]


def _size(megabytes: float) -> str:
    """`2.0 MB`, `43.5 GB`."""
    return f"{megabytes:.1f} MB" if megabytes < 1000 else f"{megabytes / 1000:.1f} GB"


def duration(seconds: float) -> str:
    """`0.4 s`, `45 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.1f} s" if 0 < seconds < 5 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
