"""Sessions: what people run. `nox -l` lists them; `nox -s reproduce` and `nox -s tests` are the two of the README.

All sessions share one environment, .nox/groundlab, which requirements/install.py installs from pylock.toml. A changed
pin installs it again; after that no network is needed. GROUNDLAB_TORCH_INDEX, when set, is the package index that torch
comes from (https://download.pytorch.org/whl/cpu for a laptop without GPU).
Words after `--` go to the command underneath: nox -s reproduce -- --only mediator --scale smoke
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "none"

ROOT = Path(__file__).parent
for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set by hooks, of whatever repository
    os.environ.pop(name, None)
ENVIRONMENT = ROOT / ".nox" / "groundlab"
PROGRAMS = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
LOCK, INSTALL, CONSTRAINTS = "pylock.toml", "requirements/install.py", "requirements/constraints.txt"

session = nox.session(venv_backend="none")  # all share one environment: nox would make one for each session

IN_IMAGE = "GROUNDLAB_COMMIT" in os.environ
"""True in a container's repository, whose own Python has the locked packages."""
if IN_IMAGE:
    PROGRAMS = Path(sys.executable).parent


def run(session: nox.Session, program: str, *arguments: str) -> None:
    """Run a program of the shared environment, offline. Bytecode is kept even where the machine says otherwise."""
    paths = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
    environment = {"PATH": paths, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": ""}
    session.run(str(PROGRAMS / program), *arguments, env=environment)


def prepare(session: nox.Session) -> None:
    """Install the pinned packages and groundlab itself, unless the environment already has exactly these."""
    if IN_IMAGE:
        return
    wanted, stamp = _digest_of_pins("pyproject.toml", LOCK, CONSTRAINTS, INSTALL), ENVIRONMENT / "groundlab-pins"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    session.log(f"installing the pinned packages into {ENVIRONMENT} (once; about two minutes)")
    session.run(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")  # most modules are never imported
    run(session, "python", INSTALL, "here", *options)
    ours = ("--no-build-isolation", "-e", ".[dev]")
    run(session, "python", "-m", "pip", "install", *options, "-c", CONSTRAINTS, *ours)
    stamp.write_text(wanted)


def _torch_index() -> str:
    return os.environ.get("GROUNDLAB_TORCH_INDEX", "")


def _digest_of_pins(*files: str) -> str:
    """What an environment is installed by: the content of these files, the index of torch, and this checkout."""
    pins = [(ROOT / name).read_bytes() for name in files]
    return hashlib.sha256(b"".join([*pins, _torch_index().encode(), str(ROOT).encode()])).hexdigest()


def groundlab(session: nox.Session, *arguments: str) -> None:
    """Run the command line with the session's own words after it."""
    prepare(session)
    run(session, "groundlab", *arguments, *session.posargs)


@session
def install(session: nox.Session) -> None:
    """Install the laboratory and run nothing; `groundlab` is in .nox/groundlab/bin afterwards."""
    prepare(session)


@session
def tests(session: nox.Session) -> None:
    """The test-suite, in three processes; words after `--` go to pytest: -m "not integration and not slow"."""
    prepare(session)
    # one more than the cores of a small machine: many tests wait for processes of their own
    run(session, "pytest", "-n", "3", *session.posargs)


ADAPTERS = "requirements/adapters.txt"
TRAINERS = {  # extras of pyproject.toml; what two of them need in different versions, and what tests start
    "openenv": ("mcp==1.30.0", "openai==3.54.0"),
    "trl": (),
    "verifiers": ("mcp==2.0.0", "openai==2.54.0", "uv"),
}


@session
def adapters(session: nox.Session) -> None:
    """Trainers' own packages play and train on the worlds; `-- verifiers` one of them alone."""
    names = [word for word in session.posargs if word in TRAINERS] or [*TRAINERS]
    words = [word for word in session.posargs if word not in TRAINERS]
    for name in names:
        tests = words or ["tests/adapters", "tests/unit/worlds/test_adapters.py"]
        session.run(_trainer(session, name), "-m", "pytest", *tests, env={"HF_HUB_OFFLINE": "1"}, external=True)


def _trainer(session: nox.Session, name: str) -> str:
    """Python of .nox/adapters/NAME, where one trainer is installed, once, by the versions of ADAPTERS."""
    home = ROOT / ".nox" / "adapters" / name
    python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
    index, wanted, stamp = _torch_index(), _digest_of_pins("pyproject.toml", ADAPTERS), home / "pins"
    if not stamp.is_file() or stamp.read_text() != wanted:
        session.log(f"installing {name} by {ADAPTERS} into {home} (once; some minutes)")
        session.run(sys.executable, "-m", "venv", "--clear", str(home))
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ADAPTERS)
        extra = ("--extra-index-url", index) if index else ()
        session.run(*pip, *extra, "-e", f".[{name}]", "pytest", "pytest-timeout", *TRAINERS[name], external=True)
        stamp.write_text(wanted)
    return python


@session
def lint(session: nox.Session) -> None:
    """Style, types, layers, and notebooks without outputs."""
    prepare(session)
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
def golden(session: nox.Session) -> None:
    """Compare small runs of every method with stored records; `-- --accept` stores today's (tests/golden/golden.py)."""
    prepare(session)
    run(session, "python", "tests/golden/golden.py", *session.posargs)


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
def site(session: nox.Session) -> None:
    """The static site of docs, claims, runs, worlds and notebooks, in site/; words after `--` name another folder."""
    prepare(session)
    run(session, "python", "-m", "groundlab.site", *(session.posargs or ["site"]))


ROCRATE = ("rocrate==0.16.0", "arcp==0.2.1")  # their own requirements are in the environment


@session
def archive(session: nox.Session) -> None:
    """dist/groundlab-VERSION.tar.xz: this commit without its history, with an RO-Crate at its top (tools/crate.py)."""
    prepare(session)
    if changed := _answer(session, "git", "status", "--porcelain"):
        session.error(f"an archive is of a commit; commit or undo first: {changed.splitlines()[0]}")
    commit, date = _answer(session, "git", "log", "-1", "--format=%H %cI").split()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    file, name = ROOT / "dist" / f"groundlab-{version}.tar.xz", f"groundlab-{version}"
    file.parent.mkdir(exist_ok=True)
    home = str(ROOT / ".nox" / "-".join(ROCRATE))
    if not Path(home).is_dir():
        run(session, "python", "-m", "pip", "install", "--quiet", "--no-deps", "--target", home, *ROCRATE)
    with tempfile.TemporaryDirectory() as folder:
        session.run("sh", "-c", f"git archive --prefix={name}/ HEAD | tar -x -C {folder}", external=True)
        session.run(
            str(PROGRAMS / "python"), "tools/crate.py", str(Path(folder, name)), commit, date, env={"PYTHONPATH": home}
        )
        alike = ("--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", f"--mtime={date}")
        alike += ("--mode=u+rwX,go+rX,go-w",)
        session.run("tar", *alike, "-cJf", str(file), "-C", folder, name, external=True)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    session.log(f"{file}: {file.stat().st_size / 1e6:.1f} MB of commit {commit[:8]}, sha256 {digest}")


@session
def bench(session: nox.Session) -> None:
    """Measure the hot paths; `-- --save` keeps the figures in benchmarks/, `-- --check` fails if a ratio is lost."""
    groundlab(session, "bench")


@session
def lab(session: nox.Session) -> None:
    """JupyterLab on the notebooks."""
    prepare(session)
    run(session, "jupyter", "lab", "notebooks", *session.posargs)


@session
def lock(session: nox.Session) -> None:
    """Resolve pyproject.toml into pylock.toml, whose versions stay, and export requirements/constraints.txt from it.

    It is for x86_64 Linux and Python 3.11. Words go to uv: `-- --upgrade-package numpy` takes its newest version.
    """
    prepare(session)
    run(session, "python", "-m", "pip", "install", "--quiet", "uv")
    target = ("--python-platform", "x86_64-manylinux_2_28", "--no-config", "--index-url", "https://pypi.org/simple")
    form = ("--python-version", "3.11.5", "--extra", "dev", "--format", "pylock.toml", "-o", LOCK)
    run(session, "uv", "pip", "compile", "pyproject.toml", *target, *form, *session.posargs)
    run(session, "python", INSTALL, "export")


@session
def container(session: nox.Session) -> None:
    """Build the images that this machine has tools for, from the committed tree, and try each with the network off.

    -- --base IMAGE --bootstrap WAY --torch cuda|cpu|index --torch-index URL --tool buildah|apptainer --volume FROM:TO
    """
    words = _container_words(session.posargs)
    tools = [tool for tool in ("buildah", "apptainer") if shutil.which(tool) and words.tool in (None, tool)]
    if not tools:
        session.error("neither buildah nor apptainer was found; install one (Debian: apt-get install buildah)")
    commit, date = _answer(session, "git", "log", "-1", "--format=%H %ct").split()
    url = _answer(session, "git", "config", "--default", "unknown", "--get", "remote.origin.url")
    with tempfile.TemporaryDirectory(prefix="groundlab-source-") as folder:
        session.run("sh", "-c", f"git archive HEAD | tar -x -C {folder}", external=True)
        given = {
            "TORCH": words.torch,
            "TORCH_INDEX": words.torch_index,
            "COMMIT": commit,
            "LOCK": hashlib.sha256((Path(folder) / LOCK).read_bytes()).hexdigest(),
            "URL": url if url.startswith("https://") and "@" not in url else "unknown",
            "SOURCE_DATE_EPOCH": date,
        }
        for tool in tools:
            began = time.monotonic()
            build = {"buildah": _build_with_buildah, "apptainer": _build_with_apptainer}[tool]
            what = build(session, folder, given, words)
            session.log(f"{what}: built and tried in {time.monotonic() - began:.0f} s")


def _answer(session: nox.Session, *command: str) -> str:
    """What a program of the machine prints."""
    return str(session.run(*command, silent=True, external=True)).strip()


def _container_words(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("nox -s container --")
    parser.add_argument("--base")
    parser.add_argument("--bootstrap", help="apptainer's way to the base: docker, docker-archive, localimage")
    parser.add_argument("--torch", choices=["cuda", "cpu", "index"], default="cuda")
    parser.add_argument("--torch-index", default="https://download.pytorch.org/whl/cpu")
    parser.add_argument("--tool", choices=["buildah", "apptainer"])
    parser.add_argument("--volume", help="a folder that the build sees, e.g. one with a package index")
    return parser.parse_args(words)


def _build_with_buildah(session: nox.Session, source: str, given: dict[str, str], words: argparse.Namespace) -> str:
    """The image groundlab:<commit>. STORAGE_DRIVER and BUILDAH_ISOLATION are buildah's own variables."""
    name = f"localhost/groundlab:{given['COMMIT'][:7]}-{words.torch}"
    arguments = [f"--build-arg={key}={value}" for key, value in given.items()]
    if words.base:
        digest = words.base.partition("@")[2] or "unknown"
        arguments += [f"--build-arg=BASE={words.base}", f"--build-arg=BASE_DIGEST={digest}"]
    arguments += ["--pull-never"] if (words.base or "").startswith("localhost/") else []
    arguments += [f"--volume={words.volume}"] if words.volume else []
    # the files of the source have this date already, so compiled loops stay valid
    arguments += [f"--timestamp={given['SOURCE_DATE_EPOCH']}"]
    session.run("buildah", "bud", *arguments, "--format=docker", "--tag", name, source, external=True)
    trial = _answer(session, "buildah", "from", "--pull-never", name)
    try:
        smoke = ("reproduce", "--only", "mediator", "--scale", "smoke", "--results", "/results")
        entry = "/opt/groundlab/requirements/image-entry.sh"
        session.run(*_NO_NETWORK, "buildah", "run", "--network=none", trial, "--", entry, *smoke, external=True)
    finally:
        session.run("buildah", "rm", trial, silent=True, external=True)
    return name


# Where buildah isolates by chroot alone, it cannot take the network away; as root, unshare can. The kernels of
# notebooks need the loopback.
LOOPBACK_ONLY = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
_NO_NETWORK = LOOPBACK_ONLY if os.environ.get("BUILDAH_ISOLATION") == "chroot" else ()


def _build_with_apptainer(session: nox.Session, source: str, given: dict[str, str], words: argparse.Namespace) -> str:
    """groundlab.sif in this folder; its %test is the trial, and runs without a network."""
    image = ROOT / "groundlab.sif"
    arguments = {name: value for name, value in given.items() if name != "LOCK"} | {"SOURCE": source}
    arguments |= {"BASE": words.base} if words.base else {}
    arguments |= {"BOOTSTRAP": words.bootstrap} if words.bootstrap else {}
    flags = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    flags += ["--bind", words.volume] if words.volume else []
    session.run(
        "apptainer", "build", "--force", "--notest", *flags, str(image), f"{source}/apptainer.def", external=True
    )
    session.run("apptainer", "test", "--net", "--network=none", str(image), external=True)
    return f"{image} ({image.stat().st_size / 1e6:.0f} MB)"
