"""The mediator: a small network that decides, at every step, whether asking the planner is worth its price.

    groundlab run mediator --world SimpleDoorKey --seed 0 --out out/mediator

    question   is there news that would change the plan?
    input      the difference of the last two frames (training.py)
    actions    ask, or go on with the plan; an exhausted plan is renewed in any case (episodes.py)
    reward     the world's, less 0.01 for the first ask, 0.06 for one that repeats the plan, 0 for one that changes it
    learning   PPO on ten episodes an iteration, Monte-Carlo returns (training.py)
    test       layouts 0-99, sampled (as the paper's figures suggest) and argmax (as the released code); both are stored

Sources: paper section 4 and appendix A; docs/papers/mediator-method.md#s5.
"""

import numpy as np
import torch
from torch import Tensor

from groundlab.core.run import Run, RunSpec
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.papers.mediator.episodes import Episode, Rules, evaluation, make_envs, play
from groundlab.papers.mediator.network import FrameNetwork, Playing
from groundlab.papers.mediator.planner import planner_for
from groundlab.papers.mediator.settings import AskingSettings, Fidelity
from groundlab.papers.mediator.skills import UNKNOWN
from groundlab.papers.mediator.training import POLICIES, FrameDifference, PPOLearner, Trajectory
from groundlab.papers.stage import Stage
from groundlab.papers.training import Evaluation
from groundlab.worlds import GridVectorEnv

GO_ON, ASK = 0, 1
OPTIONS = 2 + UNKNOWN  # none, and the original's option codes


class OptionHeads(FrameNetwork):
    """A pair of logits for each option of the plan (paper, appendix A): the input's last channel holds its number."""

    def __init__(self):
        super().__init__(outputs=2 * OPTIONS)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        logits, values = super().forward(frames[..., :-1])
        options = frames[:, 0, 0, -1].long()
        return logits.view(-1, OPTIONS, 2)[torch.arange(len(options), device=options.device), options], values


def build_network(settings: AskingSettings, seed: int) -> FrameNetwork:
    """The asking network with weights drawn from the run's seed."""
    with checkpoints.seeded_construction(seed, "asking network"):
        return OptionHeads() if settings.heads == "by-option" else FrameNetwork(2)


def with_options(inputs: np.ndarray, episodes: list[Episode]) -> np.ndarray:
    """Inputs [n, 10, 10, C + 1]: a channel more, of the number of the option that is carried out; 0 where none is."""
    numbers = [0 if episode.skill_name is None else 1 + episode.skill_name.action for episode in episodes]
    shape = (*inputs.shape[:-1], 1)
    channel = np.broadcast_to(np.array(numbers, np.float32)[:, None, None, None], shape)
    return np.concatenate([inputs, channel], axis=-1)


class AskingAgent:
    """Plays a batch of episodes with the network; it remembers what it decided.

    greedy: bool [B], the episodes that take the argmax instead of a sample.
    """

    def __init__(self, network: FrameNetwork, settings: AskingSettings, greedy: np.ndarray):
        self._network, self._greedy = Playing(network), greedy
        self._by_option = settings.heads == "by-option"
        self._frames = FrameDifference(settings.fidelity.frame_difference)
        self._decisions: list[list[tuple]] = [[] for _ in greedy]
        self._ask_probabilities: list[np.ndarray] = []

    def begin(self, images: np.ndarray) -> None:
        self._frames.begin(images)

    def decide(self, episodes: list[Episode], active: np.ndarray, images: np.ndarray) -> np.ndarray:
        inputs = self._inputs(images, active, episodes)
        log_probs, values = self._network(inputs)
        self._ask_probabilities.append(np.exp(log_probs[:, ASK]))
        draws = np.array([episode.rng.random() for episode in episodes])
        sampled = draws < self._ask_probabilities[-1]
        asks = np.where(self._greedy[active], log_probs[:, ASK] > log_probs[:, GO_ON], sampled)
        chosen = np.where(asks, log_probs[:, ASK], log_probs[:, GO_ON])
        for k, env in enumerate(active):
            self._decisions[env].append((inputs[k], int(asks[k]), chosen[k], values[k]))
        return asks

    @property
    def last_probabilities(self) -> np.ndarray:
        """p(ask) [n] of the episodes that were decided for last."""
        return self._ask_probabilities[-1]

    def _inputs(self, images: np.ndarray, active: np.ndarray, episodes: list[Episode]) -> np.ndarray:
        inputs = self._frames.inputs(images, active)
        return with_options(inputs, episodes) if self._by_option else inputs

    def ask_statistics(self) -> dict[str, float]:
        """p(ask) over all decisions so far: mean, maximum, and the share of decisions where asking is likelier."""
        p = np.concatenate(self._ask_probabilities)
        return {"p_ask": float(p.mean()), "p_ask_max": float(p.max()), "p_ask_above_half": float((p > 0.5).mean())}

    def trajectories(self, episodes: list[Episode]) -> list[Trajectory]:
        """The decisions of finished episodes; where a time limit ended one, the value of its last image follows."""
        images = np.stack([episode.image for episode in episodes])
        inputs = self._inputs(images, np.arange(len(images)), episodes)
        values = self._network(inputs)[1]
        return [
            Trajectory.of(episode, decisions, float(value))
            for episode, decisions, value in zip(episodes, self._decisions, values, strict=True)
        ]


class AskingLearner(PPOLearner):
    """Trains the asking network; every episode of an iteration has a stream of its own."""

    settings_of: type[AskingSettings] = AskingSettings

    def __init__(self, spec: RunSpec):
        settings = self.settings_of(**spec.settings)
        super().__init__(spec, settings, build_network(settings, spec.seed))
        self._asking = settings
        self._planner = planner_for(spec.world, settings)
        self._envs = make_envs(spec.world, settings.trajectories + 1)
        self._test_envs: GridVectorEnv | None = None

    def _rules(self, iteration: int) -> Rules:
        seed = int(generator(self._seed, "episodes", iteration).integers(2**62))
        return Rules(self._planner, self._settings.ask_lambda, self._settings.fidelity, seed=seed)

    def collect(self, layouts: list[int], iteration: int) -> tuple[list[Trajectory], Episode]:
        greedy = np.arange(len(layouts)) == len(layouts) - 1
        agent = AskingAgent(self.network, self._asking, greedy)
        episodes = play(self._envs, layouts, agent, self._rules(iteration))
        return agent.trajectories(episodes)[:-1], episodes[-1]

    def evaluate(self) -> list[Evaluation]:
        """Both policies on the test layouts, with p(ask) beside the means."""
        layouts = parse_layouts(self._settings.layouts)
        self._test_envs = self._test_envs or make_envs(self._world, len(layouts))
        results = []
        for policy in POLICIES:
            agent = AskingAgent(self.network, self._asking, np.full(len(layouts), policy == "argmax"))
            episodes = play(self._test_envs, layouts, agent, self._rules(0))
            result = evaluation(policy, episodes)
            results.append({**result, "mean": result["mean"] | agent.ask_statistics()})
        return results

    def watched(self, rng: np.random.Generator) -> "WatchedAsking":
        """The agent as its evaluation samples it."""
        return WatchedAsking(self.network, self._asking, self._rules(0))


class WatchedAsking:
    """The asking network and its planner, to be watched: what is decided is whether to ask, the plan does the rest."""

    decisions, moves = ("go on", "ask"), False

    def __init__(self, network: FrameNetwork, settings: AskingSettings, rules: Rules):
        self._agent, self._rules = AskingAgent(network, settings, np.zeros(1, bool)), rules
        self._episode: Episode | None = None

    def start(self, stage: Stage) -> None:
        """An episode begins."""
        self._episode = Episode(stage.layout, self._rules, stage.observation["image"])
        self._agent.begin(stage.observation["image"][None])

    def decide(self, stage: Stage) -> tuple[np.ndarray, int]:
        """(probabilities of going on and of asking, which of them was drawn)."""
        assert self._episode is not None
        asks = self._agent.decide([self._episode], np.array([0]), stage.observation["image"][None])
        p = float(self._agent.last_probabilities[0])
        return np.array([1 - p, p]), int(asks[0])

    def act(self, choice: int) -> int:
        """The primitive action of the plan, which is made anew where the choice is to ask."""
        assert self._episode is not None
        return int(self._episode.act(choice == ASK))

    def choice_of(self, action: int) -> None:
        """Moves are the plan's."""
        return None

    def observe(self, stage: Stage) -> None:
        """The stage has moved on."""
        assert self._episode is not None
        self._episode.receive(stage.observation["image"], stage.reward, stage.terminated)

    def note(self) -> str:
        """The last question's reply."""
        asked = self._episode.exchanges if self._episode else []
        return f"plan at step {asked[-1].step}: {asked[-1].reply}" if asked else ""


def make_learner(spec: RunSpec, run: Run | None = None) -> AskingLearner:
    """The learner of a run. Raises GroundlabError when a ledger, a model or a server is asked for and missing."""
    return AskingLearner(spec)


def untrained_agent(fidelity: Fidelity, seed: int, batch: int) -> AskingAgent:
    """The released code's `random` baseline: the argmax of a network that was never trained (Q10)."""
    settings = AskingSettings.model_validate({"fidelity": fidelity})
    return AskingAgent(build_network(settings, seed), settings, np.ones(batch, bool))
