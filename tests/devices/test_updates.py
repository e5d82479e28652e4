"""Every method that trains a network on a GPU does so on a stand-in for one, and a tensor left behind is noticed."""

import json

import pytest
from device_runs import RUNS
from second_device import second_device

from groundlab.core.run import Run
from groundlab.papers import registry


@pytest.fixture
def learner(spec_of, tmp_path):
    """Make the learner of a run of RUNS."""

    def make(name: str, **given):
        spec = spec_of(name, **given)
        run = Run(tmp_path / "run", spec)
        return registry.load(spec.method, spec.world).make_learner(spec, run)

    return make


@pytest.mark.parametrize("name", RUNS)
def test_an_update_and_an_evaluation_pass_on_another_device(learner, cuda, name):
    agent = learner(name, device="cuda")
    record = agent.train_step(1)
    json.dumps(record, allow_nan=False)
    parameters = [p for group in agent.optimizer.param_groups for p in group["params"]]
    assert {p.device.type for p in parameters} == {"cuda"}
    assert cuda.to_device and cuda.waits
    agent.load_state(agent.state())
    agent.train_step(2)
    assert agent.evaluate()


@pytest.mark.parametrize(
    "name", ["glam", "npae", "cloning", "symbolic", "drrn", "direct", "mediator", "knowledge", "rnd"]
)
def test_an_update_there_computes_what_the_cpu_computes(spec_of, tmp_path, name):
    def numbers(device: str) -> dict[str, float]:
        spec = spec_of(name, device=device)
        learner = registry.load(spec.method, spec.world).make_learner(spec, Run(tmp_path / device, spec))
        record = learner.train_step(1)
        return {key: value for key, value in record.items() if isinstance(value, int | float)}

    here = numbers("cpu")
    with second_device():
        there = numbers("cuda")
    assert there == pytest.approx(here, rel=1e-3, abs=1e-4), "padding, order and length of batches play no part"


def test_no_method_that_learns_on_a_gpu_is_left_out():
    fields = {each.name: registry.schema_of(each).model_fields for _, each in registry.methods()}
    names = {name: {field.alias or key for key, field in own.items()} for name, own in fields.items()}
    learn = {name for name, own in names.items() if {"device", "lr"} <= own}
    assert learn == {method for method, _, _ in RUNS.values()}
