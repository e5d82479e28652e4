"""What a person sees while runs go on: live bars in a terminal, dated plain lines anywhere else.

The overall bar and its ETA count estimated seconds, not runs, because runs differ in length by a factor of a thousand.
The ETA is the plan's at first, and as fast as this machine proves to be after some minutes. A run by itself has no
estimate: its ETA is what was measured since its first step here.
"""

import datetime
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

from rich import progress
from rich.console import Console

from groundlab.core import storage
from groundlab.core.run import Progress
from groundlab.lab.plan import PlannedRun, duration
from groundlab.lab.run_folder import Status

_PLAIN_SECONDS = 30.0  # between two overall lines of the plain view
_FIGURES_SHOWN = 3
_TRUST_SECONDS = 120.0  # of wall time that the plan's own estimate weighs against what was measured


class View:
    """Bars in a terminal, one a running run with its latest figures and one for all with an ETA; elsewhere dated lines.

    Lines are one a run that ends, and one now and then for all.
    """

    def __init__(
        self,
        runs: list[PlannedRun],
        workers: int = 1,
        estimated: bool = True,
        stream: TextIO | None = None,
        bars: progress.Progress | None = None,
    ):
        self._total, self._ended, self._failed = len(runs), 0, 0
        self._workers = min(workers, len(runs))
        self._trust = _TRUST_SECONDS if estimated else 0.0
        self._from_first_step = not estimated  # what comes before it, loading a model, says nothing of the steps
        # An estimate of 0 would make a run invisible to the overall bar.
        self._seconds = {run.hash: max(run.estimate.seconds, 0.1) for run in runs}
        self._done = dict.fromkeys(self._seconds, 0.0)
        self._found: dict[str, float] = {}
        """The share of each run that was done before it reported here: a resumed run's own, which took no time."""
        self._began = self._said_at = time.monotonic()
        self._started: dict[str, float] = {}
        self._stream, self._bars = stream, bars
        self._tasks: dict[str, progress.TaskID] = {}
        if bars:
            self._overall = bars.add_task(self._counts, total=sum(self._seconds.values()), figures="")

    def started(self, run: PlannedRun) -> None:
        """A worker has taken a run."""
        self._started[run.hash] = time.monotonic()
        if self._bars:
            self._tasks[run.hash] = self._bars.add_task(run.label, total=None, figures=run.given)

    def progressed(self, run: PlannedRun, news: Progress) -> None:
        """A run has done a step."""
        if run.hash not in self._found:
            first = news.step if self._from_first_step else news.step - 1
            self._found[run.hash] = first / max(news.total, 1)
            self._began = time.monotonic() if self._from_first_step else self._began
        self._done[run.hash] = news.step / max(news.total, 1)
        figures = ", ".join(f"{name} {value:.3g}" for name, value in list(news.figures.items())[:_FIGURES_SHOWN])
        if self._bars:
            self._bars.update(self._tasks[run.hash], total=news.total, completed=news.step, figures=figures)
            self._bars.update(self._overall, completed=self._seconds_done, figures=f"{self.time_left()} left")
        elif time.monotonic() - self._said_at > _PLAIN_SECONDS:
            self._said_at = time.monotonic()
            place = f"{run.label} at {news.step} of {news.total}{_brackets(figures)}"
            self.note(f"{self._counts}; {place}; {self.time_left()} left")

    def ended(self, run: PlannedRun, status: Status, line: str) -> None:
        """A run has finished, failed (`line` says why) or stopped."""
        if status in ("finished", "failed"):
            self._ended += 1
            self._done[run.hash] = 1.0
        self._failed += status == "failed"
        if self._bars:
            self._bars.remove_task(self._tasks.pop(run.hash))
            self._bars.update(self._overall, completed=self._seconds_done, description=self._counts)
        if status == "failed":
            self.note(line, "red")
        elif not self._bars:
            took = duration(time.monotonic() - self._started.get(run.hash, self._began))
            self.note(f"{status} {run.label}{_brackets(run.given)} after {took}; {self._counts}")

    def stopping(self) -> None:
        """A stop was asked for."""
        again = " (again: stop at once)" if self._bars else ""
        self.note(f"stopping: the running runs save a checkpoint first{again}")

    def note(self, line: str, style: str = "") -> None:
        """Something to say about all runs."""
        if self._bars:
            self._bars.console.print(line, style=style, markup=False, highlight=False)
        else:
            say(line, self._stream)

    @property
    def _seconds_done(self) -> float:
        return sum(share * self._seconds[key] for key, share in self._done.items())

    def time_left(self) -> str:
        """What is left by the plan's estimates, at the speed measured so far; "unknown time" before there is any."""
        done, elapsed = self._seconds_done, time.monotonic() - self._began
        here = done - sum(share * self._seconds[key] for key, share in self._found.items())
        worth = here + self._trust * self._workers  # estimated seconds, done in the seconds below
        if worth < 1e-6:
            return "unknown time"
        return duration((sum(self._seconds.values()) - done) * (elapsed + self._trust) / worth)

    @property
    def _counts(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._ended} of {self._total} runs{failed}"


@contextmanager
def progress_view(runs: list[PlannedRun], workers: int = 1, estimated: bool = True) -> Iterator[View]:
    """The view that fits where we are: live in a terminal, plain lines in files, pipes and notebooks.

    workers: how many runs go on at once. estimated: whether the runs' estimates are of what they take.
    """
    stream = _own_stderr()
    console = Console(file=stream)
    if not console.is_terminal or console.is_jupyter:
        yield View(runs, workers, estimated, stream)
        return
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=24),
        progress.TaskProgressColumn(),
        progress.TextColumn("{task.fields[figures]}", style="dim", markup=False),
    )
    # what is printed meanwhile stands above the bars, unless it goes to a file
    with progress.Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty()) as bars:
        yield View(runs, workers, estimated, bars=bars)


def say(line: str, stream: TextIO | None = None) -> None:
    """One dated line, on standard error by default."""
    print(f"{datetime.datetime.now():%H:%M:%S} {line}", file=stream or sys.stderr, flush=True)


@contextmanager
def output_to(file: Path) -> Iterator[None]:
    """Send what libraries print, in Python or below it, to a file, so that it cannot break a progress view."""
    storage.make_folder(file.parent)
    with storage.clear_disk_errors(file):
        log = file.open("a", buffering=1, encoding="utf-8")
    saved = {number: os.dup(number) for number in (1, 2)}
    try:
        with log, redirect_stdout(log), redirect_stderr(log):
            for number in saved:
                os.dup2(log.fileno(), number)
            yield
    finally:
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


def at_most_every(seconds: float, act: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """`act` for the news of a run, left out where it was called less than so long ago; its last step is always told."""
    due = 0.0

    def report(news: Progress) -> None:
        nonlocal due
        if time.monotonic() >= due or news.step >= news.total:
            due = time.monotonic() + seconds
            act(news)

    return report


def _own_stderr() -> TextIO:
    """Standard error for a view alone: it stays the terminal while a run's output goes to its log."""
    try:
        return os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)
    except (OSError, ValueError):  # a notebook's stderr is no file
        return sys.stderr


def _brackets(text: str) -> str:
    return f" ({text})" if text else ""
