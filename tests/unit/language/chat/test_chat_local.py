"""A transformers model in this process: its chat template, greedy and drawn replies, and what it counts."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Sampling, Tokens
from groundlab.language.chat.local_client import Local

GOLDEN = Path(__file__).parents[3] / "golden"
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


def damaged(folders, tmp_path, name: str) -> Path:
    """A copy of the templated model with one fault."""
    folder = tmp_path / "model"
    shutil.copytree(folders / "templated", folder)
    file, _, fault = name.partition(": ")
    if file == "weights":
        model = LlamaForCausalLM.from_pretrained(folder)
        with torch.no_grad():
            model.lm_head.weight.fill_(torch.nan)
        model.save_pretrained(folder)
    elif file == "config.json":
        record = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(record | json.loads(fault)))
    else:
        (folder / file).write_text(fault)
    return folder


NO_MODEL, NO_PROMPT, NO_REPLY = "does not hold a whole model", "cannot write this conversation", "cannot reply"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("config.json: {}", None),
        ('config.json: {"num_attention_heads": 0}', NO_MODEL),
        ("tokenizer_config.json: [1]", NO_MODEL),
        ("model.safetensors: nothing", NO_MODEL),
        ("chat_template.jinja: {{ raise_exception('no') }}", NO_PROMPT),
        ("chat_template.jinja: {{ ''.__class__.__mro__ }}", NO_PROMPT),
        ("weights: nan", NO_REPLY),
    ],
)
def test_a_damaged_model_is_one_line_at_any_temperature(folders, tmp_path, name, told):
    """Greedily, numbers that are none once gave an empty reply."""
    local = Local(str(damaged(folders, tmp_path, name)))
    for sampling in (Sampling(0.0, None, 4), Sampling(0.7, 3, 4)):
        if told is None:
            local.reply(MESSAGES, sampling)
            continue
        with pytest.raises(GroundlabError, match=told) as error:
            local.reply(MESSAGES, sampling)
        assert str(error.value).isprintable() and len(str(error.value)) < 480


def test_a_device_that_is_not_here_is_one_line(folders):
    with pytest.raises(GroundlabError, match=r"cannot use the device 'cuda:99' .*give device=cpu"):
        Local(str(folders / "plain"), device="cuda:99").reply(MESSAGES, Sampling())
