"""Small settings of the agents that converse with the tiny Llama."""

import pytest
from tiny_models import write_chat_llama

from groundlab.papers import registry

WORLD = "Reasoning-GoTo-v0"


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """What pretraining leaves: weights and tokenizer."""
    return write_chat_llama(tmp_path_factory.mktemp("chat"))


@pytest.fixture
def resolved(model_folder):
    """Settings of a method, small ones by default."""

    def resolve(method="direct", world=WORLD, **given):
        small = {"model": str(model_folder), "layouts": "0-2", "max_new_tokens": 6, "num_dists": 0, "invalid_limit": 2}
        if not method.endswith("zero-shot"):
            small |= {"num_envs": 4, "steps": 16, "minibatch_size": 8, "iterations": 4}
        return registry.resolve_settings(method, world, small | given)

    return resolve
