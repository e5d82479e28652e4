"""An installed groundlab where no repository is: what needs none works, and what needs one says why in a line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "groundlab"


@pytest.fixture(scope="module")
def groundlab(tmp_path_factory):
    """The command line of a package that lies in no clone: groundlab("worlds") -> the ended process."""
    home = tmp_path_factory.mktemp("site")
    (home / "groundlab").symlink_to(PACKAGE)  # as pip would lay it; modules keep the name of the link
    (home / "work").mkdir()
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLAB_")}

    def call(*words: object, keys: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "groundlab", *map(str, words)]
        environment = {**ours, "PYTHONPATH": str(home), "COLUMNS": "200"}
        options = {"env": environment, "cwd": home / "work", "input": keys, "timeout": 600}
        return subprocess.run(command, capture_output=True, text=True, **options)

    return call


@pytest.mark.parametrize(
    "words",
    [
        ("run", "random", "--world", "SimpleDoorKey", "--set", "layouts=0-1", "--out", "out"),
        ("evaluate", "always", "--world", "SimpleDoorKey", "--layouts", "0-1"),
        ("play", "SimpleDoorKey"),
    ],
    ids=lambda words: words[0],
)
def test_running_evaluating_and_playing_need_no_clone(words, groundlab):
    ended = groundlab(*words, keys="w\nq\n")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "SimpleDoorKey" in ended.stdout


@pytest.mark.parametrize("words", [("--only", "mediator"), ()], ids=["a paper", "all papers"])
def test_our_own_papers_need_one_and_say_why(words, groundlab):
    ended = groundlab("reproduce", *words)
    assert ended.returncode == 2 and ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert "only a clone holds the configs, notebooks and published results" in line and "GROUNDLAB_ROOT" in line
