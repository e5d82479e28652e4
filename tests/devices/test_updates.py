"""Every method that trains a network on a GPU does so on a stand-in for one, and a tensor left behind is noticed."""

import json

import pytest
from device_runs import RUNS

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
