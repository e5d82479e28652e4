"""How fast the knowledge agents learn: the original's network and batch on RedBall-S20, steps per CPU-second.

Each row beside what the original did (spec background-knowledge 10), how its time is split, and which share of it
the network's matrix products would need by themselves, at the speed that large products have in the same run.
CPU seconds of one thread, the sandbox's server included. Called from: `bench.py` (`groundlab bench training --only
knowledge`). Read next: `methods/knowledge/learner.py`.
"""

import resource
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import torch

from groundlab.bench import Figure
from groundlab.language.sentence_embedding import Embedder, load_encoder
from groundlab.language.shipped_models import resolve_model
from groundlab.learning.checkpoints import seeded_construction
from groundlab.papers.knowledge import bk_goal, scripted
from groundlab.papers.knowledge.bk_code import CodePotential
from groundlab.papers.knowledge.bk_goal import GoalPotential, Pooling
from groundlab.papers.knowledge.bk_pref import PreferencePotential, PreferenceTransformer
from groundlab.papers.knowledge.networks import TwoHeadedAgent, forward_flops
from groundlab.papers.knowledge.observations import GRID
from groundlab.papers.knowledge.potentials import Potential, Zero
from groundlab.papers.knowledge.ppo import PPO
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.settings import COLLECTION, Settings
from groundlab.worlds.codes import ACTIONS

WORLD = "BabyAI-Text-GoToLocal-RedBall-S20"
ORIGINAL = {"phi = 0": 242, "BK-Code": 245, "BK-Pref": 218, "RND": 160, "BK-Goal": 18}  # steps per CPU-second
_UPDATES = 3  # timed, after one that is not
_SIDE, _ROUNDS = 1024, 20  # of matrices, and how often they are multiplied
_PROGRAM = """def compute_reward(obs, past_obs, past_actions):
    return float((past_actions == 2).mean()), {}
"""
_CAPTIONS = ("You see a red ball 2 steps forward", "You see a wall 1 step forward", "You see a blue key 1 step left")


class Timed(NamedTuple):
    """Some updates."""

    rate: float
    """Steps of all environments per CPU-second."""
    shares: dict[str, float]
    """Of its CPU seconds: worlds, policy, potential (with the sandbox's server), update."""


def _library() -> bk_goal.GoalLibrary:
    """Some goals; which ones makes no difference to speed."""
    adviser, goals = scripted.grid_adviser(), []
    for caption in _CAPTIONS:
        reply = adviser.reply([{"role": "user", "content": f"Current observation: {caption}."}], None)  # pyright: ignore[reportArgumentType]
        goals.append([line.removeprefix("- ") for line in str(reply).splitlines()])
    return bk_goal.GoalLibrary([f"Agent history:\nStep 1: {caption}." for caption in _CAPTIONS], goals)


@contextmanager
def _potential(form: str) -> Iterator[Potential]:
    """What is measured: a tiny program, or a preference network of random weights."""
    if form == "BK-Code":
        with Sandbox() as sandbox:
            yield CodePotential(_PROGRAM, sandbox)
    elif form == "BK-Pref":
        with seeded_construction(0, "benchmark"):
            network = PreferenceTransformer(GRID.shape, len(ACTIONS))
        yield PreferencePotential(network)
    else:
        yield Zero()


def _timed(potential: AbstractContextManager[Potential], settings: Settings, updates: int) -> Timed:
    """Train for some updates after one that is not timed; of the sandbox's server all time counts."""
    before = _of_children()
    with potential as given:
        learner = PPO(WORLD, 0, settings, given)
        learner.train_step(1)
        learner.seconds.clear()
        start = time.process_time()
        for iteration in range(updates):
            learner.train_step(2 + iteration)
        own, spent = time.process_time() - start, learner.seconds
    served = _of_children() - before
    spent["potential"] += served
    shares = {part: took / sum(spent.values()) for part, took in spent.items()}
    return Timed(updates * learner.frames_per_update / (own + served), shares)


def _of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)  # of those that have ended
    return usage.ru_utime + usage.ru_stime


def _flops_a_second() -> float:
    """What one core makes of large square matrix products, the most that can be hoped for."""
    matrix, taken = torch.rand(_SIDE, _SIDE), []
    for _ in range(_ROUNDS):
        start = time.process_time()
        torch.matmul(matrix, matrix)
        taken.append(time.process_time() - start)
    return 2 * _SIDE**3 / min(taken)


def product_bound(settings: Settings) -> float:
    """Steps per CPU-second if there were only the matrix products of the agent's network, as fast as large ones.

    Every step is seen once in play and once in each epoch, where the way back costs twice the way there.
    """
    forward = forward_flops(TwoHeadedAgent(GRID.shape, len(ACTIONS), settings.network), GRID.shape)
    return _flops_a_second() / (forward * (1 + 3 * settings.epochs))


def _row(form: str, timed: Timed, name: str = "") -> list[Figure]:
    name = name or form
    split = [Figure(f"{name}: {part}", 100 * share, "% of time") for part, share in timed.shares.items() if share]
    times = timed.rate / ORIGINAL[form]
    return [Figure(name, timed.rate, "steps/CPU-s"), Figure(f"{name} / the original", times, "x"), *split]


def _goals(settings: Settings, pooling: Pooling) -> list[Figure]:
    """BK-Goal, read by our own language model, and how often it had to read."""
    embed = Embedder(load_encoder(resolve_model("quick-t5-s0")))
    potential = GoalPotential(_library(), embed, pooling=pooling)
    timed = _timed(nullcontext(potential), settings, _UPDATES)
    name = f"BK-Goal, {pooling} embedded"
    spared = 1 - embed.misses / (2 * potential.windows)  # two texts a step
    return [*_row("BK-Goal", timed, name), Figure(f"{name}: spared by the cache", 100 * spared, "% of texts")]


def bench_training() -> list[Figure]:
    """The rows, each beside the original's; for phi = 0 the share of the bound that the matrix products set."""
    torch.set_num_threads(1)
    plain, curious = Settings(), Settings.model_validate(COLLECTION)
    figures = _row("phi = 0", _timed(_potential("phi = 0"), plain, _UPDATES))
    bound = product_bound(plain)
    figures += [
        Figure("matrix products of the network alone", bound, "steps/CPU-s"),
        Figure("phi = 0: share of that bound", 100 * figures[0].value / bound, "%"),
    ]
    for form, settings in (("BK-Code", plain), ("BK-Pref", plain), ("RND", curious)):
        figures += _row(form, _timed(_potential(form), settings, _UPDATES))
    return [*figures, *_goals(plain, "texts"), *_goals(plain, "sentences")]
