"""The agents that follow a rule and need no training: the paper's, and our controls.

    hard-coded   asks only when the plan is exhausted
    always       asks at every step
    random       asks with `probability` (the paper's baseline: one half), or, by fidelity.random_policy, as an
                 untrained network says; a rare coin is the control for a policy that has learned its rate only
    on-change    asks when the text of the observation is not that of the last question

No paper has `on-change`, nor the first two of these; the third is the first commit's:

    nothing-changed   asks when the last step changed nothing in view: a stuck detector
    new-object        asks when a key, a door or a box stands where nothing had been seen
    untrained         asks as a network with its first weights draws: `random` in the first commit
                      (docs/papers/mediator-reference.md#q10); its rate depends on the seed

Those two read the difference of two frames, which is all that the asking network gets. They bound from below what could
be learned from that input.

There is nothing to train: a run plays the test layouts once and stores the rows.
"""

from collections.abc import Callable

import numpy as np

from groundlab.core.schema import parse_layouts
from groundlab.papers.mediator.episodes import Agent, Episode, Rules, evaluation, make_envs, play
from groundlab.papers.mediator.planner import planner_for
from groundlab.papers.mediator.settings import AskingSettings, RuleSettings
from groundlab.papers.method import Request
from groundlab.worlds.codes import BOX, DOOR, KEY, UNSEEN

RULES: dict[str, Callable[[Episode], bool]] = {
    "hard-coded": lambda episode: False,
    "always": lambda episode: True,
    "on-change": lambda episode: not episode.exchanges or episode.text() != episode.exchanges[-1].text,
}


class RuleAgent:
    """Asks when a rule of one episode says so."""

    def __init__(self, rule: Callable[[Episode], bool]):
        self._rule = rule

    def begin(self, images: np.ndarray) -> None:
        """Rules keep nothing between episodes."""

    def decide(self, episodes: list[Episode], active: np.ndarray, images: np.ndarray) -> np.ndarray:
        return np.array([self._rule(episode) for episode in episodes])


FrameRule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Frames before and now, uint8 [n, 10, 10, 4] each -> bool [n]: which episodes ask."""


def nothing_changed(before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Whether no cell changed; true at the first step, which has no frame before it."""
    return (before == now).all(axis=(1, 2, 3))


def new_object(before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Whether a key, a door or a box is where nothing had been seen; false at the first step."""
    news = (before[..., 0] == UNSEEN) & np.isin(now[..., 0], (KEY, DOOR, BOX))
    return news.any(axis=(1, 2))


FRAME_RULES: dict[str, FrameRule] = {"nothing-changed": nothing_changed, "new-object": new_object}


class FrameAgent:
    """Asks when a rule of the last two frames says so."""

    def __init__(self, rule: FrameRule):
        self._rule, self._before = rule, np.empty(0)

    def begin(self, images: np.ndarray) -> None:
        self._before = images.copy()

    def decide(self, episodes: list[Episode], active: np.ndarray, images: np.ndarray) -> np.ndarray:
        asks = self._rule(self._before[active], images[active])
        self._before[active] = images[active]
        return asks


def agent_for(method: str, settings: RuleSettings, seed: int, batch: int) -> Agent:
    """The agent that follows the rule of that name, for a batch of so many episodes."""
    if method in FRAME_RULES:
        return FrameAgent(FRAME_RULES[method])
    if method == "untrained":
        from groundlab.papers.mediator.agent import AskingAgent, build_network

        learner = AskingSettings.model_validate({"fidelity": settings.fidelity})
        return AskingAgent(build_network(learner, seed), learner, np.zeros(batch, bool))
    if method == "random" and settings.fidelity.random_policy == "untrained":
        from groundlab.papers.mediator.agent import untrained_agent

        return untrained_agent(settings.fidelity, seed, batch)
    if method == "random":
        return RuleAgent(lambda episode: episode.rng.random() < settings.probability)
    return RuleAgent(RULES[method])


def evaluate(request: Request) -> list[dict]:
    """The rule on the test layouts: one evaluation, policy "rule"."""
    settings = RuleSettings(**request.settings)
    layouts = parse_layouts(settings.layouts)
    rules = Rules(
        planner=planner_for(request.world, settings),
        ask_lambda=settings.ask_lambda,
        fidelity=settings.fidelity,
        charge_repeats=request.method != "hard-coded",
        seed=request.seed,
    )
    agent = agent_for(request.method, settings, request.seed, len(layouts))
    episodes = play(make_envs(request.world, len(layouts)), layouts, agent, rules)
    return [evaluation("rule", episodes)]
