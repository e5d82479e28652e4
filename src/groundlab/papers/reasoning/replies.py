"""What a reply means: the action it names, or what an invalid one costs.

    parse("I see it.\nfinal answer: go forward", thinks=True)     # 2, an index into ACTIONS; None: invalid
    referee = ReplyParser(num_envs, thinks, settings)
    referee.start(env)                                            # at the first observation of an episode
    ruling = referee.judge(env, reply)                            # .action, or .error, .penalty and .ends

Strict is the original's rule, to the letter: the direct agent's reply is an action and nothing else; the reasoning
agent's has one, and nothing else but blanks, after its last "final answer:". Lenient takes what a person would:
case, punctuation and markup do not count, and words may follow. Any string is judged, and none raises.
An invalid reply does not reach the environment, whose clock stands still (spec reasoning-agents 1.3 and 1.4).
Read next: `context.py`.
"""

import re
import unicodedata
from typing import Literal, NamedTuple, Protocol

from groundlab.assets import read_text
from groundlab.language.prompts import text_actions

ACTIONS = text_actions(6)
"""What can be answered; an action's place is the environment's action number."""
MARKER = "final answer:"
Parser = Literal["strict", "lenient"]
_LENIENT_MARKER = re.compile(r"final\s+answer\b")
_LENIENT_ACTION = re.compile("|".join(rf"\b{action.replace(' ', ' +')}\b" for action in ACTIONS))
_READ = 10_000  # characters of a reply that the lenient parser looks at, from its end


class ReplySettings(Protocol):
    """What is read here of a method's settings."""

    parser: Parser
    short_prompts: bool
    invalid_penalty: float
    invalid_limit: int


class ParsedReply(NamedTuple):
    """What follows from a reply: an action for the environment, or a penalty in its place."""

    action: int | None
    penalty: float = 0.0  # the step's reward, where the reply was invalid
    error: str = ""  # what the model reads instead of an observation
    ends: bool = False  # too many invalid replies in a row: the episode is over

    @property
    def valid(self) -> bool:
        """Whether the environment takes a step."""
        return self.action is not None


def parse(reply: str, thinks: bool, parser: Parser = "strict") -> int | None:
    """The index into ACTIONS that a reply means, or None. `thinks`: it must come after the last "final answer:"."""
    said = _lenient(reply, thinks) if parser == "lenient" else _strict(reply, thinks)
    return ACTIONS.index(said) if said in ACTIONS else None


def _strict(reply: str, thinks: bool) -> str | None:
    if not thinks:
        return reply
    _, marker, said = reply.rpartition(MARKER)
    return said.strip() if marker else None


def _lenient(reply: str, thinks: bool) -> str | None:
    """The first action after the last marker, or the only one that a direct reply names."""
    text = _plain(reply[-_READ:])
    if thinks:
        *_, said = _LENIENT_MARKER.split(text)
        found = _LENIENT_ACTION.match(said.lstrip()) if said != text else None
        return _joined(found.group()) if found else None
    named = {_joined(match) for match in _LENIENT_ACTION.findall(text)}
    return named.pop() if len(named) == 1 else None


def _joined(words: str) -> str:
    return " ".join(words.split())


def _plain(text: str) -> str:
    """Letters and digits in lower case, blanks for all else."""
    folded = unicodedata.normalize("NFKC", text).lower()
    return "".join(character if character.isalnum() else " " for character in folded)


def thought(reply: str, thinks: bool) -> str:
    """What a reply says before its last "final answer:", without blanks around; of a direct reply, nothing."""
    return reply.rpartition(MARKER)[0].strip() if thinks else ""


class ReplyParser:
    """Judges the replies of B environments, and counts the invalid ones in a row of each."""

    def __init__(self, num_envs: int, thinks: bool, settings: ReplySettings):
        self._thinks, self._settings = thinks, settings
        self._error = error_text(thinks, settings.short_prompts)
        self._streaks = [0] * num_envs

    def start(self, env: int) -> None:
        """Environment `env` begins an episode."""
        self._streaks[env] = 0

    def judge(self, env: int, reply: str) -> ParsedReply:
        """What follows from the reply of environment `env`."""
        action = parse(reply, self._thinks, self._settings.parser)
        self._streaks[env] = 0 if action is not None else self._streaks[env] + 1
        if action is not None:
            return ParsedReply(action)
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


def error_text(thinks: bool, short: bool = False) -> str:
    """What the model reads after an invalid reply; it begins with "Invalid"."""
    return prompt_text(f"invalid-{_kind(thinks, short)}")


def system_prompt(mission: str, thinks: bool, short: bool = False) -> str:
    """The first message of a conversation, which tells the goal and the format of replies (spec reasoning-agents 2)."""
    return prompt_text(_kind(thinks, short)).replace("{goal}", mission)


def _kind(thinks: bool, short: bool) -> str:
    return ("reasoning" if thinks else "direct") + ("-short" if short else "")


def prompt_text(name: str) -> str:
    """A prompt's file, without the newline at its end."""
    return read_text(f"prompts/reasoning/{name}.txt").strip()
