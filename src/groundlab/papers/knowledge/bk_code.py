"""BK-Code's labelling: a language model writes a program, sees what it makes of behaviour, and writes a better one.

    programs = write_programs(chat, chat_settings.sampling, dataset, sandbox, Settings(), seed)
    chosen(programs, dataset, sandbox, seed)      the newest that works and tells windows apart

Each round is one program that runs without a fault on a few windows; a fault is told to the model, which tries again.
Replies come through a ledger (language/chat), and all else is drawn from the seed: the same command continues a
labelling that was stopped, without paying twice. Source: spec background-knowledge 3. Called from: `labelling.py`.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field

from groundlab.assets import read_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict
from groundlab.core.seeding import generator
from groundlab.language.chat import ChatModel, Messages, Sampling
from groundlab.papers.knowledge.captions import trajectory_for_code
from groundlab.papers.knowledge.dataset import Dataset, Segment, sample
from groundlab.papers.knowledge.observations import channels_first
from groundlab.papers.knowledge.sandbox import Sandbox

FIRST, SECOND, TIE = 0.0, 1.0, 0.5  # 1: the second segment is preferred
_RANKS = {"A>B": FIRST, "B>A": SECOND, "A=B": TIE, "B<A": FIRST, "A<B": SECOND, "B=A": TIE}
_RANK = re.compile(r"\b[AB]\s*[<>=]\s*[AB]\b")
_BLOCK = re.compile(r"^```(?:python|py)[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_GREEDY_BLOCK = re.compile(r"```python\n(.*)```", re.DOTALL)
_GOAL = re.compile(r"\s*(?:[-*•]|\d+[.)])\s*(.*\S)")


def preference(reply: str, strict: bool = True) -> float | None:
    """Which of two segments a reply ranks first: 0.0 (A), 1.0 (B), 0.5 (a tie), or None.

    strict: after the last "[Rank]" exactly one ranking stands, however often; spaces and "<" are no matter. Otherwise,
    after the first "[Rank]", "B > A" counts before "A > B" before "A = B", letter by letter.
    """
    if strict:
        _, mark, rest = reply.rpartition("[Rank]")
        said = {_RANKS.get(re.sub(r"\s", "", found)) for found in _RANK.findall(rest)}
        return said.pop() if mark and len(said) == 1 else None
    parts = reply.split("[Rank]")
    if len(parts) < 2:
        return None
    order = {"B > A": SECOND, "A > B": FIRST, "A = B": TIE}
    return next((label for words, label in order.items() if words in parts[1]), None)


def goals(reply: str, strict: bool = True) -> list[str] | None:
    """The goals of an unordered list, in order, or None when there is none.

    strict: any bullet or number at the start of a line, without empty and repeated goals. Otherwise lines that begin
    with "- ", as they are.
    """
    if not strict:
        found = [line[2:] for line in reply.split("\n") if line.startswith("- ")]
        return found or None
    lines = (_GOAL.fullmatch(line.rstrip()) for line in reply.split("\n"))
    return list(dict.fromkeys(match[1] for match in lines if match)) or None


def code(reply: str, strict: bool = True) -> str | None:
    """The program in a reply's fenced Python block, or None.

    strict: the last block that defines compute_reward. Otherwise everything from the first fence to the last.
    """
    if not strict:
        found = _GREEDY_BLOCK.search(reply)
        return found[1] if found else None
    blocks = [block for block in _BLOCK.findall(reply) if re.search(r"^def compute_reward\(", block, re.MULTILINE)]
    return blocks[-1] if blocks else None


_LETTERS_A_TOKEN = 4
_TOKENS_A_MESSAGE = 4  # roles and separators


class Estimate(NamedTuple):
    """What a labelling takes, if no reply has to be asked for again."""

    calls: int
    prompt_tokens: int
    completion_tokens: int


def tokens_of(messages: Messages) -> int:
    """About how many tokens a model reads: a quarter of the letters. No tokenizer is assumed."""
    return sum(_TOKENS_A_MESSAGE + -(-len(message["content"]) // _LETTERS_A_TOKEN) for message in messages)


def pruned(messages: Messages, limit: int, first: int, count: Callable[[Messages], int] = tokens_of) -> Messages:
    """The messages without the oldest pairs from place `first` on, so that at most `limit` tokens are left.

    The original begins at 2 and so forgets its own request first (spec background-knowledge, quirk Q6); beginning at 3
    keeps it. The latest message always stays.
    """
    kept = list(messages)
    while count(kept) > limit and len(kept) > first + 2:
        del kept[first : first + 2]
    return kept


def growing(first: Messages, asked: Iterable[int], reply_tokens: int, limit: int) -> Estimate:
    """The estimate of one conversation that begins with `first`; round n adds asked[n] tokens and a reply."""
    length, prompt, calls = tokens_of(first), 0, 0
    for added in asked:
        length += added
        prompt, calls = prompt + min(length, limit), calls + 1
        length += reply_tokens
    return Estimate(calls, prompt, reply_tokens * calls)


HORIZON = 5
_JUDGED_ON = 200  # windows on which programs are compared
_REPLY_TOKENS = 700  # of a reply, for estimates
_WINDOW_TOKENS = 200  # of a window in words, with its reward


class Settings(Strict):
    """How a labelling goes; the original's values."""

    rounds: int = Field(default=20, ge=1)
    samples: int = Field(default=5, ge=1)
    """Windows that the model is shown each round."""
    attempts: int = Field(default=15, ge=1)
    """Replies without a program, and programs with a fault, that one round may take."""
    max_prompt_tokens: int = Field(default=6000, ge=1)
    """Where older rounds are left out of the conversation."""
    strict: bool = True
    """How replies are read (`replies.code`; quirk Q12)."""
    forgets_request: bool = False
    """Q6: the oldest message left out is the request itself."""


class Program(NamedTuple):
    """What came of one round."""

    source: str
    faults: int
    """Programs that failed before it."""
    calls: int
    """Replies that the round took."""


def opening() -> Messages:
    """The messages that every conversation begins with."""
    environment = f"{read_text('prompts/knowledge/minigrid.txt')}\n{_prompt('function')}"
    system = [{"role": "system", "content": text} for text in (_prompt("task"), environment)]
    return [*system, {"role": "user", "content": _prompt("request")}]


def _prompt(name: str) -> str:
    return read_text(f"prompts/knowledge/code-{name}.txt")


def estimate(settings: Settings) -> Estimate:
    """Calls and tokens of a labelling, to be shown before it: conversations as long as they may become."""
    shown = [0, *([settings.samples * _WINDOW_TOKENS] * (settings.rounds - 1))]
    return growing(opening(), shown, _REPLY_TOKENS, settings.max_prompt_tokens)


def write_programs(
    chat: ChatModel,
    sampling: Callable[[int], Sampling],
    data: Dataset,
    sandbox: Sandbox,
    settings: Settings,
    seed: int,
) -> list[Program]:
    """One working program a round, the last one last.

    sampling: how draw n of a conversation is sampled (ChatSettings.sampling). A round that stays without a working
    program ends the labelling with those before it. Raises GroundlabError when the first round does, and what the chat
    model raises.
    """
    messages, programs, rng = opening(), [], generator(seed, "program windows")
    for _ in range(settings.rounds):
        shown = [data.segment(*sample(data.lengths, HORIZON, rng), HORIZON) for _ in range(settings.samples)]
        program, messages = _round(chat, sampling, messages, shown, sandbox, settings)
        if program is None:
            break
        programs.append(program)
    if not programs:
        raise GroundlabError(f"{chat.model} wrote no working program in {settings.attempts} replies; try another model")
    return programs


def _round(
    chat: ChatModel,
    sampling: Callable[[int], Sampling],
    messages: Messages,
    shown: list[Segment],
    sandbox: Sandbox,
    settings: Settings,
) -> tuple[Program | None, Messages]:
    """Ask until a program works on all windows; the messages then ask for a better one."""
    faults, first = 0, 2 if settings.forgets_request else 3
    for call in range(settings.attempts):
        messages = pruned(messages, settings.max_prompt_tokens, first)
        reply = str(chat.reply(messages, sampling(call)))
        source = code(reply, settings.strict)
        if source is None:
            continue
        views = np.stack([channels_first(segment.views) for segment in shown])
        outcome = sandbox.evaluate(source, views, np.stack([segment.actions for segment in shown]), details=True)
        answer = {"role": "assistant", "content": reply}
        if outcome.fault is not None:
            faults += 1
            told = _prompt("error").format(error=outcome.fault.message.strip())
            messages = [*messages, answer, {"role": "user", "content": told}]
            continue
        told = _prompt("improve").format(samples=_samples(shown, outcome.values, outcome.details or []))
        return Program(source, faults, call + 1), [*messages, answer, {"role": "user", "content": told}]
    return None, messages


def _samples(shown: list[Segment], values: np.ndarray, details: list[dict[str, float]]) -> str:
    """The windows in words, with what the program made of them (spec 3, examples_description)."""
    parts = []
    for number, (segment, value, named) in enumerate(zip(shown, values, details, strict=True), start=1):
        caption = trajectory_for_code(segment.captions, segment.actions.tolist())
        told = ", ".join(f"{name}: {part:.4f}" for name, part in named.items())
        parts.append(f"Sample#{number}\n{caption}\nThe computed reward is {value:.4f}. Reward details: {told}.\n\n")
    return "".join(parts)


def chosen(programs: list[Program], data: Dataset, sandbox: Sandbox, seed: int) -> Program:
    """The newest program that works on 200 windows and does not give all of them one value; the original has no choice
    but the newest. Raises GroundlabError when there is none."""
    rng = generator(seed, "program choice")
    segments = [data.segment(*sample(data.lengths, HORIZON, rng), HORIZON) for _ in range(_JUDGED_ON)]
    views = np.stack([channels_first(segment.views) for segment in segments])
    actions = np.stack([segment.actions for segment in segments])
    for program in reversed(programs):
        outcome = sandbox.evaluate(program.source, views, actions)
        if outcome.fault is None and np.ptp(outcome.values) > 0:
            return program
    raise GroundlabError(
        f"none of {len(programs)} programs tells windows apart; label again with another model or seed"
    )


def store(folder: Path, programs: list[Program], final: Program) -> None:
    """Write code-step0.py, ... and code-final.py, as the original names them."""
    for number, program in enumerate(programs):
        storage.write_atomic(folder / f"code-step{number}.py", program.source)
    storage.write_atomic(folder / "code-final.py", final.source)
