"""vLLM as who draws: it says what the model says, follows its adapters, and is told off where it does not.

The tests of a real engine need vLLM in an environment of its own:
    GROUNDLAB_VLLM_PYTHON=.../bin/python pytest tests/unit/language/test_served.py
"""

import json
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from groundlab.core.errors import GroundlabError
from groundlab.language.architecture import Architecture, build
from groundlab.language.decoding import Decoding, vllm_logprobs
from groundlab.language.generation import ReplyGenerator, draw
from groundlab.language.token_policy import token_log_probs
from groundlab.language.vllm_backend import (
    INVARIANT_VARIABLE,
    PYTHON_VARIABLE,
    VLLMGenerator,
    VLLMProcess,
    drawn_log_probs,
)
from groundlab.learning.checkpoints import seeded_construction

SHAPE = Architecture(family="llama", width=64, feed_forward=64, heads=2, head_width=32, layers=2, binding_start=False)
VOCABULARY, END = 50, (3, 7)
PROMPTS = [[5, 9, 11, 30], [7, 8], [12] * 40, [5, 9, 11, 31, 2], [41]] * 8
PLAIN, CUT = Decoding(12), Decoding(12, temperature=0.7, top_k=8, top_p=0.9)

real = pytest.mark.skipif(PYTHON_VARIABLE not in os.environ, reason=f"needs vLLM: set {PYTHON_VARIABLE}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama of random weights whose replies end after some tokens."""
    place = tmp_path_factory.mktemp("llama")
    build(SHAPE, VOCABULARY, seed=3).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def engine(folder):
    return VLLMProcess(folder, rank=4, top_k=CUT.top_k, cache_gb=0.2)


@pytest.fixture
def model(folder):
    """The trainer's, its adapters moved away from zero as training would."""
    with seeded_construction(0, "test"):
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(folder), LoraConfig(r=4, task_type="CAUSAL_LM"))
    move(adapted, seed=0)
    return adapted.eval()


def move(model, seed):
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=rng))


def numbers(seed=0, rows=40):
    return torch.rand(rows, 12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def flat(rows):
    return torch.tensor([number for row in rows for number in row])


def read(model, replies):
    with torch.no_grad():
        return token_log_probs(model, PROMPTS, replies.tokens).log_probs


@real
def test_log_probabilities_are_those_that_the_model_computes_again(engine, model):
    replies = VLLMGenerator(engine, model, END, PLAIN)(PROMPTS, numbers())
    assert (flat(replies.logprobs) - read(model, replies)).abs().max() < 1e-4
    assert replies.drawn_logprobs == replies.logprobs


@real
def test_a_reply_is_over_after_any_end_token_and_at_the_limit(engine, model):
    replies = VLLMGenerator(engine, model, END, PLAIN)(PROMPTS, numbers())
    for tokens, ended in zip(replies.tokens, replies.ended, strict=True):
        assert not set(tokens[:-1]) & set(END)
        assert ended == (tokens[-1] in END) and (ended or len(tokens) == 12)
    assert 0 < sum(replies.ended) < len(PROMPTS)


@real
def test_the_same_numbers_draw_the_same_and_others_do_not(engine, model):
    first, again = (VLLMGenerator(engine, model, END, PLAIN)(PROMPTS, numbers()) for _ in range(2))
    assert first == again
    assert VLLMGenerator(engine, model, END, PLAIN)(PROMPTS, numbers(seed=1)).tokens != first.tokens


@real
def test_replies_follow_the_adapters_after_each_of_many_updates(engine, model):
    generate, drawn = VLLMGenerator(engine, model, END, PLAIN), []
    for update in range(5):
        move(model, seed=update)
        generate.forget()
        replies = generate(PROMPTS, numbers())
        drawn.append(replies.tokens)
        assert (flat(replies.logprobs) - read(model, replies)).abs().max() < 1e-4
    assert all(before != after for before, after in pairwise(drawn))


@real
def test_an_engine_that_does_not_follow_is_found_out_at_the_first_replies(engine, model):
    with torch.no_grad():
        model.get_base_model().model.norm.weight.mul_(2)  # which adapters do not tell
    with pytest.raises(GroundlabError, match="other probabilities than are learnt from"):
        VLLMGenerator(engine, model, END, PLAIN)(PROMPTS, numbers())


@real
def test_tempered_and_cut_draws_have_the_probabilities_of_the_other_generator(engine, model):
    replies = VLLMGenerator(engine, model, END, CUT)(PROMPTS, numbers())
    assert (flat(replies.logprobs) - read(model, replies)).abs().max() < 1e-4
    for prompt, tokens, told in zip(PROMPTS, replies.tokens, replies.drawn_logprobs, strict=True):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        chances = torch.stack([probabilities(row) for row in logits]).gather(1, torch.tensor(tokens)[:, None])[:, 0]
        assert (chances > 0).all()  # nothing that was cut off is ever drawn
        assert torch.allclose(chances.log(), torch.tensor(told), atol=1e-3)


def probabilities(logits):
    """Of each token under `CUT`, as often as the other generator draws it for evenly spread numbers' sake: exactly."""
    scaled = (logits / CUT.temperature).double()
    best = scaled.topk(CUT.top_k)
    shares = best.values.softmax(-1)
    shares = shares.where(shares.cumsum(-1) - shares < CUT.top_p, 0)
    return torch.zeros_like(scaled).scatter(0, best.indices, shares / shares.sum()).float()


@real
def test_tokens_come_as_often_as_the_model_says(engine, model):
    prompts, rows = [PROMPTS[0]] * 2000, numbers(rows=2000)[:, :1]
    replies = VLLMGenerator(engine, model, END, Decoding(1))(prompts, rows)
    with torch.no_grad():
        chances = model(input_ids=torch.tensor([PROMPTS[0]])).logits[0, -1].softmax(-1).double()
    seen = torch.bincount(flat(replies.tokens).long(), minlength=VOCABULARY)
    surprise = ((seen - 2000 * chances) ** 2 / (2000 * chances)).sum()
    assert surprise < 49 + 5 * (2 * 49) ** 0.5  # chi squared with 49 degrees of freedom: mean and deviation


@real
def test_the_likeliest_tokens_are_those_of_the_other_generator(engine, model):
    greedy = Decoding(12, temperature=0)
    served = VLLMGenerator(engine, model, END, greedy)(PROMPTS)
    embedded = ReplyGenerator(model, END, greedy)(PROMPTS)
    assert served.tokens == embedded.tokens and served.drawn_logprobs == embedded.drawn_logprobs


@real
def test_prompts_that_do_not_fit_and_empty_ones_are_refused(engine, model):
    generate = VLLMGenerator(engine, model, END, PLAIN)
    with pytest.raises(GroundlabError, match="prompt is empty"):
        generate([[]], numbers(rows=1))
    with pytest.raises(GroundlabError, match="shorten the window"):
        generate([[5] * engine.context], numbers(rows=1))
    assert generate([[5] * (engine.context - 12)], numbers(rows=1)).tokens


@real
def test_a_model_that_vllm_cannot_serve_is_one_line(folder, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({**json.loads((folder / "config.json").read_text()), "head_dim": 7})
    )
    with pytest.raises(GroundlabError, match="vllm refused"):
        VLLMProcess(tmp_path, cache_gb=0.2)


@real
def test_an_engine_that_dies_is_one_line(folder, model):
    short_lived = VLLMProcess(folder, rank=4, cache_gb=0.2)
    os.kill(short_lived._process.pid, signal.SIGKILL)
    with pytest.raises(GroundlabError, match="process is gone"):
        VLLMGenerator(short_lived, model, END, PLAIN)(PROMPTS, numbers())


@pytest.mark.parametrize("python", [sys.executable, "/no/such/python"])
def test_where_vllm_is_not_installed_the_error_says_how_to_install_it(python, folder, monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, python)
    with pytest.raises(GroundlabError, match=f"pip install vllm.*{PYTHON_VARIABLE}="):
        VLLMProcess(folder)


@pytest.mark.parametrize("decoding", [CUT, Decoding(12, temperature=2.0, top_k=5), Decoding(12, top_k=50, top_p=0.3)])
def test_the_worth_of_a_draw_follows_from_the_likeliest_tokens(decoding):
    logits = torch.randn(200, 60, generator=torch.Generator().manual_seed(0)) * 3
    rng = torch.Generator().manual_seed(1)
    _, own, drawn = draw(logits, torch.rand(200, generator=rng, dtype=torch.float64), decoding)
    best = logits.log_softmax(-1).topk(vllm_logprobs(decoding) + 1).values  # vLLM tells the drawn one besides
    assert torch.allclose(torch.tensor(drawn_log_probs(own.tolist(), best.tolist(), decoding)), drawn, atol=1e-5)


def test_draws_whose_worth_takes_the_whole_vocabulary_are_refused():
    for decoding in (Decoding(12, temperature=0.7), Decoding(12, top_p=0.9)):
        with pytest.raises(GroundlabError, match="top_k"):
            vllm_logprobs(decoding)
    assert vllm_logprobs(PLAIN) == vllm_logprobs(Decoding(4, temperature=0)) == 0


def test_the_program_of_the_engine_needs_nothing_of_this_package():
    text = (Path(__file__).parents[3] / "src" / "groundlab" / "language" / "vllm_worker.py").read_text()
    assert "groundlab" not in text


# A stand-in for vLLM: a package of that name that starts, and says which mode its environment asks for.

STAND_IN = """
__version__ = "0.32.0"
class LLM:
    def __init__(self, **options): assert options["seed"] == 0
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Put the stand-in where VLLMProcess looks; returns the file that says what vLLM reads of its environment."""
    package = tmp_path / "site" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN)
    (package / "envs.py").write_text(
        'import os\nVLLM_BATCH_INVARIANT = os.environ.get("VLLM_BATCH_INVARIANT") == "1"\n'
    )
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    return package / "envs.py"


@pytest.mark.parametrize("mode", ["1", "0"])
def test_the_batch_invariant_mode_reaches_vllm_and_the_log_says_so(mode, stand_in, folder, monkeypatch, capsys):
    monkeypatch.setenv(INVARIANT_VARIABLE, mode)
    assert VLLMProcess(folder, device="cuda").version == "0.32.0"
    assert capsys.readouterr().out.endswith(", batch-invariant\n") == (mode == "1")


def test_a_vllm_without_the_mode_is_refused_in_one_line(stand_in, folder, monkeypatch):
    monkeypatch.setenv(INVARIANT_VARIABLE, "1")
    stand_in.write_text("")
    with pytest.raises(GroundlabError, match=r"has no batch-invariant mode; install 0\.32\.0"):
        VLLMProcess(folder, device="cuda")


@pytest.mark.parametrize(("device", "capability"), [("cpu", (9, 0)), ("cuda:1", (7, 5))])
def test_hardware_without_the_mode_is_refused_before_vllm_starts(device, capability, folder, monkeypatch):
    monkeypatch.setenv(INVARIANT_VARIABLE, "1")
    monkeypatch.setenv(PYTHON_VARIABLE, "/no/such/python")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    with pytest.raises(GroundlabError, match="give backend=embedded, or leave out --deterministic") as error:
        VLLMProcess(folder, device=device)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
