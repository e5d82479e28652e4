"""Rollouts for PPO: replies in many environments, cut into segments of one episode each, and the episodes that ended.

    collector = Collector(env, chat_policy, settings, seed)
    rollout = collector.collect(number)                     # of update `number`, from 1

Three ways to end a rollout (setting `episodes`, quirk Q6):
    continuing        after `steps` replies, rounded up to whole rounds of all environments; open episodes go on in the
                      next rollout, and the critic says what they may still earn
    whole             rounds of one episode an environment, each to its end, until there are `steps` replies
    drop_unfinished   the original's: new episodes in every rollout, until those that ended hold `steps` replies; the
                      others, which are the long ones, are thrown away, so success looks higher than it is
Members of a group (`group_size`) begin their episodes from the same starts, in the latter two.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.seeding import generator
from groundlab.papers.reasoning.policy import ChatPolicy, Reply
from groundlab.papers.reasoning.settings import TrainingSettings
from groundlab.papers.reasoning.text_env import Message, Row, TextEnv


class Step(NamedTuple):
    """A reply, the prompt that it answered, and what it led to."""

    prompt: list[int]
    reply: Reply
    reward: float  # of the environment, or the penalty
    valid: bool
    anchor: Hashable  # the state that it answered; None where the estimator needs none
    messages: Sequence[Message]  # the prompt as text


class Segment(NamedTuple):
    """Steps in a row of one episode."""

    steps: list[Step]
    next_prompt: list[int] | None  # after the last step, where the episode goes on
    group: Hashable


class Rollout(NamedTuple):
    """What was collected for one update."""

    segments: list[Segment]
    episodes: list[Row]  # those that ended

    @property
    def steps(self) -> list[Step]:
        """All steps, segment by segment."""
        return [step for segment in self.segments for step in segment.steps]


class Collector:
    """Plays B environments; all that lasts from one rollout to the next is in the environments."""

    def __init__(self, env: TextEnv, chat_policy: ChatPolicy, settings: TrainingSettings, seed: int):
        self._env, self._chat_policy, self._settings, self._seed = env, chat_policy, settings, seed
        self._all = list(range(env.num_envs))

    def collect(self, number: int) -> Rollout:
        """The replies for update `number` (from 1)."""
        self._chat_policy.forget()  # so that a resumed run reads what an uninterrupted one reads
        self._rng = generator(self._seed, "tokens", number)
        self._open: dict[int, list[Step]] = {env: [] for env in self._all}
        self._restarts: Counter[int] = Counter()  # of each environment in this rollout
        self._rollout = Rollout([], [])
        drops = self._settings.fidelity.drop_unfinished
        whole = self._settings.episodes == "whole"
        if number == 1 or drops or whole:
            self._reset_all(number)
        if drops:
            while len(self._rollout.steps) < self._settings.steps:
                self._restart(self._step(self._all))
        elif whole:
            self._collect_whole()
        else:
            self._collect_continuing()
        return self._rollout

    def _collect_whole(self) -> None:
        while True:
            active = self._all
            while active:
                ended = self._step(active)
                active = [env for env in active if env not in ended]
            if len(self._rollout.steps) >= self._settings.steps:
                return
            self._restart(self._all)

    def _collect_continuing(self) -> None:
        for _ in range(math.ceil(self._settings.steps / len(self._all))):
            self._restart(self._step(self._all))
        for env, steps in self._open.items():
            if steps:
                next_prompt = self._chat_policy.prompt(self._env.messages(env))
                self._rollout.segments.append(Segment(steps, next_prompt, self._group(env)))

    def _reset_all(self, number: int) -> None:
        """First episodes. Equal seeds give equal episodes ever after: only resets draw from an environment's stream."""
        size = self._settings.group_size if self._settings.is_critic_free else 1
        rng = generator(self._seed, "training layouts", number)
        seeds = rng.integers(*TRAINING_LAYOUTS, len(self._all) // size)
        self._env.reset(self._all, np.repeat(seeds, size).tolist())

    def _restart(self, envs: list[int]) -> None:
        if envs:
            self._env.reset(envs)
            self._restarts.update(envs)

    def _group(self, env: int) -> Hashable:
        return env // self._settings.group_size, self._restarts[env]

    def _step(self, envs: list[int]) -> list[int]:
        """One reply in each of these environments; returns those whose episode is over."""
        conversations = [self._env.messages(env) for env in envs]
        prompts = [self._chat_policy.prompt(messages) for messages in conversations]
        anchors = self._anchors(envs)
        replies = self._chat_policy.reply(prompts, self._rng.random((len(envs), self._settings.max_new_tokens)))
        results = self._env.step(envs, [reply.text for reply in replies])
        ended = []
        for env, prompt, reply, result, *context in zip(
            envs, prompts, replies, results, anchors, conversations, strict=True
        ):
            self._open[env].append(Step(prompt, reply, result.reward, result.valid, *context))
            if result.row is not None:
                ended.append(env)
                self._rollout.episodes.append(result.row)
                self._rollout.segments.append(Segment(self._open[env], None, self._group(env)))
                self._open[env] = []
        return ended

    def _anchors(self, envs: list[int]) -> list[Hashable]:
        """Return what gigpo compares steps by: the state."""
        if self._settings.estimator != "gigpo":
            return [None] * len(envs)
        digests = self._env.state_digests()
        return [digests[env] for env in envs]
