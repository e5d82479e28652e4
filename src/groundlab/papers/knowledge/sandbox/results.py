"""The result of a batch in the sandbox, assessed from bytes that are not to be believed (child.py writes them)."""

import json
import math
import os
import signal
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from groundlab.papers.knowledge.sandbox import child

FAULTS = {
    "refused": "the gate did not let it in",
    "error": "it raised an exception",
    "output": "it gave something else than finite, bounded numbers",
    "state": "it gave another value when asked again",
    "cpu": "it took too much processor time",
    "time": "it did not end",
    "memory": "it took too much memory",
    "died": "its process died",
    "forged": "its process wrote something else than an answer",
}
_OWN_ENDS = {signal.SIGPROF, signal.SIGXCPU}  # of the limits
_OWN_ENDS |= {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGABRT,
    signal.SIGSYS,
    signal.SIGTRAP,
}
_LONGEST_MESSAGE, _LONGEST_NAME, _LARGEST_PART = 4_000, 80, 1e300


@dataclass(frozen=True)
class Limits:
    """What one batch may take, and how large its values may be."""

    cpu_seconds: float = 1.0
    cpu_seconds_per_window: float = 0.005
    wall_seconds: float = 60.0
    """For programs that wait without computing; far above the processor's share of a busy machine."""
    memory_bytes: int = 256 << 20
    """Beyond what the interpreter holds."""
    magnitude: float = 1_000.0
    """|phi| at most; a larger one is a failure like NaN."""

    def cpu_seconds_of(self, windows: int) -> float:
        """What a batch of so many windows may take."""
        return self.cpu_seconds + self.cpu_seconds_per_window * windows


class Fault(NamedTuple):
    """What went wrong first; `kind` is one of FAULTS, `message` is fit for a language model to read."""

    kind: str
    message: str


class Result(NamedTuple):
    """Of a batch of N windows."""

    values: np.ndarray  # float64 [N], 0 where the program failed
    failed: np.ndarray  # bool [N]
    fault: Fault | None
    details: list[dict[str, float]] | None  # the named parts of each value, where they were asked for
    cpu_seconds: float


def loss(reply: dict[str, Any], windows: int, limits: Limits) -> str | None:
    """What ended a batch from outside, so that it says nothing of the program; None where it ended by itself."""
    status = reply["status"]
    if reply["ended"] != "closed":
        return None
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == child.UNCONFINED:
        return "the system lets it set no limits; raise those that this process has (ulimit -a)"
    if not os.WIFSIGNALED(status) or reply["cpu_seconds"] >= limits.cpu_seconds_of(windows):
        return None
    return None if os.WTERMSIG(status) in _OWN_ENDS else killed_by(os.WTERMSIG(status))


def killed_by(number: int) -> str:
    """The cause and the way on, of a process that a signal from outside has ended."""
    memory = ", as when memory runs out; give it more memory, or run less at once"
    return f"killed from outside by {signal.Signals(number).name}{memory if number == signal.SIGKILL else ''}"


def assess(
    reply: dict[str, Any], answer: bytes, order: np.ndarray, count: int, limits: Limits, details: bool
) -> Result:
    """The result of a batch of `count` windows.

    reply: how the process ended; answer: the bytes that it wrote; order: the windows as they were sent, some twice.
    """
    cpu_seconds = float(reply["cpu_seconds"])
    fault = _ending(reply, cpu_seconds >= limits.cpu_seconds_of(len(order)))
    if fault is None:
        kind, numbers, text = _parse(answer, len(order))
        fault = _fault(text) if kind in (child.REFUSED, child.FAILED) else None
        if kind == child.VALUES:
            return _values(numbers, text, order, count, limits, details, cpu_seconds)
        fault = fault or Fault("forged", FAULTS["forged"])
    return Result(np.zeros(count), np.ones(count, bool), fault, None, cpu_seconds)


def _ending(reply: dict[str, Any], used_up: bool) -> Fault | None:
    """The fault in how a process ended, if there is one; used_up: it took all of its time, whoever killed it."""
    if reply["ended"] != "closed":
        kind = {"late": "time", "flood": "forged"}[reply["ended"]]
        return Fault(kind, FAULTS[kind])
    status = reply["status"]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        kind = "cpu" if used_up or number in (signal.SIGPROF, signal.SIGXCPU) else "died"
        return Fault(kind, FAULTS[kind] if kind == "cpu" else f"{FAULTS['died']} ({signal.Signals(number).name})")
    return Fault("died", FAULTS["died"]) if os.WEXITSTATUS(status) else None


def _parse(answer: bytes, rows: int) -> tuple[int, np.ndarray, dict[str, Any]]:
    """(kind, values [rows], text) of an answer, or kind 0 for what is none."""
    broken = 0, np.zeros(0), {}
    if len(answer) < child.HEADER.size:
        return broken
    kind, length = child.HEADER.unpack_from(answer)
    size = 8 * rows if kind == child.VALUES else 0
    if length > child.LONGEST_TEXT or len(answer) != child.HEADER.size + size + length:
        return broken
    try:
        text = json.loads(answer[child.HEADER.size + size :])
    except (ValueError, RecursionError):
        return broken
    if not isinstance(text, dict):
        return broken
    return kind, np.frombuffer(answer, np.float64, rows if size else 0, child.HEADER.size), text


def _fault(text: dict[str, Any]) -> Fault:
    """A failure as the child reports it; its words are clipped, its kind must be one of those it may name."""
    kind, message = text.get("kind"), text.get("message")
    if kind not in ("refused", "error", "output", "memory") or not isinstance(message, str):
        return Fault("forged", FAULTS["forged"])
    return Fault(kind, _readable(message[:_LONGEST_MESSAGE]))


def _readable(text: str) -> str:
    """The text without what no file and no server takes: halves of surrogate pairs."""
    return text.encode(errors="replace").decode()


def _values(
    numbers: np.ndarray,
    text: dict[str, Any],
    order: np.ndarray,
    count: int,
    limits: Limits,
    details: bool,
    cpu_seconds: float,
) -> Result:
    """Values in the caller's order; those that are not finite, too large or not repeated have failed."""
    good = np.isfinite(numbers) & (np.abs(numbers) <= limits.magnitude)
    values, failed = np.zeros(count), np.zeros(count, bool)
    values[order[good]] = numbers[good]
    failed[order[~good]] = True
    fault = _fault(text) if "kind" in text else None
    if failed.any() and fault is None:
        fault = Fault("output", f"a value is not finite or beyond {limits.magnitude:g}")
    named = _details(text.get("details"), len(order)) if details else None
    if details and named is None:
        fault = fault or Fault("forged", "the details are no named numbers")
        return Result(np.zeros(count), np.ones(count, bool), fault, None, cpu_seconds)
    parts = dict(zip(order.tolist(), named, strict=True)) if named else {}
    changed = np.any(values[order[good]] != numbers[good]) or np.any(failed[order[good]])
    if changed or any(parts[window] != again for window, again in zip(order.tolist(), named or [], strict=bool(named))):
        fault, failed = Fault("state", FAULTS["state"]), np.ones(count, bool)
    told = [parts[window] for window in range(count)] if named else None
    return Result(np.where(failed, 0.0, values), failed, fault, told, cpu_seconds)


def _details(parts: Any, rows: int) -> list[dict[str, float]] | None:
    """Named finite numbers of every window as they were sent, or None."""
    if not isinstance(parts, list) or len(parts) != rows:
        return None
    if not all(isinstance(named, dict) and all(_is_finite(part) for part in named.values()) for named in parts):
        return None
    return [{_readable(name[:_LONGEST_NAME]): float(part) for name, part in named.items()} for named in parts]


def _is_finite(part: Any) -> bool:
    return isinstance(part, int | float) and -_LARGEST_PART < part < _LARGEST_PART and math.isfinite(part)
