"""Sessions: what people run. `nox -l` lists them; `nox -s reproduce` and `nox -s tests` are the two of the README.

All sessions share one environment (.nox/groundlab), installed from requirements/constraints.txt and installed again
only when a pin changes, so that a session needs no network after the first. GROUNDLAB_TORCH_INDEX, when set, is the
package index that torch comes from (https://download.pytorch.org/whl/cpu for a laptop without GPU).
Words after `--` go to the command underneath: nox -s reproduce -- --only mediator --scale smoke
"""

import hashlib
import json
import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "virtualenv"

ROOT = Path(__file__).parent
ENVIRONMENT = ".nox/groundlab"
CONSTRAINTS = "requirements/constraints.txt"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def session(function):
    """A session in the shared environment."""
    return nox.session(reuse_venv=True, venv_location=ENVIRONMENT)(function)  # type: ignore[call-overload]


def install(session: nox.Session) -> None:
    """Install the pinned packages and groundlab itself, unless this environment already has exactly these."""
    pins = b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", CONSTRAINTS))
    wanted = hashlib.sha256(pins + os.environ.get("GROUNDLAB_TORCH_INDEX", "").encode()).hexdigest()
    stamp = Path(session.virtualenv.location) / "groundlab-pins"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    session.install("-c", CONSTRAINTS, "setuptools", "wheel")
    index = os.environ.get("GROUNDLAB_TORCH_INDEX")
    session.install("-c", CONSTRAINTS, "torch", *(("--index-url", index) if index else ()))
    session.install("-c", CONSTRAINTS, "--no-build-isolation", "-e", ".[dev]")
    stamp.write_text(wanted)


def groundlab(session: nox.Session, *arguments: str) -> None:
    """Run the command line, offline, with the session's own words after it."""
    install(session)
    session.run("groundlab", *arguments, *session.posargs, env=OFFLINE)


@session
def tests(session: nox.Session) -> None:
    """The test-suite."""
    install(session)
    session.run("pytest", *(session.posargs or ["-n", "2"]), env=OFFLINE)


@session
def lint(session: nox.Session) -> None:
    """Style, types, the floors of the house, and notebooks without outputs."""
    install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("pyright")
    session.run("lint-imports")
    kept = [str(page) for page in Path("notebooks").glob("*.ipynb") if _has_outputs(page)]
    if kept:
        session.error(f"notebooks with outputs: {', '.join(kept)}; clear them before committing")


def _has_outputs(page: Path) -> bool:
    cells = json.loads(page.read_text())["cells"]
    return any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@session
def smoke(session: nox.Session) -> None:
    """Kick the tyres: everything end to end in minutes; results go to a scratch folder."""
    groundlab(session, "reproduce", "--scale", "smoke")


@session
def reproduce(session: nox.Session) -> None:
    """Train every agent and regenerate every table, figure and the review page (scale `quick`)."""
    groundlab(session, "reproduce")


@session
def figures(session: nox.Session) -> None:
    """Redraw every table and figure from stored results, without training."""
    groundlab(session, "figures")


@session
def review(session: nox.Session) -> None:
    """Judge every claim from stored results."""
    groundlab(session, "review")


@session
def bench(session: nox.Session) -> None:
    """Measure the speed of the hot paths on this machine."""
    groundlab(session, "bench")


@session
def determinism(session: nox.Session) -> None:
    """Run the smoke reproduction twice, from nothing, and compare every stored record byte for byte."""
    install(session)
    folders = [Path(session.create_tmp()) / name for name in ("first", "second")]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        command = ("groundlab", "reproduce", "--scale", "smoke", "--results", str(folder))
        session.run(*command, *session.posargs, env=OFFLINE)
    first, second = (_records(folder) for folder in folders)
    differing = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if differing or not first:
        session.error(f"{len(differing)} of {len(first)} records differ: {', '.join(differing[:5])}")
    session.log(f"{len(first)} records of two runs are byte for byte the same")


def _records(folder: Path) -> dict[str, str]:
    """The digest of every metrics and evaluation file of the runs under a results folder."""
    names = ("metrics.jsonl", "evaluation.json")
    files = [file for file in (folder / ".runs").rglob("*") if file.name in names]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@session
def lab(session: nox.Session) -> None:
    """JupyterLab on the notebooks."""
    install(session)
    session.run("jupyter", "lab", "notebooks", *session.posargs)
