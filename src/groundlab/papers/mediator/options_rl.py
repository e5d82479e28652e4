"""The baseline that never asks: PPO over five options, decided at every step, without any planner.

    options    0 explore, 1 go to the key, 2 go to the door, 3 pick up, 4 toggle
    reward     the world's alone
    network    as the mediator's, with five outputs; it learns in the same way (training.py)

A skill is built anew only when the chosen option changes or the last one is done; an option that is not possible (its
object was never seen, or the key is already carried) costs one no-op. The released code never fills in coordinates, so
its `go to` options are dead (Q9); here the translator is asked at every step.
Source: docs/papers/mediator-method.md#s6.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from groundlab.core.run import Run, RunSpec
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.papers.mediator.episodes import EPISODE_LIMIT, evaluation, make_envs
from groundlab.papers.mediator.network import FrameNetwork, Playing
from groundlab.papers.mediator.search import Translator
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
from groundlab.papers.mediator.training import POLICIES, FrameDifference, PPOLearner, Trajectory
from groundlab.papers.training import Evaluation
from groundlab.worlds import GridVectorEnv
from groundlab.worlds.codes import DOOR, EMPTY, KEY
from groundlab.worlds.view import agent_pose

OPTIONS = ((EXPLORE, None), (GO_TO, "key"), (GO_TO, "door"), (PICK_UP, None), (TOGGLE_OBJECT, None))


@dataclass
class OptionEpisode:
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


class OptionLearner(PPOLearner):
    """Trains the option network."""

    def __init__(self, spec: RunSpec):
        settings = TrainingSettings(**spec.settings)
        with checkpoints.seeded_construction(spec.seed, "option network"):
            network = FrameNetwork(outputs=len(OPTIONS))
        super().__init__(spec, settings, network)
        self._envs = make_envs(spec.world, settings.trajectories + 1)

    def collect(self, layouts: list[int], iteration: int) -> tuple[list[Trajectory], OptionEpisode]:
        greedy = np.arange(len(layouts)) == len(layouts) - 1
        paths = self._play(self._envs, layouts, greedy, iteration)
        return paths[:-1], paths[-1].episode

    def evaluate(self) -> list[Evaluation]:
        """Both policies on the test layouts."""
        layouts = parse_layouts(self._settings.layouts)
        envs, results = make_envs(self._world, len(layouts)), []
        for policy in POLICIES:
            paths = self._play(envs, layouts, np.full(len(layouts), policy == "argmax"), 0)
            results.append(evaluation(policy, [path.episode for path in paths]))
        return results

    def _play(self, envs: GridVectorEnv, layouts: list[int], greedy: np.ndarray, purpose: int) -> list[Trajectory]:
        """One episode on each layout; `greedy` bool [B] says which take the argmax."""
        fidelity = self._settings.fidelity
        skills = SkillSettings(fidelity.explore_avoid, fidelity.goto_ties)
        images = envs.reset(seed=layouts)[0]["image"]
        streams = [generator(self._seed, "episode", purpose, layout) for layout in layouts]
        episodes = [OptionEpisode(*start, skills) for start in zip(layouts, images, streams, strict=True)]
        frames = FrameDifference(fidelity.frame_difference)
        frames.begin(images)
        network = Playing(self.network)
        decisions: list[list[tuple]] = [[] for _ in layouts]
        active, actions = np.arange(len(layouts)), np.zeros(len(layouts), np.int64)
        while active.size:
            inputs = frames.inputs(images, active)
            log_probs, values = network(inputs)
            for k, env in enumerate(active):
                choice = _choose(log_probs[k], episodes[env].rng, bool(greedy[env]))
                actions[env] = episodes[env].act(choice)
                decisions[env].append((inputs[k], choice, log_probs[k, choice], values[k]))
            observations, rewards, terminated, truncated, _ = envs.step(actions)
            images = observations["image"]
            for env in active:
                episodes[env].receive(images[env], float(rewards[env]), bool(terminated[env]))
            active = active[~(terminated | truncated)[active]]
        last = network(frames.inputs(images, np.arange(len(layouts))))[1].tolist()
        return [Trajectory.of(*each) for each in zip(episodes, decisions, last, strict=True)]


def _choose(log_probs: np.ndarray, rng: np.random.Generator, greedy: bool) -> int:
    """An option, by argmax or by inverting the cumulative distribution at one uniform draw."""
    if greedy:
        return int(log_probs.argmax())
    return min(int(np.searchsorted(np.exp(log_probs).cumsum(), rng.random(), side="right")), len(log_probs) - 1)


def make_learner(spec: RunSpec, run: Run | None = None) -> OptionLearner:
    """The learner of a run."""
    return OptionLearner(spec)
