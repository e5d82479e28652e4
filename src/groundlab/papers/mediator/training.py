"""The training loop that both learning agents share: collect ten episodes, update, test now and then, checkpoint.

A `Learner` says how to play; this file turns its episodes into a PPO batch and its figures into records. Everything
random is drawn from a generator of (seed, purpose, iteration), so a checkpoint holds weights, optimizer moments and
the counters below, and a resumed run is the uninterrupted one bit for bit. Read next: `learning/ppo.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from groundlab.core.run import Run
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints, ppo
from groundlab.learning.returns import discounted, gae
from groundlab.papers.mediator.episodes import Episode
from groundlab.papers.mediator.network import FrameNetwork
from groundlab.papers.mediator.settings import TRAINING_LAYOUTS_FROM, TrainingSettings

TAGS = {
    "test_return": "Test/Return",
    "test_game_return": "Test/Game Return",
    "test_steps": "Test/Mean Eplen",
    "test_interactions": "Test/Comm",
    "return": "Train/Return Mean",
    "return_std": "Train/Return Std",
    "game_return": "Train/Game Return Mean",
    "game_return_std": "Train/Game Return Std",
    "steps": "Train/Eplen",
    "success": "Train/Success Rate",
    "loss": "Train/Loss",
    "entropy": "Train/Mean Entropy",
}


class Events:
    """Writes the records of a run as scalars."""

    def __init__(self, folder: Path):
        self._writer = SummaryWriter(str(folder))

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def add(self, iteration: int, record: dict[str, Any]) -> None:
        """One scalar a tag that the record has a figure for."""
        for name, tag in TAGS.items():
            if name in record:
                self._writer.add_scalar(tag, record[name], iteration)


LAYOUTS_END = 2**31


@dataclass
class Trajectory:
    """The decisions of one episode, as the update needs them."""

    episode: Any  # has steps, rewards, finished, summary()
    inputs: np.ndarray  # float32 [T, 10, 10, C]
    actions: np.ndarray  # int64 [T]
    log_probs: np.ndarray  # float32 [T]
    values: np.ndarray  # float32 [T]
    last_value: float  # of the observation after the last step; 0 when the door is open


class Learner(Protocol):
    """A method that learns: how it explores, and how its test is played."""

    network: FrameNetwork

    def collect(self, layouts: list[int], iteration: int) -> tuple[list[Trajectory], Any]:
        """Training trajectories, and one argmax test episode on the last layout."""
        ...

    def test(self) -> list[dict[str, Any]]:
        """Evaluations on the test layouts, sampled and argmax."""
        ...


def training_layouts(seed: int, iteration: int, count: int) -> list[int]:
    """Reset seeds of one iteration, outside the test range (the original's were unseeded, Q24)."""
    rng = generator(seed, "training layouts", iteration)
    return rng.integers(TRAINING_LAYOUTS_FROM, LAYOUTS_END, count).tolist()


def _credit(path: Trajectory, settings: TrainingSettings) -> tuple[Tensor, Tensor]:
    """(advantages, returns) [T] of one trajectory."""
    rewards = torch.tensor(path.episode.rewards, dtype=torch.float32)
    values = torch.from_numpy(path.values)
    if settings.fidelity.advantage == "monte-carlo":
        returns = discounted(rewards, path.last_value, settings.gamma)
        return returns - values, returns
    dones = torch.zeros(len(rewards), 1)
    dones[-1] = float(path.episode.finished)
    last = torch.tensor([path.last_value])
    advantages, returns = gae(rewards[:, None], values[:, None], dones, last, settings.gamma, settings.lam)
    return advantages[:, 0], returns[:, 0]


def make_batch(paths: list[Trajectory], settings: TrainingSettings) -> tuple[ppo.Batch, Tensor]:
    """All decisions of some trajectories as one batch, with their advantages [N]."""
    credits = [_credit(path, settings) for path in paths]

    def joined(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(path, name) for path in paths]))

    returns = torch.cat([returns for _, returns in credits])
    batch = ppo.Batch(joined("inputs"), joined("actions"), joined("log_probs"), joined("values"), returns)
    return batch, torch.cat([advantages for advantages, _ in credits])


def _figures(paths: list[Trajectory], test_episode: Episode, losses: ppo.Losses) -> dict[str, float]:
    """The record of an iteration: the training batch, the one test episode, the losses."""
    rows, test = [path.episode.summary() for path in paths], test_episode.summary()
    names = [name for name in ("interactions", "steps", "success", "return", "game_return") if name in rows[0]]
    figures = {name: float(np.mean([row[name] for row in rows])) for name in names}
    figures |= {f"{name}_std": float(np.std([row[name] for row in rows])) for name in ("return", "game_return")}
    figures |= {"loss": losses.total, "policy_loss": losses.policy, "value_loss": losses.value}
    figures |= {"entropy": losses.entropy}
    return figures | {f"test_{name}": float(test[name]) for name in names}


def learning_rate(settings: TrainingSettings, iteration: int) -> float:
    """The learning rate of an iteration (1 to `iterations`)."""
    constant = settings.anneal_from * settings.iterations
    falling = settings.iterations - constant
    return settings.learning_rate * min(1.0, (settings.iterations - iteration + 1) / falling if falling else 1.0)


def execute(run: Run, settings: TrainingSettings, learner: Learner) -> None:
    """A whole run of a learning method: train, then store both evaluations on the test layouts."""
    with Events(run.folder / "tensorboard") as events:
        train(run, settings, learner, events.add)
    run.write_evaluation(learner.test())


def train(run: Run, settings: TrainingSettings, learner: Learner, watch: Callable[[int, dict[str, Any]], None]) -> None:
    """Train to the end (or to a stop), logging one record an iteration; `watch` sees each record."""
    parameters = list(learner.network.parameters())
    optimizer = torch.optim.Adam(parameters, lr=settings.learning_rate, eps=1e-8, fused=True)
    checkpoint = run.restore()
    facts = {"timesteps": 0}
    if checkpoint is not None:
        facts = checkpoints.unpack(checkpoint.files, learner.network, optimizer)
    seed, start = run.spec.seed, checkpoint.step if checkpoint else 0
    for iteration in range(start + 1, settings.iterations + 1):
        layouts = training_layouts(seed, iteration, settings.trajectories + 1)
        paths, test_episode = learner.collect(layouts, iteration)
        batch, advantages = make_batch(paths, settings)
        rng = generator(seed, "minibatches", iteration)
        optimizer.param_groups[0]["lr"] = learning_rate(settings, iteration)
        losses = ppo.update(learner.network, optimizer, batch, advantages, settings, rng)
        facts["timesteps"] += len(batch.actions)
        record = {"iteration": iteration, "timesteps": facts["timesteps"], **_figures(paths, test_episode, losses)}
        if iteration % settings.test_every == 0 or iteration == settings.iterations:
            record["test"] = {result["policy"]: result["mean"] for result in learner.test()}
        run.log(record)
        watch(iteration, record)
        run.advance(
            iteration,
            settings.iterations,
            lambda: checkpoints.pack(learner.network, optimizer, facts),
            success=record["success"],
            asks=record.get("interactions", 0.0),
        )
