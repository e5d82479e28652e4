"""What the asking network could learn: one of our rules, taught to it by example (our control, no paper has it).

    groundlab run rule-cloning --world SimpleDoorKey --seed 0 --out out/rule-cloning

A rule that reads the network's own input (baselines.py) plays ten episodes an iteration. The network, the same 43,699
weights as the asking policy's, learns by cross-entropy what the rule decided. If it comes to play as the rule does,
what the asking policy misses is a matter of how it is trained, not of what its input or its size can hold.
"""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from groundlab.core.run import Run, RunSpec
from groundlab.core.seeding import generator
from groundlab.learning.devices import send
from groundlab.learning.ppo import minibatches
from groundlab.papers.mediator.agent import AskingLearner
from groundlab.papers.mediator.baselines import FRAME_RULES, FrameAgent
from groundlab.papers.mediator.episodes import Episode, play
from groundlab.papers.mediator.settings import CloningSettings
from groundlab.papers.mediator.training import FrameDifference, learning_rate, training_layouts


class _Demonstration(FrameAgent):
    """Plays by the rule, and remembers the network's inputs [10, 10, C] and the decisions."""

    def __init__(self, settings: CloningSettings):
        super().__init__(FRAME_RULES[settings.rule])
        self._frames = FrameDifference(settings.fidelity.frame_difference)
        self.inputs: list[np.ndarray] = []
        self.decisions: list[np.ndarray] = []

    def begin(self, images: np.ndarray) -> None:
        super().begin(images)
        self._frames.begin(images)

    def decide(self, episodes: list[Episode], active: np.ndarray, images: np.ndarray) -> np.ndarray:
        asks = super().decide(episodes, active, images)
        self.inputs.append(self._frames.inputs(images, active))
        self.decisions.append(asks)
        return asks


class CloningLearner(AskingLearner):
    """Teaches the asking network; it is tested as the asking policy is."""

    shown, settings_of = ("loss", "agreement"), CloningSettings

    def __init__(self, spec: RunSpec):
        self._cloning = CloningSettings(**spec.settings)
        super().__init__(spec)

    def train_step(self, number: int) -> dict[str, Any]:
        """Ten episodes of the rule, then some epochs on its decisions; `agreement` is a share, before they are seen."""
        settings = self._cloning
        layouts = training_layouts(self._seed, number, settings.trajectories + 1)
        teacher = _Demonstration(settings)
        play(self._envs, layouts, teacher, self._rules(number))
        seen = (torch.from_numpy(np.concatenate(each)) for each in (teacher.inputs, teacher.decisions))
        inputs, decisions = (send(each, settings.device) for each in seen)
        decisions = decisions.long()
        with torch.inference_mode():
            agreement = (self.network(inputs)[0].argmax(-1) == decisions).double().mean().item()
        self.optimizer.param_groups[0]["lr"] = learning_rate(settings, number)
        loss = self._fit(inputs, decisions, generator(self._seed, "minibatches", number))
        self.check_loss(loss)
        self._timesteps += len(decisions)
        return self.tested(number, {"timesteps": self._timesteps, "loss": loss, "agreement": agreement})

    def _fit(self, inputs: torch.Tensor, decisions: torch.Tensor, rng: np.random.Generator) -> float:
        """The mean cross-entropy (nats a decision) over the minibatches of all epochs."""
        losses = []
        for index in minibatches(len(decisions), self._cloning.batch_size, rng, self._cloning.epochs):
            loss = functional.cross_entropy(self.network(inputs[index])[0], decisions[index])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return float(np.mean(losses))

    def figures(self, record: dict[str, Any]) -> dict[str, float]:
        return {name: record[name] for name in self.shown}


def make_learner(spec: RunSpec, run: Run | None = None) -> CloningLearner:
    """The learner of a run."""
    return CloningLearner(spec)
