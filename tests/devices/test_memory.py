"""What is estimated before a model is loaded is what autograd keeps, and checkpoints are written piecewise."""

import tracemalloc

import pytest
import torch
from safetensors.torch import load
from torch import nn
from transformers import T5Config
from typer.testing import CliRunner

from groundlab.cli import app
from groundlab.core import storage
from groundlab.core.paths import repository_root
from groundlab.core.run import Run, RunSpec
from groundlab.core.yaml_files import read_yaml
from groundlab.language import models as language_models
from groundlab.language.scoring import ActionScorer
from groundlab.learning import checkpoints
from groundlab.learning.checkpoints import TensorFile
from groundlab.papers.glam.memory import estimate
from groundlab.papers.glam.settings import TrainingSettings
from groundlab.worlds.text_env.prompts import text_actions

FLAN_T5_LARGE = T5Config(
    **{"d_model": 1024, "d_kv": 64, "d_ff": 2816, "num_layers": 24, "num_heads": 16, "vocab_size": 32128},
    feed_forward_proj="gated-gelu",
    tie_word_embeddings=False,
)
NINE_OBSERVATIONS = 1_100  # tokens of their longest prompt (configs/glam/paper.yaml, E7)


@pytest.mark.parametrize("name", ["t5", "llama"])
def test_the_estimate_counts_what_autograd_keeps(models, name):
    settings = TrainingSettings(model=models[name], batch_size=4, token_budget=10_000)
    model, tokenizer = language_models.load(models[name])
    scorer = ActionScorer(model, tokenizer, text_actions(6), seed=0)
    weights = {p.untyped_storage()._cdata for p in scorer.parameters()}
    kept = {}

    def keep(tensor):
        if tensor.untyped_storage()._cdata not in weights:
            kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    rows = [(row % 2 + 3, *[5] * 99) for row in range(4)]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        scored = scorer._score(rows, is_plain=False)  # our own forward keeps less
        scored.scores.sum() + scored.values.sum()
    measured = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    plan = estimate(model.config, settings, context=100)
    assert 0.95 < plan["activations"] / measured < 1.35  # the estimate holds no fused attention
    assert plan["weights"] == sum(p.numel() * 4 for p in model.parameters())
    assert plan["gradients"] == sum(p.numel() * 4 for p in scorer.parameters())


def test_flan_t5_large_with_nine_observations_fits_80_gb_by_the_published_configuration():
    shared = read_yaml(repository_root() / "configs" / "glam" / "paper.yaml")["shared"]
    budget = next(part["token_budget"] for part in shared.values() if "token_budget" in part)
    settings = TrainingSettings(batch_size=128, token_budget=budget, device="cuda")
    assert estimate(FLAN_T5_LARGE, settings, NINE_OBSERVATIONS)["total"] < 72e9  # a tenth is left to others


def test_a_process_on_a_cpu_holds_the_program_and_a_checkpoint_while_it_resumes(models):
    config = language_models.load(models["t5"])[0].config
    on_cpu, on_gpu = (estimate(config, TrainingSettings(device=device, batch_size=4), 20) for device in ("cpu", "cuda"))
    more = {name: size for name, size in on_cpu.items() if name not in on_gpu}
    assert on_cpu["total"] == on_gpu["total"] + sum(more.values())
    model, tokenizer = language_models.load(models["t5"])
    scorer = ActionScorer(model, tokenizer, text_actions(6), seed=0)
    optimizer = torch.optim.Adam(scorer.parameters())
    sum(parameter.sum() for parameter in scorer.parameters()).backward()
    optimizer.step()
    stored = sum(len(bytes(each)) for each in checkpoints.pack(scorer, optimizer, {}).values())
    assert more["checkpoint, when it resumes"] == pytest.approx(stored, rel=0.1)


def test_flan_t5_has_two_tables_of_words_though_transformers_builds_one():
    published = T5Config(**FLAN_T5_LARGE.to_diff_dict() | {"tie_word_embeddings": False})
    assert estimate(published, TrainingSettings(batch_size=4), 20)["weights"] == 783_150_080 * 4


def test_the_command_knows_both_kinds_of_model(models):
    for name in ("t5", "llama"):
        answer = CliRunner().invoke(app, ["model", "memory", models[name], "--context", "20"])
        assert answer.exit_code == 0 and "activations" in answer.output


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
    """Stores its scales beside its weight, as bitsandbytes' Linear4bit does, and knows none of them when it loads."""

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
