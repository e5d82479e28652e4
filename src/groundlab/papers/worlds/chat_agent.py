"""A language model that plays in a conversation, prompted as BALROG does: any OpenAI-compatible server, or a rule.

    groundlab evaluate chat --protocol balrog --set maker=openai --model NAME --base-url http://127.0.0.1:8000/v1 \
        --ledger out/ledger.jsonl

A conversation is the instructions, then the last observations with the replies between them, then the present
observation with the request for one action. Words around the facts are our own; the lines of the actions are BALROG's
(balrog-ai/BALROG, balrog/environments/babyai_text), which is why one prompt says what is wrong and another corrects it
(docs/papers/worlds.md#later-work). A reply that is no action, to the letter, is played as go forward, as BALROG does.

The maker "scripted" is the rule of `reflex.py`, which needs no server. All others file every reply in a ledger, so the
same command goes on where it was cut off, and pays nothing twice.
"""

import re
from collections import deque
from pathlib import Path
from typing import Any

from groundlab import worlds
from groundlab.assets import read_text
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import parse_layouts
from groundlab.language.chat import ChatModel, Messages, Sampling, without_thoughts
from groundlab.language.chat.factory import chat_model
from groundlab.papers import recording
from groundlab.papers.episodes import summary
from groundlab.papers.method import Request
from groundlab.papers.worlds.reflex import reflex
from groundlab.papers.worlds.settings import PROMPTS, ChatAgentSettings
from groundlab.worlds import codes
from groundlab.worlds.text_env.prompts import text_actions

ACTIONS = text_actions(6)
FALLBACK = "go forward"
_HOME = "prompts/balrog"
_MISSION = "{mission}"
_CURRENT, _EARLIER = "Current observation:\n", "Observation:\n"
_THOUGHT_MARKER = "ACTION:"
_STEPS_A_LAYOUT = 1_000  # draws of one layout, at most: tells the replies of different layouts apart


class Conversation:
    """What a language model reads in one episode."""

    def __init__(self, instructions: str, request: str, history: int):
        """instructions: the first message; request: the end of the last; history: earlier turns that are kept."""
        self._instructions, self._request = instructions, request
        self._turns: deque[tuple[str, str]] = deque(maxlen=history)
        self._observation = ""

    def observe(self, text: str) -> None:
        """The present observation."""
        self._observation = text

    def reply(self, action: str) -> None:
        """The present observation was answered by this action."""
        self._turns.append((self._observation, action))

    @property
    def messages(self) -> Messages:
        """The chat that the next reply follows."""
        earlier = [
            {"role": role, "content": content}
            for observation, action in self._turns
            for role, content in (("user", _EARLIER + observation), ("assistant", action))
        ]
        first = {"role": "user", "content": self._instructions}
        return [first, *earlier, {"role": "user", "content": f"{_CURRENT}{self._observation}\n\n{self._request}"}]


def parse_reply(reply: str, thinks: bool = False) -> str | None:
    """The action that a reply is, with nothing else but blanks around it; None for any other reply.

    thinks: what counts stands after the last "ACTION:", and only its letters do (BALROG's agents that think).
    """
    reply = without_thoughts(reply)
    if thinks:
        reply = re.sub(r"[^a-zA-Z\s:]", "", reply).rpartition(_THOUGHT_MARKER)[2]
    return reply.strip() if reply.strip() in ACTIONS else None


class Reflex:
    """The rule of `reflex.py` as a chat model: it reads the goal, its own past actions and the present observation."""

    model = "reflex"

    def reply(self, messages: Messages, sampling: Sampling) -> str:
        """One action. Raises GroundlabError for instructions that do not name the goal as the shipped ones do."""
        goal = re.search(r"Your goal is to (.+?)\. ", messages[0]["content"])
        if goal is None:
            raise GroundlabError('the scripted maker looks for "Your goal is to {mission}. "; keep that in the prompt')
        past = [message["content"] for message in messages if message["role"] == "assistant"]
        return reflex(goal[1], messages[-1]["content"].splitlines(), past)


def _maker(settings: ChatAgentSettings) -> ChatModel:
    if settings.maker == "scripted":
        return Reflex()
    return chat_model(settings.maker, settings.chat, Path(settings.ledger) if settings.ledger else None, True)


def _instructions(prompt: str) -> str:
    """The text of a prompt. Raises GroundlabError for a file that is not there or does not hold {mission}."""
    if prompt in PROMPTS:
        return read_text(f"{_HOME}/{PROMPTS[prompt]}.txt").strip()
    try:
        text = Path(prompt).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        known = ", ".join(PROMPTS)
        raise GroundlabError(f"prompt {prompt!r} is no text file; give one, or {known}") from None
    if _MISSION not in text:
        raise GroundlabError(f"the prompt {prompt} does not hold {_MISSION}, where the goal goes; add it")
    return text


def evaluate(request: Request) -> list[dict[str, Any]]:
    """Each layout to its end, one after the other: policy "chat"."""
    settings = ChatAgentSettings(**request.settings)
    kinds = worlds.find(request.world).kinds
    names = [f"{request.world}/{kind}" for kind in kinds] if len(kinds) > 1 else [request.world]
    options: dict[str, Any] = {"num_dists": settings.num_dists, "prompt": "balrog", "invalid": "forward"}
    envs = [worlds.TextEnv(name, **options) for name in names]
    maker, instructions = _maker(settings), _instructions(settings.prompt)
    layouts = parse_layouts(settings.layouts)
    rows = [_episode(envs[layout % len(envs)], layout, maker, instructions, settings) for layout in layouts]
    result = summary("chat", rows)
    result["mean"]["invalid"] = sum(row["invalid"] for row in rows) / sum(row["steps"] for row in rows)
    return [result]


def _episode(
    env: worlds.TextEnv, layout: int, maker: ChatModel, instructions: str, settings: ChatAgentSettings
) -> dict[str, Any]:
    """One layout in a conversation of its own: the row of its outcome, with how many replies were no action."""
    text, info = env.reset(seed=layout)
    request = read_text(f"{_HOME}/{'reply-thinking' if settings.thinks else 'reply'}.txt").strip()
    talk = Conversation(instructions.replace(_MISSION, info["mission"]), request, settings.history)
    steps, invalid, total, terminated, truncated = 0, 0, 0.0, False, False
    words, replies = [], []
    while not (terminated or truncated):
        talk.observe(text)
        sampling = settings.chat.sampling(layout * _STEPS_A_LAYOUT + steps)
        reply = maker.reply(talk.messages, sampling)
        action = parse_reply(reply, settings.thinks)
        text, reward, terminated, truncated, info = env.step(str(reply) if action is None else action)
        talk.reply(action or FALLBACK)
        words.append(action or FALLBACK)
        replies.append(str(reply))
        invalid += action is None
        steps, total = steps + 1, total + reward
    row = {"layout": layout, "steps": steps, "success": info["success"], "return": total, "invalid": invalid}
    row |= {"kind": env.world.kinds[0]} if env.world.kinds else {}
    taken = [env.actions.index(word) for word in words]
    recording.keep(row, env.world.name, codes.ACTIONS, taken, settings.num_dists, replies)
    return row
