"""Two processes that `accelerate launch` starts train the agent that one process trains, up to rounding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from groundlab import lab
from groundlab.core.errors import Unfinished
from groundlab.core.run import RunSpec
from groundlab.learning.distributed import Group
from groundlab.papers import registry
from groundlab.papers.glam.policy import read_together
from groundlab.papers.glam.ppo import METRICS, PPOLearner, Settings

WORLD = "BabyAI-GoToObjS4-v0"
SMALL = {"num_envs": 4, "frames_per_env": 8, "batch_size": 8, "epochs": 2}
TOLERANCE = 1e-4  # what is added up is float32: 1e-5 on AMD's family 25 and 26, 5e-5 on Intel's family 6, model 167
LOSSES = METRICS[:-1]  # the norm of adapters' gradients, which begin at nothing, differs by 2e-5 after 16 steps
PROMPTS = ["go to the red ball", "you see a wall 2 steps forward", "you see a key", "go to the red ball"]
LAUNCH = ("--multi_gpu", "--num_processes=2", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no")
VARIANTS = {
    "all weights": ("glam", {"token_budget": 100}),
    "adapters": ("glam", {"lora_rank": 4}),
    "an action head": ("npae", {"batch_size": 1, "frames_per_env": 2, "epochs": 1}),  # one process has nothing to read
}
BOTH = """
import json, sys
from pathlib import Path
from groundlab.learning import distributed
from test_distributed import measured
group = distributed.join("cpu")
distributed._BUCKET = 1_000  # so that a small network has several
for name, given in json.loads(sys.argv[1]).items():
    measured(group, *given, Path(sys.argv[2]) / f"{name} {group.rank}.npz")
"""


def measured(group: Group, method: str, settings: dict, file: Path) -> None:
    """Two updates of an agent in one of the processes of a group; writes losses, scores and weights as it sees them."""
    torch.set_num_threads(1)
    resolved = Settings(**settings).model_dump(mode="json")
    learner = PPOLearner(RunSpec(method=method, world=WORLD, seed=0, settings=resolved), group)
    records = [learner.train_step(number) for number in (1, 2)]
    scores, values = read_together(group, learner.scorer, PROMPTS)
    numbers = [[record[name] for name in LOSSES] for record in records]
    weights = {f"weight {name}": tensor.numpy() for name, tensor in learner.scorer.state_dict().items()}
    np.savez(file, records=np.array(numbers), scores=scores.numpy(), values=values.numpy(), **weights)


def launch(folder: Path, *command: str) -> subprocess.CompletedProcess:
    """Two processes on this machine that talk by gloo, on a port of their own."""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    arguments = [sys.executable, "-m", "accelerate.commands.launch", *LAUNCH, "--main_process_port=0", *command]
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def both(tiny_t5, tmp_path_factory):
    """The settings of each variant, and the folder of what two processes made of them."""
    folder = tmp_path_factory.mktemp("both")
    small = {"model": str(tiny_t5), **SMALL}
    given = {name: (method, small | changes) for name, (method, changes) in VARIANTS.items()}
    (folder / "both.py").write_text(BOTH)
    ended = launch(folder, "both.py", json.dumps(given), str(folder))
    assert ended.returncode == 0, ended.stderr
    return given, folder


@pytest.mark.parametrize("name", VARIANTS)
def test_two_processes_have_the_losses_scores_and_weights_of_one(name, both, tmp_path):
    given, folder = both
    measured(Group(), *given[name], tmp_path / "alone.npz")
    with np.load(tmp_path / "alone.npz") as alone, np.load(folder / f"{name} 0.npz") as first:
        assert set(alone.files) == set(first.files)
        for field in alone.files:
            np.testing.assert_allclose(first[field], alone[field], rtol=TOLERANCE, atol=TOLERANCE, err_msg=field)


@pytest.mark.parametrize("name", VARIANTS)
def test_both_processes_end_with_the_same_weights_and_scores_to_the_last_bit(name, both):
    with np.load(both[1] / f"{name} 0.npz") as first, np.load(both[1] / f"{name} 1.npz") as second:
        assert first.files == second.files
        assert all(np.array_equal(first[field], second[field]) for field in first.files)


def figures(folder: Path) -> list[list[float]]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [[record["frames"], *(record[name] for name in LOSSES)] for record in records]


def test_a_run_that_one_process_began_is_ended_by_two_as_by_one(tiny_t5, tmp_path):
    given = {"model": str(tiny_t5), "layouts": "0-1", "iterations": 4, **SMALL}
    spec = RunSpec(method="glam", world=WORLD, seed=0, settings=registry.resolve_settings("glam", WORLD, given))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    lab.execute_run(spec, whole)
    asked = iter([False, True])
    with pytest.raises(Unfinished):
        lab.execute_run(spec, parts, stop=lambda: next(asked))
    usual = Settings().model_dump(mode="json")
    given = [f"--set={key}={value}" for key, value in spec.settings.items() if value != usual[key]]
    run = ("run", "glam", f"--world={WORLD}", f"--out={parts}", *given)
    ended = launch(tmp_path, "--module", "groundlab", *run)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("sampled:") == 1, "one process tells the results"
    np.testing.assert_allclose(figures(parts), figures(whole), rtol=TOLERANCE, atol=TOLERANCE)
    assert (parts / "evaluation.json").read_bytes() == (whole / "evaluation.json").read_bytes()
    sessions = json.loads((parts / "manifest.json").read_text())["history"]
    assert [(each["processes"], each["status"]) for each in sessions] == [(1, "unfinished"), (2, "finished")]
    assert "resumed at iteration 2" in (parts / "log.txt").read_text()
    assert sorted(file.name for file in parts.glob("log*")) == ["log-1.txt", "log.txt"]
