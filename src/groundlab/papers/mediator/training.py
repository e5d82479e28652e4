"""How both learning agents train: PPO on ten whole episodes an iteration, a test now and then.

    collect (the agent's)  ->  advantages and returns  ->  network.update  ->  record

Everything random is drawn from a generator of (seed, purpose, iteration), so weights, optimizer moments and the count
of time steps are all that a checkpoint needs, and a resumed run is the uninterrupted one bit for bit.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run, RunSpec
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints, ppo
from groundlab.learning.devices import check_device
from groundlab.learning.returns import discounted, gae
from groundlab.papers.mediator.network import FrameNetwork, update
from groundlab.papers.mediator.settings import TRAINING_LAYOUTS, TrainingSettings
from groundlab.papers.training import Learner

HIGHEST_CODE = 10  # of types, colours, states and headings in an image


class FrameDifference:
    """Network inputs from the frames of a batch of episodes; remembers the last frame.

    "uint8" differences wrap modulo 256 and are not scaled, as in the original (Q2); "signed" ones lie in [-1, 1].
    """

    def __init__(self, difference: str = "uint8"):
        self._difference, self._frames = difference, np.empty(0)

    def begin(self, images: np.ndarray) -> None:
        """New episodes: images uint8 [B, 10, 10, 4]."""
        self._frames = images.copy()

    def inputs(self, images: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Inputs float32 [n, 10, 10, 4] of the `active` [n] episodes; call once a step."""
        now, before = images[active], self._frames[active]
        self._frames[active] = now
        if self._difference == "uint8":
            return (now - before).astype(np.float32)
        return (now.astype(np.float32) - before.astype(np.float32)) / np.float32(HIGHEST_CODE)


POLICIES = ("sampled", "argmax")
"""The ways in which a trained agent is tested."""

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
"""The TensorBoard tag of a metric, as in the released code."""


@dataclass
class Trajectory:
    """The decisions of one episode, as the update needs them."""

    episode: Any  # has steps, rewards, finished, summary()
    inputs: np.ndarray  # float32 [T, 10, 10, C]
    actions: np.ndarray  # int64 [T]
    log_probs: np.ndarray  # float32 [T]
    values: np.ndarray  # float32 [T]
    last_value: float  # of the observation after the last step; 0 when the door is open

    @classmethod
    def of(cls, episode: Any, decisions: list[tuple], last_value: float) -> "Trajectory":
        """From one (input, action, log-probability, value) a step."""
        inputs, actions, log_probs, values = (np.array(column) for column in zip(*decisions, strict=True))
        return cls(episode, inputs, actions, log_probs, values, 0.0 if episode.finished else last_value)


class PPOLearner(Learner):
    """Trains a frame network on whole episodes; its subclasses say how these are played."""

    def __init__(self, spec: RunSpec, settings: TrainingSettings, network: FrameNetwork):
        self._world, self._seed, self._settings = spec.world, spec.seed, settings
        check_device(settings.device)
        self.network, self.updates = network.to(settings.device), settings.iterations
        parameters, fused = list(network.parameters()), settings.device == "cpu"
        self.optimizer = torch.optim.Adam(parameters, lr=settings.learning_rate, eps=1e-8, fused=fused)
        self._timesteps = 0
        self._events: SummaryWriter | None = None

    @abstractmethod
    def collect(self, layouts: list[int], iteration: int) -> tuple[list[Trajectory], Any]:
        """Training trajectories on all layouts but the last, and one argmax test episode on that."""

    def train_step(self, number: int) -> dict[str, Any]:
        """Collect episodes on layouts of this iteration, update, and test every `test_every` iterations."""
        settings = self._settings
        paths, test_episode = self.collect(training_layouts(self._seed, number, settings.trajectories + 1), number)
        batch, advantages = make_batch(paths, settings)
        rng = generator(self._seed, "minibatches", number)
        self.optimizer.param_groups[0]["lr"] = learning_rate(settings, number)
        losses = update(self.network, self.optimizer, batch, advantages, with_entropy(settings, number), rng)
        self.check_loss(losses.total)
        self._timesteps += len(batch.actions)
        stats = episode_stats([path.episode.summary() for path in paths], test_episode.summary(), losses)
        return self.tested(number, {"timesteps": self._timesteps, **stats})

    def check_loss(self, loss: float) -> None:
        """Raises GroundlabError for a loss that is not finite."""
        if not math.isfinite(loss):
            raise GroundlabError(f"the loss is {loss}; lower learning_rate (it is {self._settings.learning_rate:g})")

    def tested(self, number: int, record: dict[str, Any]) -> dict[str, Any]:
        """The record of an iteration, with the means of a test on the test layouts where one is due."""
        settings = self._settings
        if number % settings.test_every and number != settings.iterations:
            return record
        return record | {"test": {result["policy"]: result["mean"] for result in self.evaluate()}}

    def figures(self, record: dict[str, Any]) -> dict[str, float]:
        return {"success": record["success"], "asks": record.get("interactions", 0.0)}

    def logged(self, run: Run, number: int, record: dict[str, Any]) -> None:
        """Write the record's figures as TensorBoard scalars."""
        self._events = self._events or SummaryWriter(str(run.folder / "tensorboard"))
        for name, tag in TAGS.items():
            if name in record:
                self._events.add_scalar(tag, record[name], number)

    def close(self) -> None:
        if self._events:
            self._events.close()

    def state(self) -> Files:
        return checkpoints.pack(self.network, self.optimizer, {"timesteps": self._timesteps})

    def load_state(self, files: Files) -> None:
        self._timesteps = checkpoints.unpack(files, self.network, self.optimizer)["timesteps"]

    def load_weights(self, files: Files) -> None:
        checkpoints.unpack(files, self.network)


def training_layouts(seed: int, iteration: int, count: int) -> list[int]:
    """Reset seeds of one iteration, outside the test range (the original's were unseeded, Q24)."""
    rng = generator(seed, "training layouts", iteration)
    return rng.integers(*TRAINING_LAYOUTS, count).tolist()


def learning_rate(settings: TrainingSettings, iteration: int) -> float:
    """The learning rate of an iteration (1 to `iterations`)."""
    return settings.learning_rate * _falling(settings.anneal_from, settings.iterations, iteration)


def with_entropy(settings: TrainingSettings, iteration: int) -> TrainingSettings:
    """The settings with the entropy bonus of an iteration."""
    share = _falling(settings.entropy_anneal_from, settings.iterations, iteration)
    return settings.model_copy(update={"entropy_coefficient": settings.entropy_coefficient * share})


def _falling(start: float, iterations: int, iteration: int) -> float:
    """1 up to a share of the run, then linearly down; `iterations` is the last and has the least."""
    constant = start * iterations
    falling = iterations - constant
    return min(1.0, (iterations - iteration + 1) / falling if falling else 1.0)


def make_batch(paths: list[Trajectory], settings: TrainingSettings) -> tuple[ppo.Batch, Tensor]:
    """All decisions of some trajectories as one batch, with their advantages [N]."""
    credits = [_credit(path, settings) for path in paths]

    def joined(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(path, name) for path in paths]))

    returns = torch.cat([returns for _, returns in credits])
    batch = ppo.Batch(joined("inputs"), joined("actions"), joined("log_probs"), joined("values"), returns)
    return batch, torch.cat([advantages for advantages, _ in credits])


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


def episode_stats(rows: list[dict[str, Any]], test: dict[str, Any], losses: ppo.Losses) -> dict[str, float]:
    """Means (and two spreads) over the training episodes, the losses, and the one test episode as `test_*`."""
    names = [name for name in ("interactions", "steps", "success", "return", "game_return") if name in rows[0]]
    stats = {name: float(np.mean([row[name] for row in rows])) for name in names}
    stats |= {f"{name}_std": float(np.std([row[name] for row in rows])) for name in ("return", "game_return")}
    stats |= {"loss": losses.total, "policy_loss": losses.policy, "value_loss": losses.value}
    stats |= {"entropy": losses.entropy}
    return stats | {f"test_{name}": float(test[name]) for name in names}
