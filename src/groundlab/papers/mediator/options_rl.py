"""The baseline that never asks: PPO over five options, decided at every step, without any planner.

    options    0 explore, 1 go to the key, 2 go to the door, 3 pick up, 4 toggle
    reward     the world's alone
    network    as the asking network, with five outputs

A skill is built anew only when the chosen option changes or the last one is done; an option that is not possible (its
object was never seen, or the key is already carried) costs one no-op. The released code never fills in coordinates, so
its `go to` options are dead (Q9); here the translator is asked at every step.
Source: spec mediator 6. Read next: `training.py`, the loop shared with `asking.py`.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.papers.mediator import training
from groundlab.papers.mediator.episodes import EPISODE_LIMIT, make_batch, mean_of
from groundlab.papers.mediator.network import CHANNELS, Eye, FrameNetwork, act_without_gradient
from groundlab.papers.mediator.settings import TrainingSettings
from groundlab.papers.mediator.skills import (
    EXPLORE,
    GO_TO,
    NO_OP,
    PICK_UP,
    TOGGLE_OBJECT,
    Option,
    Skill,
    SkillSettings,
    SweepMemory,
    start_skill,
)
from groundlab.papers.mediator.training import Trajectory
from groundlab.papers.mediator.translator import Translator
from groundlab.papers.method import Request
from groundlab.worlds.codes import DOOR, EMPTY, KEY
from groundlab.worlds.view import agent_pose

__all__ = ["WORLDS", "Settings", "evaluate"]

Settings = TrainingSettings
WORLDS = ("SimpleDoorKey",)  # its translator and its five options are this world's (spec 6)
POLICIES = ("sampled", "argmax")
OPTIONS = ((EXPLORE, None), (GO_TO, "key"), (GO_TO, "door"), (PICK_UP, None), (TOGGLE_OBJECT, None))


@dataclass
class Episode:
    """One episode under an option policy."""

    layout: int
    image: np.ndarray
    rng: np.random.Generator
    skills: SkillSettings
    steps: int = 0
    rewards: list[float] = field(default_factory=list)
    finished: bool = False

    def __post_init__(self):
        self._translator, self._memory = Translator("SimpleDoorKey"), SweepMemory(self.rng)
        self._choice, self._skill = -1, None
        self._skill_done = True

    @property
    def success(self) -> bool:
        return self.finished and self.steps < EPISODE_LIMIT

    def act(self, choice: int) -> int:
        """One step of the chosen option; a no-op when it is not possible."""
        self._translator.describe(self.image)
        if choice != self._choice or self._skill_done:
            self._choice, self._skill = choice, self._start(choice)
        self.steps += 1
        if self._skill is None:
            self._skill_done = True
            return NO_OP
        action, self._skill_done = self._skill.step(self.image)
        return action

    def _start(self, choice: int) -> Skill | None:
        action, target = OPTIONS[choice]
        x, y, _ = agent_pose(self.image)
        if target == "key" and self.image[x, y, 0] != EMPTY:
            return None
        codes = {"key": KEY, "door": DOOR, None: EMPTY}
        coordinate = self._translator.coordinates.get(target) if target else None
        skill = start_skill(Option(action, codes[target], coordinate), self.image, self._memory, self.skills)
        return None if skill is None or skill.finished else skill

    def receive(self, image: np.ndarray, reward: float, terminated: bool) -> None:
        """Take in what the action led to."""
        self.image, self.finished = image, terminated
        self.rewards.append(reward)

    def summary(self) -> dict[str, Any]:
        """The row of an evaluation; there are no interactions to count."""
        total = float(np.sum(self.rewards))
        row = {"layout": self.layout, "steps": self.steps, "success": self.success, "opened": self.finished}
        return {**row, "return": total, "game_return": total}


class OptionLearner:
    """Collects and tests for `training.train`."""

    def __init__(self, world: str, seed: int, settings: TrainingSettings):
        with checkpoints.seeded_construction(seed, "option network"):
            self.network = FrameNetwork(outputs=len(OPTIONS), channels=CHANNELS * settings.frame_stack)
        self._world, self._seed, self._settings = world, seed, settings
        self._envs = make_batch(world, settings.trajectories + 1)

    def _play(self, envs, layouts: list[int], greedy: np.ndarray, purpose: int):
        """Finished episodes and, for each, what was decided at every step."""
        fidelity = self._settings.fidelity
        skills = SkillSettings(fidelity.explore_avoid, fidelity.goto_ties)
        images = envs.reset(seed=layouts)[0]["image"]
        streams = [generator(self._seed, "episode", purpose, layout) for layout in layouts]
        everyone = [Episode(*start, skills) for start in zip(layouts, images, streams, strict=True)]
        eye, kept = Eye(fidelity.frame_difference, self._settings.frame_stack), [[] for _ in layouts]
        eye.begin(images)
        active, actions = np.arange(len(layouts)), np.zeros(len(layouts), np.int64)
        while active.size:
            frames = eye.look(images, active)
            log_probs, values = act_without_gradient(self.network, frames)
            for k, env in enumerate(active):
                choice = _choose(log_probs[k], everyone[env].rng, bool(greedy[env]))
                actions[env] = everyone[env].act(choice)
                kept[env].append((frames[k], choice, log_probs[k, choice], values[k]))
            observations, rewards, terminated, truncated, _ = envs.step(actions)
            images = observations["image"]
            for env in active:
                everyone[env].receive(images[env], float(rewards[env]), bool(terminated[env]))
            active = active[~(terminated | truncated)[active]]
        last_values = act_without_gradient(self.network, eye.look(images, np.arange(len(layouts))))[1]
        return everyone, kept, last_values

    def collect(self, layouts: list[int], iteration: int) -> tuple[list[Trajectory], Episode]:
        greedy = np.arange(len(layouts)) == len(layouts) - 1
        episodes, kept, last_values = self._play(self._envs, layouts, greedy, iteration)
        paths = []
        for episode, steps, last in zip(episodes[:-1], kept, last_values, strict=False):
            frames, choices, log_probs, values = (np.array(column) for column in zip(*steps, strict=True))
            bootstrap = 0.0 if episode.finished else float(last)
            paths.append(Trajectory(episode, frames, choices, log_probs, values, bootstrap))
        return paths, episodes[-1]

    def test(self) -> list[dict[str, Any]]:
        layouts = parse_layouts(self._settings.layouts)
        envs, results = make_batch(self._world, len(layouts)), []
        for policy in POLICIES:
            episodes, _, _ = self._play(envs, layouts, np.full(len(layouts), policy == "argmax"), 0)
            rows = [episode.summary() for episode in episodes]
            results.append({"policy": policy, "mean": mean_of(rows), "rows": rows})
        return results


def _choose(log_probs: np.ndarray, rng: np.random.Generator, greedy: bool) -> int:
    """An option, by argmax or by inverting the cumulative distribution at one uniform draw."""
    if greedy:
        return int(log_probs.argmax())
    return min(int(np.searchsorted(np.exp(log_probs).cumsum(), rng.random(), side="right")), len(log_probs) - 1)


def execute(run: Run) -> None:
    """Train, then store both evaluations on the test layouts."""
    settings = TrainingSettings(**run.spec.settings)
    training.execute(run, settings, OptionLearner(run.spec.world, run.spec.seed, settings))


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts: sampled and argmax."""
    if request.watch:
        raise GroundlabError("never asks nobody, so there is no dialogue; leave out --show and --record")
    learner = OptionLearner(request.world, request.seed, TrainingSettings(**request.settings))
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    checkpoints.unpack(request.checkpoint.files, learner.network)
    return learner.test()
