"""How fast the agents of the papers learn, on this machine; `groundlab bench training --only PAPER` times one paper's.

    mediator     PPO iterations a second of one process, and the evaluation of three baselines on two
    glam         an update of the shipped model's agent by one process and by two, a thread each, by the clock: 1,024
                 frames of GoToLocalS8N4, 24 gradient steps of 128 prompts
    knowledge    the original's network and batch on RedBall-S20, in CPU seconds of one thread, the sandbox's server
                 included: each form of knowledge, how its time is split, and the share that the network's matrix
                 products would need by themselves

The reasoning agents are in generation.py.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch

from groundlab.assets import resolve_model
from groundlab.bench.measurement import Measurement, cpu_seconds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Progress, Run, RunSpec
from groundlab.lab.machine import ONE_THREAD
from groundlab.language.sentence_embedding import Embedder, load_encoder
from groundlab.learning.checkpoints import seeded_construction
from groundlab.papers import registry
from groundlab.papers.knowledge import bk_goal, scripted
from groundlab.papers.knowledge.bk_code import CodePotential
from groundlab.papers.knowledge.bk_goal import GoalPotential
from groundlab.papers.knowledge.bk_pref import PreferencePotential, PreferenceTransformer
from groundlab.papers.knowledge.networks import TwoHeadedAgent, forward_flops
from groundlab.papers.knowledge.observations import GRID
from groundlab.papers.knowledge.potentials import Potential, Zero
from groundlab.papers.knowledge.ppo import PPO
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.settings import COLLECTION, Pooling, PPOSettings
from groundlab.worlds.codes import ACTIONS

WORLD = "BabyAI-Text-GoToLocal-RedBall-S20"
_UPDATES = 3  # timed, after one that is not
_SIDE, _ROUNDS = 1024, 20  # of matrices, and how often they are multiplied
_PROGRAM = """def compute_reward(obs, past_obs, past_actions):
    return float((past_actions == 2).mean()), {}
"""
_CAPTIONS = ("You see a red ball 2 steps forward", "You see a wall 1 step forward", "You see a blue key 1 step left")
_DOOR_KEY_WORLDS = ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey")
_WARM_UP, _ITERATIONS = 5, 45
_GLAM_UPDATES = 4  # the first warms up
_RUN = ("run", "glam", "--world=BabyAI-GoToLocalS8N4-v0", f"--set=iterations={_GLAM_UPDATES}")
_SHORT = ("--set=layouts=0-0", "--set=fixed_mission=''")
_LAUNCH = ("--multi_gpu", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0")


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


def _timed(potential: AbstractContextManager[Potential], settings: PPOSettings, updates: int) -> Timed:
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
    matrix = torch.rand(_SIDE, _SIDE)
    return 2 * _SIDE**3 / min(cpu_seconds(lambda: torch.matmul(matrix, matrix)) for _ in range(_ROUNDS))


def product_bound(settings: PPOSettings) -> float:
    """Steps per CPU-second if there were only the matrix products of the agent's network, as fast as large ones.

    Every step is seen once in play and once in each epoch, where the backward pass costs twice the forward pass.
    """
    forward = forward_flops(TwoHeadedAgent(GRID.shape, len(ACTIONS), settings.network), GRID.shape)
    return _flops_a_second() / (forward * (1 + 3 * settings.epochs))


def _row(name: str, timed: Timed) -> list[Measurement]:
    split = [Measurement(f"{name}: {part}", 100 * share, "% of time") for part, share in timed.shares.items() if share]
    return [Measurement(name, timed.rate, "steps/CPU-s"), *split]


def _goals(settings: PPOSettings, pooling: Pooling) -> list[Measurement]:
    """BK-Goal, read by our own language model, and how often it had to read."""
    embed = Embedder(load_encoder(resolve_model("quick-t5-s0")))
    potential = GoalPotential(_library(), embed, pooling=pooling)
    timed = _timed(nullcontext(potential), settings, _UPDATES)
    name = f"BK-Goal, {pooling} embedded"
    spared = 1 - embed.misses / (2 * potential.windows)  # two texts a step
    return [*_row(name, timed), Measurement(f"{name}: spared by the cache", 100 * spared, "% of texts")]


def bench_knowledge() -> list[Measurement]:
    """The rows, each beside the original's; for phi = 0 the share of the bound that the matrix products set."""
    plain, curious = PPOSettings(), PPOSettings.model_validate(COLLECTION)
    figures = _row("phi = 0", _timed(_potential("phi = 0"), plain, _UPDATES))
    bound = product_bound(plain)
    figures += [
        Measurement("matrix products of the network alone", bound, "steps/CPU-s"),
        Measurement("phi = 0: share of that bound", 100 * figures[0].value / bound, "%"),
    ]
    for form, settings in (("BK-Code", plain), ("BK-Pref", plain), ("RND", curious)):
        figures += _row(form, _timed(_potential(form), settings, _UPDATES))
    return [*figures, *_goals(plain, "texts"), *_goals(plain, "sentences")]


def bench_glam() -> list[Measurement]:
    """Seconds an update takes one process and two, and how much faster two are."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = (_update_seconds(count, Path(folder) / str(count)) for count in (1, 2))
    return [
        Measurement("glam, an update of 1,024 frames, one process", one, "s"),
        Measurement("glam, the same, two processes", two, "s"),
        Measurement("glam, one process / two", one / two, "x"),
    ]


def _update_seconds(processes: int, folder: Path) -> float:
    """The mean over all updates of a run but the first."""
    launcher = ["-m", "accelerate.commands.launch", *_LAUNCH, f"--num_processes={processes}", "--module", "groundlab"]
    command = [sys.executable, *(launcher if processes > 1 else ["-m", "groundlab"]), *_RUN, *_SHORT, f"--out={folder}"]
    ended = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True)
    if ended.returncode:
        raise GroundlabError(f"the timed run failed: {(ended.stderr.strip().splitlines() or ['no message'])[-1]}")
    lines = (folder / "timing.jsonl").read_text().splitlines()
    marks = [json.loads(line)["seconds"] for line in lines]
    return (marks[-1] - marks[0]) / (len(marks) - 1)


def _iterations_per_second(world: str) -> float:
    """PPO iterations a second of one process with one thread, after a warm-up."""
    settings = registry.resolve_settings("mediator", world, {"iterations": _ITERATIONS + 1, "test_every": 1000})
    marks: dict[int, float] = {}

    def mark(progress: Progress) -> None:
        marks[progress.step] = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        spec = RunSpec(method="mediator", world=world, seed=0, settings=settings)
        registry.execute(Run(Path(folder), spec, report=mark))
    return (_ITERATIONS - _WARM_UP) / (marks[_ITERATIONS] - marks[_WARM_UP])


def _evaluate_world(world: str) -> None:
    for method in ("hard-coded", "always", "random"):
        settings = registry.resolve_settings(method, world, {})
        registry.evaluate(registry.Request(method, world, 0, settings))


def bench_mediator() -> list[Measurement]:
    """Training speed, and 100 layouts x 4 worlds x 3 baselines on two processes (started and warmed up before)."""
    figures = [
        Measurement(f"mediator on {world}, one process", _iterations_per_second(world), "PPO iterations/s")
        for world in ("SimpleDoorKey", "ColoredDoorKey")
    ]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(_evaluate_world, _DOOR_KEY_WORLDS))
        start = time.perf_counter()
        list(pool.map(_evaluate_world, _DOOR_KEY_WORLDS))
        seconds = time.perf_counter() - start
    return [*figures, Measurement("100 layouts x 4 worlds x 3 baselines, two processes", seconds, "s")]
