"""README's first command in a clone of the last commit, with the published results in it: it trains.

What it would do is asked of the command itself; that it does it is the affair of tests/integration/lab.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git clone")
    folder = tmp_path_factory.mktemp("fresh") / "groundlab"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)], check=True)
    return folder


def reproduce(clone: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What the session of README's first command calls, in the clone, with the clone's code."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLAB_")}
    command = [sys.executable, "-m", "groundlab", "reproduce", *options]
    environment = {**ours, "PYTHONPATH": str(clone / "src"), "COLUMNS": "200"}
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=300)


def test_the_first_command_trains_in_a_fresh_clone(clone):
    assert "nox -s reproduce\n" in (clone / "README.md").read_text()
    published = list(clone.glob("results/*-quick-*/manifest.json"))
    assert published, "the clone brings published results of the same scale"
    asked = reproduce(clone, "--dry-run")
    (line,) = re.findall(r"^(\d+) of (\d+) runs would be executed$", asked.stdout, re.MULTILINE)
    assert asked.returncode == 0 and line[0] == line[1], asked.stdout + asked.stderr
