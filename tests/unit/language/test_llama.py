"""The short forward pass of a Llama, and its gradient, is transformers' own, and is taken only where that is so."""

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from groundlab.assets import resolve_model
from groundlab.language import llama_forward
from groundlab.language.cpu_inference import serves
from groundlab.language.decoding import Decoding
from groundlab.language.generation import ReplyGenerator
from groundlab.language.models import Lora, add_lora, base_of
from groundlab.language.token_policy import ValueHead, token_log_probs
from groundlab.learning.checkpoints import seeded_construction

SHAPE = {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 64}
KINDS = {
    "plain": {},
    "heads that share keys": {"num_key_value_heads": 2},
    "biases everywhere": {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    "heads wider than the model": {"head_dim": 16, "num_key_value_heads": 3},
    "stretched positions": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}},
    "another activation": {"hidden_act": "gelu"},
    "layers for oneDNN": {"hidden_size": 240, "intermediate_size": 500, "vocab_size": 700},
}


def built(**options) -> LlamaForCausalLM:
    """A Llama whose every parameter is random, those of its norms and biases too."""
    with seeded_construction(0, "test"):
        model = LlamaForCausalLM(LlamaConfig(**{**SHAPE, **options}))
        for parameter in model.parameters():
            parameter.data += 1.4 / model.config.hidden_size**0.5 * torch.randn_like(parameter)
    return model.eval()


def turns(model, budget: int = 16) -> list:
    """Three turns of five conversations: tokens and log-probabilities."""
    rng = torch.Generator().manual_seed(0)
    draw = ReplyGenerator(model, [1, 2], Decoding(max_new_tokens=budget))
    told: list[list[int]] = [[] for _ in range(5)]
    found = []
    for _ in range(3):
        told = [row + torch.randint(3, 97, (5 + 9 * n,), generator=rng).tolist() for n, row in enumerate(told)]
        said = draw(told, torch.rand(5, budget, generator=rng, dtype=torch.float64))
        found.append(said)
        told = [row + reply for row, reply in zip(told, said.tokens, strict=True)]
    return found


def watched(model):
    """The same model, in which somebody listens, so that every layer is called."""
    model.model.register_forward_hook(lambda *_: None)
    return model


@pytest.mark.parametrize("kind", [*KINDS, "that ships"])
def test_replies_are_those_of_transformers_own_layers_in_every_turn(kind):
    ships = lambda: AutoModelForCausalLM.from_pretrained(resolve_model("quick-llama-chat-s0")).eval()  # noqa: E731
    model = built(**KINDS[kind]) if kind in KINDS else ships()
    assert serves(model)
    short = turns(model)
    assert not serves(watched(model))
    for ours, theirs in zip(short, turns(model), strict=True):
        assert ours.tokens == theirs.tokens and ours.ended == theirs.ended
        for left, right in zip(ours.logprobs, theirs.logprobs, strict=True):
            assert left == pytest.approx(right, abs=1e-4)


def test_only_plain_llamas_are_served():
    assert serves(built())
    assert not serves(add_lora(built(), Lora(rank=2), 0))
    assert not serves(built().to(torch.bfloat16))
    assert not serves(MistralForCausalLM(MistralConfig(**SHAPE, num_key_value_heads=2)))
    other = built()
    other.model.layers[1].mlp.up_proj.__class__ = type("Replaced", (nn.Linear,), {})
    assert not serves(other)


def reading_and_gradients(model, beginnings: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What is said of ten replies whose prompts have so many beginnings, and the gradient of a sum over all of it."""
    rng = torch.Generator().manual_seed(0)
    prompts, replies = ([torch.randint(3, 97, (n,), generator=rng).tolist() for n in sizes] for sizes in SIZES)
    starts = [torch.randint(3, 97, (30,), generator=rng).tolist() for _ in range(beginnings)]
    prompts = [starts[row % beginnings] + prompt if beginnings else prompt for row, prompt in enumerate(prompts)]
    with seeded_construction(0, "test"):
        head = ValueHead(model.config.hidden_size)
    reading = token_log_probs(model, prompts, replies, head)
    sum(part.square().mean() for part in reading).backward()
    return list(reading), [parameter.grad for parameter in [*model.parameters(), *head.parameters()]]


SIZES = (5, 9, 9, 14, 31, 8, 5, 60, 12, 12), (1, 2, 7, 3, 3, 16, 4, 2, 1, 9)


@pytest.mark.parametrize("beginnings", [0, 1, 3])
@pytest.mark.parametrize("kind", ["plain", "biases everywhere", "stretched positions", "layers for oneDNN"])
def test_states_and_gradients_are_those_of_transformers_own_layers(kind, beginnings, monkeypatch):
    ours, theirs = built(**KINDS[kind]), built(**KINDS[kind])
    monkeypatch.setattr(llama_forward, "_CHUNK", 100)
    assert llama_forward.serves(ours)
    found = reading_and_gradients(ours, beginnings)
    monkeypatch.setattr(llama_forward, "serves", lambda _: False)
    expected = reading_and_gradients(theirs, beginnings)
    for left, right in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
        assert torch.allclose(left, right, rtol=1e-3, atol=1e-4 * float(right.detach().abs().max()))


def test_reading_without_a_gradient_says_the_same_in_parts(monkeypatch):
    model = built()
    prompts, replies = [[5, 6, 7 + n] * 8 for n in range(9)], [[8] * (n + 1) for n in range(9)]
    whole = token_log_probs(model, prompts, replies)
    monkeypatch.setattr(llama_forward, "_CHUNK", 60)
    with torch.no_grad():
        parts = token_log_probs(model, prompts, replies)
    assert torch.allclose(whole.log_probs, parts.log_probs, atol=2e-5)


def test_the_short_gradient_is_taken_of_plain_llamas_only():
    assert llama_forward.serves(built())
    assert not llama_forward.serves(built(num_key_value_heads=2))
    assert not llama_forward.serves(built(hidden_act="gelu"))
    adapted = add_lora(built(), Lora(rank=2), 0)
    assert not llama_forward.serves(adapted) and not llama_forward.serves(base_of(adapted))
    checkpointed = built()
    checkpointed.gradient_checkpointing_enable()
    assert not llama_forward.serves(checkpointed.train()) and not llama_forward.serves(checkpointed.eval())
