"""A plan counts runs before they start, and names each by what its result depends on."""

from pathlib import Path

import pytest

from groundlab import lab
from groundlab.core.errors import GroundlabError
from groundlab.lab import machine, run_hash
from groundlab.papers import registry


def test_a_plan_is_the_grid_of_methods_worlds_and_seeds(laboratory, rule_entry, training_entry):
    laboratory.write_config([rule_entry, {**training_entry, "worlds": ["SimpleDoorKey", "KeyInBox"]}])
    plan = lab.plan("mediator", scale="smoke")
    trained = [f"mediator-{world}-s{seed}" for world in ("SimpleDoorKey", "KeyInBox") for seed in (0, 1)]
    assert [run.label for run in plan.runs] == ["always-SimpleDoorKey-s0", *trained]


def test_seeds_multiply_only_runs_that_depend_on_the_seed(laboratory, rule_entry, training_entry):
    laboratory.write_config([rule_entry, training_entry])
    methods = [run.spec.method for run in lab.plan("mediator", scale="smoke", seeds=4).runs]
    assert (methods.count("always"), methods.count("mediator")) == (1, 4)


def test_a_plan_can_be_limited_to_named_experiments(laboratory, rule_entry, training_entry):
    laboratory.write_config([{**rule_entry, "experiments": ["E1", "E4"]}, {**training_entry, "experiments": ["E3"]}])
    plan = lab.plan("mediator", scale="smoke", experiments=["E4"])
    assert [run.spec.method for run in plan.runs] == ["always"] and plan.part
    assert "E1 E4: SimpleDoorKey" in str(plan)
    with pytest.raises(GroundlabError, match="unknown experiment of this plan 'E5'"):
        lab.plan("mediator", scale="smoke", experiments=["E5"])


def test_runs_that_stand_alone_are_planned_only_by_name_and_are_then_a_version_by_themselves(
    laboratory, rule_entry, training_entry
):
    laboratory.write_config([rule_entry, {**training_entry, "experiments": ["row"], "alone": True}])
    whole, row = lab.plan("mediator", scale="smoke"), lab.plan("mediator", scale="smoke", experiments=["row"])
    assert [run.spec.method for run in whole.runs] == ["always"] and not whole.part and not whole.alone
    assert {run.spec.method for run in row.runs} == {"mediator"} and not row.part and row.alone == ("row",)
    assert lab.plan("mediator", scale="smoke", experiments=["row"], methods=["mediator"]).part
    assert not lab.plan("mediator", scale="smoke", methods=["mediator"]).runs


def test_an_experiment_of_one_paper_leaves_the_others_out(laboratory, rule_entry):
    laboratory.write_config([{**rule_entry, "experiments": ["E1"]}])
    laboratory.write_config([], paper="worlds")
    assert lab.plan(scale="smoke").papers == ["mediator", "worlds"]
    assert lab.plan(scale="smoke", experiments=["E1"]).papers == ["mediator"]


def test_settings_that_entries_share_are_printed_once(laboratory, training_entry):
    shared = {"iterations": 3, "trajectories": 2}
    entries = [
        {**training_entry, "arm": f"mediator/layouts/{text}", "label": text, "settings": {**shared, "layouts": text}}
        for text in ("0-4", "0-5")
    ]
    laboratory.write_config(entries, shared={"short": shared})
    printed = str(lab.plan("mediator", scale="smoke"))
    assert printed.count("iterations=3") == 1 and "shared settings, short: iterations=3" in printed
    laboratory.write_config([{**training_entry, "settings": {**shared, "iterations": 7}}], shared={"short": shared})
    plan = lab.plan("mediator", scale="smoke")
    assert plan.runs[0].given == "iterations=7" and plan.runs[0].spec.settings["iterations"] == 7


def test_the_printed_plan_counts_runs_time_and_disk_and_says_what_is_left_out(laboratory, training_entry):
    laboratory.write_config([training_entry], not_run=["the moon"])
    printed = str(lab.plan("mediator", scale="smoke"))
    assert "mediator" in printed and "iterations=3" in printed
    assert "2.0 MB" in printed
    assert "not run at this scale: the moon" in printed


def test_what_ships_is_named_alike_in_every_checkout():
    run = ("glam", "BabyAI-GoToLocal-v0")
    inputs = run_hash.input_digests(*run, registry.resolve(*run, 0, {}).settings)
    assert "model/model.safetensors" in inputs and "assets/prompts/glam/probes.json" in inputs
    assert not any(Path(name).is_absolute() for name in inputs)


def test_a_ledger_that_the_run_fills_is_no_input(laboratory, monkeypatch):
    monkeypatch.chdir(laboratory.root)
    spec = registry.resolve("always", "KeyInBox", 0, {"ledger": "ledger.jsonl"})
    first = run_hash.hash_run(spec)
    (laboratory.root / "ledger.jsonl").write_text("{}\n")
    assert run_hash.hash_run(spec) == first


def test_seeds_begin_where_an_entry_says(laboratory):
    entry = {"method": "mediator", "worlds": ["SimpleDoorKey"], "seeds": 2, "estimate": {"seconds": 5, "megabytes": 1}}
    laboratory.write_config([entry | {"first_seed": 5}])
    assert [run.spec.seed for run in lab.plan("mediator", scale="smoke").runs] == [5, 6]
    assert [run.spec.seed for run in lab.plan("mediator", scale="smoke", seeds=1).runs] == [5]


@pytest.mark.parametrize(("gpus", "told"), [((), ", no GPU"), (("H200",), ", 1 GPU"), (("H200", "H200"), ", 2 GPUs")])
def test_a_plan_for_gpus_names_those_that_are_here_and_what_cannot_be_run(tmp_path, monkeypatch, gpus, told):
    monkeypatch.setattr(machine, "gpu_names", lambda: gpus)
    monkeypatch.setattr(machine, "core_count", lambda: 64)
    plan = lab.plan("glam", scale="paper", results=tmp_path, experiments=["E7"])
    assert all(run.needs_gpu for run in plan.runs)
    assert told in str(plan) and ("runs want a GPU" in str(plan)) == (not gpus)
    assert "GPU" not in str(lab.plan("mediator", scale="quick", results=tmp_path))


def test_runs_that_want_a_gpu_are_refused_in_one_line_before_anything_is_run(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    plan = lab.plan("glam", scale="paper", results=tmp_path, experiments=["E7"])
    with pytest.raises(GroundlabError, match=r"^glam-BabyAI-GoToLocal-v0-s0 and \d+ other runs want device cuda, and"):
        lab.run(plan)
    assert not list(tmp_path.iterdir())
