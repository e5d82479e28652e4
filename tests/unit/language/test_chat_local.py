"""A transformers model in this process: its chat template, greedy and drawn replies, and what it counts."""

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Sampling, Tokens
from groundlab.language.chat.local_client import Local

GOLDEN = Path(__file__).parents[2] / "golden"
MESSAGES = [{"role": "system", "content": "you see a door"}, {"role": "user", "content": "go to the key"}]
TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}{% if add_generation_prompt %}go {% endif %}"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The recorded tiny Llama, without and with a chat template."""
    home = tmp_path_factory.mktemp("models")
    tokenizer = AutoTokenizer.from_pretrained(GOLDEN / "tiny_llama")
    model = LlamaForCausalLM.from_pretrained(GOLDEN / "tiny_llama")
    for name, template in (("plain", None), ("templated", TEMPLATE)):
        tokenizer.chat_template = template
        tokenizer.save_pretrained(home / name)
        model.save_pretrained(home / name)
    return home


def greedy(folder, prompt: list[int], length: int) -> list[int]:
    """The reply's tokens by one forward pass a token, the most probable each time, up to the end token."""
    model, reply = LlamaForCausalLM.from_pretrained(folder), []
    with torch.inference_mode():
        while len(reply) < length and model.generation_config.eos_token_id not in reply:
            reply.append(int(model(torch.tensor([[*prompt, *reply]])).logits[0, -1].argmax()))
    return reply


@pytest.mark.parametrize(
    ("name", "text"),
    [("plain", "you see a door\ngo to the key\n"), ("templated", "you see a door go to the key go ")],
)
def test_the_reply_continues_the_prompt_that_the_template_writes(folders, name, text):
    """A template writes its own special tokens; a plain text gets the tokenizer's."""
    tokenizer = AutoTokenizer.from_pretrained(folders / name)
    prompt = tokenizer(text, add_special_tokens=name == "plain").input_ids
    expected = greedy(folders / name, prompt, 12)
    reply = Local(str(folders / name)).reply(MESSAGES, Sampling(max_tokens=12))
    assert reply == tokenizer.decode(expected, skip_special_tokens=True)
    assert reply.tokens == Tokens(len(prompt), len(expected)) and reply.cost == 0


def test_drawn_replies_depend_on_the_seed_alone_and_leave_torchs_generator_as_it_was(folders):
    local = Local(str(folders / "plain"))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = [local.reply(MESSAGES, Sampling(1.0, seed, 12)) for seed in range(4)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert [local.reply(MESSAGES, Sampling(1.0, seed, 12)) for seed in range(4)] == first
    assert len(set(first)) > 1


def test_a_prompt_that_does_not_fit_is_told(folders):
    long = [{"role": "user", "content": "go to the key " * 500}]
    with pytest.raises(GroundlabError, match="do not fit"):
        Local(str(folders / "plain")).reply(long, Sampling())


def test_an_encoder_decoder_is_refused():
    with pytest.raises(GroundlabError, match="is a seq2seq model, not causal"):
        Local(str(GOLDEN / "tiny_t5")).reply(MESSAGES, Sampling())


def test_replies_are_filed_under_the_revision_or_the_content_of_the_model(folders):
    assert Local("org/name", "abc").model == "org/name@abc" and Local("org/name").model == "org/name"
    plain, templated = (Local(str(folders / name)).model.split("@") for name in ("plain", "templated"))
    assert plain[0] == str(folders / "plain") and len(plain[1]) == 12 and plain[1] != templated[1]
    assert Local(str(folders / "plain")).model == "@".join(plain)
