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
_LENIENT_MARKER = re.compile(r"final\s+answer\b")
_LENIENT_ACTION = re.compile("|".join(rf"\b{action.replace(' ', ' +')}\b" for action in ACTIONS))
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
    text = "".join(character if character.isalnum() else " " for character in folded)
    if thinks:
        *_, after = _LENIENT_MARKER.split(text)
        match = _LENIENT_ACTION.match(after.lstrip()) if after != text else None
        return " ".join(match.group().split()) if match else None
    actions = {" ".join(match.split()) for match in _LENIENT_ACTION.findall(text)}
    return actions.pop() if len(actions) == 1 else None


def extract_thought(reply: str, thinks: bool) -> str:
    """What a reply says before its last "final answer:", without blanks around; of a direct reply, nothing."""
    return reply.rpartition(MARKER)[0].strip() if thinks else ""


class ParsedReply(NamedTuple):
    """An action for the environment, or a penalty instead of one."""

    action: int | None
    penalty: float = 0.0  # the step's reward, where the reply was invalid
    error: str = ""  # what the model reads instead of an observation
    ends: bool = False  # too many invalid replies in a row: the episode is over

    @property
    def valid(self) -> bool:
        """Whether the environment takes a step."""
        return self.action is not None


class ReplyParser:
    """Parses the replies of B environments, and counts the invalid ones in a row of each."""

    def __init__(self, num_envs: int, thinks: bool, settings: ReplySettings):
        self._thinks, self._settings = thinks, settings
        self._error = error_text(thinks, settings.short_prompts)
        self._streaks = [0] * num_envs

    def reset(self, env: int) -> None:
        """Environment `env` begins an episode."""
        self._streaks[env] = 0

    def parse(self, env: int, reply: str) -> ParsedReply:
        """The reply of environment `env` as an action or a penalty."""
        action = parse_action(reply, self._thinks, self._settings.parser)
        if action is not None:
            self._streaks[env] = 0
            return ParsedReply(action)
        self._streaks[env] += 1
        ends = self._streaks[env] >= self._settings.invalid_limit
        return ParsedReply(None, self._settings.invalid_penalty, self._error, ends)

    def state(self) -> list[int]:
        """Invalid replies in a row, one number an environment, for a checkpoint."""
        return list(self._streaks)

    def load_state(self, state: list[int]) -> None:
        """Take over what `state` gave. Raises ValueError when the number of environments differs."""
        if len(state) != len(self._streaks):
            raise ValueError(f"the state is of {len(state)} environments, not of {len(self._streaks)}")
        self._streaks = list(state)


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
_COUNTED = ("valid", "invalid")  # replies of an open episode, which a checkpoint holds
LONGEST_REPLY = 2_000  # characters of a reply that stay in the context
_STATE = ("cells", "contents", "agents", "carried", "missions", "progress")
"""What makes two states of an environment the same: neither the time nor the position of its random stream."""
_WORLD = "world."  # before the names of the environments' own arrays in a checkpoint


class StepResult(NamedTuple):
    """What a reply led to."""

    reward: float  # of the environment, or an invalid reply's penalty
    valid: bool
    row: Row | None  # the episode, where it is over


class TextEnv:
    """See the module docstring; `state` and `load_state` carry open episodes through a checkpoint."""

    def __init__(self, envs: GridVectorEnv, thinks: bool, settings: ReplySettings):
        self.num_envs, self._envs = envs.num_envs, envs
        self._conversations = Conversations(envs.num_envs, thinks, settings)
        self._parser = ReplyParser(envs.num_envs, thinks, settings)
        self._counts = {name: np.zeros(envs.num_envs, np.int64) for name in _COUNTED}

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
            self._conversations.reset(env, observations["mission"][env], sentences)
            self._parser.reset(env)
            for counts in self._counts.values():
                counts[env] = 0

    def mission(self, env: int) -> str:
        """The mission of an environment's episode."""
        return self._conversations.missions[env]

    def messages(self, env: int) -> list[Message]:
        """What the model reads in an environment before its next reply."""
        return self._conversations.messages(env)

    def step(self, envs: Sequence[int], replies: Sequence[str]) -> list[StepResult]:
        """One reply in each of these environments."""
        parsed = {env: self._parser.parse(env, reply) for env, reply in zip(envs, replies, strict=True)}
        actions = {env: each.action for env, each in parsed.items() if each.action is not None}
        images, rewards, ended = self._step_envs(actions)
        descriptions = text.describe_batch(images[list(actions)]) if actions else []
        sentences = dict(zip(actions, descriptions, strict=True))
        results = []
        for env, reply in zip(envs, replies, strict=True):
            if parsed[env].valid:
                self._counts["valid"][env] += 1
                self._conversations.step(env, reply, sentences[env])
                reward, over = float(rewards[env]), bool(ended[env])
            else:
                self._counts["invalid"][env] += 1
                self._conversations.reject(env, reply, parsed[env].error)
                reward, over = parsed[env].penalty, parsed[env].ends
            results.append(StepResult(reward, parsed[env].valid, self._episode_row(env, reward) if over else None))
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

    def _episode_row(self, env: int, reward: float) -> Row:
        """`evaluation.summarise` takes the means of its figures, and tables.py shows those of its METRICS."""
        valid, invalid = (int(self._counts[name][env]) for name in ("valid", "invalid"))
        row = {"success": reward > 0, "return": max(reward, 0.0)}
        return {**row, "steps": valid, "length": valid + invalid, "invalid": invalid}

    def state_digests(self) -> list[str]:
        """A digest of each environment's state; equal states have equal digests."""
        arrays = self._envs.save()
        return [digest_bytes(b"".join(arrays[name][env].tobytes() for name in _STATE)) for env in range(self.num_envs)]

    def state(self) -> Files:
        """The files to continue from."""
        arrays = io.BytesIO()
        own: dict[str, Any] = {f"{_WORLD}{name}": array for name, array in self._envs.save().items()} | self._counts
        np.savez(arrays, **own)
        content = {"contexts": self._conversations.state(), "streaks": self._parser.state()}
        return {"environments.npz": arrays.getvalue(), "conversations.json": json.dumps(content).encode()}

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        with np.load(io.BytesIO(files["environments.npz"])) as stored:
            arrays = {name: stored[name] for name in stored.files}
        self._counts = {name: arrays.pop(name) for name in _COUNTED}
        self._envs.load({name.removeprefix(_WORLD): array for name, array in arrays.items()})
        content = json.loads(files["conversations.json"])
        self._conversations.load_state(content["contexts"])
        self._parser.load_state(content["streaks"])


class Conversations:
    """The conversations of B environments: system prompt, then the last observations and the replies between them."""

    def __init__(self, num_envs: int, thinks: bool, settings: ReplySettings):
        self._thinks, self._settings = thinks, settings
        self.missions = [""] * num_envs
        self._windows = [deque[Message](maxlen=2 * settings.context_window - 1) for _ in range(num_envs)]

    def reset(self, env: int, mission: str, sentences: Sequence[str]) -> None:
        """Environment `env` begins an episode with this mission and observation; what was before is forgotten."""
        self.missions[env] = mission
        self._windows[env].clear()
        self._windows[env].append({"role": "user", "content": "\n".join(sentences)})

    def step(self, env: int, reply: str, sentences: Sequence[str]) -> None:
        """Environment `env` did what the reply said, and shows this observation."""
        self._append(env, clean_reply(reply), "\n".join(sentences))

    def reject(self, env: int, reply: str, error: str) -> None:
        """The reply was invalid, and is answered by an error text."""
        self._append(env, HIDDEN if self._settings.hide_invalid else clean_reply(reply), error)

    def _append(self, env: int, reply: str, answer: str) -> None:
        self._windows[env] += [{"role": "assistant", "content": reply}, {"role": "user", "content": answer}]

    def messages(self, env: int) -> list[Message]:
        """The conversation of environment `env`."""
        prompt = system_prompt(self.missions[env], self._thinks, self._settings.short_prompts)
        return [{"role": "system", "content": prompt}, *self._windows[env]]

    def state(self) -> list[dict[str, Any]]:
        """All conversations as JSON."""
        pairs = zip(self.missions, self._windows, strict=True)
        return [{"goal": mission, "turns": list(window)} for mission, window in pairs]

    def load_state(self, state: list[dict[str, Any]]) -> None:
        """Take over what `state` gave. Raises ValueError when the number of environments differs."""
        for window, stored in zip(self._windows, state, strict=True):
            window.clear()
            window.extend(stored["turns"])
        self.missions = [stored["goal"] for stored in state]


def clean_reply(reply: str) -> str:
    """A reply as the context keeps it: blanks for control characters (newlines stay) and for halves of characters."""
    beginning = reply[:LONGEST_REPLY]
    return "".join(" " if c != "\n" and unicodedata.category(c) in ("Cc", "Cs") else c for c in beginning)
