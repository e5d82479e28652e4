"""The mediator: a small network that decides, at every step, whether asking the planner is worth its price.

    question   is there news that would change the plan?
    input      the difference of the last two frames (network.py)
    actions    ask, or go on with the plan; an exhausted plan is renewed in any case
    reward     the world's, less 0.01 for the first ask, 0.06 for one that repeats the plan, 0 for one that changes it
    learning   PPO on ten episodes an iteration, Monte-Carlo returns (training.py)
    test       layouts 0-99, sampled (as the paper's figures suggest) and argmax (as the released code); both are stored

Sources: paper section 4 and appendix A; spec mediator 5. Read next: `episodes.py` (what an ask does).
"""

from functools import partial
from typing import Any

import numpy as np

from groundlab.core.run import Run
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.papers.mediator import training
from groundlab.papers.mediator.episodes import Episode, Rules, evaluation, make_batch, play
from groundlab.papers.mediator.network import CHANNELS, Eye, FrameNetwork, act_without_gradient
from groundlab.papers.mediator.planner import planner_for
from groundlab.papers.mediator.settings import Fidelity, TrainingSettings
from groundlab.papers.mediator.training import Trajectory
from groundlab.papers.method import Request

Settings = TrainingSettings
WORLDS = ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey", "MovingObstacle")
GO_ON, ASK = 0, 1
POLICIES = ("sampled", "argmax")


def build_network(settings: TrainingSettings, seed: int) -> FrameNetwork:
    """The asking network with weights drawn from the run's seed."""
    with checkpoints.seeded_construction(seed, "asking network"):
        return FrameNetwork(outputs=2, channels=CHANNELS * settings.frame_stack)


class AskingAgent:
    """Plays with the network; `greedy` [B] says which episodes take the argmax instead of a sample."""

    def __init__(self, network: FrameNetwork, settings: TrainingSettings, greedy: np.ndarray, keep: bool = False):
        self._network, self._greedy = network, greedy
        self._eye = Eye(settings.fidelity.frame_difference, settings.frame_stack)
        self._kept: list[list[tuple]] | None = [[] for _ in greedy] if keep else None
        self._ask_probabilities: list[np.ndarray] = []

    def begin(self, images: np.ndarray) -> None:
        self._eye.begin(images)

    def decide(self, episodes: list[Episode], active: np.ndarray, images: np.ndarray) -> np.ndarray:
        frames = self._eye.look(images, active)
        log_probs, values = act_without_gradient(self._network, frames)
        self._ask_probabilities.append(np.exp(log_probs[:, ASK]))
        draws = np.array([episode.rng.random() for episode in episodes])
        sampled = draws < self._ask_probabilities[-1]
        asks = np.where(self._greedy[active], log_probs[:, ASK] > log_probs[:, GO_ON], sampled)
        chosen = np.where(asks, log_probs[:, ASK], log_probs[:, GO_ON])
        if self._kept is not None:
            for k, env in enumerate(active):
                self._kept[env].append((frames[k], int(asks[k]), chosen[k], values[k]))
        return asks

    def eagerness(self) -> dict[str, float]:
        """p(ask) over all decisions so far: mean, maximum, and the share of decisions where asking is likelier."""
        p = np.concatenate(self._ask_probabilities)
        return {"p_ask": float(p.mean()), "p_ask_max": float(p.max()), "p_ask_above_half": float((p > 0.5).mean())}

    def last_values(self, images: np.ndarray) -> np.ndarray:
        """Values [B] of the observations that episodes ended with."""
        everyone = np.arange(len(images))
        return act_without_gradient(self._network, self._eye.look(images, everyone))[1]

    def kept(self, env: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(inputs [T, ...], actions [T], log_probs [T], values [T]) of one episode of the batch."""
        assert self._kept is not None
        frames, actions, log_probs, values = zip(*self._kept[env], strict=True)
        return np.stack(frames), np.array(actions), np.array(log_probs), np.array(values)


class AskingLearner:
    """Collects and tests for `training.train`."""

    def __init__(self, world: str, seed: int, settings: TrainingSettings):
        self.network = build_network(settings, seed)
        self._world, self._seed, self._settings = world, seed, settings
        self._planner = planner_for(world, settings)
        self._envs = make_batch(world, settings.trajectories + 1)

    def _rules(self, *purpose: int) -> Rules:
        seed = int(generator(self._seed, "episodes", *purpose).integers(2**62))
        return Rules(self._planner, self._settings.ask_lambda, self._settings.fidelity, seed=seed)

    def collect(self, layouts: list[int], iteration: int) -> tuple[list[Trajectory], Episode]:
        greedy = np.arange(len(layouts)) == len(layouts) - 1
        agent = AskingAgent(self.network, self._settings, greedy, keep=True)
        episodes = play(self._envs, layouts, agent, self._rules(iteration))
        values = agent.last_values(np.stack([episode.image for episode in episodes]))
        paths = [
            Trajectory(episode, *agent.kept(env), 0.0 if episode.finished else float(values[env]))
            for env, episode in enumerate(episodes[:-1])
        ]
        return paths, episodes[-1]

    def test(self, watch=None) -> list[dict[str, Any]]:
        layouts = parse_layouts(self._settings.layouts)
        envs = make_batch(self._world, len(layouts))
        results = []
        for policy in POLICIES:
            greedy = np.full(len(layouts), policy == "argmax")
            agent = AskingAgent(self.network, self._settings, greedy)
            follow = partial(watch, policy) if watch else None
            result = evaluation(policy, play(envs, layouts, agent, self._rules(0), follow))
            results.append({**result, "mean": result["mean"] | agent.eagerness()})
        return results


def execute(run: Run) -> None:
    """Train, then store both evaluations on the test layouts."""
    settings = TrainingSettings(**run.spec.settings)
    training.execute(run, settings, AskingLearner(run.spec.world, run.spec.seed, settings))


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts: sampled and argmax."""
    learner = AskingLearner(request.world, request.seed, TrainingSettings(**request.settings))
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    checkpoints.unpack(request.checkpoint.files, learner.network)
    return learner.test(request.watch)


def untrained_agent(fidelity: Fidelity, seed: int, batch: int) -> AskingAgent:
    """The released code's `random` baseline: the argmax of a network that was never trained (Q10)."""
    settings = TrainingSettings.model_validate({"fidelity": fidelity})
    return AskingAgent(build_network(settings, seed), settings, np.ones(batch, bool))
