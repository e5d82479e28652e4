"""What an agent makes a GPU and the CPU wait for and send each other, counted on a stand-in (second_device.py).

An update of each method that can train on a GPU, of few environments and steps: how often the CPU waits for a number
of the device, and how many tensors and lists are copied to it. Both cost tens of microseconds each, whatever the model.
"""

from dataclasses import replace

from groundlab.bench.measurement import Measurement
from groundlab.bench.second_device import second_device
from groundlab.core.run import RunSpec
from groundlab.papers import registry

_GRID = {"num_envs": 4, "layouts": "0-0", "fixed_mission": ""}
_PPO = {**_GRID, "frames_per_env": 8, "batch_size": 16, "epochs": 1, "frames": 64}
_REPLIES = {"num_envs": 4, "steps": 8, "minibatch_size": 4, "max_new_tokens": 8, "layouts": "0-0", "num_dists": 0}
RUNS = {
    "glam, 32 frames, 2 gradient steps": ("glam", "BabyAI-GoToLocalS8N4-v0", _PPO),
    "symbolic, 32 frames, 2 gradient steps": (
        *("symbolic", "BabyAI-GoToLocalS8N4-v0"),
        _PPO | {"recurrence": 4},
    ),
    "drrn, 1,024 frames of 32 environments, 8 gradient steps": (
        *("drrn", "BabyAI-GoToLocalS8N4-v0"),
        _GRID | {"num_envs": 32, "steps_per_update": 4, "frames": 2048},
    ),
    "direct, 8 replies of at most 8 tokens, 2 gradient steps": ("direct", "Reasoning-GoTo-v0", _REPLIES),
}


def bench_traffic() -> list[Measurement]:
    """Waits and copies of the second update of each method."""
    measured = []
    for name, (method, world, settings) in RUNS.items():
        resolved = registry.resolve_settings(method, world, {**settings, "device": "cuda"})
        spec = RunSpec(method=method, world=world, seed=0, settings=resolved)
        with second_device() as traffic:
            learner = registry.load(method, world).make_learner(spec)
            learner.train_step(1)
            before = replace(traffic)
            learner.train_step(2)
            own = traffic.since(before)
        measured.append(Measurement(f"{name}: the CPU waits", own.waits, "times"))
        measured.append(Measurement(f"{name}: copies to the device", own.to_device, "times"))
    return measured
