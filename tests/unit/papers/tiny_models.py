"""Language models of a few thousand weights, as pretraining leaves them: a T5 for GLAM and a Llama that converses."""

import json
from pathlib import Path

import numpy as np
import torch

from groundlab.language import corpus, tokenizer
from groundlab.language.architecture import Architecture, build
from groundlab.language.chat_format import DialogueWriter
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.pretraining import load_recipe

T5 = Architecture(width=32, feed_forward=32, heads=2, head_width=8, layers=2)
LLAMA = Architecture(family="llama", width=32, feed_forward=32, heads=2, head_width=16, layers=2)
LESSONS = 60  # gradient steps: the Llama then answers validly about half the time


def _texts(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [f"{sample.input} {sample.target}" for sample in (corpus.sample(rng) for _ in range(count))]


def write_t5(folder: Path) -> Path:
    """Weights, tokenizer, and recipe.json with a temperature of 2, of a T5 that knows nothing yet; the folder."""
    words = tokenizer.train([*_texts(3000), *["turn left right go forward pick up drop toggle"] * 40], 500)
    words.save_pretrained(folder)
    model = build(T5, len(words), seed=77)
    with torch.no_grad():  # so that "pretrained" is no fresh draw of any seed
        for parameter in model.parameters():
            parameter.mul_(1.5)
    model.save_pretrained(folder)
    recipe = load_recipe("smoke-t5").model_dump() | {"architecture": T5.model_dump()}
    (folder / "recipe.json").write_text(json.dumps({"recipe": recipe, "temperature": 2.0}))
    return folder


def write_chat_llama(folder: Path) -> Path:
    """Weights and tokenizer of a Llama that answers with any action, more often than not; the folder."""
    texts = [*_texts(600), *[" ".join((*ACTIONS, "final answer:"))] * 40]
    words = tokenizer.train(texts, 400, dialogue=True)
    words.save_pretrained(folder)
    model = build(LLAMA, len(words), seed=77)
    _teach(model, words)
    model.save_pretrained(folder)
    return folder


def _teach(model, words) -> None:
    """Say an action after any prompt: replies, with or without the marker, after a few sentences about walls."""
    writer, rng = DialogueWriter(words), np.random.default_rng(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(LESSONS):
        seen = f"You see a wall {rng.integers(1, 7)} steps {rng.choice(['left', 'right', 'forward'])}"
        prompt = writer.prompt([{"role": "system", "content": "go"}, {"role": "user", "content": seen}])
        rows = []
        for action in ACTIONS:
            said = action if rng.random() < 0.5 else f"final answer: {action}"
            rows.append([*prompt, *writer.message("assistant", said)[1:]])
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        labels = ids.masked_fill(ids == 0, -100)
        labels[:, : len(prompt)] = -100
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss.backward()
        optimizer.step()
