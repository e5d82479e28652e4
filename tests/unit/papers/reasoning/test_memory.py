"""What an update takes is known before it is made: counted on paper, and measured by PyTorch."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from transformers import LlamaConfig
from typer.testing import CliRunner

from groundlab.cli import app
from groundlab.papers.reasoning.memory import configuration, estimate
from groundlab.papers.reasoning.policy import open_policy
from groundlab.papers.reasoning.settings import TrainingSettings

CONTEXT, REPLY, ROWS = 100, 16, 16
PAPER = {"dtype": "bfloat16", "device": "cuda", "lora_rank": 32, "num_envs": 6, "max_new_tokens": 20}
LLAMA_3B = {
    "vocab_size": 128_256, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28,
    "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True,
}  # fmt: skip


def peak_of(work) -> int:
    """The most bytes that PyTorch holds, over those it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    held = highest = 0
    for event in profiled.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    return highest


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lora_rank": 8},
        {"gradient_checkpointing": True},
        {"lora_rank": 8, "gradient_checkpointing": True},
        {"token_budget": 600},
        {"lora_rank": 8, "dtype": "bfloat16"},
    ],
)
def test_a_gradient_takes_what_was_estimated_within_fifteen_percent(options):
    settings = TrainingSettings(max_new_tokens=REPLY, **options)
    policy, _ = open_policy(settings, 0)
    rng = torch.Generator().manual_seed(0)
    prompts, responses = (torch.randint(3, 900, (ROWS, n), generator=rng).tolist() for n in (CONTEXT, REPLY))

    def gradient() -> None:
        policy.backward(prompts, responses, lambda _, read: (read.log_probs - read.entropies).sum() + read.values.sum())

    gradient()
    policy.zero_grad()
    measured, plan = peak_of(gradient), estimate(configuration(settings.model), settings, CONTEXT)
    assert plan["gradients"] == sum(p.numel() * p.element_size() for p in policy.parameters() if p.requires_grad)
    assert plan["gradients"] + plan["activations"] + plan["vocabulary"] == pytest.approx(measured, rel=0.15)


def test_weights_and_the_cache_are_counted_exactly():
    settings = TrainingSettings(num_envs=3, max_new_tokens=20)
    policy, _ = open_policy(settings, 0)
    model = policy.model
    plan, config = estimate(configuration(settings.model), settings, 50), model.config
    assert plan["weights"] == plan["reference"] == sum(p.numel() * 4 for p in model.parameters())
    one = 2 * config.num_attention_heads * config.head_dim * 4 * 3 * 120
    assert plan["keys and values"] == one * (config.num_hidden_layers + 1)
    assert plan["total"] == sum(size for name, size in plan.items() if name != "total")


def test_the_published_model_fits_on_80_gigabytes_with_the_papers_settings():
    settings = TrainingSettings(**PAPER, minibatch_size=16)
    plan = estimate(LlamaConfig(**LLAMA_3B), settings, 600)
    assert plan["weights"] == pytest.approx(6.43e9, rel=0.01) and plan["reference"] == 0
    assert plan["gradients"] == 4 * (9_175_040 + 3_073) and plan["Adam's states"] == 2 * plan["gradients"]
    assert plan["total"] < 80e9
    checkpointed = TrainingSettings(**PAPER, minibatch_size=16, gradient_checkpointing=True)
    assert estimate(LlamaConfig(**LLAMA_3B), checkpointed, 600)["total"] < 16e9


def test_where_vllm_draws_there_is_a_second_copy_of_the_model_and_its_cache_and_no_other():
    kinds = (TrainingSettings(**PAPER, minibatch_size=16, **more) for more in ({}, {"backend": "vllm", "engine_gb": 4}))
    without, plan = (estimate(LlamaConfig(**LLAMA_3B), each, 600) for each in kinds)
    assert plan["vLLM's weights and cache"] == plan["weights"] + 4e9 and without["vLLM's weights and cache"] == 0
    assert plan["keys and values"] == 0 < without["keys and values"]
    assert plan["total"] < 80e9


def test_the_command_line_prints_a_plan_for_a_folder_and_names_what_is_missing(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA_3B, "model_type": "llama"}))
    given = [f"--set={key}={value}" for key, value in PAPER.items()]
    told = CliRunner().invoke(app, ["model", "memory", str(tmp_path), *given])
    assert told.exit_code == 0 and "activations" in told.output and "total" in told.output
    missing = CliRunner().invoke(app, ["model", "memory", "nobody/nothing"])
    assert missing.exit_code != 0 and "hf download nobody/nothing" in str(missing.exception)
