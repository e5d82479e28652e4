"""Experience for PPO: replies in many environments, cut into strands of one episode each, and the episodes that ended.

    collector = Collector(conversations, speaker, settings, seed)
    rollout = collector.collect(number)                     # of update `number`, from 1

Three ways to end a rollout (setting `episodes`, quirk Q6):
    continuing        after `steps` replies, rounded up to whole rounds of all environments; open episodes go on in the
                      next rollout, and what they may still earn is what the critic says
    whole             rounds of one episode an environment, each to its end, until there are `steps` replies
    drop_unfinished   the original's: new episodes in every rollout, until those that ended hold `steps` replies; the
                      others, which are the long ones, are thrown away, so success looks higher than it is
Members of a group (`group_size`) begin their episodes from the same starts, in the latter two.
Called from: `learner.py`. Read next: `credits.py`.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from groundlab.core.run import Files
from groundlab.core.seeding import generator
from groundlab.papers.reasoning.policy import Reply
from groundlab.papers.reasoning.settings import TRAINING_LAYOUTS_FROM, TrainingSettings
from groundlab.papers.reasoning.text_env import Message, Outcome, Row

LAYOUTS_END = 2**31


class Turn(NamedTuple):
    """A reply, what it answered, and what it came to."""

    prompt: list[int]
    reply: Reply
    reward: float  # of the environment, or the penalty
    valid: bool
    anchor: Hashable  # the state that it answered; None where nothing asks for it
    messages: Sequence[Message]  # the prompt as text


class Segment(NamedTuple):
    """Turns in a row of one episode."""

    turns: list[Turn]
    following: list[int] | None  # the prompt after the last turn, where the episode goes on
    group: Hashable


class Rollout(NamedTuple):
    """What was collected for one update."""

    strands: list[Segment]
    episodes: list[Row]  # those that ended


class Talks(Protocol):
    """Where replies are acted out: `conversations.TextEnv`."""

    num_envs: int

    def start(self, envs: Sequence[int], seeds: Sequence[int] | None = None) -> None: ...

    def messages(self, env: int) -> list[Message]: ...

    def act(self, envs: Sequence[int], replies: Sequence[str]) -> list[Outcome]: ...

    def states(self) -> list[str]: ...

    def state(self) -> Files: ...

    def load_state(self, files: Files) -> None: ...


class Speaks(Protocol):
    """Who answers: `model.ChatPolicy`."""

    def prompt(self, messages: Sequence[Message]) -> list[int]: ...

    def reply(self, prompts: Sequence[Sequence[int]], numbers: np.ndarray) -> list[Reply]: ...

    def forget(self) -> None: ...


class Collector:
    """Plays B environments; what it keeps from one rollout to the next is in the conversations alone."""

    def __init__(self, talks: Talks, speaker: Speaks, settings: TrainingSettings, seed: int):
        self._talks, self._speaker, self._settings, self._seed = talks, speaker, settings, seed
        self._everyone = list(range(talks.num_envs))
        self.state, self.load_state = talks.state, talks.load_state

    def collect(self, number: int) -> Rollout:
        """The replies for update `number` (from 1)."""
        self._speaker.forget()  # so that a resumed run reads what an uninterrupted one reads
        self._rng = generator(self._seed, "tokens", number)
        self._open: dict[int, list[Turn]] = {env: [] for env in self._everyone}
        self._begun: Counter[int] = Counter()  # episodes of each environment in this rollout
        self._rollout = Rollout([], [])
        if self._settings.fidelity.drop_unfinished:
            self._finished_only(number)
        elif self._settings.episodes == "whole":
            self._whole(number)
        else:
            self._continuing(number)
        return self._rollout

    def _continuing(self, number: int) -> None:
        if number == 1:
            self._start_afresh(number)
        for _ in range(math.ceil(self._settings.steps / len(self._everyone))):
            self._start(self._round(self._everyone))
        for env, turns in self._open.items():
            if turns:
                following = self._speaker.prompt(self._talks.messages(env))
                self._rollout.strands.append(Segment(turns, following, self._group(env)))

    def _whole(self, number: int) -> None:
        self._start_afresh(number)
        while True:
            active = self._everyone
            while active:
                ended = self._round(active)
                active = [env for env in active if env not in ended]
            if self._collected() >= self._settings.steps:
                return
            self._start(self._everyone)

    def _finished_only(self, number: int) -> None:
        self._start_afresh(number)
        while self._collected() < self._settings.steps:
            self._start(self._round(self._everyone))

    def _collected(self) -> int:
        """Replies in finished episodes."""
        return sum(len(strand.turns) for strand in self._rollout.strands)

    def _start_afresh(self, number: int) -> None:
        """First episodes. Equal seeds give equal episodes ever after: only resets draw from an environment's stream."""
        size = self._settings.group_size if self._settings.compares else 1
        rng = generator(self._seed, "training layouts", number)
        seeds = rng.integers(TRAINING_LAYOUTS_FROM, LAYOUTS_END, len(self._everyone) // size)
        self._talks.start(self._everyone, np.repeat(seeds, size).tolist())

    def _start(self, envs: list[int]) -> None:
        if envs:
            self._talks.start(envs)
            self._begun.update(envs)

    def _group(self, env: int) -> Hashable:
        return env // self._settings.group_size, self._begun[env]

    def _round(self, envs: list[int]) -> list[int]:
        """One reply in each of these environments; returns those whose episode is over."""
        read = [self._talks.messages(env) for env in envs]
        prompts = [self._speaker.prompt(messages) for messages in read]
        anchors = self._anchors(envs)
        replies = self._speaker.reply(prompts, self._rng.random((len(envs), self._settings.max_new_tokens)))
        outcomes = self._talks.act(envs, [reply.text for reply in replies])
        for env, prompt, reply, outcome, *known in zip(envs, prompts, replies, outcomes, anchors, read, strict=True):
            self._open[env].append(Turn(prompt, reply, outcome.reward, outcome.valid, *known))
        ended = [env for env, outcome in zip(envs, outcomes, strict=True) if outcome.row is not None]
        self._rollout.episodes.extend(outcome.row for outcome in outcomes if outcome.row is not None)
        for env in ended:
            self._rollout.strands.append(Segment(self._open[env], None, self._group(env)))
            self._open[env] = []
        return ended

    def _anchors(self, envs: list[int]) -> list[Hashable]:
        if self._settings.estimator != "gigpo":
            return [None] * len(envs)
        if self._settings.anchor == "observation":
            return [self._talks.messages(env)[-1]["content"] for env in envs]
        states = self._talks.states()
        return [states[env] for env in envs]
