"""A language model of our own, with a recipe and a few thousand weights, that knows nothing yet."""

import json

import numpy as np
import pytest
import torch

from groundlab.language import corpus, tokenizer
from groundlab.language.architecture import Architecture, build
from groundlab.language.pretraining import load_recipe
from groundlab.papers import registry

SHAPE = Architecture(width=32, feed_forward=32, heads=2, head_width=8, layers=2)
WORLD = "BabyAI-GoToObjS4-v0"


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """What pretraining leaves: weights, tokenizer, recipe.json with a temperature of 2."""
    folder = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(0)
    texts = [f"{sample.input} {sample.target}" for sample in (corpus.sample(rng) for _ in range(3000))]
    words = tokenizer.train([*texts, *["turn left right go forward pick up drop toggle"] * 40], 500)
    words.save_pretrained(folder)
    model = build(SHAPE, len(words), seed=77)
    with torch.no_grad():  # so that "pretrained" is no fresh draw of any seed
        for parameter in model.parameters():
            parameter.mul_(1.5)
    model.save_pretrained(folder)
    recipe = load_recipe("smoke-t5").model_dump() | {"architecture": SHAPE.model_dump()}
    (folder / "recipe.json").write_text(json.dumps({"recipe": recipe, "temperature": 2.0}))
    return folder


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
