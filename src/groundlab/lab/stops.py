"""When a command ends before its work does: a signal, or a deadline."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def is_over(until: float | None) -> bool:
    """Whether a deadline has passed, a reading of `time.monotonic()`; None is never."""
    return until is not None and time.monotonic() >= until


@contextmanager
def at_first_signal(numbers: Iterable[int], act: Callable[[int, FrameType | None, Any], None]) -> Iterator[None]:
    """Inside, the first of these signals calls `act(number, frame, usual handler)`; a second one is handled as usual.

    Outside the main thread nothing changes.
    """
    usual: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in usual.items():
            if signal.getsignal(number) is once:
                signal.signal(number, handler)

    def once(number: int, frame: FrameType | None) -> None:
        restore()
        act(number, frame, usual[number])

    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            usual[number] = signal.getsignal(number)
            signal.signal(number, once)
    try:
        yield
    finally:
        restore()


@contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Whether a SIGTERM or SIGINT has come, as a question; a second signal acts at once, as without this."""
    asked = threading.Event()
    with at_first_signal((signal.SIGTERM, signal.SIGINT), lambda *_: asked.set()):
        yield asked.is_set
