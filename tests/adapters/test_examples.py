"""The examples themselves, small: GRPO learns and goes on, a rule plays by two trainers. Run by `nox -s adapters`."""

import csv
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from groundlab.assets import resolve_model
from groundlab.papers.worlds.reflex import reflex
from groundlab.worlds import TextEnv

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *words: str) -> str:
    """What an example prints."""
    command = [sys.executable, str(EXAMPLES / name), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_two_steps_of_grpo_change_every_weight_and_write_the_curve(tmp_path):
    pytest.importorskip("trl", reason="nox -s adapters has it")
    from safetensors.torch import load_file

    small = ("--updates", "2", "--groups", "2", "--group", "4", "--replies", "2", "--tests", "8")
    printed = run("grpo_babyai.py", "--out", str(tmp_path), *small)
    assert re.search(r"success on 8 levels of BabyAI-GoToLocalS5N2-v0: \d+% before, \d+% after", printed)
    with (tmp_path / "curve.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert [row["update"] for row in rows] == ["0", "1", "2"]
    assert [bool(row["test"]) for row in rows] == [True, False, True]
    for row in rows[1:]:  # 8 episodes; an unknown word costs a tenth
        assert 0 <= float(row["success"]) <= 1 and float(row["success"]) * 8 % 1 == 0
        assert -2.5 <= float(row["return"]) <= float(row["success"])
    before = load_file(Path(resolve_model("quick-llama-chat-s0")) / "model.safetensors")
    after = load_file(tmp_path / "checkpoint-2" / "model.safetensors")
    same = [name for name, weight in after.items() if weight.float().equal(before[name].float())]
    assert after and not same


def test_a_run_that_was_killed_goes_on_to_the_same_curve(tmp_path):
    pytest.importorskip("trl", reason="nox -s adapters has it")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    small = ("--updates", "12", "--groups", "1", "--group", "4", "--replies", "2", "--tests", "4")
    run("grpo_babyai.py", "--out", str(whole), *small)
    process = subprocess.Popen([sys.executable, str(EXAMPLES / "grpo_babyai.py"), "--out", str(killed), *small])
    state = killed / "checkpoint-10" / "trainer_state.json"
    while not (state.is_file() and state.read_text().endswith("}\n")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    stored = json.loads(state.read_text())
    stored["log_history"][0]["rewards/success/mean"] = -1  # a mark, which a run from the start would not have
    state.write_text(json.dumps(stored))
    run("grpo_babyai.py", "--out", str(killed), *small, "--resume")
    resumed, once = ((folder / "curve.csv").read_text().splitlines()[2:] for folder in (killed, whole))
    assert resumed[0].startswith("1,-1,") and resumed[1:] == once[1:]


def wins(episodes: int) -> str:
    """How often the rule wins the first levels in this process, as the examples print it."""
    env, won = TextEnv("BabyAI-GoToLocal-v0"), 0
    for seed in range(episodes):
        (_, info), past, over = env.reset(seed=seed), [], False
        while not over:
            past.append(reflex(info["mission"], info["descriptions"], past))
            _, _, terminated, truncated, info = env.step(past[-1])
            over = terminated or truncated
        won += info["success"]
    return f"success {won / episodes:.0%},"


def test_a_rule_plays_through_openenv_as_in_this_process():
    pytest.importorskip("openenv", reason="nox -s adapters has it")
    assert wins(4) in run("openenv_babyai.py", "--episodes", "4")


def test_verifiers_own_evaluation_of_a_rule_ends_as_in_this_process(tmp_path):
    pytest.importorskip("verifiers", reason="nox -s adapters has it")
    assert wins(4) in run("verifiers_babyai.py", "--episodes", "4", "--out", str(tmp_path))
