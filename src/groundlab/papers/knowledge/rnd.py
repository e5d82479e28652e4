"""Collection: a curious agent plays a world without a task of ours, and its episodes are kept as it gets better.

    groundlab run rnd --world BabyAI-Text-GoToLocal-Pretraining-S20 --seed 0 --out DIR      DIR/dataset is labelled
    groundlab run rnd --world Crafter-Text-Reward --seed 0 --out DIR

After the first update, then every `record_every` steps and at the end, the policy of the moment plays some episodes,
with chance (spec background-knowledge 2). Each snapshot's episodes are on disk before training goes on; a run that was
killed continues. Read next: `learner.py`, `dataset.py`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field

from groundlab.core import storage
from groundlab.core.run import Run
from groundlab.core.schema import Layouts
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.papers.knowledge import dataset
from groundlab.papers.knowledge.agent import examine
from groundlab.papers.knowledge.captions import readable
from groundlab.papers.knowledge.dataset import Dataset, Episode, reached, write
from groundlab.papers.knowledge.networks import TwoHeadedAgent
from groundlab.papers.knowledge.observations import CRAFTER, WORLDS, adapter_for, normalised  # noqa: F401 - WORLDS is for the registry
from groundlab.papers.knowledge.ppo import TRAINING_LAYOUTS_FROM, Learner, draw
from groundlab.papers.knowledge.settings import COLLECTION
from groundlab.papers.knowledge.settings import Settings as LearnerSettings
from groundlab.papers.method import Request


class Settings(LearnerSettings):
    """What collection takes besides; the paper's figures."""

    frames: int = Field(default=5_000_000, ge=1)
    """Steps of all environments together; the last update is a whole one."""
    record_every: int = Field(default=500_000, ge=1)
    record_episodes: int = Field(default=50, ge=1)
    layouts: Layouts = "0-99"
    """Test layouts, "first-last"."""
    reward_scale: float = Field(default=COLLECTION["reward_scale"], gt=0)
    curiosity: float = Field(default=COLLECTION["curiosity"], ge=0)
    earned: float = Field(default=COLLECTION["earned"], ge=0)


def schedule(frames: int, batch: int, every: int) -> list[int]:
    """The updates after which episodes are recorded: the first, those `every` steps apart, the last."""
    last = -(-frames // batch)
    updates = [1]
    while updates[-1] < last:
        updates.append(min(last, updates[-1] + -(-every // batch)))
    return updates


@torch.no_grad()
def record(agent: TwoHeadedAgent, world: str, layouts: list[int], snapshot: int, rng: np.random.Generator):
    """One whole episode of each layout, played with chance: a list of `dataset.Episode`."""
    senses = adapter_for(world)
    envs = senses.make(world, len(layouts), "disabled")
    seen = senses.view(envs.reset(seed=layouts)[0])
    views, alive, moves, paid, ends = [readable(seen)], np.ones(len(layouts), bool), [], [], []
    while alive.any():
        actions = draw(agent(torch.from_numpy(normalised(seen))).logits, rng)
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        seen = senses.view(observations)
        for kept, new in ((views, readable(seen).copy()), (moves, actions), (paid, rewards)):
            kept.append(new)
        ends.append(np.stack([terminated & alive, truncated & alive]))
        alive = alive & ~(terminated | truncated)
    return [_episode(env, layouts[env], snapshot, views, moves, paid, np.stack(ends)) for env in range(len(layouts))]


def _episode(env: int, layout: int, snapshot: int, views: list, moves: list, paid: list, ends: np.ndarray) -> Episode:
    """What environment `env` did until it ended. ends: bool [T, 2, B], where each ended by success and by time."""
    last = int(ends[:, :, env].any(1).argmax())
    terminated, truncated = ends[last, :, env].tolist()
    return Episode(
        np.stack([view[env] for view in views[: last + 2]]),
        np.array([actions[env] for actions in moves[: last + 1]], np.uint8),
        np.array([rewards[env] for rewards in paid[: last + 1]], np.float32),
        terminated,
        truncated,
        layout,
        snapshot,
    )


def execute(run: Run) -> None:
    """Train, record at the scheduled updates, then store all episodes as one dataset in `run.folder`."""
    settings = Settings(**run.spec.settings)
    learner = Learner(run.spec.world, run.spec.seed, settings)
    checkpoint = run.restore()
    if checkpoint is not None:
        learner.load_state(checkpoint.files)
    batch = learner.frames_per_update
    updates = schedule(settings.frames, batch, settings.record_every)
    for iteration in range(checkpoint.step + 1 if checkpoint else 1, updates[-1] + 1):
        figures = learner.improve(iteration)
        run.log({"iteration": iteration, "frames": iteration * batch, **figures})
        if iteration in updates:
            _record_snapshot(run, learner.agent, iteration, iteration * batch, settings)
        shown = {name: figures[name] for name in ("success", "entropy") if name in figures}
        run.advance(iteration, updates[-1], learner.state, **shown)
    parts = [Dataset(run.folder / "snapshots" / str(update)) for update in updates]
    episodes = [part.episode(number) for part in parts for number in range(len(part))]
    store(run.folder / "dataset", episodes, _about(run))
    run.write_evaluation(examine(learner.agent, run.spec.world, run.spec.seed, settings.layouts))


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts: the row RND."""
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    settings = Settings(**request.settings)
    learner = Learner(request.world, request.seed, settings)
    checkpoints.unpack(request.checkpoint.files, learner.networks)
    return examine(learner.agent, request.world, request.seed, settings.layouts)


def _record_snapshot(run: Run, agent: TwoHeadedAgent, update: int, frames: int, settings: Settings) -> None:
    rng = generator(run.spec.seed, "recording", update)
    layouts = rng.integers(TRAINING_LAYOUTS_FROM, 2**31, settings.record_episodes).tolist()
    write(run.folder / "snapshots" / str(update), record(agent, run.spec.world, layouts, frames, rng), _about(run))


def store(folder: Path, episodes: list[Episode], about: dict[str, Any]) -> None:
    """Write a dataset whose card also says how much of the rooms each snapshot's agents have walked through, and of
    Crafter's what they have achieved."""
    card = write(folder, episodes, about)
    if adapter_for(about["world"]) is CRAFTER:
        storage.write_json(folder / "card.json", {**card, **_reached(about["world"], episodes)})
        return
    visits = dataset.replayed(Dataset(folder))
    dataset.store(folder, visits)
    shares = {str(snapshot): dataset.share_of_cells(counts) for snapshot, counts in visits.items()}
    storage.write_json(folder / "card.json", {**card, "cells_visited": shares})


def _reached(world: str, episodes: list[Episode]) -> dict[str, Any]:
    """What the lives of each snapshot came to, by snapshot."""
    facts: dict[str, dict[str, Any]] = {"cells_visited": {}, "achievements": {}}
    for snapshot in sorted({episode.snapshot for episode in episodes}):
        mine = [episode for episode in episodes if episode.snapshot == snapshot]
        came_to = reached(world, [episode.layout for episode in mine], [episode.actions for episode in mine])
        facts["cells_visited"][str(snapshot)] = came_to.cells
        facts["achievements"][str(snapshot)] = came_to.achievements
    return facts


def _about(run: Run) -> dict[str, Any]:
    spec = run.spec
    plain = Settings().model_dump(mode="json")
    given = [f"--set {name}={value}" for name, value in spec.settings.items() if value != plain[name]]
    recipe = " ".join(["groundlab run rnd", f"--world {spec.world}", f"--seed {spec.seed}", *given, "--out DIR"])
    return {"world": spec.world, "seed": spec.seed, "recipe": recipe, "settings": spec.settings}
