"""Which way a language model would turn before any tuning: sampled scenes in the agents' own prompt, no episodes.

    groundlab evaluate turns --world BabyAI-GoToLocalS8N4-v0 --set model=quick-t5-no-spatial-s0

Of the prompts of `probes.random_prompts` those count whose goal names things on one side only. An answer is right where
`turn left` is likelier than `turn right` if and only if that side is the left one. Both actions are of two words with
one in common, so neither their length nor the temperature matters. The answers are stored like an evaluation, one
"layout" a scene, so that "right in every scene" is judged from records like any other claim.
"""

import re

import numpy as np
import torch

from groundlab.core.seeding import generator
from groundlab.language.probes import random_prompts
from groundlab.papers.glam.policy import VARIANTS, build_scorer
from groundlab.papers.glam.settings import ModelSettings
from groundlab.papers.method import Request
from groundlab.papers.training import Evaluation

__all__ = ["evaluate"]

PROMPTS = 600
TURNS = {"left": "turn left", "right": "turn right"}
_GOAL = re.compile(r"go to the (.+?) \n")


def side_of(prompt: str) -> str | None:
    """`left` or `right`, where all things that a prompt's goal names are seen on that side; None for other prompts."""
    (goal,) = _GOAL.findall(prompt)
    places = re.findall(rf"You see a {goal} ([^,]*)", prompt)
    sides = {next((side for side in TURNS if side in place), None) for place in places}
    return sides.pop() if len(sides) == 1 else None


@torch.no_grad()
def evaluate(request: Request) -> list[Evaluation]:
    """The answers as an evaluation: policy "turns", success where the turn to the named thing's side is likelier."""
    drawn = random_prompts(generator(request.seed, "scenes with a side"), PROMPTS)
    sides = {prompt: side for prompt in drawn if (side := side_of(prompt))}
    scorer = build_scorer(VARIANTS["glam"], ModelSettings(**request.settings), tuple(TURNS.values()), request.seed)
    left, right = scorer(list(sides)).scores.T
    success = np.where([side == "left" for side in sides.values()], left > right, right > left)
    rows = [{"layout": scene, "success": bool(each)} for scene, each in enumerate(success)]
    return [{"policy": "turns", "mean": {"success": float(success.mean())}, "rows": rows}]
