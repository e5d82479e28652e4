"""What an agent makes a GPU and the CPU wait for and send each other, counted on a stand-in (second_device.py).

    groundlab bench devices

The second update of each method that can learn on a GPU, of few environments and steps: how often the CPU waits for
all work on the device, and how many tensors are copied to it. A wait costs tens of microseconds and leaves the device
idle, whatever the model; a copy that nobody waits for costs a few. Counts are the same everywhere, so they are kept in
`benchmarks/` beside the machine that counted, which has no GPU. GLAM's variants differ in their heads alone. The
mediator and background knowledge learn on the CPU.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from groundlab.bench.measurement import Measurement
from groundlab.bench.second_device import Traffic, second_device
from groundlab.core.run import Run
from groundlab.papers import registry

UNIT = "an update, on a stand-in for a GPU"
_WORLD, _TALK = "BabyAI-GoToLocalS8N4-v0", "Reasoning-GoTo-v0"
_GRID = {"num_envs": 4, "layouts": "0-0", "fixed_mission": ""}
_PPO = {**_GRID, "frames_per_env": 8, "batch_size": 16, "epochs": 1, "frames": 64}
_DRRN = _GRID | {"num_envs": 32, "steps_per_update": 4, "frames": 2048}
_CLONING = _GRID | {"frames": 32, "held_out": 16, "batch_size": 16, "steps_per_record": 1}
_REPLIES = {"num_envs": 4, "steps": 8, "minibatch_size": 4, "max_new_tokens": 8, "layouts": "0-0", "num_dists": 0}
_REPLIES |= {"epochs": 1, "iterations": 2, "test_every": 0}
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "glam, 8 steps of 4 environments, 2 gradient steps": ("glam", _WORLD, _PPO),
    "glam with adapters, the same": ("glam", _WORLD, _PPO | {"lora_rank": 2}),
    "symbolic, the same": ("symbolic", _WORLD, _PPO | {"recurrence": 4}),
    "drrn, 32 steps of 32 environments, 8 gradient steps": ("drrn", _WORLD, _DRRN),
    "cloning, 1 gradient step and 16 decisions": ("cloning", _WORLD, _CLONING),
    "reasoning, 8 replies of at most 8 tokens, 2 gradient steps": ("reasoning", _TALK, _REPLIES),
    "direct, the same": ("direct", _TALK, _REPLIES),
}


def bench_traffic() -> list[Measurement]:
    """Waits and copies of the second update of each method."""
    measured = []
    for name, run in RUNS.items():
        own = traffic_of(*run)
        measured.append(Measurement(f"{name}: the CPU waits", own.waits, UNIT))
        measured.append(Measurement(f"{name}: copies to the device", own.to_device, UNIT))
    return measured


def traffic_of(method: str, world: str, settings: dict[str, Any]) -> Traffic:
    """What the second update of a run sends and waits for."""
    spec = registry.resolve(method, world, 0, {**settings, "device": "cuda"})
    with tempfile.TemporaryDirectory() as folder, second_device() as traffic:
        learner = registry.load(method, world).make_learner(spec, Run(Path(folder) / "run", spec))
        learner.train_step(1)
        before = replace(traffic)
        learner.train_step(2)
        return traffic.since(before)
