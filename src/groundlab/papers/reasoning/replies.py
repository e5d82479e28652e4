"""Replies and prompts: the action that a reply names, what an invalid one costs, and the first message.

    parse_action("I see it.\nfinal answer: go forward", thinks=True)     # 2, an index into ACTIONS; None: invalid
    parser = ReplyParser(num_envs, thinks, settings)
    parser.reset(env)                                                    # an episode begins
    parsed = parser.parse(env, reply)                                    # .action, or .error, .penalty and .ends

"strict" is the original's rule, to the letter: the direct agent's reply is an action and nothing else; the reasoning
agent's has one, and nothing else but blanks, after its last "final answer:". "lenient" takes what a person would:
case, punctuation and markup do not count, and words may follow. Any string is parsed, and none raises.
An invalid reply does not reach the environment, whose clock stands still (docs/papers/reasoning.md#s1-3 and #s1-4).
"""

import re
import unicodedata
from typing import NamedTuple

from groundlab.assets import read_text
from groundlab.language.prompts import text_actions
from groundlab.papers.reasoning.settings import Parser, ReplySettings

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
    """The first message of a conversation: the goal and the format of replies (docs/papers/reasoning.md#s2)."""
    return _prompt_text("", thinks, short).replace("{goal}", mission)


def error_text(thinks: bool, short: bool = False) -> str:
    """What the model reads after an invalid reply; it begins with "Invalid"."""
    return _prompt_text("invalid-", thinks, short)


def _prompt_text(prefix: str, thinks: bool, short: bool) -> str:
    """A prompt's file, without the newline at its end."""
    name = prefix + ("reasoning" if thinks else "direct") + ("-short" if short else "")
    return read_text(f"prompts/reasoning/{name}.txt").strip()
