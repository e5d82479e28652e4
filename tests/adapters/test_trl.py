"""TRL itself: one GRPO step of a tiny model whose tool calls are played in our world. Run by `nox -s adapters`.

The model is made here: a byte-level tokenizer on which each tool call is one token, and a Llama of one layer that
learns in seconds to answer with a call. So what it does is random, and each call is real.
"""
# ruff: noqa: E402

import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

trl = pytest.importorskip("trl", reason="nox -s adapters has it")

import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from groundlab.worlds import adapters

WORLD = "BabyAI-GoToObjS4-v0"  # so small that chance reaches the goal
TOOLS = ("turn_left", "turn_right", "go_forward", "pick_up", "drop", "toggle")
CALLS = [f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>' for name in TOOLS]
ANSWERS = "assistant\n"
GROUP, GROUPS = 8, 2


def make_tokenizer(*words: str, template: str = "qwen2_5") -> PreTrainedTokenizerFast:
    """Bytes, the marks of Qwen's chat template, and one token for each of the words."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in ("<|im_start|>", "<|im_end|>", "<|pad|>")])
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.chat_template = (Path(trl.__file__).parent / "chat_templates" / f"{template}.jinja").read_text()
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A Llama that answers any context with one of the calls, and stops."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    start, calls = tokenizer.convert_tokens_to_ids(ANSWERS), tokenizer.convert_tokens_to_ids(CALLS)
    for _ in range(120):
        contexts = torch.randint(0, 256, (32, 12))
        answers = torch.stack([torch.full((32,), start), torch.tensor(calls)[torch.randint(0, 6, (32,))]], 1)
        tokens = torch.cat([contexts, answers, torch.full((32, 1), tokenizer.eos_token_id)], 1)
        logits = model(tokens).logits[:, -3:-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, -2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The model and its tokenizer as any other: in a folder, by save_pretrained."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = make_tokenizer(*CALLS, ANSWERS)
    make_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_one_grpo_step_plays_our_world_and_learns_from_its_rewards(folder, tmp_path):
    adapter = adapters.load("trl")
    begun, played = [], []

    class Watched(adapter.GridTools):
        """The same, which notes what is begun and how it is paid; TRL names rewards by the class."""

        def reset(self, seed=None, **columns):
            text = super().reset(seed=seed, **columns)
            begun.append((seed, text))
            return text

        def get_reward(self):
            played.append(super().get_reward())
            return played[-1]

    config = trl.GRPOConfig(
        output_dir=str(tmp_path), max_steps=1, num_generations=GROUP, per_device_train_batch_size=GROUP * GROUPS,
        max_completion_length=3000, max_tool_calling_iterations=12, learning_rate=1e-2, temperature=1.0, seed=0,
        use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(folder)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    parts = {"model": model, "args": config, "processing_class": AutoTokenizer.from_pretrained(folder)}
    data = Dataset.from_list(adapter.rows(GROUPS))
    trainer = trl.GRPOTrainer(**parts, train_dataset=data, environment_factory=lambda: Watched(WORLD))
    trainer.train()
    logged = trainer.state.log_history[0]
    assert len(begun) == len(played) == GROUP * GROUPS
    assert len(set(begun)) == GROUPS, "the members of a group read the same level"
    assert logged["tools/call_frequency"] > 1
    assert logged["rewards/Watched/mean"] == pytest.approx(sum(played) / len(played), abs=1e-6)
    assert 0 < sum(reward > 0 for reward in played) < len(played), "chance reaches the goal in some episodes"
    changed = [name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])]
    assert changed and all(torch.isfinite(weight).all() for weight in model.state_dict().values())


def test_the_pages_code_trains(folder, tmp_path, monkeypatch):
    """With the tiny model and two steps in place of the page's."""
    page = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
    code = re.findall(r"^## TRL\n.*?```python\n(.*?)```", page, re.MULTILINE | re.DOTALL)[0]
    for words, instead in (
        ("Qwen/Qwen3-0.6B", str(folder)),
        ("max_steps=100", "max_steps=2, use_cpu=True, bf16=False, report_to='none', max_tool_calling_iterations=3"),
        ("BabyAI-GoToLocal-v0", WORLD),
    ):
        assert words in code
        code = code.replace(words, instead)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(code, "docs/adapters.md", "exec"), names)
    assert names["trainer"].state.global_step == 2


def test_the_example_tunes_a_qwen_and_samples_as_grpo_assumes(tmp_path):
    """Random weights; template and settings as Qwen's: two tokens end a reply, one of them padding, and a penalty."""
    example = Path(__file__).parents[2] / "examples" / "grpo_babyai.py"
    actions = [f"<action>{name.replace('_', ' ')}</action>" for name in TOOLS]
    tokenizer = make_tokenizer(*actions, template="qwen3")
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    ends = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.generation_config.update(eos_token_id=ends, do_sample=True, top_k=1, repetition_penalty=1.5)
    model.save_pretrained(tmp_path / "qwen")
    tokenizer.save_pretrained(tmp_path / "qwen")
    small = ("--updates", "1", "--groups", "2", "--group", "4", "--replies", "2", "--parts", "2", "--tests", "1")
    words = ("--model", str(tmp_path / "qwen"), "--max-reply", "3", "--lr", "1e-2", "--out", str(tmp_path / "out"))
    subprocess.run([sys.executable, str(example), *words, *small], check=True)
    tuned = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "checkpoint-1").state_dict()
    assert all(not torch.equal(weight, tuned[name]) for name, weight in model.state_dict().items())
    module = runpy.run_path(str(example))
    options = SimpleNamespace(world=WORLD, prompt="{mission}", max_reply=3)
    episodes = module["Player"](options, tokenizer).play(model, list(range(16)))
    replies = [reply for episode in episodes for reply in episode.replies]
    assert len(set(map(tuple, replies))) > len(replies) / 2, "sampled, not the likeliest"
    assert not any(reply[-2:] == [tokenizer.pad_token_id] * 2 for reply in replies), "padding is no part of a reply"
