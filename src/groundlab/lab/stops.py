"""When a command ends before its work does: a signal, or a deadline."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def is_over(until: float | None) -> bool:
    """Whether a deadline has passed, a reading of `time.monotonic()`; None is never."""
    return until is not None and time.monotonic() >= until


@contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Whether a SIGTERM or SIGINT has come, as a question; a second signal acts at once, as without this."""
    asked, before = threading.Event(), {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        restore()

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked.is_set
    finally:
        restore()
