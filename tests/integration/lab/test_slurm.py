"""The Slurm executor. What is submitted and how a task behaves needs no Slurm; the rest runs on a real one.

A one-node Slurm on a laptop is enough (Debian: slurm-wlm, munge). Without one, those tests are skipped.
"""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from groundlab import lab
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.lab import run_folder
from groundlab.lab.slurm import executor, task
from groundlab.lab.slurm.settings import Block, SlurmSettings

no_pages = int  # pages that nobody makes here: `sbatch` is a stand-in
LONG = {"iterations": 60, "trajectories": 1, "epochs": 1, "layouts": "0-9"}
RUN_TASK = """
import json, os, sys
from groundlab.core.run import Run
from groundlab.lab.slurm.task import execute
advance, words, number = Run.advance, json.loads(sys.argv[1]), int(sys.argv[2])
def leave_after_two(run, step, *given, **figures):
    if step == 2 and number:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # srun and the node both send it
    return advance(run, step, *given, **figures)
Run.advance = leave_after_two
execute(words)
"""


def _slurm_answers() -> bool:
    if not shutil.which("sinfo"):
        return False
    command = ["sinfo", "--noheader", "--states=idle,mixed,allocated"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=3)
    except subprocess.TimeoutExpired:  # installed, and its controller is down
        return False
    return answer.returncode == 0 and bool(answer.stdout.strip())


def on_slurm(test):
    """Only where a Slurm answers, which may then be asked oftener than a site's."""
    there = pytest.mark.skipif(not _slurm_answers(), reason="no Slurm answers here (sinfo)")
    return pytest.mark.usefixtures("quick_polls")(there(test))


@pytest.fixture
def quick_polls(monkeypatch):
    monkeypatch.setattr(executor, "_POLL_SECONDS", 1.0)


@pytest.fixture
def long_plan(laboratory, training_entry):
    """One training run that takes long enough to be interrupted."""
    laboratory.write_config([{**training_entry, "seeds": 1, "settings": LONG}])
    return lab.plan("mediator", scale="smoke")


@pytest.fixture
def three_rules(laboratory, rule_entry):
    laboratory.write_config([{**rule_entry, "worlds": ["SimpleDoorKey", "KeyInBox", "RandomBoxKey"]}])
    return lab.plan("mediator", scale="smoke")


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A Slurm that takes whatever is submitted as this job: slurm(7, squeue="echo '7|RUNNING'").

    Its programs leave a trace of how they were called; sbatch also keeps the script.
    """
    pytest.importorskip("submitit").SlurmJob.watcher.clear()  # what it knows of another test's job 7
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def write(job: int = 7, **programs: str) -> Path:
        taken = f'cp "$1" "$0.script"; echo Submitted batch job {job}'
        quiet = dict.fromkeys(("squeue", "sacct", "srun", "scontrol"), "")
        for name, body in {**quiet, "sbatch": taken, **programs}.items():
            (folder / name).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/{name}.calls\n{body}\n')
            (folder / name).chmod(0o755)
        return tmp_path

    return write


def _records(plan) -> dict[str, list[bytes]]:
    names = ("metrics.jsonl", "evaluation.json")
    files = {run.hash: [plan.folder_of(run) / name for name in names] for run in plan.runs}
    return {key: [file.read_bytes() for file in each if file.is_file()] for key, each in files.items()}


def _without_slurm(laboratory):
    """The records of the same plan by the local executor, in another results folder."""
    there = lab.plan("mediator", scale="smoke", results=laboratory.root / "local")
    assert lab.run(there, workers=1).exit_code == 0
    return _records(there)


def _jobs(plan) -> list[str | None]:
    """The job of each run of a plan, as noted."""
    noted = storage.read_json(run_folder.path_of(plan.results, ".slurm") / "jobs.json")
    return [noted.get(run.hash) for run in plan.runs]


def _words(plan) -> list[task.PackedRun]:
    return [(run.spec.model_dump(), str(plan.folder_of(run)), (run.hash, plan.sources)) for run in plan.runs]


def _run(plan, **settings) -> lab.Outcome:
    return executor.run(plan, SlurmSettings(**settings), wait=False)


# What is submitted


def test_a_plan_becomes_one_array_with_a_task_for_each_long_run(laboratory, training_entry, slurm):
    laboratory.write_config([{**training_entry, "estimate": {"seconds": 300, "megabytes": 1}}])
    plan, traces = lab.plan("mediator", scale="smoke"), slurm()
    settings = {"partition": "cpu", "account": "mine", "minutes": 30, "memory_gb": 2.5, "at_once": 1}
    before = executor.preview(plan, SlurmSettings(**settings))
    assert before.startswith("2 tasks with 2 runs, about 0.2 hours") and "mem: 2560M" in before
    assert _run(plan, **settings).unfinished and _jobs(plan) == ["7_0", "7_1"]
    script = (traces / "programs" / "sbatch.script").read_text()
    for line in ("array=0-1%1", "partition=cpu", "account=mine", "time=30", "mem=2560M", "requeue", "signal=USR2@90"):
        assert f"#SBATCH --{line}\n" in script
    assert "gpu" not in script and "export OMP_NUM_THREADS=1\n" in script


def test_short_runs_share_a_task_unless_one_has_failed_before(three_rules, slurm):
    slurm(squeue="echo '7|RUNNING'")
    assert _run(three_rules).exit_code == 75 and _jobs(three_rules) == ["7", "7", "7"]
    plan, first = three_rules, three_rules.runs[0]
    with pytest.raises(Unfinished):
        lab.execute_run(first.spec, plan.folder_of(first), stop=lambda: True)
    slurm(squeue="echo '7|OUT_OF_MEMORY'")
    outcome = _run(plan)
    assert outcome.exit_code == 1 and "ended as OUT_OF_MEMORY (raise `memory_gb`)" in outcome.failed[first.hash]
    slurm(8)
    again = lab.plan("mediator", scale="smoke")
    assert _run(again).exit_code == 75
    assert sorted(_jobs(again)) == ["8_0", "8_1", "8_1"], "the one that died is alone"


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (1, False), (75, True), (143, False)])
def test_only_a_task_that_saved_before_its_time_limit_goes_back_into_the_queue(code, requeued, long_plan, slurm):
    traces = slurm(srun='exit "${SRUN_ENDS:-0}"')
    _run(long_plan)
    environment = {**os.environ, "SRUN_ENDS": str(code), "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    script = subprocess.run(["bash", traces / "programs" / "sbatch.script"], env=environment)
    assert script.returncode == code
    calls = traces / "scontrol.calls"
    assert (calls.read_text() if calls.exists() else "") == ("requeue 7_3\n" if requeued else "")


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({"sbatch": "echo sbatch: error: invalid partition >&2; exit 1"}, "Slurm refused the jobs: invalid partition"),
        ({"sbatch": "echo sbatch: error: QOSMaxSubmitJobPerUserLimit >&2; exit 1"}, "lower `submit_at_most`"),
        ({"squeue": "echo Unable to contact >&2; exit 1"}, "squeue does not answer .Unable to contact"),
    ],
)
def test_a_refusal_is_one_line_in_slurms_words(programs, said, long_plan, slurm):
    traces = slurm(**programs)
    with pytest.raises(GroundlabError, match=said):
        executor.run(long_plan, SlurmSettings())
    assert "sbatch" in programs or not (traces / "sbatch.calls").exists()


def test_without_slurm_the_error_names_a_login_node(long_plan, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GroundlabError, match="squeue was not found; run this on a login node"):
        executor.run(long_plan, SlurmSettings())


def test_no_more_tasks_are_submitted_than_a_site_allows_and_the_same_call_submits_the_others(three_rules, slurm):
    def submitted(states: str, job: int) -> list[str | None]:
        slurm(job, squeue="; ".join(f'echo "{state}"' for state in states.split()))
        assert len(_run(three_rules, pack_minutes=0, submit_at_most=4).unfinished) == 3
        return _jobs(three_rules)

    assert submitted("1|RUNNING 2|PENDING 3|COMPLETED", 7) == ["7_0", "7_1", None]
    assert submitted("1|RUNNING 2|PENDING 7_0|RUNNING 7_1|PENDING", 8) == ["7_0", "7_1", None]
    assert submitted("1|COMPLETED 2|PENDING 7_0|RUNNING 7_1|PENDING", 9) == ["7_0", "7_1", "9"]


def test_a_run_that_failed_once_and_waits_for_room_is_not_failed(three_rules, slurm):
    for each in three_rules.runs:
        with pytest.raises(Unfinished):
            lab.execute_run(each.spec, three_rules.folder_of(each), stop=lambda: True)
        run_folder.mark(three_rules.folder_of(each), "failed", "died of its node")
    slurm(squeue='echo "1|RUNNING"; echo "2|PENDING"')
    outcome = _run(lab.plan("mediator", scale="smoke"), submit_at_most=2)
    assert outcome.exit_code == 75 and not outcome.failed


def test_what_was_submitted_before_slurm_refused_more_is_not_submitted_again(
    laboratory, rule_entry, training_entry, slurm
):
    laboratory.write_config([training_entry, rule_entry])
    plan = lab.plan("mediator", scale="smoke")
    slurm(sbatch='mkdir "$0.once" && echo Submitted batch job 7 || { echo "sbatch: error: full" >&2; exit 1; }')
    with pytest.raises(GroundlabError, match="full"):
        _run(plan, methods={rule_entry["method"]: Block(cpus=2)})
    assert sorted(_jobs(plan), key=str) == ["7", "7", None]


# What becomes of a job


@pytest.mark.parametrize(
    ("squeue", "sacct", "log", "said"),
    [
        ("7|RUNNING", "", "", None),
        ("7|CANCELLED", "", "", None),
        ("", "7|CANCELLED by 0|n1", "", None),
        ("", "", "", None),
        (
            "7|FAILED",
            "",
            "submitit INFO\nMemoryError: no room\nsrun: error: n1: Exited\n",
            "FAILED: MemoryError: no room",
        ),
        ("", "7|NODE_FAIL|n1", "srun: error: n1: task 0: Killed\n", "NODE_FAIL: srun: error: n1: task 0: Killed"),
        ("7|TIMEOUT", "", "", "TIMEOUT (no step ended in time; raise `minutes`"),
        ("7|COMPLETED", "", "", "on a disk that all nodes share?): no word of why (log: "),
    ],
)
def test_a_job_that_is_gone_is_submitted_again_and_one_that_failed_is_reported_with_its_last_words(
    squeue, sacct, log, said, long_plan, slurm
):
    slurm()
    _run(long_plan)
    run_folder.path_of(long_plan.results, ".slurm").joinpath("7_0_log.out").write_text(log)
    slurm(8, squeue=f"echo '{squeue}'" if squeue else "", sacct=f"echo 'JobID|State|NodeList\n{sacct}'")
    outcome = _run(long_plan)
    if said is None:
        assert outcome.exit_code == 75 and _jobs(long_plan) == ["7" if "RUNNING" in squeue else "8"]
        return
    assert outcome.exit_code == 1 and said in next(iter(outcome.failed.values()))
    assert _run(long_plan).exit_code == 75 and _jobs(long_plan) == ["8"], "the call after that submits it again"


def test_a_waiting_command_ends_with_the_runs(three_rules, slurm, laboratory, quick_polls):
    def act():
        for run in three_rules.runs:
            lab.execute_run(run.spec, three_rules.folder_of(run), stop=lambda: False)

    traces = slurm(squeue="test -e $0.over || echo '7|RUNNING'")
    laboratory.once((traces / "sbatch.calls").exists, act)
    assert executor.run(three_rules, SlurmSettings()).exit_code == 0


def test_ctrl_c_leaves_the_jobs_which_the_same_command_collects(long_plan, slurm, laboratory, quick_polls):
    traces = slurm(squeue="echo '7|RUNNING'")
    laboratory.once((traces / "sbatch.calls").exists, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert executor.run(long_plan, SlurmSettings()).exit_code == 75
    run = long_plan.runs[0]
    lab.execute_run(run.spec, long_plan.folder_of(run))
    assert executor.run(long_plan, SlurmSettings()).exit_code == 0
    assert len((traces / "sbatch.calls").read_text().splitlines()) == 1


# How a task behaves


def test_a_task_of_several_runs_ends_all_but_the_failed_one(three_rules, monkeypatch):
    words = _words(three_rules)
    words[1] = (*words[1][:2], (words[1][2][0], "other"))  # as if the code had changed since the plan
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(GroundlabError, match="expected the code that always-KeyInBox-s0 was planned with"):
        task.execute(words)
    folders = [three_rules.folder_of(run) for run in three_rules.runs]
    assert [run_folder.status_of(folder) for folder in folders] == ["finished", "new", "finished"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGUSR2, 75), (signal.SIGTERM, 143)])
def test_a_task_that_is_told_to_leave_saves_first_and_says_who_brings_it_back(number, code, laboratory, training_entry):
    laboratory.write_config([{**training_entry, "seeds": 1, "settings": {**LONG, "iterations": 4}}])
    plan, calm = (lab.plan("mediator", scale="smoke", results=laboratory.root / name) for name in ("told", "calm"))
    ended = []
    for told in (number, 0):
        words = json.dumps(_words(plan))
        ended.append(subprocess.run([sys.executable, "-P", "-c", RUN_TASK, words, str(int(told))]).returncode)
        ended.append(laboratory.steps(plan))
    assert ended == [code, 2, 0, 4], "nothing is done twice"
    lab.execute_run(calm.runs[0].spec, calm.folder_of(calm.runs[0]))
    assert _records(plan) == _records(calm)


# The pages


def _made(plan) -> int:
    return executor.make_pages(plan, SlurmSettings(pages=Block(minutes=20)), no_pages, wait=False)


def _pages_end(plan, code: int, job: int = 7) -> None:
    """What submitit leaves of a pages job that ended: its log, and what it returned."""
    home = run_folder.path_of(plan.results, ".slurm")
    (home / f"{job}_0_log.out").write_text("submitit INFO - Starting\nclaims: 3 reproduced\n")
    storage.write_atomic(home / f"{job}_0_result.pkl", pickle.dumps(("success", code)))


def test_what_makes_the_pages_travels_to_the_job_which_returns_its_exit_code(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    make = partial(lab.reproduce, ["mediatr"], results=str(tmp_path / "results"), executor="none")
    assert pickle.loads(pickle.dumps(partial(task.call, make)))() == 1
    assert "did you mean 'mediator'" in capsys.readouterr().out


def test_pages_are_a_job_whose_words_and_exit_code_the_same_command_collects(long_plan, slurm, capsys):
    traces = slurm(squeue='echo "7|RUNNING"')
    assert [_made(long_plan), _made(long_plan)] == [75, 75]
    _pages_end(long_plan, 1)
    assert _made(long_plan) == 1 and capsys.readouterr().out == "claims: 3 reproduced\n"
    assert len((traces / "sbatch.calls").read_text().splitlines()) == 1


@pytest.mark.parametrize("why", ["a run was missing", "its job was cancelled", "its job is forgotten"])
def test_pages_are_made_again_where_their_job_cannot_have_made_them(why, three_rules, slurm):
    slurm(squeue="echo '7|RUNNING'")
    assert _made(three_rules) == 75
    if why == "a run was missing":
        _pages_end(three_rules, 1)
        lab.execute_run(three_rules.runs[0].spec, three_rules.folder_of(three_rules.runs[0]))
    traces = slurm(8, squeue="" if "forgotten" in why else "echo '7|CANCELLED'")
    assert _made(three_rules) == 75
    assert len((traces / "sbatch.calls").read_text().splitlines()) == 2


def test_a_pages_job_that_died_is_reported_with_its_log(long_plan, slurm):
    slurm(squeue='echo "7|TIMEOUT"')
    assert _made(long_plan) == 75
    with pytest.raises(GroundlabError, match="job 7 ended as TIMEOUT"):
        _made(long_plan)


# A real Slurm


@on_slurm
@pytest.mark.timeout(900)
def test_slurm_and_local_runs_leave_the_same_bytes(laboratory, training_entry, rule_entry):
    laboratory.write_config([training_entry, rule_entry])
    plan, settings = lab.plan("mediator", scale="smoke"), SlurmSettings(minutes=10, pack_minutes=0)
    assert executor.run(plan, settings, wait=False).exit_code == 75
    jobs = _jobs(plan)
    assert executor.run(plan, settings).exit_code == 0
    assert jobs == [f"{str(jobs[0]).partition('_')[0]}_{number}" for number in range(3)], "one array, submitted once"
    assert _records(plan) == _without_slurm(laboratory)
