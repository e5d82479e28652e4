"""What a language model of our own knows: held-out questions by topic, and whether it binds places to things.

    report = examine(model, tokenizer, samples_a_probe=400)      # probe name -> share of exactly right answers

An answer is right when greedy decoding gives it whole, end token included. The binding probes ask where a thing is
among distractors that all share its colour or its noun, so a model that matches words without binding them fails.
`score_temperature` fixes the temperature of action scores beforehand, by a rule that never looks at success.
"""

from collections.abc import Sequence

import torch
from numpy.random import Generator
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from groundlab.core.seeding import generator
from groundlab.language import corpus
from groundlab.language.corpus import Breadth, Sample, scenes
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.prefix_batching import padded
from groundlab.language.scoring import score_actions

IGNORED = -100  # a label that does not count
_BATCH = 64

BINDING = {
    f"binding: {topic}, {things} things": (topic, Breadth(things, things, similar=1.0))
    for topic in ("sides", "places")
    for things in (4, 8)
}
"""Probe name -> (topic, scenes whose distractors all share colour or noun with the thing asked for)."""


def collate(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, samples: Sequence[Sample]) -> dict[str, Tensor]:
    """The inputs of a model for some samples, int64 [B, L], with labels that count the target and its end token only.

    An encoder-decoder reads the input and is asked for the target; a causal model reads both as one text. A target
    that stays open (`corpus.OPEN`) has no end token.
    """
    inputs = tokenizer([sample.input for sample in samples], add_special_tokens=False)["input_ids"]
    said = [sample.target.removesuffix(corpus.OPEN) for sample in samples]
    answers = tokenizer(said, add_special_tokens=False)["input_ids"]
    ends = [[] if sample.target.endswith(corpus.OPEN) else [tokenizer.eos_token_id] for sample in samples]
    targets = [[*ids, *end] for ids, end in zip(answers, ends, strict=True)]  # type: ignore[misc]
    if model.config.is_encoder_decoder:
        rows, labels = inputs, targets
    else:
        pairs = list(zip(inputs, targets, strict=True))  # type: ignore[arg-type]
        rows = [[*text, *target] for text, target in pairs]
        labels = [[IGNORED] * len(text) + target for text, target in pairs]
    ids = padded(rows, tokenizer.pad_token_id)  # type: ignore[arg-type]
    mask = padded([[1] * len(row) for row in rows], 0)  # type: ignore[arg-type]
    batch = {"input_ids": ids, "attention_mask": mask, "labels": padded(labels, IGNORED)}
    return {name: tensor.to(model.device) for name, tensor in batch.items()}


@torch.no_grad()
def accuracy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, samples: Sequence[Sample]) -> float:
    """The share of samples whose whole target greedy decoding gives (one pass tells: a wrong token stays wrong)."""
    right, ordered = 0, sorted(samples, key=lambda sample: len(sample.input))
    for first in range(0, len(ordered), _BATCH):
        batch = collate(model, tokenizer, ordered[first : first + _BATCH])
        said, labels = model(**batch).logits.argmax(-1), batch["labels"]
        if not model.config.is_encoder_decoder:
            said, labels = said[:, :-1], labels[:, 1:]
        right += int(((said == labels) | (labels == IGNORED)).all(1).sum())
    return right / len(samples)


def examine(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    samples_a_probe: int = 400,
    seed: int = 0,
    further: Sequence[str] = (),
) -> dict[str, float]:
    """Accuracy on every topic (whether the model was taught it or not), on `further` ones, and in the binding probes.

    Scenes are from the part of the corpus that never trains; short facts are those that are taught. The draw depends on
    `seed` only.
    """
    wide = Breadth(rare=0.25, styles=0.25)
    probes = {topic: (topic, wide) for topic in (*corpus.TOPICS, *further)} | BINDING
    return {
        name: round(accuracy(model, tokenizer, _drawn(seed, name, topic, breadth, samples_a_probe)), 4)
        for name, (topic, breadth) in probes.items()
    }


def _drawn(seed: int, name: str, topic: str, breadth: Breadth, count: int) -> list[Sample]:
    """Facts as they are taught, and held-out scenes, as often as the topic draws either."""
    rng = generator(seed, "probe", name)
    drawn = (corpus.sample(rng, [topic], breadth, held_out=None) for _ in range(count))
    return [
        fact if len(fact.input) < corpus.FACT else corpus.sample(rng, [topic], breadth, held_out=True) for fact in drawn
    ]


LEAST_SHARE = 0.5  # of what a uniform policy gives to an action
_TEMPERATURE_STEP, _TEMPERATURE_STEPS = 1.1, 60


@torch.no_grad()
def score_temperature(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    actions: Sequence[str] = ACTIONS,
    prompts: Sequence[str] | None = None,
) -> float:
    """The lowest temperature >= 1 at which no action is starved on random scenes.

    The sum of log-probabilities favours actions of one word over those of two. This divides scores until the mean
    probability of every action, over `prompts`, is at least half of the uniform share. Scenes and goals are random
    ones of the corpus: no world and no success is looked at, and the rule serves any model, also an untrained one.
    """
    prompts = prompts or random_prompts(generator(0, "score temperature"), 256)
    scores = score_actions(model, tokenizer, prompts, actions)
    for step in range(_TEMPERATURE_STEPS):
        temperature = _TEMPERATURE_STEP**step
        if float((scores / temperature).softmax(1).mean(0).min()) >= LEAST_SHARE / len(actions):
            break
    return round(temperature, 4)


def random_prompts(rng: Generator, count: int) -> list[str]:
    """Prompts as agents read them, about random scenes of up to four things; half of the goals are in sight."""
    prompts = []
    for _ in range(count):
        scene, thing = scenes.draw(rng, 4, scenes.Vocabulary(), 0.0)
        anything = scenes.any_name(rng)
        goal = thing.name if rng.random() < 0.5 else anything
        told = "".join(f"{sentence}, " for sentence in scenes.captions(scene))
        prompts.append(f"Goal of the agent: go to the {goal} \n Observation 0: {told}\n Action 0: ")
    return prompts
