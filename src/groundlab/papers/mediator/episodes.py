"""Episodes of the mediator, many at a time: decide whether to ask, plan, act, charge for asking
(docs/papers/mediator-method.md#s5-1).

    episodes = play(make_envs(world, len(layouts)), layouts, agent, rules)

All environments step together in one compiled call; a finished one stands still. What an agent decides and what a
planner replies depends on the episode alone, never on its neighbours in the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from groundlab import worlds
from groundlab.core.seeding import generator
from groundlab.papers import recording
from groundlab.papers.mediator.planner import Planner
from groundlab.papers.mediator.search import Translator
from groundlab.papers.mediator.settings import Fidelity
from groundlab.papers.mediator.skills import OPTION_NAMES, Option, Plan, PlanExecutor, SkillSettings, SweepMemory
from groundlab.worlds.codes import ACTIONS, TYPES

EPISODE_LIMIT = 100  # steps; an episode that reaches it counts as failed even if the door opens then (Q16)


@dataclass(frozen=True)
class Rules:
    """What all episodes of a batch share: the planner, how asking is charged, and how skills behave."""

    planner: Planner
    ask_lambda: float = 0.01
    fidelity: Fidelity = field(default_factory=Fidelity)
    charge_repeats: bool = True
    """False for the hard-coded baseline: its report charges no more than `ask_lambda` a plan
    (docs/papers/mediator-method.md#s6).
    """
    seed: int = 0

    @property
    def skills(self) -> SkillSettings:
        return SkillSettings(self.fidelity.explore_avoid, self.fidelity.goto_ties)


class Exchange(NamedTuple):
    """One question to the planner."""

    step: int
    text: str
    reply: str
    plan: Plan


@dataclass
class Episode:
    """One episode: its translator, plan and skills, and what has happened so far."""

    layout: int
    rules: Rules
    image: np.ndarray  # the present observation, uint8 [10, 10, 4]
    actions: list[int] = field(default_factory=list)
    options: list[Option | None] = field(default_factory=list)  # that was carried out at each step
    rewards: list[float] = field(default_factory=list)  # communication penalty included
    exchanges: list[Exchange] = field(default_factory=list)
    game_return: float = 0.0
    finished: bool = False
    decided_asks: int = 0

    def __post_init__(self):
        self.translator = Translator(self.rules.planner.world, self.rules.fidelity.carry_inside)
        self.rng = generator(self.rules.seed, "episode", self.layout)
        self._memory = SweepMemory(self.rng)
        self._executor: PlanExecutor | None = None
        self._plan_done, self._ask, self._repeat = True, False, 0.0

    @property
    def steps(self) -> int:
        return len(self.actions)

    @property
    def success(self) -> bool:
        return self.finished and self.steps < EPISODE_LIMIT

    @property
    def skill_name(self) -> Any:
        """The option that is being carried out, or None."""
        return None if self._executor is None else self._executor.option

    def text(self) -> str:
        """The present observation as the planner reads it."""
        return self.translator.describe(self.image)

    def act(self, ask: bool) -> int:
        """Ask if decided or needed, then the next primitive action of the plan."""
        self._ask = ask
        self.decided_asks += ask
        if ask or self._plan_done:
            self._replan()
        assert self._executor is not None
        action, self._plan_done = self._executor.act(self.image)
        self.actions.append(action)
        self.options.append(self._executor.option)
        return action

    def _replan(self) -> None:
        text = self.text()
        seed = self.layout * EPISODE_LIMIT + self.steps
        reply, plan = self.rules.planner.plan(text, self.translator.coordinates, seed)
        self._repeat = self._repeat_factor(plan)
        self.exchanges.append(Exchange(self.steps, text, reply, plan))
        self._executor = PlanExecutor(plan, self.image, self._memory, self.rules.skills)

    def _repeat_factor(self, plan: Plan) -> float:
        """f of docs/papers/mediator-method.md#s5-1: 0 for the first plan, 0.5 for a repeated one, -0.1 for a changed
        one (J6: 1 for a repeat).
        """
        if not self.exchanges:
            return 0.0
        assert self._executor is not None
        whole = self.rules.fidelity.repeat == "whole"
        repeated = plan == (self.exchanges[-1].plan if whole else self._executor.remaining)
        if self.rules.fidelity.penalty == "first-commit":
            return 1.0 if repeated else -0.1
        return 0.5 if repeated else -0.1

    def receive(self, image: np.ndarray, reward: float, terminated: bool) -> None:
        """Take in what the action led to."""
        self.image, self.finished = image, terminated
        self.game_return += reward
        self.rewards.append(reward - self._penalty())

    def _penalty(self) -> float:
        kind, rate = self.rules.fidelity.penalty, self.rules.ask_lambda
        if kind == "equation-1":
            return rate if self._ask and self._repeat > 0 else 0.0
        charged = self._ask or (self._plan_done and kind == "head")
        factor = self._repeat if self.rules.charge_repeats else 0.0
        return (rate + 0.1 * factor) if charged else 0.0

    def summary(self) -> dict[str, Any]:
        """The row of an evaluation."""
        return {
            "layout": self.layout,
            "interactions": len(self.exchanges),
            # the first commit's count: not the calls for an exhausted plan (docs/papers/mediator-method.md#s5-1)
            "asked": self.decided_asks,
            "steps": self.steps,
            "success": self.success,
            "opened": self.finished,  # also at the very last step, which `success` does not count (Q16)
            "return": float(np.sum(self.rewards)),
            "game_return": self.game_return,
        }


class Agent(Protocol):
    """Decides for the active episodes at once whether to ask the planner now."""

    def begin(self, images: np.ndarray) -> None:
        """New episodes start: images uint8 [B, 10, 10, 4]."""
        ...

    def decide(self, episodes: list[Episode], active: np.ndarray, images: np.ndarray) -> np.ndarray:
        """bool [n]: whether each active episode asks now.

        `episodes` are the active ones, `active` [n] their indices in the batch, `images` [B, 10, 10, 4] all.
        """
        ...


def make_envs(world: str, size: int) -> worlds.GridVectorEnv:
    """The batch of environments that `play` needs."""
    return worlds.GridVectorEnv(worlds.find(world), size, seed=0, autoreset="disabled")


def play(env: worlds.GridVectorEnv, layouts: list[int], agent: Agent, rules: Rules) -> list[Episode]:
    """Play one episode on each layout (reset seed); the finished episodes, in the order of `layouts`.

    `env` comes from `make_envs`, one environment a layout.
    """
    images = env.reset(seed=layouts)[0]["image"]
    everyone = [Episode(layout, rules, image) for layout, image in zip(layouts, images, strict=True)]
    agent.begin(images)
    active, actions = np.arange(len(layouts)), np.zeros(len(layouts), np.int64)
    while active.size:
        episodes = [everyone[i] for i in active]
        asks = agent.decide(episodes, active, images)
        actions[active] = [episode.act(bool(ask)) for episode, ask in zip(episodes, asks, strict=True)]
        observations, rewards, terminated, truncated, _ = env.step(actions)
        images = observations["image"]
        for episode, i in zip(episodes, active, strict=True):
            episode.receive(images[i], float(rewards[i]), bool(terminated[i]))
        active = active[~(terminated | truncated)[active]]
    return everyone


def evaluation(policy: str, episodes: Sequence[Any]) -> dict[str, Any]:
    """One evaluation as it is stored: {"policy", "mean", "rows"}; means over episodes of all but the layout.

    Where somebody records, the episodes of agents that ask are kept with their dialogue.
    """
    rows = [episode.summary() for episode in episodes]
    for row, episode in zip(rows, episodes, strict=True) if recording.wanted() else ():
        if isinstance(episode, Episode):
            _keep(row, episode)
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key != "layout"}
    return {"policy": policy, "mean": mean, "rows": rows}


def _keep(row: dict[str, Any], episode: Episode) -> None:
    """Keep an episode's questions and replies by step, and what a frame says: the option, and whether it asked."""
    planner, said = episode.rules.planner, {ask.step: f"{ask.text}\n{ask.reply}" for ask in episode.exchanges}
    names = [
        "-" if option is None else f"{OPTION_NAMES.get(option.action, 'unknown')} {TYPES[option.object]}"
        for option in episode.options
    ]
    recording.keep(
        row,
        planner.world,
        ACTIONS,
        episode.actions,
        replies=[said.get(step, "") for step in range(episode.steps)],
        captions=[f"{name.removesuffix(' empty')}{' (ask)' * (step in said)}" for step, name in enumerate(names)],
        prompt=planner.system_prompt,
        success=episode.finished,  # also at the last step allowed, as the world says (Q16)
    )
