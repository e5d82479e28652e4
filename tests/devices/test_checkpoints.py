"""Checkpoints are written piecewise, by the clock, and without the scales of four-bit weights."""

import tracemalloc

import pytest
import torch
from safetensors.torch import load
from torch import nn

from groundlab.core import storage
from groundlab.core.run import Run, RunSpec
from groundlab.learning import checkpoints
from groundlab.learning.checkpoints import TensorFile


def test_a_checkpoint_is_written_tensor_by_tensor(tmp_path):
    network = nn.ModuleList(nn.Linear(512, 512, bias=False) for _ in range(16))  # 16 MB
    tracemalloc.start()
    storage.write_atomic(tmp_path / "weights", TensorFile(network.state_dict()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6, "the weights were copied into bytes"
    stored = load((tmp_path / "weights").read_bytes())
    assert all(torch.equal(stored[name], values) for name, values in network.state_dict().items())


def test_a_large_state_comes_back_from_disk_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_LARGE", 0)
    spec = RunSpec(method="glam", world="BabyAI-GoToObjS4-v0", seed=0)
    network, other = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer, resumed = (torch.optim.Adam(each.parameters()) for each in (network, other))
    network(torch.ones(3)).sum().backward()
    optimizer.step()
    files = checkpoints.pack(network, optimizer, {"a": 1})
    assert isinstance(files["network.safetensors"], TensorFile), "made while it is written"
    Run(tmp_path, spec).advance(1, 1, lambda: files)
    stored = Run(tmp_path, spec).restore()
    assert stored and checkpoints.unpack(stored.files, other, resumed) == {"a": 1}
    again = checkpoints.pack(other, resumed, {"a": 1})
    assert {name: bytes(each) for name, each in files.items()} == {name: bytes(each) for name, each in again.items()}


def test_checkpoints_by_the_clock_take_no_more_than_their_share_of_time(tmp_path):
    run = Run(tmp_path, RunSpec(method="glam", world="BabyAI-GoToObjS4-v0", seed=0), checkpoint_seconds=0)
    run._saving_seconds = 60.0  # so the next is due after twenty minutes
    run.advance(1, 1000, lambda: {"state": b""})
    assert not (tmp_path / "checkpoint").exists()
    run._saving_seconds = 0.0
    run.advance(2, 1000, lambda: {"state": b""})
    assert (tmp_path / "checkpoint" / "2").is_dir()


class FourBit(nn.Linear):
    """Stores its scales next to its weight, as bitsandbytes' Linear4bit does, and knows none of them when it loads."""

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in ("absmax", "quant_map", "nested_absmax", "quant_state.bitsandbytes__nf4"):
            destination[f"{prefix}weight.{name}"] = torch.ones(2)


@pytest.mark.parametrize("name", ["glam adapters", "direct adapters"])
def test_adapters_on_a_four_bit_model_save_and_load(learner_of, name):
    first, second = (learner_of(name) for _ in range(2))
    for learner in (first, second):
        network = learner.scorer if name.startswith("glam") else learner.policy
        for module in network.model.modules():
            if type(module) is nn.Linear and not module.weight.requires_grad:
                module.__class__ = FourBit
    first.train_step(1)
    state = first.state()
    assert not any("absmax" in key or "quant" in key for key in load(bytes(state["network.safetensors"])))
    second.load_state(state)
    assert second.train_step(2) == first.train_step(2)
