"""One command from configs to the review page: plan, then runs and notebooks paper by paper, review, one rename.

The shortest paper comes first, so that there is something to read after minutes. `reproduce` can be killed anywhere:
the same command finds the finished runs by their hashes and continues the started ones; a version that is already there
is reused. What executes runs is imported after the plan, which is then quick.

A paper's notebooks become pages while the next paper's runs go on (notebooks.py).
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from groundlab.core import storage
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError, unknown_name
from groundlab.core.paths import repository_root
from groundlab.lab import machine
from groundlab.lab.machine import check_devices
from groundlab.lab.notebooks import Page, PageProcess, check_parameters, parameters_of
from groundlab.lab.plan import (
    DEVICE_VARIABLE,
    EXECUTED_VARIABLE,
    EXPERIMENTS_VARIABLE,
    METHODS_VARIABLE,
    Plan,
    plan,
    results_folder,
)
from groundlab.lab.progress import is_over
from groundlab.lab.results import (
    REVIEW_NOTEBOOK,
    begin_version,
    collect,
    describe_version,
    find_version,
    finish_version,
    notebooks_of,
    take_finished,
)
from groundlab.lab.run_store import RESULTS_VARIABLE

if TYPE_CHECKING:
    from groundlab.lab.executor import Outcome
    from groundlab.lab.slurm.settings import SlurmSettings

EXECUTORS = ("local", "slurm", "none")
Part = dict[str, Sequence[str] | None]  # variable -> the only methods, or experiments, of a plan


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
) -> int:
    """Reproduce papers (all by default) at a scale and return the exit code.

    0: done; 1: a run failed or a claim of class `exact` does not hold; 75: stopped, the same command continues.
    hours: how long runs may take; then they save and stop, and a version is made of what is finished (75 while runs are
    missing). continue_from: a version whose finished runs are taken where their hashes are equal.
    verbose: print the plan with every choice of settings. executor: `local`, `slurm` or `none` (pages alone).
    slurm_file, wait: for `slurm` alone; without waiting it returns 75 once all is queued. device: `auto`,
    `cpu`, `cuda` or `cuda:N`, for all methods that can be given one. pages: False ends once the runs are done.
    Raises GroundlabError for anything that needs a person: unknown names, a full disk, a broken notebook.
    """
    if executor not in EXECUTORS:
        raise unknown_name("executor", executor, EXECUTORS)
    console = Console(markup=False)  # paths and errors may hold brackets
    cluster = _cluster(slurm_file) if executor == "slurm" else None
    if hours is not None and cluster:
        raise GroundlabError("--hours is for this machine; Slurm's own limit is in its settings file")
    until = None if hours is None else time.monotonic() + 3600 * hours
    device, gpus = _chosen_device(device, executor, dry_run)
    home = results_folder(results)
    storage.check_writable(home) if dry_run else storage.make_folder(home)
    choice: dict[str, Any] = {
        "scale": scale,
        "seeds": seeds,
        "methods": methods,
        "experiments": experiments,
        "device": device,
    }
    chosen = partial(plan, *papers, **choice, results=results)
    the_plan = chosen()
    if continue_from is not None and not dry_run:
        taken = take_finished(the_plan, continue_from)
        console.print(f"{taken} finished runs taken from {continue_from}", soft_wrap=True)
        the_plan = chosen()
    console.print(the_plan.detailed if verbose else the_plan)
    if dry_run:
        return 0
    if ready := find_version(the_plan):
        console.print(f"nothing to do: {ready}", soft_wrap=True)
        return _verdict(ready, console)
    _check_before_hours_of_training(the_plan, executor)
    execute = partial(_execute, executor, workers, cluster, wait, until, gpus)
    if cluster or not pages:
        arguments = {"papers": list(papers), **choice, "results": str(home)}
        return _run_all(the_plan, execute, cluster if pages else None, arguments, wait, console)
    part: Part = {
        METHODS_VARIABLE: methods,
        EXPERIMENTS_VARIABLE: experiments,
        DEVICE_VARIABLE: [device] if device else None,
    }
    command = _command_line(papers, experiments, scale, seeds, device)
    return _run_papers(the_plan, _papers_shortest_first(the_plan), execute, until, seeds, part, command, console)


def _chosen_device(device: str | None, executor: str, dry_run: bool) -> tuple[str | None, list[str] | None]:
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
    for notebook, parameters, _ in (*_pages(the_plan, the_plan.results, None), _review_page(the_plan.results)):
        check_parameters(notebook, parameters)
    if executor == "local":
        check_devices(each.spec for each in the_plan.pending())


def _run_all(
    the_plan: Plan,
    execute: Callable[[Plan], "Outcome"],
    cluster: "SlurmSettings | None",
    arguments: dict[str, Any],
    wait: bool,
    console: Console,
) -> int:
    """All runs, then the pages as a job of a cluster, or none; returns the exit code.

    Pages cost minutes of CPU and start hostile programs in a sandbox: nothing for a login node.
    """
    outcome = execute(the_plan)
    _print_outcome(" + ".join(the_plan.papers), outcome, console)
    if outcome.unfinished:
        console.print("unfinished: the same command continues here")
        return outcome.exit_code
    if cluster is None:
        console.print("the runs are done; without --no-pages the same command makes tables, figures and pages")
        return outcome.exit_code
    from groundlab.lab.slurm.executor import make_pages

    return make_pages(the_plan, cluster, arguments, wait)


def _run_papers(
    the_plan: Plan,
    parts: list[Plan],
    execute: Callable[[Plan], "Outcome"],
    until: float | None,
    seeds: int | None,
    part: Part,
    command: str,
    console: Console,
) -> int:
    """Runs and pages part by part, then the review and the rename; returns the exit code.

    `parts` are the papers' plans. `execute` runs what is pending of one. What it leaves
    after `until` is missing from the version; before that nothing is put together. `part` narrows the notebooks' own
    plans, `command` is what the manifest names.
    """
    folder, failed, missing = None, dict[str, str](), 0
    variables = _variables_of_pages(the_plan, part)
    with PageProcess() as pages:
        for paper in parts:
            outcome = execute(paper)
            _print_outcome(" + ".join(paper.papers), outcome, console)
            if outcome.unfinished and not is_over(until):
                console.print("unfinished: the same command continues here")
                return outcome.exit_code
            failed, missing = failed | outcome.failed, missing + len(outcome.unfinished)
            if not outcome.finished and missing:
                continue  # a paper of which nothing is there has no pages
            folder = folder or begin_version(the_plan)
            pages.finish()  # they read the version that is written to now
            collect(paper, folder)
            describe_version(paper, folder, outcome.failed, command)
            console.print(f"pages of {paper.papers[0]}: {folder / paper.papers[0] / 'executed'}", soft_wrap=True)
            pages.begin(_pages(paper, folder, seeds), variables)
        if folder is None:
            console.print("nothing was finished in this time: the same command continues here")
            return UNFINISHED_EXIT_CODE
        pages.finish()
        describe_version(the_plan, folder, failed, command)
        pages.begin([_review_page(folder)], variables)
        pages.finish()
    version = finish_version(the_plan, folder, failed, command)
    console.print(f"results: {version}", soft_wrap=True)
    verdict = _verdict(version, console)
    if missing:
        console.print(f"{missing} runs are missing: the same command with --continue {version.name}", soft_wrap=True)
        return UNFINISHED_EXIT_CODE
    return max(1 if failed else 0, verdict)


def _command_line(
    papers: Sequence[str], experiments: Sequence[str] | None, scale: str, seeds: int | None, device: str | None
) -> str:
    """The command line that makes a version."""
    parts = ["groundlab reproduce", *(f"--only {paper}" for paper in papers)]
    parts += [*(f"--experiment {name}" for name in experiments or ()), f"--scale {scale}"]
    parts += [f"--seeds {seeds}"] if seeds else []
    return " ".join(parts + ([f"--device {device}"] if device else []))


def _papers_shortest_first(the_plan: Plan) -> list[Plan]:
    """A plan a paper, so that the first pages are there after minutes."""
    parts = [
        replace(the_plan, experiments=(each,), runs=tuple(run for run in the_plan.runs if run.paper == each.paper))
        for each in the_plan.experiments
    ]
    return sorted(parts, key=lambda part: sum(run.estimate.seconds for run in part.runs))


def _cluster(file: Path | None) -> "SlurmSettings":
    from groundlab.lab.slurm.settings import load_settings

    return load_settings(file)


def _execute(
    executor: str,
    workers: int | None,
    cluster: "SlurmSettings | None",
    wait: bool,
    until: float | None,
    gpus: list[str] | None,
    plan: Plan,
) -> "Outcome":
    """Run what is pending, here or on a cluster; imported now, because workers' code loads torch."""
    if cluster:
        from groundlab.lab.slurm.executor import run as run_on_cluster

        return run_on_cluster(plan, cluster, wait)
    from groundlab.lab.executor import outcome_of, run

    return outcome_of(plan, {}) if executor == "none" else run(plan, workers, until, gpus)


def _pages(plan: Plan, folder: Path, seeds: int | None) -> list[Page]:
    """Each notebook of a paper with its parameters and where its executed copy goes.

    `source`, where a page knows it, is "fresh" here: by itself it shows what is published.
    """
    given = {"scale": plan.scale, "seeds": seeds, "folder": str(folder)}
    pages = [(file, folder / paper / "executed" / file.name) for paper, file in notebooks_of(plan)[:-1]]
    return [
        Page(file, given | ({"source": "fresh"} if "source" in parameters_of(file) else {}), output)
        for file, output in pages
    ]


def _review_page(folder: Path) -> Page:
    """The same of the review, which comes last."""
    return Page(repository_root() / "notebooks" / REVIEW_NOTEBOOK, {"folder": str(folder)}, folder / "review.ipynb")


def _variables_of_pages(plan: Plan, part: Part) -> dict[str, str]:
    """The same plan for the notebooks' own `lab.plan`, and nothing left to start for their `lab.run`."""
    names = {variable: ",".join(names or ()) for variable, names in part.items()}
    return {RESULTS_VARIABLE: str(plan.results), **names, EXECUTED_VARIABLE: "1"}


def _print_outcome(papers: str, outcome: "Outcome", console: Console) -> None:
    """How the runs ended; equal errors (a full disk fails every run alike) are printed once, with their number."""
    failed, left = len(outcome.failed), len(outcome.unfinished)
    console.print(f"{papers}: {outcome.finished} runs finished, {failed} failed, {left} left to do")
    for line, count in Counter(outcome.failed.values()).items():
        console.print(f"failed{f' ({count} runs)' if count > 1 else ''}: {line}", style="red", soft_wrap=True)


def _verdict(version: Path, console: Console) -> int:
    """Say where the review page is and what it found; 1 when an exact claim does not hold.

    Raises GroundlabError where its claims.json cannot be read.
    """
    if (version / "review.html").is_file():
        console.print(f"review page: {version / 'review.html'}", soft_wrap=True)
    file = version / "claims.json"
    if not file.is_file():
        return 0
    claims = storage.read_json(file)
    try:
        if not isinstance(claims, list):
            raise TypeError
        counts = Counter(claim["verdict"] for claim in claims)
        missed = [claim for claim in claims if claim["tolerance"] == "exact" and claim["verdict"] == "not reproduced"]
    except (KeyError, TypeError):
        line = f"{file} is not what a review writes; write it anew: groundlab review --results {version}"
        raise GroundlabError(line) from None
    console.print("claims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    return 1 if missed else 0
