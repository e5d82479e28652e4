"""Rehearse rows: make each small, run it in a process that is killed and in one that resumes, and extrapolate.

    measured = rehearse(row, plan.results, Size())       # a `costs.Measured`; `costs.add` keeps it for plans

Seconds of an update are those of updates after the first of a process, without tests and checkpoints; what a whole run
takes is linear in its updates, tests and episodes, and has the checkpoints that it would write. A policy of random
weights plays long episodes and writes long replies, so evaluations of GLAM are overestimated; its replies are invalid,
which ends an episode of a reasoning agent after five.
"""

import datetime
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.run import CHECKPOINTS_PER_RUN, SAVING_SHARE, RunSpec
from groundlab.lab import executor, machine, run_folder
from groundlab.lab.config import Estimate
from groundlab.lab.plan import Plan, check_known
from groundlab.lab.rehearsal import costs, rows, stand_ins
from groundlab.lab.rehearsal.costs import Measured
from groundlab.lab.rehearsal.rows import Row, Size
from groundlab.lab.rehearsal.session import COUNTS
from groundlab.lab.worker import KEPT_MEMORY
from groundlab.papers import registry

_KILLED_IN = 2
_BY_CLOCK = 60.0  # seconds after which a checkpoint is due (`Run`)


class _Update(NamedTuple):
    """Which it was, and seconds: of the checkpoint before it, and of itself."""

    number: int
    saving: float
    seconds: float


def chosen(plan: Plan, arms: Sequence[str]) -> list[Row]:
    """The distinct rows of a plan, or those of some arms. Raises GroundlabError for an unknown arm."""
    found = rows.distinct(plan)
    check_known("arm", arms, {row.run.arm for row in found})
    return [row for row in found if not arms or row.run.arm in arms]


def small_spec(row: Row, size: Size) -> tuple[RunSpec, str]:
    """The run that stands for a row, models still by name, and what it has in the place of something else."""
    settings, instead = rows.smaller(row.settings, size), ""
    if settings.get("backend") == "vllm" and "GROUNDLAB_VLLM_PYTHON" not in os.environ:
        settings, instead = {**settings, "backend": "embedded"}, "backend embedded, not vllm"
    spec = row.run.spec
    return registry.resolve(spec.method, spec.world, spec.seed, settings), instead


def check_room(spec: RunSpec, size: Size) -> int:
    """The bytes that a rehearsed run needs, 0 without a language model. Raises GroundlabError where it does not fit."""
    expected, (free, where) = rows.needs(spec, bool(size.toy)).get("total", 0), rows.room(spec.settings)
    if free is not None and expected > free:
        here = f"needs {expected / 1e9:.1f} GB, and {where} has {free / 1e9:.1f} GB free"
        raise GroundlabError(f"{here}; not started (fewer --prompts need less)")
    return expected


def is_known(row: Row, results: Path, size: Size) -> bool:
    """Whether this machine has rehearsed the row before, of this size and by this code."""
    before = costs.load(results).get(row.key)
    return before is not None and (before.hash, before.size, before.machine) == (row.run.hash, vars(size), _machine())


def _machine() -> str:
    hardware = machine.hardware()
    return hardware["gpu"] or f"{hardware['cpu']}, {hardware['cores']} cores"


def rehearse(row: Row, results: Path, size: Size, say: Callable[[str], None] = lambda what: None) -> Measured:
    """Run a row small, killed once where it learns, and say what the whole run would take.

    say: told what it does now. Raises GroundlabError where its memory does not suffice, and where it fails.
    """
    spec, instead = small_spec(row, size)
    expected = check_room(spec, size)
    home, wanted = costs.home(results), rows.models_of(spec.settings)
    for folder in (home / "models").glob("*--*"):  # free the disk of models that this row does not read
        if folder.name.removesuffix("-toy").replace("--", "/") not in wanted:
            shutil.rmtree(folder)
    say("drawing weights" if wanted else "starting")
    settings = stand_ins.replaced(spec.settings, spec.world, home, bool(size.toy))
    spec = registry.resolve(spec.method, spec.world, spec.seed, settings)
    folder = home / "runs" / row.run.hash
    shutil.rmtree(folder, ignore_errors=True)
    learns = registry.get(spec.method, spec.world).learns
    if learns:
        _session(spec, folder, _KILLED_IN, say)
    else:  # there is nothing to resume: a run of one episode instead, to tell what a start takes
        _session(_of_one_episode(spec), folder.with_name(f"{folder.name}-one"), 0, say)
    updates = _session(spec, folder, 0, say)
    figures = _learner_figures(row, spec, folder, updates) if learns else _rule_figures(row, spec, folder)
    sessions = (run_folder.read_manifest(folder) or {})["history"]
    peak = max(each.get("peak_device_mib", each["peak_memory_mib"]) for each in sessions)  # the GPU's, if one was used
    figures |= {"peak_gb": round(peak * 2**20 / 1e9, 3), "expected_gb": expected / 1e9}
    seconds, megabytes = figures.pop("whole_seconds"), _whole_megabytes(row, spec, folder)
    for each in folder.parent.glob(f"{folder.name}*/checkpoint"):
        shutil.rmtree(each)
    return Measured(
        row=row.name,
        hash=row.run.hash,
        size=vars(size),
        machine=_machine(),
        date=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        estimate=Estimate(seconds=seconds, megabytes=megabytes),
        instead=instead,
        figures=figures,
    )


def _of_one_episode(spec: RunSpec) -> RunSpec:
    caps = rows.smaller(spec.settings, Size(episodes=1))
    return registry.resolve(spec.method, spec.world, spec.seed, caps)


def _session(spec: RunSpec, folder: Path, killed_in: int, say: Callable[[str], None]) -> list[_Update]:
    """One process to its end, and its updates. Raises GroundlabError where it ends otherwise than it should."""
    updates: list[_Update] = []
    environment, log = KEPT_MEMORY | os.environ | machine.ONE_THREAD, f" (log: {folder / 'log.txt'})"
    process, pipe = executor.start_child("groundlab.lab.rehearsal.session", environment)
    try:
        pipe.send((spec.model_dump(), str(folder), killed_in))
        say("loading")
        try:
            while (news := pipe.recv())[0] == "step":
                _, done, of, *seconds = news
                updates.append(_Update(done, *seconds))
                if of > 1:  # what does not learn reports its end as one step
                    say(f"update {done} of {of} done" + ("; tests come next" if done == of else ""))
            line = news[1]
        except EOFError:
            code = process.wait()
            if killed_in and code == -signal.SIGKILL and (folder / COUNTS).is_file():
                say("killed, as planned")
                return updates
            line = f"its process died (exit code {code}; -9 is most often memory: give fewer --prompts){log}"
    finally:
        process.kill()  # what it had to do is on the disk
        process.wait()
        pipe.close()
    if line or killed_in:
        over = f"it was over before its update {killed_in}; let its method report every update{log}"
        raise GroundlabError(line or over)
    return updates


def _seconds(updates: list[_Update], tested: bool) -> tuple[float, float]:
    """Of an update, and of the tests in the last one."""
    spans = [update.seconds for update in updates[1:] or updates]
    plain = spans[:-1] if tested and len(spans) > 1 else spans
    each = sum(plain) / len(plain)
    return each, max(0.0, spans[-1] - each) if tested else 0.0


def _learner_figures(row: Row, spec: RunSpec, folder: Path, updates: list[_Update]) -> dict[str, Any]:
    """What an update took, and seconds of the whole run."""
    newest = max((folder / "checkpoint").glob("*/checkpoint.json"), key=lambda file: file.stat().st_mtime)
    evaluation = (folder / "evaluation.json").stat().st_mtime - newest.stat().st_mtime
    found = storage.read_json(folder / COUNTS)
    if not spec.settings.get("model"):
        found["tokens"] = 0  # other networks have tables, too
    return found | _extrapolated(row.settings, spec.settings, updates, max(0.0, evaluation))


def _extrapolated(
    planned: dict[str, Any], settings: dict[str, Any], updates: list[_Update], evaluation: float
) -> dict[str, Any]:
    """Seconds of an update and of a checkpoint, from those of a small run, and seconds of the whole run."""
    small, whole = rows.work(settings), rows.work(planned)
    own = [place for place, update in enumerate(updates) if not place or update.number < updates[place - 1].number][-1]
    each, test = _seconds(updates[own:], bool(settings.get("test_every")))
    saving, units = max(update.saving for update in updates[own:]), small.units / small.updates
    seconds = each / units * whole.units + test * whole.tests / max(1, small.tests)
    seconds += evaluation * whole.episodes / max(1, small.episodes)
    if own:  # after those of a teacher
        taught, lesson = rows.work(planned["teacher"]), rows.work(settings["teacher"])
        seconds += _seconds(updates[:own], False)[0] * lesson.updates / lesson.units * taught.units
    by_clock = seconds / max(_BY_CLOCK, saving / SAVING_SHARE)
    seconds += saving * min(whole.updates, CHECKPOINTS_PER_RUN + by_clock)
    figures = {"update_seconds": each, "update_units": units, "checkpoint_seconds": saving}
    return {**figures, "whole_seconds": round(seconds, 1)}


def _rule_figures(row: Row, spec: RunSpec, folder: Path) -> dict[str, Any]:
    """The whole run of a method that does not learn: a start, and episodes (of a comparison: states)."""
    one, folders = _of_one_episode(spec), (folder.with_name(f"{folder.name}-one"), folder)
    took = [(run_folder.read_manifest(each) or {})["wall_seconds"] for each in folders]
    amounts = [work.episodes or work.units for work in map(rows.work, (one.settings, spec.settings, row.settings))]
    first, second, all_of_it = amounts
    if second == first:
        return {"whole_seconds": took[1] * all_of_it / max(1, second)}
    each = max(0.0, took[1] - took[0]) / (second - first)
    return {"episode_seconds": each, "whole_seconds": round(took[1] + each * (all_of_it - second), 1)}


def _whole_megabytes(row: Row, spec: RunSpec, folder: Path) -> float:
    """What the folder of the whole run will hold: checkpoints do not grow, records do."""
    small, whole = rows.work(spec.settings), rows.work(row.settings)
    updates, episodes = whole.updates / max(1, small.updates), whole.episodes / max(1, small.episodes)
    growth = {"metrics.jsonl": updates, "timing.jsonl": updates, "evaluation.json": episodes}
    more = sum(
        (times - 1) * (folder / name).stat().st_size for name, times in growth.items() if (folder / name).is_file()
    )
    return round(run_folder.folder_megabytes(folder) + more / 1e6, 3)
