"""B environments in which replies are acted out: what the model reads there, and what its replies come to.

    talks = TextEnv(envs, thinks, settings)           # a GridVectorEnv with autoreset "disabled"
    talks.start([0, 1], seeds=[7, 8])                       # episodes begin; without seeds each stream goes on
    outcomes = talks.act([0, 1], ["go forward", "no"])      # the environment of an invalid reply stands still
    talks.messages(0)

Nobody restarts by itself: who plays (`rollouts.py` to learn, `evaluation.py` to test) starts the next episode.
"""

import io
import json
import unicodedata
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from groundlab.core.hashing import digest_bytes
from groundlab.core.run import Files
from groundlab.papers.reasoning.replies import ReplyParser, system_prompt
from groundlab.papers.reasoning.settings import TalkingSettings
from groundlab.worlds import GridVectorEnv, text

Message = dict[str, str]
HIDDEN = "Generated invalid action"
"""What stands for an invalid reply in the context: the original's words."""
LONGEST_REPLY = 2_000  # characters of a reply that stay in the context


class ContextSettings(Protocol):
    """What is read here of a method's settings."""

    context_window: int
    short_prompts: bool
    hide_invalid: bool


def told(reply: str) -> str:
    """A reply as the context keeps it: blanks for control characters (newlines stay) and for halves of characters."""
    kept = reply[:LONGEST_REPLY]
    return "".join(" " if c != "\n" and unicodedata.category(c) in ("Cc", "Cs") else c for c in kept)


class Contexts:
    """The conversations of B environments. `state` and `load_state` carry them through a checkpoint."""

    def __init__(self, num_envs: int, thinks: bool, settings: ContextSettings):
        self._thinks, self._settings = thinks, settings
        self._goals = [""] * num_envs
        self._turns = [deque[Message](maxlen=2 * settings.context_window - 1) for _ in range(num_envs)]

    def start(self, env: int, mission: str, sentences: Sequence[str]) -> None:
        """Environment `env` begins an episode with this mission and observation; what was before is forgotten."""
        self._goals[env] = mission
        self._turns[env].clear()
        self._turns[env].append(_observed(sentences))

    def step(self, env: int, reply: str, sentences: Sequence[str]) -> None:
        """Environment `env` did what the reply said, and shows this observation."""
        self._turns[env] += [_said(told(reply)), _observed(sentences)]

    def reject(self, env: int, reply: str, error: str) -> None:
        """The reply was invalid, and is answered by an error text."""
        self._turns[env] += [_said(HIDDEN if self._settings.hide_invalid else told(reply)), _observed([error])]

    def goal(self, env: int) -> str:
        """The mission of environment `env`."""
        return self._goals[env]

    def messages(self, env: int) -> list[Message]:
        """The conversation of environment `env`: system prompt, then observations and replies in turn."""
        prompt = system_prompt(self._goals[env], self._thinks, self._settings.short_prompts)
        return [{"role": "system", "content": prompt}, *self._turns[env]]

    def state(self) -> list[dict[str, Any]]:
        """All conversations, as JSON knows them."""
        return [{"goal": goal, "turns": list(turns)} for goal, turns in zip(self._goals, self._turns, strict=True)]

    def load_state(self, state: list[dict[str, Any]]) -> None:
        """Take over what `state` gave. Raises ValueError when the number of environments differs."""
        for turns, saved in zip(self._turns, state, strict=True):
            turns.clear()
            turns.extend(saved["turns"])
        self._goals = [saved["goal"] for saved in state]


def _observed(sentences: Sequence[str]) -> Message:
    return {"role": "user", "content": "\n".join(sentences)}


def _said(reply: str) -> Message:
    return {"role": "assistant", "content": reply}


Row = dict[str, Any]
_STATE = ("cells", "contents", "agents", "carried", "missions", "progress")
"""What makes two states of an environment the same; not the time, not where its random numbers stand."""


class Outcome(NamedTuple):
    """What a reply came to."""

    reward: float  # of the environment, or an invalid reply's penalty
    valid: bool
    row: Row | None  # the episode, if it is over: success, return (without penalties), steps, length, invalid


class TextEnv:
    """See the module docstring; `state` and `load_state` carry open episodes through a checkpoint."""

    def __init__(self, envs: GridVectorEnv, thinks: bool, settings: TalkingSettings):
        self.num_envs, self._envs = envs.num_envs, envs
        self._contexts = Contexts(envs.num_envs, thinks, settings)
        self._referee = ReplyParser(envs.num_envs, thinks, settings)
        self._valid, self._invalid = (np.zeros(envs.num_envs, np.int64) for _ in range(2))

    def start(self, envs: Sequence[int], seeds: Sequence[int] | None = None) -> None:
        """These environments begin an episode: with reset seeds, or with their streams' next."""
        mask = np.isin(np.arange(self.num_envs), envs)
        everyone = None
        if seeds is not None:
            everyone = [0] * self.num_envs  # those outside the mask do not look at theirs
            for env, seed in zip(envs, seeds, strict=True):
                everyone[env] = seed
        observations, _ = self._envs.reset(seed=everyone, options={"reset_mask": mask})
        sentences = text.describe_batch(observations["image"][list(envs)])
        for env, told in zip(envs, sentences, strict=True):
            self._contexts.start(env, observations["mission"][env], told)
            self._referee.start(env)
            self._valid[env] = self._invalid[env] = 0

    def goal(self, env: int) -> str:
        """The mission of an environment's episode."""
        return self._contexts.goal(env)

    def messages(self, env: int) -> list[Message]:
        """What the model reads in an environment before its next reply."""
        return self._contexts.messages(env)

    def act(self, envs: Sequence[int], replies: Sequence[str]) -> list[Outcome]:
        """One reply in each of these environments."""
        rulings = {env: self._referee.judge(env, reply) for env, reply in zip(envs, replies, strict=True)}
        actions = {env: ruling.action for env, ruling in rulings.items() if ruling.action is not None}
        images, rewards, ended = self._move(actions)
        moved = list(actions)
        sentences = dict(zip(moved, text.describe_batch(images[moved]), strict=True)) if moved else {}
        outcomes = []
        for env, reply in zip(envs, replies, strict=True):
            ruling = rulings[env]
            if ruling.valid:
                self._valid[env] += 1
                self._contexts.step(env, reply, sentences[env])
                reward, over = float(rewards[env]), bool(ended[env])
            else:
                self._invalid[env] += 1
                self._contexts.reject(env, reply, ruling.error)
                reward, over = ruling.penalty, ruling.ends
            outcomes.append(Outcome(reward, ruling.valid, self._row(env, reward) if over else None))
        return outcomes

    def _move(self, actions: dict[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(images, rewards, ended) after a step of the environments that have an action; the others do not change."""
        before = self._envs.save() if len(actions) < self.num_envs else {}
        if not actions:
            return before["images"], np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        given = np.zeros(self.num_envs, np.int64)
        given[list(actions)] = list(actions.values())
        observations, rewards, terminated, truncated, _ = self._envs.step(given)
        if before:
            still = np.setdiff1d(np.arange(self.num_envs), list(actions))
            after = self._envs.save()
            for name in after.keys() - {"levels"}:  # which all environments share
                after[name][still] = before[name][still]
            self._envs.load(after)
        return observations["image"], rewards, terminated | truncated

    def _row(self, env: int, reward: float) -> Row:
        valid, invalid = int(self._valid[env]), int(self._invalid[env])
        own = {"success": reward > 0, "return": max(reward, 0.0)}
        return {**own, "steps": valid, "length": valid + invalid, "invalid": invalid}

    def states(self) -> list[str]:
        """A name for the state of each environment; equal states have equal names."""
        saved = self._envs.save()
        return [digest_bytes(b"".join(saved[name][env].tobytes() for name in _STATE)) for env in range(self.num_envs)]

    def state(self) -> Files:
        """The files to continue from."""
        arrays = io.BytesIO()
        np.savez(arrays, **_prefixed(self._envs.save()), valid=self._valid, invalid=self._invalid)
        told = {"contexts": self._contexts.state(), "streaks": self._referee.state()}
        return {"environments.npz": arrays.getvalue(), "conversations.json": json.dumps(told).encode()}

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        with np.load(io.BytesIO(files["environments.npz"])) as arrays:
            saved = {name: arrays[name] for name in arrays.files}
        self._valid, self._invalid = saved.pop("valid"), saved.pop("invalid")
        self._envs.load({name.removeprefix(_WORLD): array for name, array in saved.items()})
        told = json.loads(files["conversations.json"])
        self._contexts.load_state(told["contexts"])
        self._referee.load_state(told["streaks"])


_WORLD = "world."


def _prefixed(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {f"{_WORLD}{name}": array for name, array in arrays.items()}
