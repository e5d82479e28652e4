"""The version of the results that a notebook shows, and the trained agent that it plays with.

folder = version("glam", "full")                  # what is published, or this machine's own runs (source="fresh")
agent = load_agent("glam", folder)                # its trained agent, ready to play
"""

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.paths import results_folder
from groundlab.core.run import RunSpec
from groundlab.core.versions import Version, find_published, is_version
from groundlab.lab.plan import Plan, plan
from groundlab.lab.versions import make_version
from groundlab.papers import registry


def version(
    paper: str,
    scale: str = "full",
    source: str = "published",
    seeds: int | None = None,
    folder: str | Path | None = None,
    results: str | Path | None = None,
) -> Path:
    """Return the folder of a version of a paper's results at a scale, with its tables, figures and claims.json.

    source: `published`: the published version, or the one that `folder` names; `fresh`: one of this machine's own runs
    with so many seeds, in `folder`, by default a scratch folder; what is missing is trained now.
    Raises GroundlabError for a parameter without effect, and where nothing is published, or runs are unfinished.
    """
    if source == "fresh":
        return _fresh(plan(paper, scale=scale, seeds=seeds, results=results), Path(folder) if folder else None)
    if source != "published":
        raise unknown_name("source", source, ("published", "fresh"))
    if seeds is not None:
        raise GroundlabError(f'expected seeds = None of published results, got {seeds}; set source = "fresh" to train')
    if folder is None:
        return published(paper, scale, results)
    stored = Version(folder).scale
    if stored != scale:
        raise GroundlabError(f'expected the scale of {folder}, {stored}, got {scale}; set scale = "{stored}"')
    return Path(folder)


def _fresh(plan: Plan, folder: Path | None) -> Path:
    from groundlab import report
    from groundlab.lab.executor import run  # here, because it loads torch

    home = folder or _scratch_folder(plan)
    if home.is_dir() and any(home.iterdir()) and not (is_version(home) and not Version(home).facts["command"]):
        raise GroundlabError(f"expected a folder that is new, empty or a notebook's, got {home}; choose another folder")
    print(plan)
    outcome = run(plan)
    if outcome.unfinished:
        raise GroundlabError(f"{len(outcome.unfinished)} runs are unfinished; the same cell continues them")
    for paper in plan.papers:
        shutil.rmtree(home / paper, ignore_errors=True)  # runs of an earlier plan
    make_version(plan, home, outcome.failed, "")
    report.review(home)
    return home


def _scratch_folder(plan: Plan) -> Path:
    """Return `.scratch/notebook-<paper>-<scale>` of the results, or a temporary folder where that cannot be written."""
    folder = plan.results / ".scratch" / f"notebook-{'-'.join(plan.papers)}-{plan.scale}"
    with suppress(GroundlabError):
        storage.check_writable(folder)
        return folder
    return Path(tempfile.mkdtemp(prefix="groundlab-"), folder.name)


def published(paper: str, scale: str = "quick", results: str | Path | None = None) -> Path:
    """The folder of the published version of a paper. Raises GroundlabError where there is none at that scale."""
    version = find_published(paper, scale, results_folder(results))
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

    folder: a version. Raises GroundlabError where neither keeps one.
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
