"""One command from configs to the review page: plan, run, collect, notebooks, review, one rename.

The story of `reproduce` is the body of that function. It can be killed anywhere: the same command finds the finished
runs by their hashes and continues the started ones; a version that is already there is reused.
Called from: the command line (`groundlab reproduce`).
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from groundlab.core import storage
from groundlab.core.errors import unknown_name
from groundlab.core.paths import repository_root
from groundlab.lab import results as store
from groundlab.lab import run_store
from groundlab.lab.executor import EXECUTED_VARIABLE, Outcome, run
from groundlab.lab.notebooks import check_parameters, run_notebook
from groundlab.lab.plan import EXPERIMENTS_VARIABLE, METHODS_VARIABLE, Plan
from groundlab.lab.plan import plan as make_plan
from groundlab.lab.slurm import executor as slurm

EXECUTORS = ("local", "slurm")
REVIEW_NOTEBOOK = "07_review.ipynb"
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
) -> int:
    """Reproduce papers (all by default) at a scale and return the exit code.

    0: done; 1: a run failed or a claim of class `exact` does not hold; 75: stopped, the same command continues.
    slurm_file, wait: for the executor `slurm` alone (slurm.py); without waiting it returns 75 once all is queued.
    Raises GroundlabError for anything that needs a person: unknown names, a full disk, a broken notebook.
    """
    if executor not in EXECUTORS:
        raise unknown_name("executor", executor, EXECUTORS)
    cluster = slurm.load_settings(slurm_file) if executor == "slurm" else None
    console = Console()
    plan = make_plan(*papers, scale=scale, seeds=seeds, methods=methods, results=results, experiments=experiments)
    console.print(plan)
    if dry_run:
        return 0
    if ready := store.find_version(plan):
        console.print(f"nothing to do: {ready}", soft_wrap=True)
        return _verdict(ready, console)
    _check_pages(plan)
    outcome = slurm.run(plan, cluster, wait) if cluster else run(plan, workers)
    _tell(outcome, console)
    if outcome.unfinished:
        console.print("unfinished: the same command continues here")
        return outcome.exit_code
    folder, command = store.begin_version(plan), _command(papers, scale, seeds, experiments)
    store.collect(plan, folder)
    store.describe_version(plan, folder, outcome.failed, command)
    _run_pages(plan, folder, seeds, {METHODS_VARIABLE: methods, EXPERIMENTS_VARIABLE: experiments})
    version = store.finish_version(plan, folder, outcome.failed, command)
    console.print(f"results: {version}", soft_wrap=True)
    return max(outcome.exit_code, _verdict(version, console))


def _pages(plan: Plan, folder: Path, seeds: int | None) -> list[tuple[Path, dict, Path]]:
    """Each notebook with its parameters and where its executed copy goes; the review comes last."""
    home = repository_root() / "notebooks"
    given = {"scale": plan.scale, "seeds": seeds, "folder": str(folder)}
    pages = [
        (home / name, given, folder / each.paper / "executed" / name)
        for each in plan.experiments
        for name in each.notebooks
    ]
    return [*pages, (home / REVIEW_NOTEBOOK, {"folder": str(folder)}, folder / "review.ipynb")]


def _check_pages(plan: Plan) -> None:
    """A missing notebook or a misspelt parameter is told before hours of training, not after."""
    for notebook, parameters, _ in _pages(plan, plan.results, None):
        check_parameters(notebook, parameters)


def _run_pages(plan: Plan, folder: Path, seeds: int | None, part: Part) -> None:
    with _told_to_notebooks(plan, part):
        for notebook, parameters, output in _pages(plan, folder, seeds):
            run_notebook(notebook, parameters, output)


@contextmanager
def _told_to_notebooks(plan: Plan, part: Part) -> Iterator[None]:
    """The same plan for the notebooks' own `lab.plan`, and nothing left to start for their `lab.run`."""
    told = {
        run_store.RESULTS_VARIABLE: str(plan.results),
        **{variable: ",".join(names or ()) for variable, names in part.items()},
        EXECUTED_VARIABLE: "1",
    }
    before = dict(os.environ)
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            os.environ.pop(name)
        os.environ.update({name: before[name] for name in told if name in before})


def _tell(outcome: Outcome, console: Console) -> None:
    """How the runs ended; equal errors (a full disk fails every run alike) are told once, with their number."""
    console.print(
        f"{outcome.finished} runs finished, {len(outcome.failed)} failed, {len(outcome.unfinished)} left to do"
    )
    for line, count in Counter(outcome.failed.values()).items():
        console.print(f"failed{f' ({count} runs)' if count > 1 else ''}: {line}", style="red", soft_wrap=True)


def _verdict(version: Path, console: Console) -> int:
    """Say where the review page is and what it found; 1 when an exact claim does not hold."""
    if (version / "review.html").is_file():
        console.print(f"review page: {version / 'review.html'}", soft_wrap=True)
    file = version / "claims.json"
    if not file.is_file():
        return 0
    content = storage.read_json(file)
    claims = content["claims"] if isinstance(content, dict) else content
    counts = Counter(claim["verdict"] for claim in claims)
    console.print("claims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    missed = [claim for claim in claims if claim["tolerance"] == "exact" and claim["verdict"] == "not reproduced"]
    return 1 if missed else 0


def _command(papers: Sequence[str], scale: str, seeds: int | None, experiments: Sequence[str] | None) -> str:
    """The command line that made a version."""
    parts = ["groundlab reproduce", *(f"--only {paper}" for paper in papers)]
    parts += [*(f"--experiment {name}" for name in experiments or ()), f"--scale {scale}"]
    return " ".join(parts + ([f"--seeds {seeds}"] if seeds else []))
