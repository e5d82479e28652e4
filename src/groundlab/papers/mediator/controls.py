"""Controls that see what the asking network sees, and the first commit's `random`: rules that need no training.

    nothing-changed   asks when the last step changed nothing in view: a stuck detector; no paper has it
    new-object        asks when a key, a door or a box stands where nothing had been seen; no paper has it
    untrained         asks as a network with its first weights draws: `random` in the first commit
                      (docs/papers/mediator.md#q10); its rate depends on the seed

The first two read the difference of two frames, which is all that the asking network gets. They bound from below what
could be learned from that input. A run plays the test layouts once, as in baselines.py.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from groundlab.core.schema import parse_layouts
from groundlab.papers.mediator.agent import AskingAgent, build_network
from groundlab.papers.mediator.episodes import Agent, Episode, Rules, evaluation, make_envs, play
from groundlab.papers.mediator.planner import planner_for
from groundlab.papers.mediator.settings import RuleSettings, TrainingSettings
from groundlab.papers.method import Request
from groundlab.worlds.codes import BOX, DOOR, KEY, UNSEEN

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
    """The agent of that name, for a batch of so many episodes."""
    if method in FRAME_RULES:
        return FrameAgent(FRAME_RULES[method])
    learner = TrainingSettings.model_validate({"fidelity": settings.fidelity})
    return AskingAgent(build_network(learner, seed), learner, np.zeros(batch, bool))


def evaluate(request: Request) -> list[dict]:
    """The rule on the test layouts: one evaluation, policy "rule"."""
    settings = RuleSettings(**request.settings)
    layouts = parse_layouts(settings.layouts)
    planner = planner_for(request.world, settings)
    rules = Rules(planner, settings.ask_lambda, settings.fidelity, seed=request.seed)
    agent = agent_for(request.method, settings, request.seed, len(layouts))
    watch = partial(request.watch, "rule") if request.watch else None
    return [evaluation("rule", play(make_envs(request.world, len(layouts)), layouts, agent, rules, watch))]
