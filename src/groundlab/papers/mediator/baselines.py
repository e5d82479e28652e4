"""The agents that follow a rule: hard-coded, always, random, and our control on-change.

    hard-coded   asks only when the plan is exhausted
    always       asks at every step
    random       asks with `probability` (the paper's baseline: one half), or, by fidelity.random_policy, as an
                 untrained network says; a rare coin is the control for a policy that has learned its rate only
    on-change    asks when the text of the observation is not that of the last question; no paper has this control

There is nothing to train: a run plays the test layouts once and stores the rows.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from groundlab.core.schema import parse_layouts
from groundlab.papers.mediator.episodes import Episode, Rules, evaluation, make_envs, play
from groundlab.papers.mediator.planner import planner_for
from groundlab.papers.mediator.settings import RuleSettings
from groundlab.papers.method import Request

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


def agent_for(method: str, settings: RuleSettings, seed: int, batch: int):
    """The agent that follows the rule of that name, for a batch of so many episodes."""
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
    watch = partial(request.watch, "rule") if request.watch else None
    episodes = play(make_envs(request.world, len(layouts)), layouts, agent, rules, watch)
    return [evaluation("rule", episodes)]
