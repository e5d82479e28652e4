"""Kill -9 an agent that learns in words, in another process, and go on in this one: the same bytes.

That every method goes on as if nothing had been is proved in tests/contract; here the kill and the process are real.
"""

import json
import os
import signal
import subprocess
import sys
import time

from groundlab import lab
from groundlab.core.run import RunSpec
from groundlab.lab import run_folder
from groundlab.papers import registry

WORLD = "Reasoning-GoTo-v0"
SLOWEST_START = 300.0
SMALL = {"num_envs": 4, "steps": 16, "minibatch_size": 8, "iterations": 12, "lora_rank": 2, "num_dists": 0}
SMALL |= {"layouts": "0-2", "max_new_tokens": 6, "invalid_limit": 2}
CALL = """
import json, sys
from pathlib import Path
from groundlab import lab
from groundlab.core.run import RunSpec
lab.execute_run(RunSpec(**json.loads(sys.argv[1])), Path(sys.argv[2]))
"""


def steps(folder) -> int:
    file = folder / "timing.jsonl"
    return file.read_bytes().count(b'"seconds"') if file.is_file() else 0


def test_an_agent_killed_and_started_again_ends_with_the_same_bytes(tiny_chat_llama, tmp_path):
    settings = registry.resolve_settings("reasoning", WORLD, {"model": str(tiny_chat_llama), **SMALL})
    spec = RunSpec(method="reasoning", world=WORLD, seed=0, settings=settings)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-P", "-c", CALL, json.dumps(spec.model_dump()), str(killed)]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE)
    deadline = time.monotonic() + SLOWEST_START
    while steps(killed) < 4 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.0005)
    process.kill()
    _, error = process.communicate()
    assert process.returncode == -signal.SIGKILL, error.decode()
    assert run_folder.status_of(killed) == "unfinished"
    lab.execute_run(spec, killed)
    lab.execute_run(spec, whole)
    for name in ("metrics.jsonl", "evaluation.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert "resumed at iteration" in (killed / "log.txt").read_text()
