"""`weights: random` needs the config and tokenizer of a model and no weights, so that updates can be timed before."""

import shutil
from pathlib import Path

import pytest

from groundlab.assets import MODELS
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run
from groundlab.papers import registry

CASES = [
    ("glam", "BabyAI-GoToObjS4-v0", "quick-t5-s0", {"num_envs": 2, "frames_per_env": 4, "fixed_mission": ""}),
    ("npae", "BabyAI-GoToObjS4-v0", "quick-t5-s0", {"num_envs": 2, "frames_per_env": 4, "fixed_mission": ""}),
    ("direct", "Reasoning-GoTo-v0", "quick-llama-chat-s0", {"num_envs": 2, "steps": 4, "minibatch_size": 2}),
]


@pytest.mark.parametrize(("method", "world", "model", "small"), CASES)
def test_an_agent_trains_without_weights_on_this_machine(method, world, model, small, tmp_path):
    folder = shutil.copytree(MODELS / model, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    given = {**small, "model": str(folder), "iterations": 2, "layouts": "0-0"}
    with pytest.raises(GroundlabError):
        registry.execute(_run(tmp_path / "pretrained", method, world, given))
    registry.execute(_run(tmp_path / "random", method, world, {**given, "weights": "random"}))
    assert len((tmp_path / "random" / "metrics.jsonl").read_text().splitlines()) == 2


def _run(folder: Path, method: str, world: str, given: dict) -> Run:
    return Run(folder, registry.resolve(method, world, 0, given))
