"""Speed of updates: GLAM's with our forward of T5 and with transformers', and PPO's as a share of the CPU's peak.

GLAM's update has the settings of scale `quick`; the PPO agent has the network and batch of the knowledge paper.
"""

import time
from itertools import count
from typing import Any
from unittest.mock import patch

import torch

from groundlab.bench.measurement import Measurement, Work, compared, rates
from groundlab.language import t5_forward
from groundlab.papers import registry
from groundlab.papers.glam import ppo as glam
from groundlab.papers.knowledge.networks import TwoHeadedAgent, forward_flops
from groundlab.papers.knowledge.observations import GRID
from groundlab.papers.knowledge.potentials import Zero
from groundlab.papers.knowledge.ppo import PPO
from groundlab.papers.knowledge.settings import PPOSettings
from groundlab.worlds.codes import ACTIONS

_WORLD, _MODEL = "BabyAI-GoToLocalS8N4-v0", {"model": "quick-t5-s0", "layouts": "0-99", "lr": 1e-4}
_SIDE, _ROUNDS = 1024, 100  # of square matrices, and how often they are multiplied


def _updates(learner: Any) -> Work:
    numbers = count(1)

    def update() -> int:
        learner.train_step(next(numbers))
        return 1

    return update


def transformers_forward() -> Any:
    """Return a context in which T5 models are read by transformers' own forward."""
    return patch.object(t5_forward, "serves", lambda model: False)


def glam_learner(**settings: Any) -> Any:
    """Make GLAM's agent, with settings that differ from the benchmark's."""
    return glam.make_learner(registry.resolve("glam", _WORLD, 0, _MODEL | settings))


def bench_glam() -> list[Measurement]:
    """Measure GLAM's updates per CPU second, with our forward of T5 and with transformers'."""
    ours, theirs = _updates(glam_learner()), _updates(glam_learner())

    def plain() -> int:
        with transformers_forward():
            return theirs()

    return compared("glam on GoToLocalS8N4", ours, "transformers' forward", plain, "updates")


def peak_frames(settings: PPOSettings) -> float:
    """Return the frames per CPU second if there were only the network's matrix products, as fast as large ones.

    Each frame is read once in play and once in each epoch, where the backward pass costs twice the forward pass.
    """
    forward = forward_flops(TwoHeadedAgent(GRID.shape, len(ACTIONS), settings.network), GRID.shape)
    return _peak_flops() / (forward * (1 + 3 * settings.epochs))


def _peak_flops() -> float:
    """Return the operations per CPU second of large square matrix products, the most that one core reaches."""
    matrix, seconds = torch.rand(_SIDE, _SIDE), []
    for _ in range(_ROUNDS):
        start = time.process_time()
        torch.matmul(matrix, matrix)
        seconds.append(time.process_time() - start)
    return 2 * _SIDE**3 / min(seconds)  # the fastest: neighbours slow the others


def bench_peak() -> list[Measurement]:
    """Measure an update of the knowledge paper's network and batch, and its share of the CPU's peak."""
    learner = PPO("BabyAI-Text-GoToLocal-RedBall-S20", 0, PPOSettings(), Zero())
    (updates,) = rates(_updates(learner))
    frames, peak = updates * learner.frames_per_update, peak_frames(PPOSettings())
    return [
        Measurement("knowledge on RedBall-S20, published network", frames, "frames/CPU-s"),
        Measurement("matrix products of that network alone", peak, "frames/CPU-s"),
        Measurement("share of that peak", 100 * frames / peak, "%"),
    ]


def measure() -> list[Measurement]:
    """Measure both agents."""
    torch.set_num_threads(1)  # rates are per CPU second of one thread
    return [*bench_glam(), *bench_peak()]
