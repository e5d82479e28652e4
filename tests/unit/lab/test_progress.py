"""What a person sees while runs go on: the time that is left, and why a run failed."""

from io import StringIO

import pytest
from rich.console import Console

from groundlab.core.run import Progress, RunSpec
from groundlab.lab import progress
from groundlab.lab.config import Estimate
from groundlab.lab.plan import PlannedRun


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def runs(count: int, seconds: float) -> list[PlannedRun]:
    cost = Estimate(seconds=seconds, megabytes=1)
    specs = [RunSpec(method="always", world="SimpleDoorKey", seed=seed, settings={}) for seed in range(count)]
    return [PlannedRun(spec, "mediator", f"{spec.seed:016d}", cost, "new") for spec in specs]


def test_before_anything_is_measured_the_time_left_is_that_of_the_plan(clock):
    view = progress.View(runs(10, 600), workers=2)
    clock.now = 30
    view.progressed(runs(10, 600)[0], Progress(step=1, total=1000, figures={}))
    assert view.time_left() in ("59 min", "60 min", "61 min", "62 min"), "not the hours that one step would foretell"


def test_after_some_minutes_the_time_left_follows_the_machine(clock):
    planned = runs(10, 600)
    view = progress.View(planned, workers=2)
    for run in planned[:5]:
        view.ended(run, "finished", "")
    clock.now = 3000  # twice as long as planned on two workers
    assert view.time_left() in ("47 min", "48 min"), "as slowly again, but for a rest of trust in the plan"


def test_one_run_on_many_workers_takes_its_own_time(clock):
    assert progress.View(runs(1, 600), workers=8).time_left() == "10 min"


def test_a_run_by_itself_tells_what_was_measured_since_its_first_step(clock):
    (run,) = runs(1, 1)
    view = progress.View([run], estimated=False)
    clock.now = 100  # its model is loaded
    view.progressed(run, Progress(step=1, total=98, figures={}))
    assert view.time_left() == "unknown time"
    clock.now = 160
    view.progressed(run, Progress(step=5, total=98, figures={}))
    assert view.time_left() == "23 min", "93 steps of 15 s"


@pytest.mark.parametrize("estimated", [True, False])
def test_what_a_resumed_run_had_done_before_makes_nothing_look_faster(estimated, clock):
    (run,) = runs(1, 1000)
    view = progress.View([run], estimated=estimated)
    for step, now in ((91, 1), (93, 200)):
        clock.now = now
        view.progressed(run, Progress(step=step, total=100, figures={}))
    left = float(view.time_left().partition(" min")[0])
    assert (2 if estimated else 11) <= left <= 12, "seven steps of 100 s each; some trust in a plan where there is one"


def test_in_a_terminal_an_error_keeps_its_brackets(monkeypatch):
    terminal = Console(file=StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(progress, "Console", lambda file: terminal)
    (run,) = runs(1, 600)
    line = "always-SimpleDoorKey-s0 failed: [enforce fail at alloc.cpp] no memory for [/data/x]"
    with progress.progress_view([run]) as view:
        view.started(run)
        view.progressed(run, Progress(step=1, total=2, figures={}))
        view.ended(run, "failed", line)
        view.note("[/data/x] is full")
    assert line in terminal.file.getvalue() and "[/data/x] is full" in terminal.file.getvalue()
