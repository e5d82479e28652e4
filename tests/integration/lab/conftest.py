"""A small laboratory in a temporary folder: its own repository root, configs of seconds, two tiny notebooks."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import nbformat
import pytest
import yaml

from groundlab import lab
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.core.run import RunSpec
from groundlab.papers import registry

REAL_ROOT = Path(__file__).resolve().parents[3]
ONE_RULE = {"method": "always", "worlds": ["SimpleDoorKey"], "estimate": {"seconds": 1, "megabytes": 0.1}}
ONE_RULE |= {"settings": {"layouts": "0-4"}}
TRAINING = {"method": "mediator", "worlds": ["SimpleDoorKey"], "seeds": 2, "estimate": {"seconds": 5, "megabytes": 1}}
TRAINING |= {"settings": {"iterations": 3, "trajectories": 2, "layouts": "0-4"}}
PAPER = ["from groundlab import lab", "print(scale, lab.version('mediator', scale, folder=folder))"]
CALL = """
import json, sys
from groundlab import lab
from groundlab.core.errors import GroundlabError, Unfinished
try:
    sys.exit(lab.reproduce(**json.loads(sys.argv[1])))
except (GroundlabError, Unfinished) as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


class Laboratory:
    """The temporary repository, and processes started in it."""

    def __init__(self, root: Path, forget_root: Callable[[], None]):
        self.root, self.results, self._forget_root = root, root / "results", forget_root
        for name in ("configs", "notebooks", "requirements"):
            (root / name).mkdir(parents=True)
        (root / "pyproject.toml").write_text((REAL_ROOT / "pyproject.toml").read_text())
        (root / "requirements" / "constraints.txt").write_text("numpy==0\n")
        self.write_config([ONE_RULE])
        self.write_notebook("02_mediator.ipynb", "scale = 'smoke'\nseeds = None\nfolder = None", PAPER)

    def write_config(self, runs: list[dict], scale: str = "smoke", **changes) -> None:
        content = {"paper": "mediator", "scale": scale, "notebooks": ["02_mediator.ipynb"], "runs": runs, **changes}
        folder = self.root / "configs" / content["paper"]
        folder.mkdir(exist_ok=True)
        (folder / f"{scale}.yaml").write_text(yaml.safe_dump(content))

    def write_longer_paper(self, run: dict) -> None:
        """A second paper, whose only run is estimated longer than those of the first, and its page."""
        run = {**run, "estimate": {"seconds": 90, "megabytes": 1}}
        self.write_config([run], paper="worlds", notebooks=["00_worlds.ipynb"])
        self.write_notebook("00_worlds.ipynb", "scale = 'smoke'\nseeds = None\nfolder = None", ["print(scale, folder)"])

    def write_notebook(self, name: str, parameters: str, lines: list[str]) -> Path:
        first = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
        cells = [first, nbformat.v4.new_code_cell("\n".join(lines))]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), self.root / "notebooks" / name)
        return self.root / "notebooks" / name

    def commit(self) -> None:
        """Make the tree a clean git clone."""
        if not shutil.which("git"):
            pytest.skip("git is not installed")
        git = ["git", "-C", str(self.root), "-c", "user.name=t", "-c", "user.email=t@example.org"]
        code = REAL_ROOT / "src" / "groundlab"
        for file in code.rglob("*.py"):  # the commit is this one's where it holds the running package
            (target := self.root / "src" / "groundlab" / file.relative_to(code)).parent.mkdir(
                parents=True, exist_ok=True
            )
            target.write_bytes(file.read_bytes())
        for command in (["init", "-q"], ["add", "src", "configs", "notebooks", "requirements", "pyproject.toml"]):
            subprocess.run([*git, *command], check=True)
        subprocess.run([*git, "commit", "-qm", "all"], check=True)

    def start(self, **arguments) -> subprocess.Popen:
        """A process that calls `lab.reproduce` as the command line does."""
        command = [sys.executable, "-P", "-c", CALL, json.dumps(arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": self.root}
        return subprocess.Popen(command, env={**os.environ, "GROUNDLAB_ROOT": str(self.root)}, **pipes)

    def finish(self, process: subprocess.Popen) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of a started process."""
        out, err = process.communicate()  # pytest's own limit is the only one: machines are busy
        return process.returncode, out, err

    def reproduce(self, **arguments) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of `lab.reproduce`, called as the command line does, in this process."""
        out, error = StringIO(), StringIO()
        self._forget_root()  # as a new process knows nothing
        with chdir(self.root), redirect_stdout(out), redirect_stderr(error):
            try:
                code = lab.reproduce(**{"scale": "smoke", "results": str(self.results), **arguments})
            except (GroundlabError, Unfinished) as problem:
                code = problem.exit_code
                print(problem, file=error)
        return code, out.getvalue(), error.getvalue()

    @staticmethod
    def steps(plan: lab.Plan) -> int:
        """How many steps the first run of a plan has done, twice or not."""
        file = plan.folder_of(plan.runs[0]) / "timing.jsonl"
        return sum(b'"seconds"' in line for line in file.read_bytes().split(b"\n")) if file.is_file() else 0

    @staticmethod
    def once(condition: Callable[[], object], act: Callable[[], object]) -> None:
        """Do `act` in the background as soon as `condition` holds."""

        def watch():
            while not condition():
                time.sleep(0.01)
            act()

        threading.Thread(target=watch, daemon=True).start()

    def versions(self, scale: str = "smoke") -> list[Path]:
        home = self.results / ".scratch" if scale == "smoke" else self.results
        return sorted(file.parent for file in home.glob("[!.]*/version.json"))


@pytest.fixture
def laboratory(tmp_path, monkeypatch, forget_root):
    made = Laboratory(tmp_path / "clone", forget_root)
    monkeypatch.setenv("GROUNDLAB_ROOT", str(made.root))
    monkeypatch.setenv("GROUNDLAB_RESULTS", "")  # a task of a cluster sets it, which ends with the test
    forget_root()
    yield made
    forget_root()


@pytest.fixture
def training_spec(laboratory) -> RunSpec:
    """A run of the real asking policy, of a few updates."""
    settings = {"iterations": 8, "trajectories": 1, "epochs": 1, "layouts": "0-4"}
    return registry.resolve("mediator", "SimpleDoorKey", 0, settings)


@pytest.fixture
def rule_entry() -> dict:
    return dict(ONE_RULE)


@pytest.fixture
def training_entry() -> dict:
    return dict(TRAINING)
