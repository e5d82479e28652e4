"""Every method that trains a network on a GPU does so on a stand-in for one, which notices a tensor left behind.

Where there is a GPU, on that as well.
"""

import json

import numpy as np
import pytest
import torch
from device_runs import RUNS

from groundlab.language import models as language_models
from groundlab.language import pretraining
from groundlab.learning.devices import arithmetic
from groundlab.papers import registry
from groundlab.papers.knowledge.bk_pref import PreferencePotential, PreferenceTransformer
from groundlab.papers.knowledge.observations import GRID, Windows


@pytest.mark.parametrize("name", RUNS)
def test_an_update_and_an_evaluation_pass_on_another_device(learner_of, gpu, name):
    with gpu() as traffic:
        agent = learner_of(name, device="cuda")
        record = agent.train_step(1)
        json.dumps(record, allow_nan=False)
        parameters = [p for group in agent.optimizer.param_groups for p in group["params"]]
        assert {p.device.type for p in parameters} == {"cuda"}
        assert traffic is None or (traffic.to_device and traffic.waits)
        agent.load_state(agent.state())
        agent.train_step(2)
        assert agent.evaluate()


@pytest.mark.parametrize(
    "name", ["glam", "npae", "cloning", "symbolic", "drrn", "direct", "mediator", "knowledge", "rnd"]
)
def test_an_update_there_computes_what_the_cpu_computes(learner_of, gpu, name):
    def numbers(device: str) -> dict[str, float]:
        with arithmetic():  # cuDNN rounds to TF32 unless it is told not to
            record = learner_of(name, device=device).train_step(1)
        return {key: value for key, value in record.items() if isinstance(value, int | float)}

    here = numbers("cpu")
    with gpu():
        there = numbers("cuda")
    assert there == pytest.approx(here, rel=1e-3, abs=1e-4), "padding, order and length of batches play no part"


def test_preferences_are_read_on_their_device(gpu):
    windows = Windows(np.zeros((3, 6, 7, 7, 3), np.uint8), np.zeros((3, 5), np.int64), np.zeros((3, 6), np.int64))
    with gpu() as traffic:
        potential = PreferencePotential(PreferenceTransformer(GRID.shape, 7, size="small"), "cuda")
        assert potential(windows).shape == (3,) and (traffic is None or traffic.to_device)


def test_pretraining_reads_its_batches_on_its_device(models, gpu):
    recipe = pretraining.load_recipe("smoke-t5", batch_size=4)
    samples = next(pretraining.pool(recipe, recipe.stages[0], 0))
    with gpu():
        model, words = language_models.load(models["t5"], device="cuda")
        batch = pretraining.probes.collate(model, words, samples)
        pretraining._update(model, torch.optim.AdamW(model.parameters()), batch, 1e-3, 1.0)


def test_no_method_that_learns_on_a_gpu_is_left_out():
    fields = {each.name: registry.schema_of(each).model_fields for _, each in registry.methods()}
    names = {name: {field.alias or key for key, field in own.items()} for name, own in fields.items()}
    learn = {name for name, own in names.items() if {"device", "lr"} <= own}
    assert learn == {method for method, _, _ in RUNS.values()}
