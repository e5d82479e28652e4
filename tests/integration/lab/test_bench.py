"""What the benchmarks of training count and compare: all seconds by what they went into, and the same sums twice."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from groundlab.bench import training
from groundlab.bench.generation import PlainPolicy, update
from groundlab.language.token_policy import TokenPolicy
from groundlab.learning.checkpoints import seeded_construction
from groundlab.papers.knowledge.settings import PPOSettings

TINY = PPOSettings(network="small", num_envs=4, frames_per_env=8, epochs=1, minibatches=2)


@pytest.mark.parametrize("form", ["phi = 0", "BK-Code", "BK-Pref"])
def test_every_second_is_told_by_what_it_went_into(form):
    timed = training._timed(training._potential(form), TINY, 2)
    assert timed.rate > 0
    assert sum(timed.shares.values()) == pytest.approx(1)
    assert set(timed.shares) == {"worlds", "policy", "potential", "update"}


def test_the_sandboxs_server_counts_as_time_of_the_potential():
    plain, code = (
        training._timed(training._potential(form), TINY, 2).shares["potential"] for form in ("phi = 0", "BK-Code")
    )
    assert code > 0.5 > plain  # the server's start alone takes longer than 64 steps


def test_the_bound_falls_with_the_arithmetic_of_a_step(monkeypatch):
    monkeypatch.setattr(training, "_flops_a_second", lambda: 1e9)
    paper = training.product_bound(PPOSettings(epochs=4))
    small = training.product_bound(PPOSettings(epochs=4, network="small"))
    assert paper == pytest.approx(1e9 / (13 * 9_772_736))
    assert small == pytest.approx(1e9 / (13 * 142_560))


def small() -> LlamaForCausalLM:
    with seeded_construction(0, "test"):
        sizes = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48}
        return LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=2, num_attention_heads=4)).eval()


def test_the_plain_update_learns_what_ours_learns():
    rng = torch.Generator().manual_seed(0)
    prompts, responses = (
        [torch.randint(1, 60, (least + row,), generator=rng).tolist() for row in range(16)] for least in (5, 2)
    )
    learnt = []
    for kind in (TokenPolicy, PlainPolicy):
        policy = kind(small())
        learnt.append((update(policy, prompts, responses), policy.read(prompts, responses)))
    (ours, read), (plain, plainly) = learnt
    assert ours == pytest.approx(plain, rel=1e-3, abs=1e-5) and ours["grad_norm"] > 0.01
    for found, expected in zip(read, plainly, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
