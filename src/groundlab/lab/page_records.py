"""Where a page takes its records and its agent from: what is published, or this machine's own runs.

folder = records(lab.plan("glam"), "published")     # the records of the reference version, in a scratch folder
agent = load_agent("glam", folder)                  # its trained agent, ready to play
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundlab.core import manifests
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.paths import results_folder
from groundlab.core.run import RunSpec
from groundlab.lab.plan import EXECUTED_VARIABLE, Plan
from groundlab.lab.versions import collect, copy_version, page_folder
from groundlab.papers import registry


def records(plan: Plan, source: str = "fresh", folder: str | Path | None = None) -> Path:
    """The records that a page draws: the published ones, or those of this machine, trained now where they are missing.

    They are copied to `folder`, by default a scratch folder. Raises GroundlabError where nothing is published.
    """
    if source == "fresh":
        if not os.environ.get(EXECUTED_VARIABLE):
            from groundlab.lab.executor import run  # here, because it loads torch

            run(plan)
        return collect(plan, folder)
    if source != "published":
        raise unknown_name("source", source, ("published", "fresh"))
    versions = {paper: published(paper, plan.scale, plan.results) for paper in plan.papers}
    names = "-".join(sorted({version.name for version in versions.values()}))
    target = Path(folder) if folder else page_folder(plan, names)
    for paper, version in versions.items():
        copy_version(version, paper, target)
    return target


def published(paper: str, scale: str = "quick", results: str | Path | None = None) -> Path:
    """The folder of the published version of a paper. Raises GroundlabError where there is none at that scale."""
    version = manifests.find_published(paper, scale, results_folder(results))
    if version is None:
        raise GroundlabError(f'nothing of {paper} is published at scale {scale}; choose another, or source = "fresh"')
    return version


@dataclass(frozen=True)
class Agent:
    """A trained agent: what its run was, its learner with the final weights, and the folder they came from."""

    spec: RunSpec
    learner: Any
    folder: Path


def load_agent(paper: str, folder: str | Path | None = None, scale: str = "quick") -> Agent:
    """Return the trained agent of a paper that a folder keeps, else the one published at `scale`.

    folder: a version, or a folder of collected records. Raises GroundlabError where neither keeps one.
    """
    checkpoints = _checkpoints(Path(folder), paper) if folder else []
    if not checkpoints and not (checkpoints := _checkpoints(home := published(paper, scale), paper)):
        line = f"{home} keeps no weights of {paper}; train them: groundlab reproduce --only {paper} --scale {scale}"
        raise GroundlabError(line)
    run_folder = checkpoints[0].parents[2]
    checkpoint = registry.trained(run_folder)
    learner = registry.load(checkpoint.spec.method, checkpoint.spec.world).make_learner(checkpoint.spec)
    learner.load_weights(checkpoint.files)
    return Agent(checkpoint.spec, learner, run_folder)


def _checkpoints(home: Path, paper: str) -> list[Path]:
    return sorted((home / paper / "runs").glob("*/checkpoint/*/checkpoint.json"))
