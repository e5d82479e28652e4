"""Replies: likely as the model says, the same in any company, and nothing is read twice."""

import pytest
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

from groundlab.core.errors import GroundlabError
from groundlab.language.decoding import Decoding
from groundlab.language.generation import ReplyGenerator, draw
from groundlab.language.models import Lora, add_lora
from groundlab.learning.checkpoints import seeded_construction

ENDS, BUDGET = (1, 2), 12
SHAPE = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}


def built(family: str):
    """A model of random weights, sharp enough that tokens differ in likelihood, eager to end."""
    with seeded_construction(0, "test"):
        if family == "gpt2":
            config = transformers.GPT2Config(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_positions=512)
            model = transformers.GPT2LMHeadModel(config)
        elif family == "qwen":
            config = transformers.Qwen2Config(**SHAPE, num_key_value_heads=2, intermediate_size=64)
            model = transformers.Qwen2ForCausalLM(config)
        else:
            model = LlamaForCausalLM(LlamaConfig(**SHAPE, num_key_value_heads=2, intermediate_size=64))
        for parameter in model.parameters():
            parameter.data *= 6 if parameter.ndim == 2 else 1
        if family == "lora":
            model = add_lora(model, Lora(rank=4), 0)
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.data.normal_()
    return model.eval()


def prompts(count: int = 7, seed: int = 0) -> list[list[int]]:
    rng = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 97, (4 + 3 * row,), generator=rng).tolist() for row in range(count)]


def numbers(count: int, seed: int = 1, budget: int = BUDGET) -> torch.Tensor:
    return torch.rand(count, budget, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def generator(model, **options) -> ReplyGenerator:
    return ReplyGenerator(model, ENDS, Decoding(max_new_tokens=BUDGET), **options)


@torch.no_grad()
def assert_read(model, prompts: list[list[int]], said, tolerance: float = 1e-4) -> None:
    """The log-probabilities of replies are those of one pass over prompt and reply."""
    for prompt, reply, logprobs in zip(prompts, said.tokens, said.logprobs, strict=True):
        likely = model(torch.tensor([prompt + reply])).logits[0].log_softmax(-1)[len(prompt) - 1 : -1]
        assert logprobs == pytest.approx(likely[range(len(reply)), reply].tolist(), abs=tolerance)


def next_turn(conversations, replies, seed=2) -> list[list[int]]:
    """The prompts of a next step: what was read, the reply, and something new."""
    new = prompts(len(conversations), seed)
    return [told + reply + more for told, reply, more in zip(conversations, replies, new, strict=True)]


@pytest.mark.parametrize("family", ["llama", "qwen", "gpt2", "lora"])
def test_log_probabilities_are_those_of_one_pass_over_everything_in_every_turn(family):
    model, told = built(family), prompts()
    replies = generator(model)
    for turn in range(3):
        said = replies(told, numbers(len(told), turn))
        assert_read(model, told, said)
        told = next_turn(told, said.tokens)


def test_a_reply_does_not_depend_on_the_rest_of_the_batch_nor_on_what_was_read_before():
    model, told = built("llama"), prompts()
    together, draws = generator(model), numbers(7)
    together(prompts(5, seed=9), numbers(5))
    said = together(told[::-1], draws.flip(0)).tokens[::-1]
    alone = [generator(model, reuse=False)([prompt], draws[[row]]).tokens[0] for row, prompt in enumerate(told)]
    assert said == alone and len({len(tokens) for tokens in said}) > 1


def test_only_what_is_new_is_read():
    replies, told = generator(built("llama")), prompts()
    first = replies(told, numbers(7))
    assert replies.tokens_read == sum(map(len, told))
    following = next_turn(told, first.tokens)
    replies(following, numbers(7))
    # the last token of a reply was drawn but not read
    assert replies.tokens_read == sum(map(len, following)) - sum(map(len, first.tokens)) + len(told)


def test_a_window_that_drops_a_turn_keeps_the_system_message():
    replies = generator(built("llama"))
    system, turns = prompts(1)[0] * 5, prompts(4, seed=3)
    replies([system + turns[0] + turns[1]], numbers(1))
    before = replies.tokens_read
    replies([system + turns[1] + turns[2]], numbers(1))
    assert replies.tokens_read - before == len(turns[1]) + len(turns[2])


def test_new_weights_are_noticed():
    model, told = built("llama"), prompts()
    replies = generator(model)
    replies(told, numbers(7))
    with torch.no_grad():
        model.model.layers[0].self_attn.k_proj.weight.add_(0.3)
    changed = replies(told, numbers(7))
    assert changed.tokens == generator(model)(told, numbers(7)).tokens
    assert_read(model, told, changed)


def test_after_a_fused_optimizers_step_forget_is_enough():
    with seeded_construction(0, "test"):  # of so many words that the packed weights are read
        model = LlamaForCausalLM(LlamaConfig(**{**SHAPE, "vocab_size": 40_000}, intermediate_size=64)).eval()
    told = prompts()
    replies = generator(model)
    replies(told, numbers(7))
    model(torch.tensor([told[0]])).logits.square().mean().backward()
    torch.optim.Adam(model.parameters(), lr=0.1, fused=True).step()
    replies.forget()
    changed = replies(told, numbers(7))
    assert_read(model, told, changed, tolerance=1e-3)


def test_the_likeliest_replies_are_those_of_transformers_own_generation():
    model, told = built("llama"), prompts()
    longest = max(map(len, told))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in told])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in told])
    ends = {"eos_token_id": list(ENDS), "pad_token_id": 0}
    settings = transformers.GenerationConfig(max_new_tokens=BUDGET, do_sample=False, **ends)
    made = model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)[:, longest:].tolist()
    said = ReplyGenerator(model, ENDS, Decoding(max_new_tokens=BUDGET, temperature=0))(told, numbers(7))
    assert said.tokens == [row[: len(tokens)] for row, tokens in zip(made, said.tokens, strict=True)]
    assert all(not any(row[len(tokens) :]) for row, tokens in zip(made, said.tokens, strict=True))


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.6, 0, 0.9), (0.7, 50, 0.9), (1.3, 5, 1.0)]
)
def test_tokens_are_drawn_as_often_as_transformers_warpers_say(temperature, top_k, top_p):
    rng = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(1, 97, generator=rng)
    warped = transformers.TemperatureLogitsWarper(temperature)(torch.empty(1, 0), logits)
    warped = transformers.TopKLogitsWarper(top_k)(torch.empty(1, 0), warped) if top_k else warped
    expected = transformers.TopPLogitsWarper(top_p)(torch.empty(1, 0), warped).log_softmax(-1)[0]
    count = 40_000
    uniform = torch.rand(count, generator=rng, dtype=torch.float64)
    tokens, plain, drawn = draw(logits.expand(count, -1), uniform, Decoding(20, temperature, top_k, top_p))
    torch.testing.assert_close(drawn, expected[tokens], atol=1e-5, rtol=0)
    torch.testing.assert_close(plain, logits.log_softmax(-1)[0, tokens], atol=1e-6, rtol=0)
    found = torch.bincount(tokens, minlength=97) / count
    assert (found - expected.exp()).abs().max() < 0.01


def test_the_ends_of_the_unit_interval_give_possible_tokens():
    logits = torch.tensor([[0.0, -torch.inf, 0.0, -torch.inf]])
    for number, token in ((0.0, 0), (0.4999, 0), (0.5, 2), (1 - 2**-53, 2)):
        assert draw(logits, torch.tensor([number], dtype=torch.float64), Decoding())[0].item() == token


def test_without_an_end_token_a_reply_has_exactly_the_default_budget_of_20():
    said = ReplyGenerator(built("llama"), [], Decoding())(prompts(3), numbers(3, budget=20))
    assert [len(tokens) for tokens in said.tokens] == [20, 20, 20] and said.ended == [False] * 3


def test_what_cannot_be_is_told_in_one_line():
    model = built("llama")
    for line, *given in (
        (r"\(2, 12\) are needed", prompts(2), numbers(3)),
        ("a prompt is empty", [[5], []], numbers(2)),
        ("the model reads 2048; shorten the window", [[5] * 2040], numbers(1)),
    ):
        with pytest.raises(GroundlabError, match=line):
            generator(model)(*given)
    with pytest.raises(GroundlabError, match="top_p"):
        Decoding(top_p=0)
    shape = transformers.T5Config(vocab_size=20, d_model=8, d_ff=8, num_layers=1, num_heads=1)
    t5 = transformers.T5ForConditionalGeneration(shape)
    with pytest.raises(GroundlabError, match="give an AutoModelForCausalLM"):
        generator(t5)
    assert generator(model)([], numbers(0)).tokens == []
