"""Kill -9 a learning agent and start it again: the same bytes, replay memory included. Real processes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from groundlab import lab
from groundlab.core.run import RunSpec
from groundlab.lab import run_store
from groundlab.papers import registry
from groundlab.papers.glam import settings

from .conftest import WORLD

SLOWEST_START = 300.0
COMPARED = ("metrics.jsonl", "evaluation.json")
FRAMES = 48  # of a record of DRRN, instead of 1,024
CALL = f"""
import json, sys
from pathlib import Path
from groundlab import lab
from groundlab.core.run import RunSpec
from groundlab.papers.glam import settings
settings.FRAMES_PER_RECORD = {FRAMES}
lab.execute_run(RunSpec(**json.loads(sys.argv[1])), Path(sys.argv[2]))
"""
AGENTS = {
    "glam": {"frames": 192},
    "cloning": {"frames": 160, "held_out": 40, "batch_size": 16, "steps_per_record": 2, "epochs": 1},
    "drrn": {"num_envs": 4, "frames": 8 * FRAMES, "batch_size": 16, "layouts": "0-1"},
    "symbolic": {
        "num_envs": 4,
        "frames_per_env": 6,
        "recurrence": 3,
        "batch_size": 12,
        "frames": 192,
        "layouts": "0-1",
    },
}


@pytest.fixture(params=AGENTS)
def spec(request, model_folder) -> RunSpec:
    method, small = request.param, AGENTS[request.param]
    shape = {"num_envs": 4, "frames_per_env": 8, "batch_size": 8, "epochs": 1} if method == "glam" else {}
    words = {"model": str(model_folder), "layouts": "0-1"} if method in ("glam", "cloning") else {}
    return RunSpec(
        method=method, world=WORLD, seed=0, settings=registry.resolve_settings(method, WORLD, words | shape | small)
    )


def steps(folder) -> int:
    file = folder / "timing.jsonl"
    return file.read_bytes().count(b'"seconds"') if file.is_file() else 0


def test_an_agent_killed_and_started_again_ends_with_the_same_bytes(spec, tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "FRAMES_PER_RECORD", FRAMES)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-P", "-c", CALL, json.dumps(spec.model_dump()), str(killed)]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE)
    deadline = time.monotonic() + SLOWEST_START
    while steps(killed) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.0005)
    process.kill()
    _, error = process.communicate()
    assert process.returncode == -signal.SIGKILL, error.decode()
    assert run_store.status_of(killed) == "unfinished"
    lab.execute_run(spec, killed)
    lab.execute_run(spec, whole)
    for name in COMPARED:
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert "resumed at iteration" in (killed / "log.txt").read_text()
