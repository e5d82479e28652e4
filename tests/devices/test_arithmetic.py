"""What a run asks of a device is set while it runs, put back afterwards, and written down."""

import os
import subprocess
import sys

import pytest
import torch

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec
from groundlab.lab import machine, worker
from groundlab.language import models as language_models
from groundlab.language import scoring
from groundlab.language.prefix_batching import GPU_PASS, pass_cost
from groundlab.learning import devices
from groundlab.learning.devices import arithmetic, check_device
from groundlab.papers import registry


def _flags() -> tuple[bool, bool, bool]:
    products, convolutions = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    return products, convolutions, torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(("tf32", "deterministic"), [(True, False), (False, True), (False, False)])
def test_a_run_has_its_own_arithmetic_and_the_manifest_says_which(tmp_path, monkeypatch, tf32, deterministic):
    monkeypatch.setenv(machine.DETERMINISTIC_VARIABLE, "1" if deterministic else "")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.setattr(devices, "count_gpus", lambda: 1)
    before, seen = _flags(), []
    monkeypatch.setattr(registry, "execute", lambda run: seen.append(_flags()))
    spec = registry.resolve("glam", "BabyAI-GoToObjS4-v0", 0, {"tf32": tf32})
    manifest = worker.execute_run(spec, tmp_path / "run")
    assert seen == [(tf32, tf32, deterministic)] and _flags() == before
    assert manifest["settings"]["tf32"] is tf32 and manifest["history"][-1]["deterministic"] is deterministic


def test_where_there_is_no_gpu_a_run_of_a_rule_does_not_load_torchs_compiler(tmp_path):
    lines = ["import sys", "from groundlab.lab.worker import execute_run", "from groundlab.papers import registry"]
    lines.append("spec = registry.resolve('random', 'BabyAI-GoToObj-v0', 0, {'layouts': '0-1'})")
    lines.append("execute_run(spec, __import__('pathlib').Path(sys.argv[1]))")
    lines.append("print('torch' in sys.modules, 'torch._inductor' in sys.modules)")
    given = [sys.executable, "-c", "\n".join(lines), str(tmp_path / "run")]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", machine.DETERMINISTIC_VARIABLE: ""}
    ended = subprocess.run(given, capture_output=True, text=True, env=environment, check=True)
    assert ended.stdout.split() == ["True", "False"], "it takes twice as long to start as the rest"


def test_a_pass_costs_what_the_setting_says_and_else_what_the_device_makes_it(models, gpu):
    for device, expected in (("cpu", 32.0), ("cuda", GPU_PASS)):
        with gpu():
            model, _ = language_models.load(models["t5"], device=device)
            assert pass_cost(model, least=32.0) == expected
            assert pass_cost(model, least=32.0, given=5.0) == 5.0


def test_few_large_batches_score_as_many_small_ones_do(models, gpu):
    prompts = [f"You see a red ball {'and a wall ' * number}" for number in range(12)]
    with gpu():
        model, tokenizer = language_models.load(models["t5"], device="cuda")
        many = scoring.ActionScorer(model, tokenizer, ["go forward", "turn left"], pass_tokens=0.0)
        few = scoring.ActionScorer(model, tokenizer, ["go forward", "turn left"])
        counts = [len(scorer._batches(scorer._rows(prompts), False)) for scorer in (few, many)]
        with torch.no_grad():
            torch.testing.assert_close(few(prompts).scores, many(prompts).scores, atol=1e-4, rtol=1e-4)
    assert counts[0] == 1 < counts[1]


@pytest.mark.parametrize("chosen", [True, False])
def test_what_the_process_had_chosen_is_put_back(monkeypatch, chosen):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", not chosen)
    deterministic = torch.are_deterministic_algorithms_enabled
    torch.use_deterministic_algorithms(chosen)
    try:
        with arithmetic():
            assert (deterministic(), torch.backends.cudnn.benchmark) == (chosen, not chosen)
            assert not os.environ["CUBLAS_WORKSPACE_CONFIG"]
        with arithmetic(deterministic=True):
            assert (deterministic(), torch.backends.cudnn.benchmark) == (True, False)
            assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8", "one of the two that cuBLAS knows"
        assert (deterministic(), torch.backends.cudnn.benchmark) == (chosen, not chosen)
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_peak_of_a_gpu_is_in_the_manifest(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda gpu: (gpu + 1) * 2**30)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda gpu: None)
    monkeypatch.setattr(registry, "execute", lambda run: None)
    spec = RunSpec(method="random", world="BabyAI-GoToObjS4-v0", seed=0)
    worker.execute_run(spec, tmp_path / "run")
    manifest = storage.read_json(tmp_path / "run" / "manifest.json")
    assert manifest["peak_device_mib"] == manifest["history"][0]["peak_device_mib"] == 2048


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ("cuda:7", "torch finds 2 GPUs here, cuda:0 to cuda:1"),
        ("abacus", "no such device: there are cpu, cuda and cuda:N"),
        ("cuda:x", "no such device: there are cpu, cuda and cuda:N"),
        ("cuda", "torch finds no GPU here"),
    ],
)
def test_a_device_that_is_not_here_is_one_line(device, why, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: device == "cuda:7")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(GroundlabError, match="give device=cpu") as error:
        check_device(device)
    assert "\n" not in str(error.value) and f"'{device}' ({why})" in str(error.value)


@pytest.mark.parametrize("method", ["glam", "drrn", "symbolic", "direct"])
def test_a_misspelt_device_is_refused_before_anything_is_planned(method):
    world = "Reasoning-GoTo-v0" if method == "direct" else "BabyAI-GoToObjS4-v0"
    with pytest.raises(GroundlabError, match="device is no device: give cpu, cuda, or cuda:N"):
        registry.resolve(method, world, 0, {"device": "cudda"})
