"""Writes what the golden runs read: python tests/golden/runs/make_ledgers.py

The ledgers, to be written again after a change of the questions, and a causal model whose replies are often plans.
"""

import re
from pathlib import Path
from unittest.mock import patch

import torch
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from groundlab.language.chat import ChatModel, Ledger, Recording, Reply, Sampling, Scripted
from groundlab.language.chat.factory import ChatSettings
from groundlab.papers import registry
from groundlab.papers.mediator import planner
from groundlab.papers.method import Request
from groundlab.papers.worlds import chat_agent

HERE = Path(__file__).parent
MOVES = ("turn left", "go forward", "turn right", "go forward", "go forward")


def plan(text: str, sampling: Sampling) -> str:
    """A planner that picks keys up twice, and often gives no plan."""
    if sampling.seed is not None and sampling.seed % 3 == 0:
        return "I cannot tell."
    keys, doors = (re.findall(rf"observed (?:a )?((?:\w+ )?{kind})", text) for kind in ("key", "door"))
    if "carry" in text and doors:
        return Reply(f"{{go to {doors[0]}, toggle {doors[0]}}}", of="golden/other")
    if keys:
        return f"First a key:\n{{go to {keys[0]}, pick up {keys[0]}, pick up {keys[0]}, drop {keys[0]}, dance}}"
    if doors:
        return Reply("There is a door. " * 70, cut=True)
    return "{explore}" if text.startswith(planner.REMINDER) or sampling.seed is not None else "Explore."


def move(text: str, sampling: Sampling) -> str:
    """An agent that thinks, and now and then says no action."""
    number = sampling.seed if sampling.seed is not None else len(text)
    if sampling.seed is not None:
        return (*MOVES, "wait")[number % 6]
    return Reply(f"I see much. ACTION: {MOVES[number % 5]}.", cut=True, of="golden/other") if number % 7 else "Hm."


def fill(paper: str) -> None:
    """Play the recorded runs of a paper by the rules that stand for their models."""
    entries = yaml.safe_load((HERE / f"{paper}.yaml").read_text(encoding="utf-8"))["runs"]
    (HERE / f"{paper}-ledger.jsonl").unlink(missing_ok=True)

    def recording(maker: str, settings: ChatSettings, ledger: Path) -> ChatModel:
        rule = plan if paper == "mediator" else move
        return Recording(Scripted(str(settings.model), rule), Ledger(ledger), "scripted")

    for entry in entries:
        given = entry.get("settings", {})
        if "recorded" not in (given.get("planner"), given.get("maker")):
            continue
        if "chat" not in given:
            given = {**given, "planner": "scripted"}
        settings = registry.resolve_settings(entry["method"], entry["world"], given)
        with patch.object(planner, "chat_model", recording), patch.object(chat_agent, "chat_model", recording):
            registry.evaluate(Request(entry["method"], entry["world"], entry.get("seed", 0), settings))


FOLLOWS = {  # what a word is most probably followed by, and what else
    "nothing}": "{explore", "a": "{go", "key}": "{go", "door}": "{go", ",": "{toggle",
    "{explore": "}", "{go": "to", "{toggle": "door", "to": "key, door,", "key,": "pick go", "door,": "toggle explore",
    "go": "to", "pick": "up", "up": "key door", "toggle": "door", "key": "}", "door": "} key", "explore": "}",
    "}": "</s>", "<unk>": "{explore {go", "</s>": "</s>", "<pad>": "</s>", "Action:": "pick toggle {go",
}  # fmt: skip


def model(folder: Path) -> None:
    """A Llama of one layer: a word says the next one, and a little random attention disturbs it."""
    words = {word: number for number, word in enumerate(FOLLOWS)}
    size = 32
    config = LlamaConfig(
        vocab_size=size, hidden_size=size, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=512, bos_token_id=None, eos_token_id=words["</s>"], pad_token_id=words["<pad>"],
    )  # fmt: skip
    torch.manual_seed(0)
    llama = LlamaForCausalLM(config)
    with torch.no_grad():
        for weights in llama.model.layers.parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.12)
        llama.model.embed_tokens.weight.copy_(2 * torch.eye(size))
        llama.lm_head.weight.fill_(-2.0)
        for word, number in words.items():
            for place, following in enumerate(FOLLOWS[word].split()):
                llama.lm_head.weight[words[following], number] = 1.0 - place * 0.4
    llama.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(folder)


if __name__ == "__main__":
    model(HERE / "planner_llama")
    for each in ("mediator", "worlds"):
        fill(each)
