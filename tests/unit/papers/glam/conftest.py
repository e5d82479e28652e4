"""Small settings of the agents that read with the tiny T5."""

import pytest
from tiny_models import write_t5

from groundlab.papers import registry

WORLD = "BabyAI-GoToObjS4-v0"


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """What pretraining leaves: weights, tokenizer, recipe.json with a temperature of 2."""
    return write_t5(tmp_path_factory.mktemp("model"))


@pytest.fixture
def resolved(model_folder):
    """Settings of a method, small ones by default."""

    def resolve(method="glam", world=WORLD, **given):
        small = {"model": str(model_folder), "num_envs": 4, "frames_per_env": 8, "batch_size": 8, "epochs": 2}
        small |= {"layouts": "0-1", "frames": 160}
        if method == "zero-shot":
            small = {"model": str(model_folder), "layouts": "0-1"}
        return registry.resolve_settings(method, world, small | given)

    return resolve
