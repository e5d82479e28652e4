"""What the model reads: the system prompt, the last w observations, and its own replies between them.

    contexts = Contexts(num_envs, thinks, settings)
    contexts.start(env, mission, sentences)               # an episode begins
    contexts.step(env, reply, sentences)                  # the reply was valid, and led to this observation
    contexts.reject(env, reply, ruling.error)             # it was not
    messages = contexts.messages(env)                     # [{"role": ..., "content": ...}, ...]

A model with window w sees at most w observations and w - 1 replies (spec reasoning-agents 1.5). Invalid replies are
replaced by a fixed sentence where the settings hide them; what a policy learns from is always what it said. Replies
are kept without characters that no tokenizer takes, and their beginning only where they have no end.
Read next: `language/dialogue.py`, which turns messages into tokens.
"""

import unicodedata
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from groundlab.methods.reasoning.parsing import system_prompt

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
