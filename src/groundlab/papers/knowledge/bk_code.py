"""BK-Code: a language model writes a program, sees its values on episodes, and improves it (phi = its value).

    programs = write_programs(chat, chat_settings.sampling, dataset, sandbox, Settings(), seed)
    final = choose_program(programs, dataset, sandbox, seed)       the newest that works and tells windows apart
    phi = CodePotential(final.source, sandbox)(windows)

Each round is one program that runs without a fault on a few windows. A fault is sent to the model, which tries again.
Replies go through a ledger (language/chat), and all else is drawn from the seed: the same command continues a
labelling that was stopped, and no reply is paid for twice. Source: docs/papers/knowledge-method.md#s3.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from groundlab.assets import read_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict
from groundlab.core.seeding import generator
from groundlab.core.storage import digest_bytes
from groundlab.language.chat import ChatModel, Messages, Sampling, without_thoughts
from groundlab.papers.knowledge.captions import trajectory_for_code
from groundlab.papers.knowledge.dataset import Dataset, Segment, windows_of
from groundlab.papers.knowledge.observations import Windows, channels_first, normalise
from groundlab.papers.knowledge.potentials import Potential
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.sandbox.results import Fault, Result

HORIZON = 5
_CHOICE_WINDOWS = 200  # on which programs are compared
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
    """How replies are read (`parse_program`; quirk Q12)."""
    forgets_request: bool = False
    """Q6: the oldest message left out is the request itself."""
    normalised_view: bool = False
    """Q7: programs read fractions, where their prompt promises whole codes."""


class Program(NamedTuple):
    """The result of one round."""

    source: str
    faults: int
    """Programs that failed before it."""
    calls: int
    """Replies that the round took."""


# --- Prompts and replies


def opening() -> Messages:
    """The messages that every conversation begins with."""
    environment = f"{read_text('prompts/knowledge/minigrid.txt')}\n{_prompt('function')}"
    system = [{"role": "system", "content": text} for text in (_prompt("task"), environment)]
    return [*system, {"role": "user", "content": _prompt("request")}]


def _prompt(name: str) -> str:
    return read_text(f"prompts/knowledge/code-{name}.txt")


def _samples(segments: list[Segment], values: np.ndarray, details: list[dict[str, float]]) -> str:
    """The windows in words, with the program's values and their parts (docs/papers/knowledge-method.md#s3,
    examples_description).
    """
    samples = []
    for number, (segment, value, parts) in enumerate(zip(segments, values, details, strict=True), start=1):
        caption = trajectory_for_code(segment.captions, segment.actions.tolist())
        named = ", ".join(f"{name}: {part:.4f}" for name, part in parts.items())
        samples.append(f"Sample#{number}\n{caption}\nThe computed reward is {value:.4f}. Reward details: {named}.\n\n")
    return "".join(samples)


_BLOCK = re.compile(r"(?ims)^([ \t]*)(`{3,}|~{3,})[ \t]*\{?\.?py(?:thon)?(?![a-z])[^\n]*\n(.*?)(?=^(?:\1| {0,3})\2|\Z)")
_GREEDY_BLOCK = re.compile(r"```python\n(.*)```", re.DOTALL)


def parse_program(reply: str, strict: bool = True) -> str | None:
    """The program in a reply's fenced Python block, or None.

    strict: the last block that defines compute_reward; a reply that was cut may not close it. Otherwise everything from
    the first fence to the last.
    """
    reply = without_thoughts(reply).replace("\r\n", "\n")
    if not strict:
        block = _GREEDY_BLOCK.search(reply)
        return block[1] if block else None
    found = (dedent(block) if indented else block for indented, _, block in _BLOCK.findall(reply))
    blocks = [block for block in found if re.search(r"^def compute_reward\(", block, re.MULTILINE)]
    return blocks[-1] if blocks else None


# --- Conversations and what they take (BK-Goal's too)

_LETTERS_A_TOKEN = 4
_TOKENS_A_MESSAGE = 4  # roles and separators


class Estimate(NamedTuple):
    """What a labelling takes when every reply can be read at once."""

    calls: int
    prompt_tokens: int
    completion_tokens: int


def tokens_of(messages: Messages) -> int:
    """About how many tokens a model reads: a quarter of the letters. No tokenizer is assumed."""
    return sum(_TOKENS_A_MESSAGE + -(-len(message["content"]) // _LETTERS_A_TOKEN) for message in messages)


def prune(messages: Messages, limit: int, first: int, count: Callable[[Messages], int] = tokens_of) -> Messages:
    """The messages without the oldest pairs from number `first` on, so that at most `limit` tokens are left.

    The original begins at 2 and so forgets its own request first (docs/papers/knowledge-reference.md#q6); beginning at
    3 keeps it. The latest message always stays.
    """
    left = list(messages)
    while count(left) > limit and len(left) > first + 2:
        del left[first : first + 2]
    return left


def estimate_conversation(first: Messages, rounds: Iterable[int], reply_tokens: int, limit: int) -> Estimate:
    """The estimate of one conversation that begins with `first`; round n adds rounds[n] tokens and a reply."""
    length, prompt, calls = tokens_of(first), 0, 0
    for added in rounds:
        length += added
        prompt, calls = prompt + min(length, limit), calls + 1
        length += reply_tokens
    return Estimate(calls, prompt, reply_tokens * calls)


def estimate(settings: Settings) -> Estimate:
    """Calls and tokens of a labelling, to be shown before it: conversations as long as they may become."""
    rounds = [0, *([settings.samples * _WINDOW_TOKENS] * (settings.rounds - 1))]
    return estimate_conversation(opening(), rounds, _REPLY_TOKENS, settings.max_prompt_tokens)


# --- The labelling


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
        segments = data.draw(settings.samples, HORIZON, rng)
        program, messages = _write_program(chat, sampling, messages, segments, sandbox, settings)
        if program is None:
            break
        programs.append(program)
    if not programs:
        raise GroundlabError(f"{chat.model} wrote no working program in {settings.attempts} replies; try another model")
    return programs


def _write_program(
    chat: ChatModel,
    sampling: Callable[[int], Sampling],
    messages: Messages,
    segments: list[Segment],
    sandbox: Sandbox,
    settings: Settings,
) -> tuple[Program | None, Messages]:
    """Ask until a program works on all segments; the messages then ask for a better one."""
    faults, first = 0, 2 if settings.forgets_request else 3
    for call in range(settings.attempts):
        messages = prune(messages, settings.max_prompt_tokens, first)
        reply = without_thoughts(str(chat.reply(messages, sampling(call))))
        source = parse_program(reply, settings.strict)
        if source is None:
            continue
        result = _evaluate(sandbox, source, windows_of(segments), settings.normalised_view, details=True)
        answer = {"role": "assistant", "content": reply}
        if result.fault is not None:
            faults += 1
            feedback = _prompt("error").format(error=result.fault.message.strip())
            messages = [*messages, answer, {"role": "user", "content": feedback}]
            continue
        feedback = _prompt("improve").format(samples=_samples(segments, result.values, result.details or []))
        return Program(source, faults, call + 1), [*messages, answer, {"role": "user", "content": feedback}]
    return None, messages


def _evaluate(sandbox: Sandbox, source: str, windows: Windows, normalised: bool, details: bool = False) -> Result:
    """A program's values. normalised: it reads the original's fractions (quirk Q7), not whole codes."""
    views = normalise(windows.views) if normalised else channels_first(windows.views)
    return sandbox.evaluate(source, views, windows.actions, details)


def choose_program(
    programs: list[Program], data: Dataset, sandbox: Sandbox, seed: int, normalised: bool = False
) -> Program:
    """The newest program that works on 200 windows and does not give all of them one value; the original has no choice
    but the newest. normalised: as in `_evaluate`. Raises GroundlabError when there is none."""
    windows = windows_of(data.draw(_CHOICE_WINDOWS, HORIZON, generator(seed, "program choice")))
    for program in reversed(programs):
        result = _evaluate(sandbox, program.source, windows, normalised)
        if result.fault is None and np.ptp(result.values) > 0:
            return program
    raise GroundlabError(
        f"none of {len(programs)} programs tells windows apart; label again with another model or seed"
    )


def store(folder: Path, programs: list[Program], final: Program) -> None:
    """Write code-step0.py, ... and code-final.py, as the original names them."""
    for number, program in enumerate(programs):
        storage.write_atomic(folder / f"code-step{number}.py", program.source)
    storage.write_atomic(folder / "code-final.py", final.source)


# --- The potential

_PATIENCE = 200  # windows before a program may be given up


class CodePotential(Potential):
    """A program's values. Where it fails phi is 0 and counted by the first fault of its batch, for the manifest of the
    run; a program that fails too often ends the run."""

    horizon = HORIZON

    def __init__(self, source: str, sandbox: Sandbox, most_failures: float = 0.05, normalised: bool = False):
        """normalised: as in `_evaluate`."""
        self.source, self.sha256 = source, digest_bytes(source.encode())
        self._sandbox, self._most, self._normalised = sandbox, most_failures, normalised
        self.windows, self.failed = 0, Counter[str]()
        self._fault: Fault | None = None

    def __call__(self, windows: Windows) -> np.ndarray:
        """phi [N]. Raises GroundlabError when more than `most_failures` of all windows have failed."""
        result = _evaluate(self._sandbox, self.source, windows, self._normalised)
        self.windows += len(result.values)
        if result.fault:
            self._fault = self._fault or result.fault
            self.failed[result.fault.kind] += int(result.failed.sum())
        if self._fault and self.windows >= _PATIENCE and self.failed.total() > self._most * self.windows:
            share, last = self.failed.total() / self.windows, self._fault.message.strip().split("\n")[-1]
            name = f"program {self.sha256[:12]} fails on {share:.0%} of {self.windows:,} windows"
            raise GroundlabError(f"{name} ({self._fault.kind}: {last}); choose another one")
        return result.values

    def state(self) -> dict[str, Any]:
        return {"windows": self.windows, "failed": dict(sorted(self.failed.items()))}

    def load_state(self, state: dict[str, Any]) -> None:
        self.windows, self.failed = state["windows"], Counter(state["failed"])

    def notes(self) -> dict[str, Any]:
        lost = {"batches_put_again": self._sandbox.repeats}  # of this process
        return {"sandbox": {**self.state(), **lost, "protections": self._sandbox.protections}}

    def close(self) -> None:
        self._sandbox.close()
