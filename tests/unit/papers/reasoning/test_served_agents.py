"""Agents whose replies vLLM draws: they learn, resume and are tested like others, and nothing of others changes.

The tests of a real engine need vLLM in an environment of its own, whose Python GROUNDLAB_VLLM_PYTHON names.
"""

import json
import os

import pytest

from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.core.run import Run, RunSpec
from groundlab.language.vllm_backend import PYTHON_VARIABLE
from groundlab.papers import registry

WORLD = "Reasoning-GoTo-v0"
SMALL = {"num_envs": 4, "steps": 16, "minibatch_size": 8, "iterations": 2, "layouts": "0-1", "num_dists": 0}
SERVED = {"backend": "vllm", "engine_gb": 0.2, "lora_rank": 4}

real = pytest.mark.skipif(PYTHON_VARIABLE not in os.environ, reason=f"needs vLLM: set {PYTHON_VARIABLE}")


def spec(method="reasoning", **given):
    return RunSpec(method=method, world=WORLD, seed=0, settings=registry.resolve_settings(method, WORLD, given))


def executed(folder, given, stop_after=None):
    """The run's files after it has ended, stopped on the way after so many steps where that is given."""
    steps = []
    if stop_after is not None:
        stopped = Run(folder, given, report=steps.append, stop=lambda: len(steps) == stop_after - 1)
        with pytest.raises(Unfinished):
            registry.execute(stopped)
    registry.execute(Run(folder, given))
    return {name: (folder / name).read_bytes() for name in ("metrics.jsonl", "evaluation.json")}


@real
def test_an_agent_learns_from_replies_that_vllm_draws_and_a_stopped_run_goes_on_to_the_same_bytes(tmp_path):
    given = spec(**SMALL, **SERVED, test_every=2, curve_layouts="0-0")
    whole = executed(tmp_path / "whole", given)
    rows = [json.loads(line) for line in whole["metrics.jsonl"].decode().splitlines()]
    assert [row["iteration"] for row in rows] == [0, 1, 2] and "test_success" in rows[2]
    assert all(row["drawing_gap"] < 1e-4 and row["replies"] == 16 for row in rows[1:])
    assert rows[2]["kl"] != 0  # the second rollout is drawn by adapters that have moved
    assert executed(tmp_path / "stopped", given, stop_after=1) == whole


@real
def test_a_tuned_agent_is_listened_to_through_vllm(tmp_path):
    executed(tmp_path / "run", spec("direct", **SMALL, lora_rank=4, lr=0.01))
    settings = {"model": str(tmp_path / "run" / "model"), "layouts": "0-1", "num_dists": 0, "temperature": 0}
    for more in ({}, {"backend": "vllm", "engine_gb": 0.2}):
        given = spec("direct-zero-shot", **settings, **more)
        executed(tmp_path / str(len(more)), given)
    told = [(tmp_path / name / "evaluation.json").read_text() for name in ("0", "2")]
    assert told[0] == told[1]  # without randomness both say what is likeliest


def test_full_weights_quantized_models_and_dropped_activations_are_refused_with_the_fix_named():
    for given, fix in (
        ({"backend": "vllm"}, "lora_rank=32"),
        ({**SERVED, "quantization": "4bit"}, "backend=embedded"),
        ({**SERVED, "fidelity": {"dropout": True}}, "backend=embedded"),
        ({**SERVED, "temperature": 0.7}, "top_k=50"),
    ):
        with pytest.raises(GroundlabError, match=fix):
            spec(**given)


@pytest.mark.parametrize("method", ["reasoning", "direct-zero-shot"])
def test_settings_name_the_backend_and_those_stored_before_there_was_a_choice_mean_the_model_itself(method):
    settings = spec(method).settings
    assert settings["backend"] == "embedded"
    earlier = {name: value for name, value in settings.items() if name not in ("backend", "engine_gb")}
    assert spec(method, **earlier).settings == settings
    served = spec(method, **({} if method.endswith("zero-shot") else {"lora_rank": 4}), backend="vllm").settings
    assert served["backend"] == "vllm" and served["engine_gb"] == 4
