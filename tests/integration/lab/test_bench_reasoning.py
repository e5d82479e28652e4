"""What the benchmark compares does the same sums, so that only the time differs."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from groundlab.bench.generation import PlainPolicy, update
from groundlab.language.token_policy import TokenPolicy
from groundlab.learning.checkpoints import seeded_construction


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
