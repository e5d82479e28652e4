"""BK-Pref's labels from a model that reads and scores but cannot talk: which segment does it find more plausible?

    judging.judge(model_judge("quick-t5-s0"), ...)

A step is as plausible as the model finds its action at the sight of one of the things in view, the one for which the
action fits best; a segment is as plausible as its steps on average. The model is asked what it was trained on, nameless
things and ways to face them, so this says how much of a judge is in a small model of grid-world words, not how good
language models are. `agreement` compares its labels with others. Called from: `labelling.py`.
"""

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch

from groundlab.language import models
from groundlab.language.chat import Sampling, Scripted
from groundlab.language.scoring import score_actions
from groundlab.methods.knowledge.captions import MINIGRID_ACTIONS
from groundlab.methods.pretraining import place_of

_QUESTION = "something {place}, \n which words bring you to face it?"
_WORDS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")  # "do nothing" has no word: 0
_SAID = dict(zip(MINIGRID_ACTIONS, _WORDS, strict=False))
_THING = re.compile(r"You see a \w+ (?:key|ball|box) ([^.]+)")
_STEP = re.compile(r"Step \d+: (.*) You choose the action: (.*)\.$", re.MULTILINE)
_SAME = 1e-4  # difference of plausibility below which two segments tie


def model_judge(name: str) -> Scripted:
    """A judge that answers as `judging.judge` expects. Raises GroundlabError when the model is not on this machine."""
    model, tokenizer = models.load(place_of(name), kind="seq2seq")

    @cache
    def likelihoods(place: str) -> dict[str, float]:
        with torch.inference_mode():
            scores = score_actions(model, tokenizer, [_QUESTION.format(place=place)], _WORDS)
        return dict(zip(_WORDS, scores.softmax(-1)[0].tolist(), strict=True))

    def plausibility(caption: str) -> float:
        steps = []
        for seen, action in _STEP.findall(caption):
            told = [likelihoods(place).get(_SAID.get(action, ""), 0.0) for place in _THING.findall(seen)]
            steps.append(max(told, default=1 / len(_WORDS)))
        return float(np.mean(steps))

    def rule(text: str, sampling: Sampling) -> str:
        first, second = (plausibility(part) for part in text.split("Description of Trajectory Segment B:"))
        rank = "A = B" if abs(first - second) < _SAME else "A > B" if first > second else "B > A"
        return f"[Thoughts]\nplausible to {first:.4f} and {second:.4f}\n\n[Rank]\n{rank}"

    return Scripted(f"{name}, scoring", rule)


def agreement(labels: Sequence[float], others: Sequence[float]) -> tuple[float, int]:
    """The share of pairs on which two judges prefer the same segment, and how many pairs both have decided."""
    decided = [(one, other) for one, other in zip(labels, others, strict=True) if 0.5 not in (one, other)]
    return float(np.mean([one == other for one, other in decided])) if decided else float("nan"), len(decided)
