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
import sys
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "none"

ROOT = Path(__file__).parent
ENVIRONMENT = ROOT / ".nox" / "groundlab"
PROGRAMS = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
CONSTRAINTS = "requirements/constraints.txt"

session = nox.session(venv_backend="none")  # the environment is ours: nox would build one for each session


def run(session: nox.Session, program: str, *arguments: str) -> None:
    """Run a program of the shared environment, offline: nothing is fetched once it is installed."""
    paths = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
    session.run(str(PROGRAMS / program), *arguments, env={"PATH": paths, "HF_HUB_OFFLINE": "1"})


def install(session: nox.Session) -> None:
    """Install the pinned packages and groundlab itself, unless the environment already has exactly these."""
    index = os.environ.get("GROUNDLAB_TORCH_INDEX", "")
    pins = [(ROOT / name).read_bytes() for name in ("pyproject.toml", CONSTRAINTS)]
    wanted = hashlib.sha256(b"".join([*pins, index.encode(), str(ROOT).encode()])).hexdigest()
    stamp = ENVIRONMENT / "groundlab-pins"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    session.log(f"installing the pinned packages into {ENVIRONMENT} (once; about two minutes)")
    session.run(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", CONSTRAINTS)
    run(session, "python", *pip, "setuptools", "wheel")
    run(session, "python", *pip, "torch", *(("--extra-index-url", index) if index else ()))
    run(session, "python", *pip, "--no-build-isolation", "-e", ".[dev]")
    stamp.write_text(wanted)


def groundlab(session: nox.Session, *arguments: str) -> None:
    """Run the command line with the session's own words after it."""
    install(session)
    run(session, "groundlab", *arguments, *session.posargs)


@session
def tests(session: nox.Session) -> None:
    """The test-suite."""
    install(session)
    run(session, "pytest", *(session.posargs or ["-n", "2"]))


@session
def lint(session: nox.Session) -> None:
    """Style, types, the floors of the house, and notebooks without outputs."""
    install(session)
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "pyright")
    run(session, "lint-imports")
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
    home = Path(tempfile.mkdtemp(prefix="groundlab-determinism-"))
    folders = [home / name for name in ("first", "second")]
    for folder in folders:
        run(session, "groundlab", "reproduce", "--scale", "smoke", "--results", str(folder), *session.posargs)
    first, second = (_records(folder) for folder in folders)
    differing = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if differing or not first:
        session.error(f"{len(differing)} of {len(first)} records differ: {', '.join(differing[:5])}")
    session.log(f"{len(first)} records of two runs are byte for byte the same")
    shutil.rmtree(home)


def _records(folder: Path) -> dict[str, str]:
    """The digest of every metrics and evaluation file of the runs under a results folder."""
    names = ("metrics.jsonl", "evaluation.json")
    files = [file for file in (folder / ".runs").rglob("*") if file.name in names]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@session
def lab(session: nox.Session) -> None:
    """JupyterLab on the notebooks."""
    install(session)
    run(session, "jupyter", "lab", "notebooks", *session.posargs)
