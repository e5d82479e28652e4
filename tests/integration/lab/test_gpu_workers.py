"""Runs on the GPUs of a machine: one worker each, which sees no other, and runs without a GPU beside them.

The machine is described at one place, a program `nvidia-smi` on the path; what a worker may see is read from the
manifests that the workers write. There is no GPU here, so the runs that want one end with the line that says so.
"""

import os
import re
import time
from pathlib import Path

import pytest
import torch

from groundlab import lab
from groundlab.core.errors import GroundlabError
from groundlab.lab import executor, machine, run_folder
from groundlab.lab.reproduce import chosen_device

NVIDIA_SMI = """#!/bin/sh
case "$1" in
  *driver_version) printf '580.65\\n580.65\\n580.65\\n' ;;
  *) printf '0, GPU-aa11, H200\\n1, GPU-bb22, H200\\n2, GPU-cc33, L40S\\n' ;;
esac
"""


@pytest.fixture
def three_gpus(tmp_path, monkeypatch):
    """A machine whose nvidia-smi lists three GPUs."""
    (tmp_path / "programs").mkdir()
    program = tmp_path / "programs" / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.delenv(machine.VISIBLE, raising=False)
    machine.gpus.cache_clear()
    yield
    machine.gpus.cache_clear()


@pytest.mark.parametrize(
    ("visible", "handles", "names"),
    [
        (None, ["0", "1", "2"], ["H200", "H200", "L40S"]),
        ("2,GPU-aa11", ["2", "GPU-aa11"], ["L40S", "H200"]),
        ("", [], []),
        ("1,7,0", ["1"], ["H200"]),
        ("MIG-5c", ["MIG-5c"], ["part of a GPU"]),
    ],
)
def test_the_gpus_of_a_process_are_those_that_cuda_would_show_it(visible, handles, names, three_gpus, monkeypatch):
    if visible is not None:
        monkeypatch.setenv(machine.VISIBLE, visible)
    assert [gpu.handle for gpu in machine.gpus()] == handles
    assert list(machine.gpu_names()) == names


@pytest.fixture
def mixed_plan(laboratory, rule_entry):
    """Four runs that want a GPU and two that do not."""
    worlds = ["SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey"]
    on_gpu = {**rule_entry, "worlds": worlds, "settings": {"layouts": "0-1", "chat": {"device": "cuda"}}}
    on_cpu = {**rule_entry, "worlds": worlds[:2], "settings": {"layouts": "0-1"}}
    laboratory.write_config([on_cpu, on_gpu | {"arm": f"{rule_entry['method']}/device/cuda", "label": "cuda"}])
    return lab.plan("mediator", scale="smoke")


def _seen(plan, outcome) -> tuple[list[str], list[str]]:
    """What the workers of GPU runs and of CPU runs could see, as they wrote it down."""
    manifests = [(run, run_folder.read_manifest(plan.folder_of(run))) for run in plan.runs]
    seen = [(run.needs_gpu, manifest["history"][-1].get("gpus")) for run, manifest in manifests if manifest]
    assert len(seen) == len(plan.runs) == outcome.finished + len(outcome.failed)
    return sorted(gpus for wanted, gpus in seen if wanted), [gpus for wanted, gpus in seen if not wanted]


def test_each_gpu_has_one_worker_that_sees_no_other_and_cpu_runs_see_none(mixed_plan, three_gpus, monkeypatch):
    monkeypatch.setattr(executor, "check_devices", lambda specs: None)  # torch finds none of the described GPUs
    worker, begun = executor.Worker, []
    monkeypatch.setattr(executor, "Worker", lambda *given: begun.append(given[0]) or worker(*given))
    outcome = lab.run(mixed_plan, workers=4)
    assert sorted(filter(None, begun)) == ["0", "1", "2"], "no GPU has two runs at a time"
    on_gpu, on_cpu = _seen(mixed_plan, outcome)
    assert set(on_gpu) == {"0", "1", "2"} and on_cpu == ["", ""]
    assert outcome.finished == 2
    said = "want device cuda, and torch finds no GPU here (CUDA_VISIBLE_DEVICES="
    assert all(said in line for line in outcome.failed.values())


def test_workers_number_gpus_as_nvidia_smi_does(three_gpus):
    worker = executor.Worker(machine.gpus()[2].handle)
    try:
        environ = Path("/proc") / str(worker.process.pid) / "environ"
        while not (told := environ.read_bytes()) and worker.process.poll() is None:
            time.sleep(0.01)  # empty while the program is being loaded
        words = told.decode().split("\0")
    finally:
        worker.process.kill()
        worker.shutdown()
    assert {"CUDA_VISIBLE_DEVICES=2", "CUDA_DEVICE_ORDER=PCI_BUS_ID"} <= set(words), "by default the fastest is first"


def test_a_manifest_names_the_driver_and_what_torch_was_built_for(three_gpus, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    machine.hardware.cache_clear()
    try:
        found = machine.hardware()
    finally:
        machine.hardware.cache_clear()
    assert (found["gpu"], found["gpu_driver"], found["cuda"]) == ("H200, H200, L40S", "580.65", "13.0")


def test_a_numbered_gpu_is_the_only_one_that_workers_get(mixed_plan, three_gpus, monkeypatch):
    monkeypatch.setattr(executor, "check_devices", lambda specs: None)
    device, gpus = chosen_device("cuda:2", "local", dry_run=False)
    assert (device, gpus) == ("cuda", ["2"])
    on_gpu, on_cpu = _seen(mixed_plan, executor.run(mixed_plan, workers=2, gpus=gpus))
    assert set(on_gpu) == {"2"} and on_cpu == ["", ""]


@pytest.mark.parametrize(
    ("device", "executor_name", "said"),
    [
        ("gpu", "local", "unknown device 'gpu'; use cpu, cuda, or cuda:N"),
        ("cuda:x", "local", "unknown device 'cuda:x'"),
        ("cuda:3", "local", "--device cuda:3: this machine has 3 GPUs"),
        ("cuda:0", "slurm", "Slurm gives each task a GPU: --device cuda or cpu"),
        ("auto", "slurm", "Slurm gives each task a GPU: --device cuda or cpu"),
    ],
)
def test_a_device_that_is_unknown_or_not_here_is_one_line_before_planning(device, executor_name, said, three_gpus):
    with pytest.raises(GroundlabError, match=re.escape(said)):
        chosen_device(device, executor_name, dry_run=False)


def test_auto_is_the_gpu_where_there_is_one_and_all_language_models_take_it(three_gpus, tmp_path, monkeypatch):
    assert chosen_device("auto", "local", dry_run=False) == ("cuda", None)
    plans = [lab.plan("glam", scale="smoke", results=tmp_path, device=device) for device in (None, "cpu", "cuda")]
    own, cpu = ([run.hash for run in plan.runs] for plan in plans[:2])
    assert own == cpu, "a run on the CPU keeps its name"
    with_one = {run.spec.method for run in plans[2].runs if run.needs_gpu}
    assert {"glam", "zero-shot"} <= with_one and not {"random", "bot", "drrn", "symbolic"} & with_one
    changed = {run.spec.method for run, before in zip(plans[2].runs, own, strict=True) if run.hash != before}
    assert changed == with_one
    others = lab.plan("mediator", "knowledge", scale="smoke", results=tmp_path, device="cuda").runs
    assert not any(run.needs_gpu for run in others), "small networks stay, though their methods take a device"
    monkeypatch.setenv(machine.VISIBLE, "")
    machine.gpus.cache_clear()
    assert chosen_device("auto", "local", dry_run=False) == ("cpu", None)


def test_a_config_that_numbers_a_gpu_is_refused_with_the_option_that_does(laboratory, rule_entry):
    laboratory.write_config([{**rule_entry, "settings": {"chat": {"device": "cuda:1"}}}])
    with pytest.raises(GroundlabError, match="always names cuda:1; write device: cuda, and choose by --device cuda:1"):
        lab.plan("mediator", scale="smoke")
