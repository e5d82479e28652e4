"""The Slurm executor. What is submitted and how a task behaves needs no Slurm; the rest runs on a real one.

A one-node Slurm on a laptop is enough (Debian: slurm-wlm, munge). Without one, those tests are skipped.
"""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from groundlab import lab
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.lab import run_folder
from groundlab.lab.slurm import executor, queue
from groundlab.lab.slurm.settings import Block, SlurmSettings, load_settings
from groundlab.lab.slurm.task import PagesTask, Task

no_pages = int  # pages that nobody makes here: `sbatch` is a stand-in
COMPARED = ("metrics.jsonl", "evaluation.json")
LONG = {"iterations": 60, "trajectories": 1, "epochs": 1, "layouts": "0-9"}
RUN_TASK = """
import json, os, sys
from groundlab.core.run import Run
from groundlab.lab.slurm.task import Task
advance, words, number = Run.advance, json.loads(sys.argv[1]), int(sys.argv[2])
def leave_after_two(run, step, *given, **figures):
    if step == 2 and number:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # srun and the node both send it
    return advance(run, step, *given, **figures)
Run.advance = leave_after_two
Task(words)()
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
    monkeypatch.setattr(queue, "_POLL_SECONDS", 2.0)
    monkeypatch.setattr(queue, "_SLOWEST_POLL_SECONDS", 3.0)


@pytest.fixture
def long_plan(laboratory, training_entry):
    """One training run that takes long enough to be interrupted."""
    laboratory.write_config([{**training_entry, "seeds": 1, "settings": LONG}])
    return lab.plan("mediator", scale="smoke")


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Write programs of Slurm that leave a trace of how they were called; only what is submitted is looked at."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def write(**programs: str):
        for name, body in programs.items():
            (folder / name).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/{name}.calls\n{body}\n')
            (folder / name).chmod(0o755)
        return tmp_path

    return write


@pytest.fixture
def slurm(stand_ins):
    """A Slurm that takes whatever is submitted as this job: slurm(7, squeue="echo '7|RUNNING'")."""
    pytest.importorskip("submitit")

    def write(job: int = 7, sbatch: str = "", **programs: str) -> Path:
        taken = sbatch or f"echo Submitted batch job {job}"
        return stand_ins(**{"squeue": "", "srun": "", "scontrol": "", **programs, "sbatch": taken})

    return write


def _records(plan) -> dict[str, list[bytes]]:
    files = {run.hash: [plan.folder_of(run) / name for name in COMPARED] for run in plan.runs}
    return {key: [file.read_bytes() for file in each if file.is_file()] for key, each in files.items()}


def _without_slurm(plan, laboratory):
    """The records of the same plan by the local executor, in another results folder."""
    there = lab.plan("mediator", scale="smoke", results=laboratory.root / "local")
    assert lab.run(there, workers=1).exit_code == 0
    return _records(there)


def _job(plan) -> str:
    job = queue.job_of(plan.folder_of(plan.runs[0]))
    assert job
    return job


def _slurm(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _process_of_the_task(laboratory) -> int:
    """The Python of the only task under this laboratory's results (scancel --signal=KILL would cancel the job)."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        words = file.read_bytes().decode().split("\0")
        if "submitit.core._submit" in words and "srun" not in words[0] and str(laboratory.results) in words[-2]:
            return int(file.parent.name)
    raise LookupError("no task runs")


# What is submitted


def test_the_shipped_settings_file_names_every_setting_with_its_default():
    file = Path(__file__).resolve().parents[3] / "configs" / "slurm.yaml"
    assert load_settings(file) == SlurmSettings()
    named = re.findall(r"^(?:# )?([a-z_]+):", file.read_text(), flags=re.MULTILINE)
    assert set(named) == set(SlurmSettings.model_fields)


def test_a_task_starts_in_the_container_that_sees_results_models_and_gpu(tmp_path):
    settings = SlurmSettings(image=tmp_path / "ground lab.sif", nv=True, bind=["/models:/m"])
    wanted = f"apptainer exec --nv --bind /r --bind /models:/m '{tmp_path}/ground lab.sif' python3"
    assert executor.python_command(settings, results=Path("/r")) == wanted


def _submitted(plan, slurm, settings) -> str:
    traces = slurm(srun='exit "${SRUN_ENDS:-0}"', sbatch='cp "$1" "$0.script"; echo Submitted batch job 7')
    assert executor.run(plan, settings, wait=False).unfinished
    return (traces / "programs" / "sbatch.script").read_text()


def test_a_plan_becomes_one_array_with_a_task_for_each_run(laboratory, training_entry, slurm):
    laboratory.write_config([training_entry])
    plan = lab.plan("mediator", scale="smoke")
    settings = SlurmSettings(partition="cpu", account="mine", minutes=30, memory_gb=2.5, at_once=1, pack_minutes=0)
    before = executor.preview(plan, settings)
    script = _submitted(plan, slurm, settings)
    assert script in before and before.startswith("2 tasks with 2 runs,")
    assert "each task: 30 minutes at a time, 2.5 GB, 1 cores, 0 GPUs\n" in before
    for line in ("array=0-1%1", "partition=cpu", "account=mine", "time=30", "mem=2560M", "requeue"):
        assert f"#SBATCH --{line}\n" in script
    assert "gpu" not in script
    assert "#SBATCH --signal=USR2@90\n" in script and "export OMP_NUM_THREADS=1\n" in script
    jobs = {queue.job_of(plan.folder_of(run)) for run in plan.runs}
    assert jobs == {"7_0", "7_1"}
    logs = {str((plan.folder_of(run) / "slurm.log").readlink()) for run in plan.runs}
    assert logs == {"../.slurm/7_0_0_log.out", "../.slurm/7_1_0_log.out"}


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (1, False), (75, True), (143, False)])
def test_only_a_task_that_saved_before_its_time_limit_goes_back_into_the_queue(
    code, requeued, long_plan, slurm, tmp_path
):
    _submitted(long_plan, slurm, SlurmSettings())
    environment = {**os.environ, "SRUN_ENDS": str(code), "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    script = subprocess.run(["bash", tmp_path / "programs" / "sbatch.script"], env=environment)
    assert script.returncode == code
    calls = tmp_path / "scontrol.calls"
    assert (calls.read_text() if calls.exists() else "") == ("requeue 7_3\n" if requeued else "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("invalid partition specified: gpuu", "Slurm refused the jobs: invalid partition specified: gpuu"),
        ("QOSMaxSubmitJobPerUserLimit", "QOSMaxSubmitJobPerUserLimit; lower `submit_at_most`"),
    ],
)
def test_what_slurm_refuses_is_told_in_its_words_and_with_the_setting_that_respects_a_limit(
    words, said, long_plan, slurm
):
    slurm(sbatch=f'echo "sbatch: error: {words}" >&2; exit 1')
    with pytest.raises(GroundlabError, match=said):
        executor.run(long_plan, SlurmSettings())


def test_without_slurm_the_error_names_a_login_node(long_plan, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GroundlabError, match="squeue was not found; run this on a login node"):
        executor.run(long_plan, SlurmSettings())


def test_a_controller_that_does_not_answer_is_no_reason_to_submit_again(long_plan, stand_ins):
    stand_ins(squeue="echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1")
    with pytest.raises(GroundlabError, match="Unable to contact slurm controller"):
        executor.run(long_plan, SlurmSettings())


def test_no_more_tasks_are_submitted_than_a_site_allows_and_the_same_call_submits_the_others(
    laboratory, rule_entry, slurm
):
    laboratory.write_config([{**rule_entry, "worlds": ["SimpleDoorKey", "KeyInBox", "RandomBoxKey"]}])
    plan = lab.plan("mediator", scale="smoke")
    settings = SlurmSettings(pack_minutes=0, submit_at_most=4)

    def submitted(states: str, job: int) -> list[str | None]:
        slurm(job, squeue="; ".join(f'echo "{state}"' for state in states.split()))
        assert len(executor.run(plan, settings, wait=False).unfinished) == 3
        return [queue.job_of(plan.folder_of(run)) for run in plan.runs]

    assert submitted("1|RUNNING 2|PENDING 3|COMPLETED", 7) == ["7_0", "7_1", None]
    assert submitted("1|RUNNING 2|PENDING 7_0|RUNNING 7_1|PENDING", 8) == ["7_0", "7_1", None]
    assert submitted("1|COMPLETED 2|PENDING 7_0|RUNNING 7_1|PENDING", 9) == ["7_0", "7_1", "9"]


def test_what_was_submitted_before_slurm_refused_more_does_not_wait_any_longer(
    laboratory, rule_entry, training_entry, slurm
):
    laboratory.write_config([training_entry, rule_entry])
    plan = lab.plan("mediator", scale="smoke")
    slurm(sbatch='mkdir "$0.once" && echo Submitted batch job 7 || { echo "sbatch: error: full" >&2; exit 1; }')
    jobs = executor.Jobs(plan, SlurmSettings(methods={rule_entry["method"]: Block(cpus=2)}))
    with pytest.raises(GroundlabError, match="full"):
        jobs.find_or_submit()
    assert jobs.queued and jobs.waiting and len(jobs.left) == len(plan.runs)


def test_what_ends_within_a_minute_is_collected_by_one_question_to_the_controller(laboratory, rule_entry, slurm):
    laboratory.write_config([rule_entry])
    plan, traces = lab.plan("mediator", scale="smoke"), slurm()
    run, folder = plan.runs[0], plan.folder_of(plan.runs[0])
    laboratory.once((folder / "slurm.log").is_symlink, lambda: lab.execute_run(run.spec, folder, stop=lambda: False))
    assert executor.run(plan, SlurmSettings()).exit_code == 0
    assert len((traces / "squeue.calls").read_text().splitlines()) == 1


# How a task behaves


def test_a_task_of_several_runs_ends_all_but_the_failed_one(laboratory, rule_entry):
    laboratory.write_config([{**rule_entry, "worlds": ["SimpleDoorKey", "KeyInBox", "RandomBoxKey"]}])
    plan = lab.plan("mediator", scale="smoke")
    asked = [(run.hash, plan.sources) for run in plan.runs]
    asked[1] = (asked[1][0], "other")  # as if the code had changed since the plan
    words = [
        (run.spec.model_dump(), str(plan.folder_of(run)), each, run.named)
        for run, each in zip(plan.runs, asked, strict=True)
    ]
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR2, signal.SIGTERM)}
    try:
        with pytest.raises(GroundlabError, match="expected the code that always-KeyInBox-s0 was planned with"):
            Task(words)()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert [run_folder.status_of(plan.folder_of(run)) for run in plan.runs] == ["finished", "new", "finished"]


def _closed(plan, state: str, begun: bool = False, **note) -> str:
    """What is said of the plan's only run once its job has ended in that state."""
    run, folder = plan.runs[0], plan.folder_of(plan.runs[0])
    queue.note_job(folder, "7_1", plan.results / ".runs" / ".slurm" / "7_1.out")
    storage.write_json(folder / "slurm.json", {**storage.read_json(folder / "slurm.json"), **note})
    if begun:
        with pytest.raises(Unfinished):
            lab.execute_run(run.spec, folder, stop=lambda: True)
    return queue.close(plan, run, state)


def test_a_run_that_waited_behind_one_that_died_is_left_to_do_and_the_one_that_died_has_failed(long_plan):
    assert _closed(long_plan, "OUT_OF_MEMORY", place=3) == ""
    assert "ended as OUT_OF_MEMORY (raise `memory_gb`)" in _closed(long_plan, "OUT_OF_MEMORY")
    assert "ended as OUT_OF_MEMORY" in _closed(long_plan, "OUT_OF_MEMORY", begun=True, place=3)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("submitit INFO\nsrun: error: n1: task 0: Killed\nsrun: Force Terminated\n", "n1: task 0: Killed (log"),
        ("MemoryError: no room\nsrun: error: n1: task 0: Exited\n", "FAILED: MemoryError: no room (log"),
        ("submitit INFO - Starting\n", "FAILED: no word of why (log"),
    ],
)
def test_a_failure_is_told_with_the_programs_last_words_or_with_sruns(log, said, long_plan):
    file = storage.make_folder(long_plan.results / ".runs" / ".slurm") / "7_1.out"
    file.write_text(log)
    assert said in _closed(long_plan, "FAILED")


def test_a_run_that_saved_where_a_site_forbids_requeueing_is_left_to_do(long_plan):
    assert _closed(long_plan, "FAILED", begun=True, saved=True) == ""


def test_what_makes_the_pages_travels_to_the_job_which_returns_its_exit_code(tmp_path, capsys):
    make = partial(lab.reproduce, ["mediatr"], results=str(tmp_path / "results"), executor="none")
    assert pickle.loads(pickle.dumps(PagesTask(make)))() == 1
    assert "did you mean 'mediator'" in capsys.readouterr().out


def _made(plan, wait: bool = False) -> int:
    return executor.make_pages(plan, SlurmSettings(pages=Block(minutes=20)), no_pages, wait=wait)


def _begun(plan) -> Path:
    """Submit the pages of a plan; returns the note of their job."""
    assert _made(plan) == 75
    return next(run_folder.path_of(plan.results, ".slurm").glob("pages-*.json"))


def _pages_end(note: Path, code: int) -> None:
    """What submitit leaves of a pages job that ended: what it returned."""
    job = storage.read_json(note)["job"]
    storage.write_atomic(note.parent / f"{job}_0_result.pkl", pickle.dumps(("success", code)))


def test_pages_are_a_job_whose_words_and_exit_code_the_same_command_collects(long_plan, slurm, capsys):
    slurm(squeue='echo "7|RUNNING"')
    note = _begun(long_plan)
    assert _made(long_plan) == 75, "still running"
    (note.parent / "7_0_log.out").write_text("submitit INFO - Starting\nclaims: 3 reproduced\n")
    _pages_end(note, 1)
    assert _made(long_plan) == 1
    assert "claims: 3 reproduced" in capsys.readouterr().out and not note.exists()


def test_pages_that_were_begun_while_a_failed_run_was_missing_are_made_again(laboratory, rule_entry, slurm):
    laboratory.write_config([rule_entry])
    plan = lab.plan("mediator", scale="smoke")
    slurm()
    note = _begun(plan)
    _pages_end(note, 1)
    lab.execute_run(plan.runs[0].spec, plan.folder_of(plan.runs[0]))
    slurm(8, squeue="echo '8|PENDING'")
    assert _made(plan) == 75 and storage.read_json(note)["job"] == "8"


@pytest.mark.parametrize("answer", ["", "echo '7|CANCELLED'"])
def test_pages_whose_job_was_cancelled_after_the_command_had_left_are_submitted_again(answer, long_plan, slurm):
    slurm(squeue="echo '7|RUNNING'")
    note = _begun(long_plan)
    traces = slurm(8, squeue=answer)
    assert _made(long_plan) == 75 and storage.read_json(note)["job"] == "8"
    assert len((traces / "sbatch.calls").read_text().splitlines()) == 2


def test_pages_that_an_earlier_call_began_are_awaited_without_asking_twice_in_a_minute(long_plan, slurm):
    traces = slurm(squeue="echo '7|RUNNING'")
    note = _begun(long_plan)
    (traces / "squeue.calls").unlink(missing_ok=True)
    threading.Timer(0.5, _pages_end, (note, 0)).start()
    assert _made(long_plan, wait=True) == 0 and not (traces / "squeue.calls").exists()


def test_a_pages_job_that_died_is_told_with_its_log(long_plan, slurm):
    slurm(squeue='echo "7|TIMEOUT"')
    _begun(long_plan)
    with pytest.raises(GroundlabError, match="job 7 ended as TIMEOUT"):
        _made(long_plan)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGUSR2, 75), (signal.SIGTERM, 143)])
def test_a_task_that_is_told_to_leave_saves_first_and_says_who_brings_it_back(number, code, laboratory, training_entry):
    laboratory.write_config([{**training_entry, "seeds": 1, "settings": {**LONG, "iterations": 4}}])
    plan, calm = (lab.plan("mediator", scale="smoke", results=laboratory.root / name) for name in ("told", "calm"))
    run = plan.runs[0]
    words = json.dumps([[run.spec.model_dump(), str(plan.folder_of(run)), (run.hash, plan.sources), run.named]])
    ended = []
    for told in (number, 0):
        task = subprocess.run([sys.executable, "-P", "-c", RUN_TASK, words, str(int(told))])
        ended.append((task.returncode, laboratory.steps(plan)))
    assert ended == [(code, 2), (0, 4)], "nothing is done twice"
    lab.execute_run(calm.runs[0].spec, calm.folder_of(calm.runs[0]))
    assert _records(plan) == _records(calm)


# A real Slurm


@on_slurm
def test_slurm_local_and_in_process_runs_leave_the_same_bytes(laboratory, training_entry, rule_entry):
    laboratory.write_config([training_entry, rule_entry])
    plan = lab.plan("mediator", scale="smoke")
    assert executor.run(plan, SlurmSettings(minutes=10)).exit_code == 0
    assert _records(plan) == _without_slurm(plan, laboratory)
    here = lab.plan("mediator", scale="smoke", results=laboratory.root / "in-process")
    for run in here.runs:
        lab.execute_run(run.spec, here.folder_of(run))
    assert _records(plan) == _records(here)
    assert all((plan.folder_of(run) / "slurm.log").is_file() for run in plan.runs)


@on_slurm
def test_a_command_that_does_not_wait_is_collected_by_the_same_command(laboratory, rule_entry):
    laboratory.write_config([rule_entry])
    plan = lab.plan("mediator", scale="smoke")
    assert executor.run(plan, SlurmSettings(minutes=10), wait=False).exit_code == 75
    job = _job(plan)
    again = executor.run(plan, SlurmSettings(minutes=10))
    assert (again.finished, again.exit_code) == (1, 0)
    assert not (plan.folder_of(plan.runs[0]) / "slurm.json").exists()
    listed = _slurm("squeue", "--states=all", "--noheader", "--format=%i %Z").splitlines()
    assert [line.split()[0] for line in listed if str(laboratory.root) in line or line.split()[0] == job] == [job]


@on_slurm
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["scontrol requeue", "the warning before a time limit"])
def test_a_task_put_back_into_the_queue_in_mid_run_ends_with_the_same_bytes(how, long_plan, laboratory):
    def interrupt():
        job = _job(long_plan)
        if how == "scontrol requeue":
            _slurm("scontrol", "requeue", job)
        else:
            _slurm("scancel", "--signal=USR2", job)

    laboratory.once(lambda: laboratory.steps(long_plan) >= 4, interrupt)
    assert executor.run(long_plan, SlurmSettings(minutes=10)).exit_code == 0
    folder = long_plan.folder_of(long_plan.runs[0])
    manifest = run_folder.read_manifest(folder)
    assert manifest and [each["status"] for each in manifest["history"]] == ["unfinished", "finished"]
    assert _records(long_plan) == _without_slurm(long_plan, laboratory)


@on_slurm
def test_a_cancelled_task_is_left_to_do_and_the_same_call_submits_it_again(long_plan, laboratory):
    laboratory.once(lambda: laboratory.steps(long_plan) >= 4, lambda: _slurm("scancel", _job(long_plan)))
    first = executor.run(long_plan, SlurmSettings(minutes=10))
    assert (first.failed, first.exit_code) == ({}, 75)
    assert executor.run(long_plan, SlurmSettings(minutes=10)).exit_code == 0
    assert _records(long_plan) == _without_slurm(long_plan, laboratory)


@on_slurm
def test_a_task_whose_process_dies_fails_with_slurms_word_and_the_same_call_continues_it(long_plan, laboratory):
    killed = lambda: os.kill(_process_of_the_task(laboratory), signal.SIGKILL)  # noqa: E731
    laboratory.once(lambda: laboratory.steps(long_plan) >= 4, killed)
    first = executor.run(long_plan, SlurmSettings(minutes=10))
    assert first.exit_code == 1
    assert re.search(r"job \d+ ended as FAILED", next(iter(first.failed.values())))
    assert executor.run(long_plan, SlurmSettings(minutes=10)).exit_code == 0
    assert _records(long_plan) == _without_slurm(long_plan, laboratory)
