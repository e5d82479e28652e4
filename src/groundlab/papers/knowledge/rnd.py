"""Collection: a curious agent plays a world without a task of ours; episodes are recorded as it gets better.

    groundlab run rnd --world BabyAI-Text-GoToLocal-Pretraining-S20 --seed 0 --out DIR      DIR/dataset is labelled
    groundlab run rnd --world Crafter-Text-Reward --seed 0 --out DIR

After the first update, then every `record_every` steps and at the end, the current policy plays some episodes, with
chance (docs/papers/knowledge-method.md#s2). Each snapshot's episodes are on disk before training goes on, so a run that
was killed continues.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groundlab.core import storage
from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.run import Run, RunSpec
from groundlab.core.seeding import generator
from groundlab.learning.ppo import sample_actions
from groundlab.papers.knowledge.agent import evaluate_policy
from groundlab.papers.knowledge.captions import readable
from groundlab.papers.knowledge.dataset import (
    Dataset,
    Episode,
    count_visits,
    crafter_progress,
    visited_share,
    write,
    write_coverage,
)
from groundlab.papers.knowledge.networks import TwoHeadedAgent
from groundlab.papers.knowledge.observations import CRAFTER, adapter_for
from groundlab.papers.knowledge.ppo import PPO
from groundlab.papers.knowledge.settings import CollectionSettings
from groundlab.papers.training import Evaluation, Learner

Settings = CollectionSettings


def schedule(frames: int, batch: int, every: int) -> list[int]:
    """The updates after which episodes are recorded: the first, those `every` steps apart, the last."""
    last, apart = math.ceil(frames / batch), math.ceil(every / batch)
    return [*range(1, last, apart), last]


def make_learner(spec: RunSpec, run: Run | None = None) -> "CollectionLearner":
    return CollectionLearner(spec)


class CollectionLearner(PPO, Learner):
    """Trains, records at the scheduled updates, then stores all episodes as one dataset in the run's folder."""

    def __init__(self, spec: RunSpec):
        self._spec, settings = spec, Settings(**spec.settings)
        super().__init__(spec.world, spec.seed, settings)
        self._collection = settings
        self._schedule = schedule(settings.frames, self.frames_per_update, settings.record_every)
        self.updates = self._schedule[-1]

    def train_step(self, number: int) -> dict[str, Any]:
        return {"frames": number * self.frames_per_update, **super().train_step(number)}

    def logged(self, run: Run, number: int, record: dict[str, Any]) -> None:
        if number not in self._schedule:
            return
        rng = generator(self._spec.seed, "recording", number)
        layouts = rng.integers(*TRAINING_LAYOUTS, self._collection.record_episodes).tolist()
        episodes = record_episodes(self.agent, self._spec.world, layouts, record["frames"], rng)
        write(run.folder / "snapshots" / str(number), episodes, self._about())

    def evaluate(self) -> list[Evaluation]:
        return evaluate_policy(self.agent, self._spec.world, self._spec.seed, self._collection.layouts)

    def finish(self, run: Run) -> None:
        parts = [Dataset(run.folder / "snapshots" / str(update)) for update in self._schedule]
        episodes = [part.episode(number) for part in parts for number in range(len(part))]
        write_with_coverage(run.folder / "dataset", episodes, self._about())

    def _about(self) -> dict[str, Any]:
        """What the card of a dataset says of its making."""
        spec, defaults = self._spec, Settings().model_dump(mode="json")
        options = [f"--set {name}={value}" for name, value in spec.settings.items() if value != defaults[name]]
        recipe = " ".join(["groundlab run rnd", f"--world {spec.world}", f"--seed {spec.seed}", *options, "--out DIR"])
        return {"world": spec.world, "seed": spec.seed, "recipe": recipe, "settings": spec.settings}


@torch.no_grad()
def record_episodes(
    agent: TwoHeadedAgent, world: str, layouts: list[int], snapshot: int, rng: np.random.Generator
) -> list[Episode]:
    """One whole episode of each layout, played with chance. snapshot: frames that the agent has learnt from."""
    adapter = adapter_for(world)
    envs = adapter.make(world, len(layouts), "disabled")
    current = adapter.view(envs.reset(seed=layouts)[0])
    views, alive, actions, rewards, ends = [readable(current)], np.ones(len(layouts), bool), [], [], []
    while alive.any():
        actions.append(sample_actions(agent.look(current).logits, rng))
        observations, paid, terminated, truncated, _ = envs.step(actions[-1])
        current = adapter.view(observations)
        views.append(readable(current).copy())
        rewards.append(paid)
        ends.append(np.stack([terminated & alive, truncated & alive]))
        alive = alive & ~(terminated | truncated)
    shown, taken, earned, ended = (np.stack(steps) for steps in (views, actions, rewards, ends))
    lengths = ended.any(1).argmax(0) + 1
    return [
        Episode(
            shown[: length + 1, env],
            taken[:length, env].astype(np.uint8),
            earned[:length, env].astype(np.float32),
            bool(ended[length - 1, 0, env]),
            bool(ended[length - 1, 1, env]),
            layout,
            snapshot,
        )
        for env, (layout, length) in enumerate(zip(layouts, lengths.tolist(), strict=True))
    ]


def write_with_coverage(folder: Path, episodes: list[Episode], about: dict[str, Any]) -> None:
    """Write a dataset whose card also says how much of the rooms each snapshot's agents have walked through, and of
    Crafter's what they have achieved."""
    card = write(folder, episodes, about)
    facts: dict[str, dict[str, Any]]
    if adapter_for(about["world"]) is CRAFTER:
        facts = {"cells_visited": {}, "achievements": {}}
        for snapshot in sorted({episode.snapshot for episode in episodes}):
            mine = [episode for episode in episodes if episode.snapshot == snapshot]
            layouts, actions = [episode.layout for episode in mine], [episode.actions for episode in mine]
            progress = crafter_progress(about["world"], layouts, actions)
            facts["cells_visited"][str(snapshot)] = progress.cells
            facts["achievements"][str(snapshot)] = progress.achievements
    else:
        visits = count_visits(Dataset(folder))
        write_coverage(folder, visits)
        facts = {"cells_visited": {str(snapshot): visited_share(counts) for snapshot, counts in visits.items()}}
    storage.write_json(folder / "card.json", {**card, **facts})
