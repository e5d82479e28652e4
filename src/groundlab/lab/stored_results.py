"""Stored results for pages: published records in place of training, and what versions keep of a run beside its records.

    folder = records(lab.plan("glam"), "published")     # the records of the reference version, in a scratch folder
    agent = load_agent("glam", folder)                  # its trained agent, ready to play

A config's entry says what is kept of its first run: `keep: [weights]` are the final weights, any other name is a folder
of the run. They lie in the run's folder of a version as they do in the store, so `--checkpoint` and `load_checkpoint`
take it. Large weights are kept in half precision, and without the value head, which no agent plays with.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from groundlab.core import manifests, seals, storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Files, RunSpec, load_checkpoint
from groundlab.lab.plan import Plan, PlannedRun, results_folder
from groundlab.lab.progress import say
from groundlab.papers import registry

WEIGHTS = "weights"
FULL_PRECISION_BYTES = 500_000  # weights of at most this size are kept as they are
_VALUE_HEAD = "value_head."


def records(plan: Plan, source: str = "fresh", folder: str | Path | None = None) -> Path:
    """The records that a page draws: the published ones, or those of this machine, trained now where they are missing.

    They are copied to `folder`, by default a scratch folder. Raises GroundlabError where nothing is published.
    """
    from groundlab.lab.results import collect, copy_version

    if source == "fresh":
        from groundlab.lab.executor import run

        run(plan)
        return collect(plan, folder)
    if source != "published":
        raise unknown_name("source", source, ("published", "fresh"))
    versions = {paper: published(paper, plan.scale, plan.results) for paper in plan.papers}
    names = "-".join(sorted({version.name for version in versions.values()}))
    target = Path(folder) if folder else plan.results / ".scratch" / f"notebook-{names}"
    for paper, version in versions.items():
        copy_version(version, paper, target)
    return target


def published(paper: str, scale: str = "quick", results: str | Path | None = None) -> Path:
    """The folder of the published version of a paper. Raises GroundlabError where there is none at that scale."""
    version = manifests.find_published(paper, scale, results_folder(results))
    if version is None:
        raise GroundlabError(f'nothing of {paper} is published at scale {scale}; choose another, or source = "fresh"')
    return version


def copy_kept(run: PlannedRun, source: Path, target: Path) -> None:
    """Copy what is to be kept of a finished run from its folder in the store to `target`."""
    for name in run.keep:
        if name == WEIGHTS:
            _keep_weights(run.label, source, target)
        else:
            copy_files(source / name, target / name)


def copy_files(source: Path, target: Path) -> None:
    """Copy a folder's files, those in its folders too; what is there already with the same content is left alone."""
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        copy, content = target / file.relative_to(source), file.read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            storage.write_atomic(copy, content)


def _keep_weights(label: str, source: Path, target: Path) -> None:
    if not (source / "checkpoint").is_dir():
        say(f"{label}: its weights are not kept, since its records were taken from another version")
        return
    checkpoint = load_checkpoint(source)
    files: Files = {"network.safetensors": _small(checkpoint.files["network.safetensors"]), "facts.json": b"{}"}
    folder = Path("checkpoint") / str(checkpoint.step)
    index: dict[str, Any] = storage.read_json(source / folder / "checkpoint.json")
    index["files"] = {name: storage.digest_bytes(content) for name, content in files.items()}
    for name, content in files.items():
        storage.write_atomic(target / folder / name, content)
    storage.write_json(target / folder / "checkpoint.json", seals.sealed(index))


def _small(network: bytes) -> bytes:
    """Weights as a version keeps them."""
    weights = {name: values for name, values in load(network).items() if not name.startswith(_VALUE_HEAD)}
    if sum(values.nbytes for values in weights.values()) <= FULL_PRECISION_BYTES:
        return network
    return save({name: values.astype(np.float16) for name, values in weights.items()})


@dataclass(frozen=True)
class Agent:
    """A trained agent: what its run was, its learner with the final weights, and the folder they came from."""

    spec: RunSpec
    learner: Any
    folder: Path


def load_agent(paper: str, folder: str | Path | None = None, scale: str = "quick") -> Agent:
    """The trained agent that a version keeps of a paper; without a folder, the published one.

    folder: a version, or a folder of collected records. Raises GroundlabError where none is kept.
    """
    home = Path(folder) if folder else published(paper, scale)
    checkpoints = sorted((home / paper / "runs").glob("*/checkpoint/*/checkpoint.json"))
    if not checkpoints:
        line = f"{home} keeps no weights of {paper}; train them: groundlab reproduce --only {paper} --scale {scale}"
        raise GroundlabError(line)
    run_folder = checkpoints[0].parents[2]
    checkpoint = load_checkpoint(run_folder)
    learner = registry.load(checkpoint.spec.method, checkpoint.spec.world).make_learner(checkpoint.spec)
    learner.load_weights(checkpoint.files)
    return Agent(checkpoint.spec, learner, run_folder)
