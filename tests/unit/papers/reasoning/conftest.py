"""A causal model of a few thousand weights that answers with any action, more often than not, and settings to match."""

import numpy as np
import pytest
import torch

from groundlab.language import corpus, tokenizer
from groundlab.language.architecture import Architecture, build
from groundlab.language.chat_format import DialogueWriter
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.papers import registry

SHAPE = Architecture(family="llama", width=32, feed_forward=32, heads=2, head_width=16, layers=2)
WORLD = "Reasoning-GoTo-v0"
LESSONS = 60  # gradient steps: it then answers validly about half the time


def written():
    """A tokenizer of 400 pieces that knows the marks of conversations."""
    rng = np.random.default_rng(0)
    texts = [f"{sample.input} {sample.target}" for sample in (corpus.sample(rng) for _ in range(600))]
    return tokenizer.train([*texts, *[" ".join((*ACTIONS, "final answer:"))] * 40], 400, dialogue=True)


def teach(model, words):
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


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """What pretraining leaves: weights and tokenizer."""
    folder = tmp_path_factory.mktemp("chat")
    words = written()
    words.save_pretrained(folder)
    model = build(SHAPE, len(words), seed=77)
    teach(model, words)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def resolved(model_folder):
    """Settings of a method, small ones by default."""

    def resolve(method="direct", world=WORLD, **given):
        small = {"model": str(model_folder), "layouts": "0-2", "max_new_tokens": 6, "num_dists": 0, "invalid_limit": 2}
        if not method.endswith("zero-shot"):
            small |= {"num_envs": 4, "steps": 16, "minibatch_size": 8, "iterations": 4}
        return registry.resolve_settings(method, world, small | given)

    return resolve
