"""B environments that are acted in by replies: what the model reads there, and what its replies lead to.

    env = TextEnv(GridVectorEnv(..., autoreset="disabled"), thinks, settings)
    env.reset([0, 1], seeds=[7, 8])                      # episodes begin; without seeds each stream goes on
    results = env.step([0, 1], ["go forward", "no"])     # the environment of an invalid reply stands still
    env.messages(0)                                      # the conversation that the next reply follows

No environment restarts by itself: `rollouts.py` (learning) and `evaluation.py` (testing) start the next episode.

`parse_action("final answer: go forward", thinks=True)` is 2, an index into ACTIONS, or None for an invalid reply.
"strict" is the original's rule, to the letter: the direct agent's reply is an action and nothing else; the reasoning
agent's has one, and nothing else but blanks, after its last "final answer:". "lenient" takes what a person would: case,
punctuation and markup do not count, and words may follow. Any string is parsed, and none raises. An invalid reply does
not reach the environment, whose clock stands still (docs/papers/reasoning-method.md#s1-3 and #s1-4).
"""

import io
import json
import re
import unicodedata
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from groundlab.assets import read_text
from groundlab.core.run import Files
from groundlab.core.storage import digest_bytes
from groundlab.papers.reasoning.settings import Parser, ReplySettings
from groundlab.worlds import GridVectorEnv, text
from groundlab.worlds.text_env.prompts import text_actions

ACTIONS = text_actions(6)
"""What can be answered; an action's index is the environment's action number."""
MARKER = "final answer:"
_LENIENT_ACTION = re.compile(rf"\b(?:{'|'.join(ACTIONS)})\b")
_LENIENT_CHARACTERS = 10_000  # of a reply, from its end: the lenient parser reads no more


def parse_action(reply: str, thinks: bool, parser: Parser = "strict") -> int | None:
    """The index into ACTIONS that a reply means, or None. thinks: it must come after the last "final answer:"."""
    if parser == "lenient":
        answer = _lenient_answer(reply, thinks)
    elif thinks:
        _, marker, after = reply.rpartition(MARKER)
        answer = after.strip() if marker else None
    else:
        answer = reply
    return ACTIONS.index(answer) if answer in ACTIONS else None


def _lenient_answer(reply: str, thinks: bool) -> str | None:
    """The first action after the last marker, or the only one that a direct reply names."""
    folded = unicodedata.normalize("NFKC", reply[-_LENIENT_CHARACTERS:]).lower()
    words = " ".join("".join(character if character.isalnum() else " " for character in folded).split())
    if thinks:
        _, *answers = re.split(r"final answer\b", words)
        match = _LENIENT_ACTION.match(answers[-1].lstrip()) if answers else None
        return match.group() if match else None
    actions = set(_LENIENT_ACTION.findall(words))
    return actions.pop() if len(actions) == 1 else None


def extract_thought(reply: str) -> str:
    """What a reply says before its last "final answer:", without blanks around."""
    return reply.rpartition(MARKER)[0].strip()


def system_prompt(mission: str, thinks: bool, short: bool = False) -> str:
    """The first message of a conversation: the goal and the format of replies (docs/papers/reasoning-method.md#s2)."""
    return _prompt_text("", thinks, short).replace("{goal}", mission)


def error_text(thinks: bool, short: bool = False) -> str:
    """What the model reads after an invalid reply; it begins with "Invalid"."""
    return _prompt_text("invalid-", thinks, short)


def _prompt_text(prefix: str, thinks: bool, short: bool) -> str:
    """A prompt's file, without the newline at its end."""
    name = prefix + ("reasoning" if thinks else "direct") + ("-short" if short else "")
    return read_text(f"prompts/reasoning/{name}.txt").strip()


Message = dict[str, str]
Row = dict[str, Any]
"""An episode that ended: success, return (of the environment, without penalties), steps, length, invalid."""
HIDDEN = "Generated invalid action"
"""What stands for an invalid reply in the context: the original's words."""
LONGEST_REPLY = 2_000  # characters of a reply that stay in the context
_STATE = ("cells", "contents", "agents", "carried", "missions", "progress")
"""What makes two states of an environment the same: neither the time nor the position of its random stream."""


class StepResult(NamedTuple):
    """What a reply led to."""

    reward: float  # of the environment, or an invalid reply's penalty
    valid: bool
    row: Row | None  # the episode, where it is over


@dataclass
class _Episode:
    """An open episode: what the model reads of it, and its replies so far."""

    mission: str
    window: deque[Message]
    """The last observations, and the replies between them."""
    valid: int = 0
    invalid: int = 0
    streak: int = 0
    """Invalid replies in a row."""


class TextEnv:
    """See the module docstring; `state` and `load_state` carry open episodes through a checkpoint."""

    def __init__(self, envs: GridVectorEnv, thinks: bool, settings: ReplySettings):
        self.num_envs, self._envs, self._thinks, self._settings = envs.num_envs, envs, thinks, settings
        self._error = error_text(thinks, settings.short_prompts)
        self._episodes = [self._episode("", []) for _ in range(envs.num_envs)]

    def _episode(self, mission: str, window: list[Message], **counts: int) -> _Episode:
        return _Episode(mission, deque(window, maxlen=2 * self._settings.context_window - 1), **counts)

    def reset(self, envs: Sequence[int], seeds: Sequence[int] | None = None) -> None:
        """These environments begin an episode: with reset seeds, or with their streams' next."""
        mask = np.isin(np.arange(self.num_envs), envs)
        env_seeds = None
        if seeds is not None:
            env_seeds = [0] * self.num_envs  # those outside the mask do not use theirs
            for env, seed in zip(envs, seeds, strict=True):
                env_seeds[env] = seed
        observations, _ = self._envs.reset(seed=env_seeds, options={"reset_mask": mask})
        descriptions = text.describe_batch(observations["image"][list(envs)])
        for env, sentences in zip(envs, descriptions, strict=True):
            first = {"role": "user", "content": "\n".join(sentences)}
            self._episodes[env] = self._episode(observations["mission"][env], [first])

    def mission(self, env: int) -> str:
        """The mission of an environment's episode."""
        return self._episodes[env].mission

    def messages(self, env: int) -> list[Message]:
        """What the model reads in an environment before its next reply."""
        prompt = system_prompt(self.mission(env), self._thinks, self._settings.short_prompts)
        return [{"role": "system", "content": prompt}, *self._episodes[env].window]

    def step(self, envs: Sequence[int], replies: Sequence[str]) -> list[StepResult]:
        """One reply in each of these environments."""
        parsed = [parse_action(reply, self._thinks, self._settings.parser) for reply in replies]
        actions = {env: action for env, action in zip(envs, parsed, strict=True) if action is not None}
        images, rewards, ended = self._step_envs(actions)
        descriptions = text.describe_batch(images[list(actions)]) if actions else []
        sentences = dict(zip(actions, descriptions, strict=True))
        results = []
        for env, reply in zip(envs, replies, strict=True):
            episode, valid = self._episodes[env], env in actions
            if valid:
                episode.valid += 1
                episode.streak = 0
                answer, reward, over = "\n".join(sentences[env]), float(rewards[env]), bool(ended[env])
            else:
                episode.invalid += 1
                episode.streak += 1
                answer, reward = self._error, self._settings.invalid_penalty
                over = episode.streak >= self._settings.invalid_limit
            shown = clean_reply(reply) if valid or not self._settings.hide_invalid else HIDDEN
            episode.window += [{"role": "assistant", "content": shown}, {"role": "user", "content": answer}]
            results.append(StepResult(reward, valid, _row(episode, reward) if over else None))
        return results

    def _step_envs(self, actions: dict[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(images, rewards, ended) after a step of the environments that have an action; the others do not change."""
        before = self._envs.save() if len(actions) < self.num_envs else {}
        if not actions:
            return before["images"], np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        batch = np.zeros(self.num_envs, np.int64)
        batch[list(actions)] = list(actions.values())
        observations, rewards, terminated, truncated, _ = self._envs.step(batch)
        if before:
            still = np.setdiff1d(np.arange(self.num_envs), list(actions))
            after = self._envs.save()
            for name in after.keys() - {"levels"}:  # which all environments share
                after[name][still] = before[name][still]
            self._envs.load(after)
        return observations["image"], rewards, terminated | truncated

    def state_digests(self) -> list[str]:
        """A digest of each environment's state; equal states have equal digests."""
        arrays = self._envs.save()
        return [digest_bytes(b"".join(arrays[name][env].tobytes() for name in _STATE)) for env in range(self.num_envs)]

    def state(self) -> Files:
        """The files to continue from."""
        arrays, worlds = io.BytesIO(), dict[str, Any](self._envs.save())
        np.savez(arrays, **worlds)
        episodes = [{**vars(episode), "window": list(episode.window)} for episode in self._episodes]
        return {"environments.npz": arrays.getvalue(), "episodes.json": json.dumps(episodes).encode()}

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        with np.load(io.BytesIO(files["environments.npz"])) as stored:
            self._envs.load(dict(stored))
        self._episodes = [self._episode(**each) for each in json.loads(files["episodes.json"])]


def _row(episode: _Episode, reward: float) -> Row:
    """`evaluation.summarise` takes the means of its figures, and tables.py shows those of its METRICS."""
    valid, invalid = episode.valid, episode.invalid
    row = {"success": reward > 0, "return": max(reward, 0.0)}
    return {**row, "steps": valid, "length": valid + invalid, "invalid": invalid}


def clean_reply(reply: str) -> str:
    """A reply as the context keeps it: blanks for control characters (newlines stay) and for halves of characters."""
    beginning = reply[:LONGEST_REPLY]
    return "".join(" " if c != "\n" and unicodedata.category(c) in ("Cc", "Cs") else c for c in beginning)
