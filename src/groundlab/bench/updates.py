"""One update of each paper's agent, with our own part and with a library's in its place, timed in turns in one run.

    glam        a T5 read without padding (language/t5_forward.py), and transformers' own forward
    mediator    the network in compiled loops (papers/mediator/loops.py), and in torch
    knowledge   distinct pieces of views (papers/knowledge/networks.py), and every view whole

CPU seconds of one thread, collecting included; both sides have the settings of scale `quick` and the same seed. The
reasoning agents are in generation.py.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

from groundlab.bench.measurement import TURNS, Measurement, cpu_seconds
from groundlab.core.run import RunSpec
from groundlab.language import t5_forward
from groundlab.papers import registry
from groundlab.papers.glam import ppo as glam
from groundlab.papers.knowledge.potentials import Zero
from groundlab.papers.knowledge.ppo import PPO
from groundlab.papers.knowledge.settings import PPOSettings
from groundlab.papers.mediator import agent as mediator
from groundlab.papers.mediator import network
from groundlab.papers.training import Learner

Plain = Callable[[Any], AbstractContextManager[Any]]
"""Given a learner: inside, its updates do without our part."""

_GLAM: dict[str, Any] = {"model": "quick-t5-s0", "layouts": "0-99", "lr": 1e-4}
_KNOWLEDGE: dict[str, Any] = {"network": "small", "num_envs": 64, "frames_per_env": 128, "lr": 1e-3}


def compared(name: str, other: str, make: Callable[[], Any], plain: Plain, turns: int = TURNS) -> list[Measurement]:
    """CPU seconds of an update, the median of some turns: as it is, and without our part (`other` names what is left).

    make: builds a learner with `train_step(number)`; one update of each side warms up.
    """
    ours, theirs = make(), make()
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(1, turns + 2):
        taken[0].append(cpu_seconds(partial(ours.train_step, number)))
        with plain(theirs):
            taken[1].append(cpu_seconds(partial(theirs.train_step, number)))
    own, without = (median(seconds[1:]) for seconds in taken)
    return [
        Measurement(f"{name}, an update", own, "CPU-s"),
        Measurement(f"{name}, an update with {other}, same run", without, "CPU-s"),
        Measurement(f"{name}, an update, ratio", without / own, "x"),
    ]


def _learner(make: Callable[[RunSpec], Learner], method: str, world: str, **settings: Any) -> Learner:
    return make(
        RunSpec(method=method, world=world, seed=0, settings=registry.resolve_settings(method, world, settings))
    )


def bench_glam() -> list[Measurement]:
    """1,024 decisions of 32 environments, then 24 gradient steps of 128 prompts."""
    return compared(
        "glam on GoToLocalS8N4",
        "transformers' forward",
        lambda: _learner(glam.make_learner, "glam", "BabyAI-GoToLocalS8N4-v0", **_GLAM),
        lambda _: patch.object(t5_forward, "serves", lambda model: False),
    )


def bench_mediator() -> list[Measurement]:
    """An iteration: ten episodes and three epochs on their decisions."""
    return compared(
        "mediator on ColoredDoorKey",
        "torch's layers",
        lambda: _learner(mediator.make_learner, "mediator", "ColoredDoorKey", test_every=1000),
        lambda _: patch.object(network, "FrameNetwork", None),  # the loops serve this class alone
        turns=4 * TURNS,
    )


def bench_knowledge() -> list[Measurement]:
    """8,192 steps of 64 environments without knowledge, then four epochs, by the small network."""
    return compared(
        "knowledge on RedBall-S10",
        "every view read whole",
        lambda: PPO("BabyAI-Text-GoToLocal-RedBall-S10", 0, PPOSettings.model_validate(_KNOWLEDGE), Zero()),
        lambda learner: patch.object(learner.agent, "reads_pieces", False),
    )
