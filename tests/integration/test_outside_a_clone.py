"""An installed groundlab where no repository is: what needs none works, and what needs one says why in a line.

The same where only the worlds are installed: no package of the extra `lab` can be imported there. And README's first
command plans to train in a clone of the last commit, with the published results in it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "groundlab"
MODULES = {"pyyaml": "yaml", "pillow": "PIL"}
"""Modules that are not called like their package."""


def modules_of(requirements: list[str]) -> set[str]:
    """The modules that these requirements install."""
    names = {re.split(r"[\[<>=!; ]", each)[0].lower().replace("-", "_") for each in requirements}
    return {MODULES.get(name, name) for name in names}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = modules_of(PROJECT["dependencies"])
MISSING = modules_of(PROJECT["optional-dependencies"]["lab"]) - BASE
SUBMITS = modules_of(PROJECT["optional-dependencies"]["slurm"])
MISSING |= {"click", "httpx2", "huggingface_hub", "submitit"}


def lay(home: Path, without: set[str] = frozenset()):
    """The command line, started in no clone: call("worlds") gives the ended process.

    without: modules that cannot be imported there. call(..., code=...) runs Python in place of the command line.
    """
    (home / "work").mkdir()
    missing = f"import sys\nsys.modules.update(dict.fromkeys({sorted(without)}))\n"
    (home / "sitecustomize.py").write_text(missing)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLAB_")}

    def call(*words: object, keys: str = "", code: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *(("-c", code) if code else ("-m", "groundlab", *map(str, words)))]
        environment = {**ours, "PYTHONPATH": str(home), "COLUMNS": "200"}
        options = {"env": environment, "cwd": home / "work", "input": keys, "timeout": 600}
        return subprocess.run(command, capture_output=True, text=True, **options)

    return call


@pytest.fixture(scope="module")
def groundlab(tmp_path_factory):
    """The command line outside a clone, with everything that the laboratory needs."""
    home = tmp_path_factory.mktemp("site")
    (home / "groundlab").symlink_to(PACKAGE)  # as pip would lay it; modules keep the name of the link
    return lay(home)


@pytest.fixture(scope="module")
def worlds_alone(tmp_path_factory):
    """The command line where only the worlds are installed; they share this clone's compiled loops."""
    return lay(tmp_path_factory.mktemp("base"), MISSING)


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


EACH = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from groundlab import cli
for words in {commands}:
    out, error, code = io.StringIO(), io.StringIO(), 0
    sys.argv, sys.stdin = ["groundlab", *words], io.StringIO("w\\nq\\n")
    try:
        with redirect_stdout(out), redirect_stderr(error):
            cli.main()
    except SystemExit as end:
        code = end.code or 0
    print(json.dumps([words, code, out.getvalue(), error.getvalue()]))
"""
WITHOUT = """
--help
reproduce --help
worlds
play SimpleDoorKey
play BabyAI-GoToLocal-v0
"""
WITH = """
reproduce --scale smoke
run random --world SimpleDoorKey --set lr=0.1 --out out
evaluate random --world SimpleDoorKey --base-url http://127.0.0.1:1/v1
figures
review
bench
methods
claims
ledger x
verify x
compare x y
pretrain smoke-t5 --out lm
model fetch
label goals --out labels
play --agent out
"""


def answers(worlds_alone, lines: str) -> list[tuple[list[str], int, str, str]]:
    """(words, exit code, stdout, stderr) of each command; one process, as each would import the same for a second."""
    commands = [line.split() for line in lines.split("\n") if line]
    ended = worlds_alone(code=EACH.format(commands=commands))
    assert ended.returncode == 0 and ended.stdout.count("\n") == len(commands), ended.stdout + ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_the_worlds_alone_are_listed_played_and_exported(worlds_alone):
    for words, code, out, error in answers(worlds_alone, WITHOUT):
        assert code == 0 and out.strip(), (words, error)
    mistaken = worlds_alone("play", "--sed", "3")
    assert mistaken.returncode == 2 and "No such option" in mistaken.stderr and "Traceback" not in mistaken.stderr


def test_without_the_laboratory_every_other_command_says_what_to_install(worlds_alone):
    for words, code, out, error in answers(worlds_alone, WITH):
        assert code == 2 and out == "" and error.count("\n") == 1, (words, out, error)
        assert error.startswith(f"groundlab: groundlab {words[0]}"), words
        assert error.endswith('needs the laboratory; pip install "groundlab[lab]"\n'), words


def test_what_sends_runs_to_a_cluster_needs_no_laboratory_where_an_image_trains(tmp_path):
    image, settings = tmp_path / "groundlab.sif", tmp_path / "slurm.yaml"
    image.touch()
    settings.write_text(f"image: {image}")
    submitter = lay(tmp_path, MISSING - SUBMITS)
    words = ["reproduce", "--scale", "smoke", "--only", "mediator", "--results", tmp_path / "out"]
    ended = submitter(*words, "--executor", "slurm", "--slurm", settings, "--dry-run")
    assert ended.returncode == 0 and f"apptainer exec --bind {tmp_path / 'out'} {image}" in ended.stdout, ended.stderr
    refused = submitter(*words, "--executor", "slurm")
    assert refused.returncode == 2 and "in this Python, which can only submit; set image" in refused.stderr
    local = submitter(*words)
    assert local.returncode == 2 and "needs the laboratory" in local.stderr


FROM_PYTHON = """
import json, sys
import gymnasium
import groundlab
before = sorted({name.partition(".")[0] for name in sys.modules})
env = gymnasium.make("groundlab.worlds:groundlab/SimpleDoorKey-v0")
env.reset(seed=0)
print(json.dumps([before, env.observation_space["image"].shape]))
"""


def test_gymnasium_makes_a_world_by_name_from_the_declared_packages_alone(worlds_alone):
    """gymnasium 1 has no entry points for environments, so an id names the module that registers it."""
    ended = worlds_alone(code=FROM_PYTHON)
    assert ended.returncode == 0, ended.stderr
    before, shape = json.loads(ended.stdout.splitlines()[-1])
    assert shape == [10, 10, 4]
    assert not {"numba", "pydantic", "minigrid"} & set(before), "import groundlab is light"


def test_the_block_of_the_readme_runs_with_the_worlds_alone(worlds_alone):
    block = re.search(r"## Use the worlds.*?```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block
    ended = worlds_alone(code=block[1])
    assert ended.returncode == 0, ended.stderr


def test_the_base_is_small_and_has_no_upper_bound_that_excludes_trainers():
    assert not {"torch", "transformers", "scipy", "pandas", "openai"} & BASE
    exact = ("crafter", "opensimplex")
    assert not [each for each in PROJECT["dependencies"] if re.search("<|==", each) and not each.startswith(exact)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    if not ((ROOT / ".git").exists() and shutil.which("git")):
        pytest.skip("not a git clone, or git is not installed")
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
    published = list(clone.glob("results/*-quick-*/version.json"))
    assert published, "the clone brings published results of the same scale"
    asked = reproduce(clone, "--dry-run")
    (line,) = re.findall(r"^(\d+) of (\d+) runs would be executed$", asked.stdout, re.MULTILINE)
    assert asked.returncode == 0 and line[0] == line[1], asked.stdout + asked.stderr
