"""What tasks ask a cluster for: no more than their runs need."""

import re
from pathlib import Path

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec
from groundlab.lab.config import Estimate
from groundlab.lab.plan import PlannedRun
from groundlab.lab.slurm import executor
from groundlab.lab.slurm.settings import Block, SlurmSettings, arrays, load_settings


def _planned(method="glam", device="cpu", seconds=1.0, seed=0) -> PlannedRun:
    spec = RunSpec(method=method, world="BabyAI-GoToLocal-v0", seed=seed, settings={"device": device})
    return PlannedRun(spec, "glam", f"{method}{device}{seconds}{seed}", Estimate(seconds=seconds, megabytes=1), "new")


def _options(settings: SlurmSettings) -> list[str]:
    parameters = executor.sbatch_parameters(settings)
    return [str(parameters.get(name)) for name in ("partition", "time", "gpus_per_node", "mem")]


def test_the_shipped_settings_file_names_every_setting_with_its_default():
    file = Path(__file__).resolve().parents[3] / "configs" / "slurm.yaml"
    assert load_settings(file) == SlurmSettings()
    named = re.findall(r"^(?:# )?([a-z_]+):", file.read_text(), flags=re.MULTILINE)
    assert set(named) == set(SlurmSettings.model_fields)


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
    settings = SlurmSettings(image=tmp_path / "ground lab.sif", gpu_runs=gres, nv=nv, bind=["/models:/m"])
    for device, is_lent in zip(("cuda", "cpu"), lent, strict=True):
        asks, gpu = settings.for_run(_planned(device=device)), "--nv " if is_lent else ""
        wanted = f"apptainer exec {gpu}--bind /r --bind /models:/m '{tmp_path}/ground lab.sif' python3"
        assert executor.python_command(asks, Path("/r")) == wanted
        assert "gpus_per_node" not in executor.sbatch_parameters(asks)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("methods: {glm: {minutes: 3}}\n", "did you mean 'glam'"),
        ("partitoin: gpu\n", "cluster.yaml: unknown key 'partitoin'; did you mean 'partition'"),
        ("image: nowhere.sif\n", "image nowhere.sif does not exist; build it with"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name_before_anything_is_submitted(text, said, tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(GroundlabError, match=re.escape(said)):
        load_settings(file)


def test_runs_under_two_minutes_share_tasks_with_their_like_and_long_ones_stand_alone():
    short = [_planned("random", seconds=40, seed=seed) for seed in range(40)]
    on_gpu = [_planned(device="cuda", seconds=40, seed=seed) for seed in range(3)]
    long = [_planned("drrn", seconds=4000), _planned("drrn", seconds=120)]
    made = arrays([*short, *on_gpu, *long], SlurmSettings(pack_minutes=10), 1000)
    assert [[len(runs) for runs in tasks] for _, tasks in made] == [[1, 1, 15, 15, 10], [3]]
    assert made[0][1][:2] == [[long[0]], [long[1]]]
    for asks, tasks in made:
        assert {run.needs_gpu for runs in tasks for run in runs} == {bool(asks.gpus)}
    assert [len(tasks) for _, tasks in arrays(short, SlurmSettings(pack_minutes=0), 12)] == [12]
