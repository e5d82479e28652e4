"""The short forward pass of a T5 has transformers' states and gradients, and is taken only where that is so."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5LayerNorm, T5Stack

from groundlab.assets import resolve_model
from groundlab.language import prefix_batching
from groundlab.language.cpu_inference import onednn_linears
from groundlab.language.models import Lora, add_lora
from groundlab.language.prefix_batching import branch, packed_batches
from groundlab.language.scoring import ActionScorer
from groundlab.language.t5_forward import prefix_states, serves
from groundlab.learning.checkpoints import seeded_construction

SHAPE = {"vocab_size": 60, "d_model": 24, "d_ff": 40, "d_kv": 8, "num_heads": 3, "num_layers": 2, "dropout_rate": 0.0}
KINDS = {
    "plain": {},
    "gated, untied: Flan": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "a deep decoder": {"num_decoder_layers": 3},
    "every distance has its bucket": {"relative_attention_num_buckets": 64, "relative_attention_max_distance": 200},
    "few buckets": {"relative_attention_num_buckets": 4, "relative_attention_max_distance": 6},
    "one wide head": {"num_heads": 1, "d_kv": 40},
}
TREE = branch([(4, 5), (4, 6, 7), (8,), (4, 6, 9, 2, 11)], start=0)


def built(dropout: float = 0.0, **options) -> T5ForConditionalGeneration:
    """A T5 whose every parameter is random, those of its norms too."""
    with seeded_construction(0, "test"):
        config = T5Config(**{**SHAPE, "dropout_rate": dropout, "decoder_start_token_id": 0, **options})
        model = T5ForConditionalGeneration(config)
        for parameter in model.parameters():
            parameter.data += 0.15 * torch.randn_like(parameter)
    return model.eval()


def prompts(lengths) -> list[tuple[int, ...]]:
    draw = torch.Generator().manual_seed(len(lengths))
    return [tuple(torch.randint(1, 60, (length,), generator=draw).tolist()) for length in lengths]


def reading(read, model, rows) -> dict[str, torch.Tensor]:
    """States, and the gradients of a sum of them with random weights."""
    model.zero_grad()
    states = read(model, rows, TREE)
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(1), dtype=states.dtype)
    (states * weights).sum().backward()
    return {"states": states.detach()} | {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def assert_alike(first, second, tolerance):
    assert first.keys() == second.keys() and len(first) > 20
    for name, value in first.items():
        limit = tolerance * value.abs().max().item()
        torch.testing.assert_close(second[name], value, rtol=0, atol=limit, msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-12)])
def test_states_and_gradients_are_those_of_transformers(kind, dtype, tolerance, monkeypatch):
    def exact(norm, states):  # transformers takes the mean square in float32 even of float64
        return norm.weight * (states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon))

    if dtype == torch.float64:
        monkeypatch.setattr(T5LayerNorm, "forward", exact)
    model, rows = built(**KINDS[kind]).to(dtype), prompts([3, 17, 17, 5, 140, 1, 17, 30])
    assert serves(model)
    assert_alike(reading(prefix_batching.prefix_states, model, rows), reading(prefix_states, model, rows), tolerance)


def test_many_chunks_of_prompts_are_read_as_few_are():
    model, rows = built(), prompts([90, 2000, 31] + [90] * 30 + [7] * 40)  # one longer than a chunk, two chunks alike
    together = prefix_states(model, rows, TREE)
    for place in (0, 1, 2, 32, 33, 72):
        alone = prefix_states(model, rows[place : place + 1], TREE)[0]
        torch.testing.assert_close(together[place], alone, rtol=0, atol=1e-5)


def test_only_what_is_trained_gets_a_gradient():
    model, rows = built(tie_word_embeddings=False), prompts([3, 9, 9])
    expected = reading(prefix_states, model, rows)
    model.encoder.requires_grad_(False)
    own = reading(prefix_states, model, rows)
    assert own.keys() == {name for name in expected if not name.startswith(("encoder", "shared"))}
    assert_alike(own, {name: expected[name] for name in own}, 1e-6)


class Other(T5ForConditionalGeneration): ...


class Layer(nn.Linear): ...


def after(change) -> T5ForConditionalGeneration:
    model = built()
    change(model)
    return model


OWN = Layer(40, 24, bias=False)
OTHERS = {
    "adapters": lambda: add_lora(built(), Lora(rank=2), 0).get_base_model(),
    "half precision": lambda: built().to(torch.bfloat16),
    "another device": lambda: built().to("meta"),
    "another class": lambda: Other(built().config),
    "a layer replaced": lambda: after(lambda model: setattr(model.encoder.block[1].layer[1].DenseReluDense, "wo", OWN)),
    "a hook": lambda: after(lambda model: model.decoder.block[0].register_forward_hook(lambda *_: None)),
    "checkpointed": lambda: after(lambda model: model.activation_checkpointing_enable({"use_reentrant": False})),
    "dropout in training": lambda: built(dropout=0.1).train(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_is_not_a_plain_t5_is_left_to_transformers(name):
    assert not serves(OTHERS[name]())


def test_another_way_of_multiplying_is_left_to_transformers():
    model = built(d_ff=200)
    with onednn_linears(model):
        assert not serves(model)
    with torch.autocast("cpu"):
        assert not serves(model)
    assert serves(model)


def test_scores_and_gradients_of_a_shipped_model_need_nothing_of_transformers_forward(monkeypatch):
    folder = resolve_model("quick-t5-s0")
    model, tokenizer = (kind.from_pretrained(folder) for kind in (T5ForConditionalGeneration, AutoTokenizer))
    scorer = ActionScorer(model, tokenizer, ["go forward", "turn left", "turn right"])
    texts = ["Goal of the agent: go to the red ball", "You see a wall", "You see a wall"]

    def read() -> dict[str, torch.Tensor]:
        scorer.zero_grad()
        loss = scorer.backward(texts, lambda _, scores, values: scores.log_softmax(-1)[:, 0].sum() + values.sum())
        return {"loss": loss} | {name: p.grad for name, p in scorer.named_parameters() if p.grad is not None}

    with monkeypatch.context() as context:
        context.setattr(T5Stack, "forward", None)
        own = read()
    with monkeypatch.context() as context:
        context.setattr("groundlab.language.t5_forward.serves", lambda _: False)
        assert_alike(read(), own, 1e-4)  # small gradients of the decoder are differences of large ones


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple), min_size=1), st.integers(1, 20))
def test_equal_rows_are_read_together_and_only_once(rows, budget):
    found = packed_batches(rows, budget)
    assert sorted(place for batch in found for place in batch) == list(range(len(rows)))
    read = [{rows[place] for place in batch} for batch in found]
    assert sum(map(len, read)) == len(set(rows))
    assert all(len(batch) == 1 or sum(map(len, batch)) <= budget for batch in read)
