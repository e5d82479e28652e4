"""A small run of every method whose network can be on a GPU, of every way that it reads and learns."""

from typing import Any

GRID, REASONING = "BabyAI-GoToObjS4-v0", "Reasoning-GoTo-v0"
READING = {"num_envs": 2, "layouts": "0-1", "fixed_mission": ""}
LM = READING | {"frames_per_env": 4, "batch_size": 4, "epochs": 1, "frames": 16}
WRITING = {"layouts": "0-1", "max_new_tokens": 6, "num_dists": 0, "invalid_limit": 2}
WRITING |= {"num_envs": 2, "steps": 4, "minibatch_size": 2, "iterations": 2}
ADAPTERS = {"lora_rank": 2}
KNOWING = {"num_envs": 2, "frames_per_env": 8, "frames": 32, "layouts": "0-1"}
ASKING = {"trajectories": 2, "iterations": 2, "test_every": 1, "layouts": "0-1"}
ROOM = "BabyAI-Text-GoToLocal-RedBall-S10"
WITHOUT_MODEL = ("drrn", "symbolic", "mediator", "never", "rule-cloning", "knowledge", "rnd")
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{name: (name, GRID, LM) for name in ("glam", "aflan", "npe", "npae", "npa")},
    "glam-extended": ("glam-extended", GRID, LM | {"normalisation": "word", "prompt_format": "xml"}),
    "glam bfloat16": ("glam", GRID, LM | {"dtype": "bfloat16"}),
    "glam adapters": ("glam", GRID, LM | ADAPTERS | {"gradient_checkpointing": True}),
    "glam timeouts": ("glam", GRID, LM | {"timeouts": "bootstrap", "probe_template": 1}),
    "glam quirks": ("npe", GRID, LM | {"fidelity": {"value_loss_broadcast": True, "dropout": True}}),
    "glam reading replies' model": ("glam", GRID, LM | {"model": "llama"}),
    "cloning": ("cloning", GRID, READING | {"frames": 8, "batch_size": 4, "held_out": 4, "steps_per_record": 1}),
    "drrn": ("drrn", GRID, READING | {"frames": 16, "batch_size": 4}),
    "symbolic": ("symbolic", GRID, READING | {"frames": 16, "frames_per_env": 4, "recurrence": 2, "batch_size": 4}),
    "reasoning": ("reasoning", REASONING, WRITING | {"test_every": 1, "curve_layouts": "0-1"}),
    "direct": ("direct", REASONING, WRITING),
    "direct bfloat16": ("direct", REASONING, WRITING | {"dtype": "bfloat16"}),
    "direct adapters": ("direct", REASONING, WRITING | ADAPTERS | {"gradient_checkpointing": True}),
    "direct quirks": (
        *("direct", REASONING),
        WRITING | ADAPTERS | {"lora_dropout": 0.1, "fidelity": {"dropout": True, "drop_unfinished": True}},
    ),
    "mediator": ("mediator", "SimpleDoorKey", ASKING),
    "mediator with heads by option": ("mediator", "SimpleDoorKey", ASKING | {"heads": "by-option"}),
    "never": ("never", "SimpleDoorKey", ASKING),
    "rule-cloning": ("rule-cloning", "SimpleDoorKey", ASKING),
    "knowledge": ("knowledge", ROOM, KNOWING | {"form": "oracle", "test_every": 1, "curve_layouts": "200-201"}),
    "knowledge, small": ("knowledge", ROOM, KNOWING | {"network": "small", "timeouts": "bootstrap"}),
    "rnd": ("rnd", ROOM, KNOWING | {"network": "small", "record_episodes": 1}),
    "direct without critic": (
        *("direct", REASONING),
        WRITING | {"estimator": "gigpo", "episodes": "whole", "group_size": 2, "kl": "loss"},
    ),
}
