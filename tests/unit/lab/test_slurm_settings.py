"""What tasks ask a cluster for: no more than their runs need, and no oftener than a controller can bear."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec
from groundlab.lab.config import Estimate
from groundlab.lab.plan import PlannedRun
from groundlab.lab.slurm import executor, queue
from groundlab.lab.slurm.settings import Block, SlurmSettings, load_settings, pack


def _planned(method="glam", device="cpu", seconds=1.0, seed=0) -> PlannedRun:
    spec = RunSpec(method=method, world="BabyAI-GoToLocal-v0", seed=seed, settings={"device": device})
    return PlannedRun(spec, "glam", f"{method}{device}{seconds}{seed}", Estimate(seconds=seconds, megabytes=1), "new")


def _options(settings: SlurmSettings) -> list[str]:
    parameters = executor.sbatch_parameters(settings)
    return [str(parameters.get(name)) for name in ("partition", "time", "gpus_per_node", "mem")]


def test_a_run_asks_for_a_gpu_only_where_its_own_settings_need_one_and_for_what_its_method_needs(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "partition: cpu\nsbatch: {mail-type: FAIL}\n"
        "gpu_runs: {partition: gpu, minutes: 600, sbatch: {constraint: a100}}\n"
        "methods: {glam: {memory_gb: 64}, drrn: {minutes: 30}}\npages: {minutes: 20}\n"
    )
    settings = load_settings(file)
    wanted = {
        ("glam", "cuda"): ["gpu", "600", "1", "65536M"],
        ("glam", "cpu"): ["cpu", "60", "None", "65536M"],
        ("drrn", "cuda"): ["gpu", "30", "1", "None"],
        ("random", "cpu"): ["cpu", "60", "None", "None"],
    }
    assert {key: _options(settings.for_run(_planned(*key))) for key in wanted} == wanted
    assert _options(settings.for_pages()) == ["cpu", "20", "None", "None"]
    on_gpu = executor.sbatch_parameters(settings.for_run(_planned("glam", "cuda")))["additional_parameters"]
    assert (on_gpu["mail-type"], on_gpu["constraint"]) == ("FAIL", "a100")


@pytest.mark.parametrize(("nv", "lent"), [(None, [True, False]), (True, [True, True]), (False, [False, False])])
def test_the_driver_is_lent_to_the_container_whatever_names_the_gpu_to_slurm(nv, lent, tmp_path):
    gres = Block(gpus=0, sbatch={"gres": "gpu:a100:1"})
    settings = SlurmSettings(image=tmp_path / "image.sif", gpu_runs=gres, nv=nv)
    tasks = [settings.for_run(_planned(device=device)) for device in ("cuda", "cpu")]
    assert ["--nv" in executor.python_command(task, Path("/r")) for task in tasks] == lent
    assert "gpus_per_node" not in executor.sbatch_parameters(tasks[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("methods: {glm: {minutes: 3}}\n", "did you mean 'glam'"),
        ("pages: {minutes: 1}\n", "pages: save_seconds must be shorter than the time limit"),
        ("gpu_runs: {gpu: 1}\n", "did you mean 'gpus'"),
        ("partitoin: gpu\n", "cluster.yaml: unknown key 'partitoin'; did you mean 'partition'"),
        ("minutes: 1\nsave_seconds: 60\n", "save_seconds must be shorter than the time limit"),
        ("image: nowhere.sif\n", "image nowhere.sif does not exist; build it with"),
        ("gpus: [1\n", "is not valid YAML"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name_before_anything_is_submitted(text, said, tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(GroundlabError, match=re.escape(said)):
        load_settings(file)


def test_short_runs_share_tasks_with_their_like_and_long_ones_stand_alone():
    short = [_planned("random", seconds=40, seed=seed) for seed in range(40)]
    on_gpu = [_planned(device="cuda", seconds=40, seed=seed) for seed in range(3)]
    long = _planned("drrn", seconds=4000)
    tasks = pack([*short, *on_gpu, long], SlurmSettings(minutes=600, pack_minutes=10))
    assert sorted(len(runs) for _, runs in tasks) == [1, 3, 10, 15, 15]
    assert tasks[0][1] == [long]
    assert sorted(run.hash for _, runs in tasks for run in runs) == sorted(run.hash for run in [*short, *on_gpu, long])
    for asks, runs in tasks:
        assert {run.needs_gpu for run in runs} == {bool(asks.gpus)}
    assert len(pack(short, SlurmSettings(pack_minutes=0))) == len(short)
    assert len(pack(short, SlurmSettings(minutes=4, save_seconds=9))) == 14, "a pack fits half of its time limit"


def test_the_controller_is_asked_once_a_minute_and_less_often_while_nothing_changes(monkeypatch):
    now, asked = [0.0], []

    def states():
        asked.append(now[0])
        return {"7": "RUNNING" if now[0] >= 2000 else "PENDING"}

    monkeypatch.setattr(queue.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(queue, "states", states)
    poll = queue.Poll({"7": "PENDING"})
    for second in range(3600):
        now[0] = float(second)
        poll.states()
    pauses = [later - earlier for earlier, later in pairwise([0.0, *asked])]
    assert min(pauses) == 60 and max(pauses) == 240 < 300, "Slurm forgets an ended job after 300 seconds (MinJobAge)"
    change = next(place for place, at in enumerate(asked) if at >= 2000)
    assert pauses[change + 1] == 60
