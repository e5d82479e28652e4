"""One command from configs to the review page: plan, runs, version, verdicts, page, notebooks, comparison.

`reproduce` can be killed anywhere: the same command finds the finished runs by their hashes and continues the started
ones; a version that is already there is reused, and gets the notebooks that it lacks. What executes runs is imported
after the plan, which is then quick.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from groundlab.core import extras, storage
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError, unknown_name
from groundlab.core.paths import find_root, results_folder
from groundlab.core.versions import Version
from groundlab.lab import comparison, machine, public_models, versions
from groundlab.lab.machine import check_devices
from groundlab.lab.notebooks import check_parameters, parameters_of, run_notebook
from groundlab.lab.plan import Outcome, Plan, outcome_of, plan
from groundlab.lab.stops import is_over

if TYPE_CHECKING:
    from groundlab.lab.slurm.settings import SlurmSettings

Execute = Callable[..., Outcome]  # what an executor's `run` does with a plan
EXECUTORS = ("local", "slurm", "none")
_console = Console(markup=False)  # paths and errors may hold brackets


@dataclass(frozen=True)
class _Request:
    """What is to be reproduced, in the words of the command line."""

    papers: list[str]
    scale: str
    seeds: int | None
    methods: Sequence[str] | None
    experiments: Sequence[str] | None
    device: str | None
    again: bool = False

    def make_plan(self, results: Path) -> Plan:
        """The plan of it, as the store under `results` stands now."""
        choice = {name: value for name, value in vars(self).items() if name != "papers"}
        return plan(*self.papers, **choice, results=results)

    def command(self) -> str:
        """The command line that makes a version of it."""
        parts = ["groundlab reproduce", *(f"--only {paper}" for paper in self.papers)]
        parts += [*(f"--experiment {name}" for name in self.experiments or ()), f"--scale {self.scale}"]
        parts += [f"--seeds {self.seeds}"] if self.seeds else []
        parts += ["--again"] if self.again else []
        return " ".join(parts + ([f"--device {self.device}"] if self.device else []))


def reproduce(
    papers: Sequence[str] = (),
    scale: str = "quick",
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
    workers: int | None = None,
    results: str | Path | None = None,
    dry_run: bool = False,
    executor: str = "local",
    experiments: Sequence[str] | None = None,
    slurm_file: Path | None = None,
    wait: bool = True,
    verbose: bool = False,
    hours: float | None = None,
    continue_from: str | Path | None = None,
    device: str | None = None,
    pages: bool = True,
    again: bool = False,
) -> int:
    """Reproduce papers (all by default) at a scale and return the exit code.

    0: done; 1: a run failed, a claim of class `exact` does not hold, or records differ from the published ones without
    a cause (`report.comparison`); 75: stopped, the same command continues.
    hours: how long runs may take. Then they save and stop, and a version is made of what is finished (75 while runs
    are missing). continue_from: a version whose finished runs are taken where their hashes are equal.
    verbose: print the plan with every choice of settings. executor: `local`, `slurm` or `none` (pages alone).
    slurm_file, wait: for `slurm` alone; without waiting it returns 75 once all is queued. device: `auto`, `cpu`, `cuda`
    or `cuda:N`, for all methods that can be given one. pages: False ends once the runs are done. again: repeat the runs
    that other sources finished.
    Raises GroundlabError for anything that needs a person: unknown names, a full disk, a broken notebook.
    """
    cluster = _cluster(executor, slurm_file, hours)
    device, gpus = chosen_device(device, executor, dry_run)
    until = None if hours is None else time.monotonic() + 3600 * hours
    request = _Request(list(papers), scale, seeds, methods, experiments, device, again)
    home = results_folder(results)
    the_plan = request.make_plan(home)
    if continue_from is not None and not dry_run:
        taken = versions.take_finished(the_plan, continue_from)
        _console.print(f"{taken} finished runs taken from {continue_from}", soft_wrap=True)
        the_plan = request.make_plan(home)
    _console.print(the_plan.describe(verbose))
    ready = versions.find_version(the_plan)
    for place in () if ready else (home / ".runs", versions.home_of(the_plan)):  # an image lets only these be written
        storage.check_writable(place)
    if dry_run:
        if cluster and not ready:
            from groundlab.lab.slurm.executor import preview

            print(preview(the_plan, cluster))
        _console.print(_what_would_be_done(the_plan, ready), soft_wrap=True)
        _fetch_models(the_plan, dry_run)
        return 0
    if ready and not extras.has_laboratory():
        print(f"nothing to do: the results are {ready}")
        return 0
    if ready:
        hint = "its runs are these; to execute all of them again, name a new folder: --results FOLDER"
        _make_notebooks(the_plan, ready)
        verdict = _verdict("nothing to do", ready, _compare(ready, the_plan))
        _console.print(hint, soft_wrap=True)
        return verdict
    _check_before_hours_of_training(the_plan, executor)
    _fetch_models(the_plan)
    the_plan.forget_others()
    if cluster:
        from groundlab.lab.slurm.executor import run as run_on_cluster

        execute: Execute = partial(run_on_cluster, settings=cluster, wait=wait)
    elif executor == "none":
        execute = _run_nothing
    else:
        from groundlab.lab.executor import run  # now, because workers' code loads torch

        execute = partial(run, workers=workers, until=until, gpus=gpus)
    if cluster or not pages:
        return _run_all(the_plan, execute, request, cluster if pages else None, wait)
    return _make_version(the_plan, execute, request, until)


def _run_nothing(the_plan: Plan, **_: Any) -> Outcome:
    return outcome_of(the_plan, {})


def _what_would_be_done(the_plan: Plan, ready: Path | None) -> str:
    """What the command would do without --dry-run, in a line."""
    if ready:
        return f"nothing to do: {ready}"
    count = len(the_plan.pending())
    return f"{count} of {len(the_plan.runs)} runs would be executed" if count else "all runs are there; pages are not"


def _fetch_models(the_plan: Plan, dry_run: bool = False) -> None:
    """Fetch the public models that runs of a plan still need, or list them; raises GroundlabError as `fetch`."""
    pending = [(each.spec.method, each.spec.world, each.spec.settings) for each in the_plan.pending()]
    for name in public_models.missing(pending):
        _console.print(f"{'would fetch' if dry_run else 'fetching'} {public_models.describe(name)}", soft_wrap=True)
        if not dry_run:
            public_models.fetch(name)


def reproduce_claims(
    ids: Sequence[str],
    scale: str = "quick",
    workers: int | None = None,
    results: str | Path | None = None,
    dry_run: bool = False,
    device: str | None = None,
) -> int:
    """Execute the runs that some claims rest on, judge these claims by them, and return the exit code.

    0: done; 1: a run failed or a claim of class `exact` does not hold; 75: stopped, the same command continues.
    Raises GroundlabError for unknown claims, and for those that no run of this scale could judge.
    """
    from groundlab.report import verdict_changes  # loads pandas
    from groundlab.report.claims import load_claims
    from groundlab.report.judging import judge
    from groundlab.report.verdicts import UNDECIDED, Verdicts

    known = {claim.id: claim for claim in load_claims()}
    for name in ids:
        if name not in known:
            raise unknown_name("claim", name, known, "groundlab claims lists all")
    claims = [known[name] for name in dict.fromkeys(ids)]
    for claim in claims:
        if claim.not_run is not None or scale not in claim.scales:
            other = claim.not_run or f"give --scale {' or '.join(claim.scales)}"
            raise GroundlabError(f"{claim.id} is not judged at scale {scale}: {other}")
    device, gpus = chosen_device(device, "local", dry_run)
    selectors = [(claim.paper, each) for claim in claims for each in claim.selectors]
    the_plan = plan(
        *dict.fromkeys(claim.paper for claim in claims),
        scale=scale,
        results=results_folder(results),
        device=device,
        wanted=lambda paper, spec: any(
            paper == name and each.fits(spec.method, spec.world, spec.settings) for name, each in selectors
        ),
    )
    _console.print(the_plan.describe())
    if dry_run:
        _console.print(_what_would_be_done(the_plan, None), soft_wrap=True)
        _fetch_models(the_plan, dry_run)
        return 0
    _fetch_models(the_plan)
    from groundlab.lab.executor import run  # now, because workers' code loads torch

    outcome = run(the_plan, workers, gpus=gpus)
    _print_outcome(" + ".join(the_plan.papers), outcome)
    if outcome.unfinished:
        _console.print("unfinished: the same command continues here")
        return outcome.exit_code
    if not outcome.finished:
        _console.print(f"runs failed: {', '.join(claim.id for claim in claims)}", soft_wrap=True)
        return outcome.exit_code
    name = f"claims-{scale}-{storage.digest_json(sorted(claim.id for claim in claims))[:8]}"
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        versions.make_version(the_plan, Path(folder), outcome.failed, "")
        verdicts = Verdicts(each.as_json() for each in judge(folder, claims=claims))
    there = {
        each["id"]: each for each in verdict_changes.published_claims(the_plan.results / name, the_plan.papers, scale)
    }
    for each in verdicts:
        lines = verdict_changes.story(each, there.get(each["id"]))
        if each["verdict"] in UNDECIDED and scale in ("smoke", "quick") and "full" in each["scales"]:
            again = f"groundlab reproduce --claim {each['id']} --scale full"
            lines.append(f"  for a verdict: {again} (--dry-run tells the time)")
        for line in lines:
            _console.print(line, soft_wrap=True)
    _console.print(f"records: {the_plan.results}/.runs; single claims make no page", soft_wrap=True)
    return 1 if outcome.failed or verdicts.exact_failed else 0


def _cluster(executor: str, slurm_file: Path | None, hours: float | None) -> "SlurmSettings | None":
    """The settings of the cluster, for the executor `slurm`. Raises GroundlabError for options that do not fit."""
    if executor not in EXECUTORS:
        raise unknown_name("executor", executor, EXECUTORS)
    if executor != "slurm":
        return None
    from groundlab.lab.slurm.settings import load_settings

    cluster = load_settings(slurm_file)
    if cluster.image is None and not extras.has_laboratory():
        raise GroundlabError(
            "tasks would run in this Python, which can only submit; set image in a file for --slurm, or "
            'pip install "groundlab[lab]"'
        )
    if hours is not None:
        raise GroundlabError("--hours is for this machine; Slurm's own limit is in its settings file")
    return cluster


def chosen_device(device: str | None, executor: str, dry_run: bool) -> tuple[str | None, list[str] | None]:
    """What a plan calls the device (`cpu`, `cuda`, or None for the configs' own), and the GPUs that its workers may
    have, None for all. Raises GroundlabError for an unknown device and for one that is not here."""
    if device is None:
        return None, None
    if executor == "slurm" and device not in ("cpu", "cuda"):
        raise GroundlabError(
            f"--device {device} is for this machine; Slurm gives each task a GPU: --device cuda or cpu"
        )
    if device == "auto":
        device = "cuda" if machine.gpus() else "cpu"
    number = machine.gpu_number(device)
    if number is None or executor != "local":
        return device.partition(":")[0], None
    here = machine.gpus()
    if not dry_run and number >= len(here):
        count = f"{len(here) or 'no'} GPU{'s' * (len(here) > 1)}"
        raise GroundlabError(f"--device {device}: this machine has {count}; use --device auto or cpu")
    return "cuda", [here[number].handle] if ":" in device and number < len(here) else None


def _check_before_hours_of_training(the_plan: Plan, executor: str) -> None:
    """Raises GroundlabError where a notebook lacks a parameter, and for a GPU that is not here."""
    if not extras.has_laboratory():
        return  # the job that makes the pages checks them
    for _, notebook in versions.notebooks_of(the_plan):
        check_parameters(notebook, {"scale": "", "folder": ""})
    if executor == "local":
        check_devices(each.spec for each in the_plan.pending())


def _run_all(the_plan: Plan, execute: Execute, request: _Request, cluster: "SlurmSettings | None", wait: bool) -> int:
    """All runs, then the pages as a job of a cluster, or none; returns the exit code.

    Pages cost minutes of CPU and start hostile programs in a sandbox: nothing for a login node.
    """
    outcome = execute(the_plan)
    _print_outcome(" + ".join(the_plan.papers), outcome)
    if outcome.unfinished:
        _console.print("unfinished: the same command continues here")
        return outcome.exit_code
    if not cluster:
        _console.print("the runs are done; without --no-pages the same command makes tables, figures and pages")
        return outcome.exit_code
    from groundlab.lab.slurm.executor import make_pages

    make = partial(reproduce, **vars(request), results=str(the_plan.results), executor="none")
    return make_pages(the_plan, cluster, make, wait)


def _make_version(the_plan: Plan, execute: Execute, request: _Request, until: float | None) -> int:
    """Execute the runs of a plan and make a version of them; returns the exit code.

    Runs that are unfinished when the hours are over are missing from the version; a person's stop makes none.
    """
    outcome = execute(the_plan)
    for part in the_plan.by_paper():
        _print_outcome(" + ".join(part.papers), outcome_of(part, outcome.failed))
    if outcome.unfinished and not is_over(until):
        _console.print("unfinished: the same command continues here")
        return outcome.exit_code
    if not outcome.finished:
        _console.print("nothing was finished in this time: the same command continues here")
        return outcome.exit_code
    from groundlab import report  # loads pandas

    folder = versions.begin_version(the_plan)
    versions.make_version(the_plan, folder, outcome.failed, request.command())
    if compared := _compare(folder, the_plan):
        more = {"summary": compared.summary(), "faults": compared.count("")}
        storage.write_json(folder / comparison.FILE, asdict(compared) | more)
    report.review(folder)
    version = versions.finish_version(the_plan, folder)
    _make_notebooks(the_plan, version)
    verdict = _verdict("results", version, compared)
    if outcome.unfinished:
        line = f"{len(outcome.unfinished)} runs are missing: the same command with --continue {version.name}"
        _console.print(line, soft_wrap=True)
        return UNFINISHED_EXIT_CODE
    return max(outcome.exit_code, verdict)


def _make_notebooks(the_plan: Plan, version: Path) -> None:
    """Execute the notebooks of a version that it does not hold yet; they show what is stored there.

    Raises GroundlabError where one fails.
    """
    root = find_root()
    home = (
        root if root and version.is_relative_to(root) else None
    )  # others open the pages, too: no path of this machine
    folder = str(version.relative_to(home) if home else version)
    for paper, notebook in versions.notebooks_of(the_plan):
        page = version / paper / "executed" / notebook.name
        if (version / paper).is_dir() and not page.is_file():
            trains = {"source": "published"} if "source" in parameters_of(notebook) else {}
            run_notebook(notebook, {"scale": the_plan.scale, "folder": folder, **trains}, page, home)


def _compare(version: Path, the_plan: Plan) -> comparison.Comparison | None:
    return comparison.beside_published(version, the_plan.papers, the_plan.scale)


def _print_outcome(papers: str, outcome: Outcome) -> None:
    """How the runs ended; equal errors (a full disk fails every run alike) are printed once, with their number.

    By `print`, because a live view has standard output and not the console.
    """
    failed, left = len(outcome.failed), len(outcome.unfinished)
    finished = "1 run" if outcome.finished == 1 else f"{outcome.finished} runs"
    print(f"{papers}: {finished} finished, {failed} failed, {left} left to do", flush=True)
    for line, count in Counter(outcome.failed.values()).items():
        print(f"failed{f' ({count} runs)' if count > 1 else ''}: {line}", flush=True)


def _verdict(heading: str, version: Path, compared: comparison.Comparison | None) -> int:
    """Print where a version is, what its claims come to, and how it compares with the published results.

    Returns 1 when an exact claim does not hold, or a run differs from its published counterpart without a cause.
    """
    from groundlab.report.verdict_changes import published_claims, verdict_lines  # loads pandas
    from groundlab.report.verdicts import read_stored

    verdicts = read_stored(version)
    _console.print(f"{heading}: {version}", soft_wrap=True)
    _console.print(f"review page: {version / 'review.html'}", soft_wrap=True)
    for line in verdicts.summary():
        _console.print(line, soft_wrap=True)
    code = 1 if verdicts.exact_failed else 0
    if compared is None:
        return code
    stored = Version(version)
    there = published_claims(version, stored.facts["papers"], stored.scale)
    lines = [f"beside {', '.join(compared.reference)}:", *compared.summary()]
    for line in (*lines, *verdict_lines(verdicts, there)):
        _console.print(line, soft_wrap=True)
    return max(code, 1 if compared.count("") else 0)
