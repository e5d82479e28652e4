"""Our own language model on a page: its corpus and what the corpus leaves out, its curriculum, its answers.

    from groundlab.pages import language_model
    language_model.topics(seed=0)                  # every topic of the corpus with a pair drawn now
    language_model.answers("quick-t5-s0")          # questions that it was not trained on, and what it says
    language_model.action_shares("quick-t5-s0")    # what the temperature of action scores is for

Each function gives an object that a notebook draws.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from groundlab.assets import MODELS
from groundlab.core import storage
from groundlab.core.errors import unknown_name
from groundlab.core.seeding import generator
from groundlab.language import corpus, models, pretraining, probes
from groundlab.language.corpus import Breadth
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.scoring import score_actions
from groundlab.pages.worlds import Page, table

_PLAIN, _WIDE = Breadth(most=4), Breadth(rare=0.25, styles=0.25)
_PAIRS = (
    ("something is on your left, \n which move?", "turn left"),
    ("go to the red ball \n You see a red ball 1 step left, \n which side?", "left"),
    ("go to the red ball \n You see a red ball 1 step left, \n which move?", "turn left"),
    ("Goal of the agent: go to the red ball \n Observation 0: ", "left"),
)


def topics(seed: int = 0, examples: int = 2) -> Page:
    """Every topic: what it is about, pairs drawn from it, and how often the commonest answer is the right one."""
    rows = []
    for topic, draw in corpus.TOPICS.items():
        rng = generator(seed, "gallery", topic)
        about = (draw.__doc__ or "").splitlines()[0]
        for number in range(examples):
            pair = corpus.sample(rng, [topic], _PLAIN)
            first = (topic, about, _guessed(topic, seed)) if number == 0 else ("", "", "")
            rows.append((*first, _line(pair.input), _line(pair.target)))
    return table(("topic", "what it asks", "guessing gets", "input", "answer"), rows)


def _guessed(topic: str, seed: int, samples: int = 400) -> str:
    """The share of the commonest answer among drawn pairs, in percent."""
    rng = generator(seed, "guess", topic)
    answers = Counter(corpus.sample(rng, [topic], _WIDE, held_out=None).target for _ in range(samples))
    return f"{answers.most_common(1)[0][1] / samples:.0%}"


def _line(text: str) -> str:
    return " ".join(text.replace("\n", "↵").split(" "))


def rule() -> Page:
    """Pairs of texts, and what the rule of the corpus says to them."""
    verdicts = [(text, answer, corpus.leaks(text, answer)) for text, answer in _PAIRS]
    rows = [(_line(text), answer, f"refused: {why}" if why else "allowed") for text, answer, why in verdicts]
    return table(("input", "answer", "the rule says"), rows)


def leaks(samples: int = 10_000, seed: int = 0) -> str:
    """How many pairs, drawn now from all topics, the rule refuses."""
    rng = generator(seed, "leaks")
    drawn = [corpus.sample(rng, breadth=_WIDE) for _ in range(samples)]
    refused = sum(corpus.leaks(each.input, each.target) is not None for each in drawn)
    return f"{refused} of {samples:,} pairs, drawn now from {len({each.topic for each in drawn})} topics, are refused"


def curriculum(recipe: str) -> Page:
    """The stages of a recipe: how long, on what, and how wide."""
    rows = [
        (
            str(number),
            f"{stage.steps:,}" + (f", or until the loss is below {stage.until_loss:g}" if stage.until_loss else ""),
            f"{stage.fewest} to {stage.most}",
            ", ".join(f"{topic} {part / sum(stage.topics.values()):.0%}" for topic, part in stage.topics.items()),
            f"{stage.rare:.0%}",
            f"{stage.styles:.0%}",
        )
        for number, stage in enumerate(pretraining.load_recipe(recipe).stages, 1)
    ]
    return table(("stage", "steps", "things in a scene", "topics", "rare and invented words", "other styles"), rows)


def _load(name: str) -> tuple[Any, Any]:
    known = sorted(file.parent.name for file in MODELS.glob("*/recipe.json"))
    if name not in known:
        raise unknown_name("shipped model", name, known)
    return models.load(MODELS / name)


def answers(name: str, seed: int = 0, asked: Sequence[str] = ("places", "sides", "french", "denoising")) -> Page:
    """Held-out questions of some topics, two of each: the right answer, and what a shipped model says, greedily."""
    model, tokenizer = _load(name)
    rng = generator(seed, "answers")
    questions = [corpus.sample(rng, [topic], held_out=True) for topic in asked for _ in range(2)]
    rows = [
        (each.topic, _line(each.input), each.target, said, "right" if said == each.target.lower() else "wrong")
        for each, said in ((each, _said(model, tokenizer, each.input)) for each in questions)
    ]
    return table(("topic", "question, not trained on", "right answer", f"{name} says", ""), rows)


@torch.no_grad()
def _said(model: Any, tokenizer: Any, text: str) -> str:
    inputs = tokenizer(text, add_special_tokens=False, return_tensors="pt")
    ids = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    said = model.generate(**ids, do_sample=False, max_new_tokens=24)[0]
    start = 0 if model.config.is_encoder_decoder else ids["input_ids"].shape[1]
    return tokenizer.decode(said[start:], skip_special_tokens=True)


@torch.no_grad()
def action_shares(name: str) -> Page:
    """The mean probability of each action over random scenes and goals, at temperature 1 and at the model's own."""
    model, tokenizer = _load(name)
    temperature = storage.read_json(MODELS / name / "recipe.json")["temperature"]
    scores = score_actions(model, tokenizer, probes.random_prompts(generator(0, "score temperature"), 256), ACTIONS)
    shares = [(scores / each).softmax(1).mean(0).tolist() for each in (1.0, temperature)]
    rows = [(action, f"{plain:.1%}", f"{own:.1%}") for action, plain, own in zip(ACTIONS, *shares, strict=True)]
    return table(("action", "at temperature 1", f"at {temperature:g}"), rows)
