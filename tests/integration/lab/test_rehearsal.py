"""Rehearsals at toy width, killed once as those of true networks are, and what plans make of what was measured."""

import json
import os
import re
import socket
import subprocess
import sys
from multiprocessing import Pipe

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from groundlab import cli, lab
from groundlab.core import manifests
from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec
from groundlab.core.storage import read_json
from groundlab.core.yaml_files import read_yaml
from groundlab.lab import executor
from groundlab.lab.config import Estimate
from groundlab.lab.machine import ONE_THREAD
from groundlab.lab.rehearsal import costs, flops, rehearsal, rows, stand_ins
from groundlab.lab.rehearsal.costs import Measured
from groundlab.lab.rehearsal.rows import Size
from groundlab.lab.run_copy import copy_records
from groundlab.lab.worker import KEPT_MEMORY
from groundlab.language import models
from groundlab.worlds.text_env.prompts import text_actions

TOY = Size(envs=2, prompts=4, episodes=1, toy=1)
SAMPLE = {
    "glam": ("glam/model/flan-t5-small", "BabyAI-GoToLocal-v0"),
    "reasoning": ("direct/estimator/bandit", "Reasoning-GoToPickup-v0"),
    "mediator": ("mediator/rate/constant", "SimpleDoorKey"),
    "knowledge": ("preference", "BabyAI-Text-GoToLocal-RedBall-S20"),
    "worlds": ("random", "BabyAI-GoToLocal-v0"),
}
SERVER = """
import os, socket, sys
from groundlab.lab.rehearsal import session
server = socket.socket(fileno=int(sys.argv[1]))
while pipes := socket.recv_fds(server, 1, 1)[1]:
    if not (child := os.fork()):
        session.serve(pipes[0])
        os._exit(0)
    os.close(pipes[0])
    server.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]).to_bytes(2, "big", signed=True))
"""


class Forked:
    """A process of the server that has imported what each process would import, in five CPU-seconds."""

    def __init__(self, server: socket.socket):
        self._server, self._code = server, None

    def wait(self) -> int:
        if self._code is None:
            self._code = int.from_bytes(self._server.recv(2), "big", signed=True)
        return self._code

    def kill(self) -> None:
        """It ends by itself."""


@pytest.fixture(scope="module")
def forking():
    """What starts a process in the place of `executor.start_child`."""
    server, theirs = socket.socketpair()
    with theirs:
        command, environment = [sys.executable, "-P", "-c", SERVER, str(theirs.fileno())], KEPT_MEMORY | os.environ
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment | ONE_THREAD)

    def start_child(module, environment):
        ours, theirs = Pipe()
        with theirs:
            socket.send_fds(server, [b"x"], [theirs.fileno()])
        return Forked(server), ours

    yield start_child
    server.close()
    assert process.wait() == 0


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder that all rehearsals here share."""
    return tmp_path_factory.mktemp("results")


def row_of(paper, results):
    arm, world = SAMPLE[paper]
    plan = lab.plan(paper, scale="paper", device="cpu", results=results)
    return next(row for row in rehearsal.chosen(plan, [arm]) if row.run.spec.world == world)


def records_of(folder):
    return [(folder / name).read_bytes() for name in ("metrics.jsonl", "evaluation.json")]


@pytest.mark.parametrize("paper", SAMPLE)
def test_a_row_of_each_paper_is_rehearsed_to_its_end_and_is_no_result(paper, results, tmp_path, monkeypatch, forking):
    if paper != "glam":  # whose processes are started as they always are
        monkeypatch.setattr(executor, "start_child", forking)
    row = row_of(paper, results)
    said: list[str] = []
    measured = rehearsal.rehearse(row, results, TOY, said.append)
    folder = costs.home(results) / "runs" / row.run.hash
    manifest = manifests.read_run(folder)
    assert manifest and (manifest["status"], manifest["rehearsal"]) == ("finished", True)
    assert measured.row == f"{paper} {SAMPLE[paper][0]} {SAMPLE[paper][1]}"
    assert measured.estimate.seconds > manifest["wall_seconds"] or paper in ("mediator", "worlds")
    with pytest.raises(GroundlabError, match="is a rehearsal and no result"):
        copy_records(folder, tmp_path / "collected")
    if paper == "worlds":
        assert {*said} == {"starting", "loading"}
        return
    wanted = {"update 1 of 4 done", "killed, as planned", "update 4 of 4 done; tests come next"}
    assert wanted <= {*said} and said.count("loading") == 2
    assert len(manifest["history"]) == 2
    assert "resumed at iteration 1" in (folder / "log.txt").read_text()
    assert measured.figures["update_seconds"] > 0 and measured.figures["checkpoint_seconds"] > 0
    assert (measured.figures["flop"] > 0) == (paper != "mediator")  # whose network is compiled, not of torch
    assert (measured.figures["tokens"] > 0) == (paper in ("glam", "reasoning"))
    assert bool(measured.instead) == (paper == "reasoning")  # vllm is not here


def test_what_was_killed_and_resumed_has_the_bytes_of_what_was_not(results, tmp_path):
    folder = costs.home(results) / "runs" / row_of("glam", results).run.hash
    stand_ins.random_model("google/flan-t5-small", costs.home(results) / "models", toy=True)  # dropped by later rows
    lab.execute_run(RunSpec(**read_yaml(folder / "config.yaml")), tmp_path / "uninterrupted")
    assert records_of(folder) == records_of(tmp_path / "uninterrupted")
    assert not (folder / "checkpoint").exists()  # a hundred of them would fill the disk


def test_the_dry_run_names_every_row_of_a_plan_and_what_it_needs(tmp_path, monkeypatch):
    known = {"total": 10**8}  # what a network needs is estimated by its own tests, and above
    monkeypatch.setattr(rows, "needs", lambda spec, *size: known if rows.models_of(spec.settings) else {})
    told = CliRunner().invoke(cli.app, ["rehearse", "--device", "cpu", "--dry-run", "--results", str(tmp_path)])
    assert told.exit_code == 0, told.output
    plan = lab.plan(scale="paper", device="cpu", results=tmp_path)
    names = {f"{run.paper} {run.arm} {run.spec.world}: " for run in plan.runs}
    assert all(any(line.startswith(name) for line in told.output.splitlines()) for name in names)
    assert f"of {len(plan.runs)} runs;" in told.output
    assert "not vllm" in told.output and ": 0.10 GB and 0.10 GB, " in told.output
    assert not (tmp_path / ".rehearsal").exists()


def test_a_row_that_does_not_fit_is_refused_before_it_starts(results, monkeypatch):
    monkeypatch.setattr(rows, "room", lambda settings: (10**9, "memory"))
    with pytest.raises(GroundlabError, match=r"needs \d\.\d GB, and memory has 1\.0 GB free; not started"):
        rehearsal.rehearse(row_of("glam", results), results, Size())


def test_a_row_that_fails_says_why(results, monkeypatch, forking):
    monkeypatch.setattr(executor, "start_child", forking)
    monkeypatch.setattr(stand_ins, "replaced", lambda settings, *given: {**settings, "model": "no/such-model"})
    with pytest.raises(GroundlabError, match="no/such-model is not on this machine"):
        rehearsal.rehearse(row_of("glam", results), results, TOY)


def test_a_rehearsal_keeps_what_a_row_is_and_lowers_amounts(results):
    before = row_of("glam", results).settings
    after = rows.smaller(before, Size())
    amounts = {"num_envs", "frames_per_env", "frames", "batch_size", "layouts", "first_finished"}
    assert {name for name in before if before[name] != after[name]} == amounts
    assert rows.work(after)[:2] == (4, 64)
    assert rows.work(before)[:2] == (313, 313 * 32 * 40)
    whole = rows.smaller(before, Size(prompts=0))
    assert (whole["num_envs"], whole["batch_size"], whole["frames"]) == (32, 64, 4 * 32 * 40)
    more = rows.smaller(before, Size(prompts=128))
    assert (more["num_envs"], more["batch_size"], more["frames"], more["layouts"]) == (16, 64, 4 * 128, "0-1")
    assert rows.smaller({**before, "device": "cuda"}, Size(prompts=128))["layouts"] == "0-15"
    assert rows.smaller({**before, "device": "cuda"}, Size())["first_finished"] == 4


def test_an_update_is_timed_without_its_checkpoint_its_tests_and_its_teacher(results):
    plan = lab.plan("glam", scale="paper", device="cpu", results=results)
    row = rehearsal.chosen(plan, ["cloning/fidelity/demonstrations-pad-loss-in-order"])[0]
    spec, _ = rehearsal.small_spec(row, Size())
    update = rehearsal._Update
    teacher = [update(2, 0, 90), update(3, 9, 20), update(4, 9, 20)]
    own = [update(1, 9, 70), update(2, 5, 1), update(3, 4, 1), update(4, 4, 1)]
    small, whole, lesson, taught = (
        rows.work(each) for each in (spec.settings, row.settings, spec.settings["teacher"], row.settings["teacher"])
    )
    training = 1 * small.updates / small.units * whole.units + 20 * lesson.updates / lesson.units * taught.units
    tests = 40 * whole.episodes / small.episodes
    saves = min(whole.updates, 20 + (training + tests) / (9 / 0.05))
    found = rehearsal._extrapolated(row.settings, spec.settings, [*teacher, *own], 40)
    assert found == {
        "update_seconds": 1,
        "update_units": small.units / small.updates,
        "checkpoint_seconds": 9,
        "whole_seconds": pytest.approx(training + tests + 9 * saves, abs=0.1),
    }
    assert rehearsal._seconds([*own[:-1], update(4, 4, 11)], tested=True) == (1, 10)


def test_plans_take_what_was_measured_and_say_so(tmp_path):
    row = row_of("mediator", tmp_path)
    facts = {"row": row.name, "hash": "", "machine": "a GPU", "date": "2026-11-24", "figures": {}}
    real = Measured(**facts, size=vars(Size()), estimate=Estimate(seconds=7777, megabytes=5))
    for other in ({"instead": "backend embedded"}, {"size": vars(TOY)}):
        costs.add(tmp_path, row.key, real.model_copy(update=other))
        assert row_of("mediator", tmp_path).run.estimate.seconds != 7777
    costs.add(tmp_path, row.key, real)
    plan = lab.plan("mediator", scale="paper", device="cpu", results=tmp_path)
    assert [run.estimate.seconds for run in plan.runs].count(7777) == row.seeds == 5
    assert "5 measured by rehearsal on a GPU, 2026-11-24" in str(plan)
    (costs.home(tmp_path) / "costs.json").write_text(json.dumps({"key": {"row": 1}}))
    with pytest.raises(GroundlabError, match="is not what a rehearsal writes; delete it"):
        lab.plan("mediator", scale="paper", results=tmp_path)


def test_every_estimate_of_paper_says_where_it_comes_from_and_those_of_language_models_are_what_is_counted():
    plan = lab.plan(scale="paper")
    for experiment in plan.experiments:
        assert re.search(r"measured|by FLOP count from", experiment.estimates), experiment.paper
        assert f"estimates of {experiment.paper}: {experiment.estimates}" in plan.notes
    found = [(run, flops.count(run.spec)) for run in plan.runs]
    counted = [(run, flop / flops.RATES[run.spec.settings["dtype"]]) for run, flop in found if flop]
    assert len(counted) == 119
    for run, seconds in counted:
        assert run.estimate.seconds == pytest.approx(seconds, rel=0.06), run.spec.label


@pytest.mark.parametrize("name", ["google/flan-t5-small", "google/flan-t5-large", "meta-llama/Llama-3.2-1B-Instruct"])
def test_what_a_prompt_takes_is_what_torch_counts(name):
    scores = "flan" in name
    given = {"model": name, **({"nbr_obs": 3, "action_space": 6} if scores else {"max_new_tokens": 20})}
    prompt = flops.prompt_tokens(given)
    network = stand_ins.without_weights(name)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        if scores:
            words = sum(len(action.split()) for action in text_actions(6))
            network(input_ids=torch.zeros(1, prompt, dtype=torch.long), decoder_input_ids=torch.zeros(1, words).long())
        else:
            network(torch.zeros(1, prompt + 20, dtype=torch.long), logits_to_keep=20)
    assert flops._reading(given) == pytest.approx(counter.get_total_flops(), rel=0.1)


@pytest.mark.parametrize("name", rows.architectures())
def test_an_architecture_has_the_published_number_of_parameters(name):
    network = stand_ins.without_weights(name)
    assert sum(weights.numel() for weights in network.parameters()) == rows.architectures()[name]["parameters"]


@pytest.mark.parametrize("name", ["google/flan-t5-large", "meta-llama/Llama-3.2-3B-Instruct"])
def test_a_model_of_random_weights_is_loaded_as_a_published_one(name, tmp_path):
    network, tokenizer = models.load(stand_ins.random_model(name, tmp_path, toy=True))
    assert len(tokenizer) == network.config.vocab_size == 2000
    tied = network.get_input_embeddings().weight is network.get_output_embeddings().weight
    assert tied == (name != "google/flan-t5-large")
    words = tokenizer("go to the red ball", add_special_tokens=False)["input_ids"]
    assert len(words) == 5
    made_up = tokenizer.decode([1999])
    assert tokenizer(made_up, add_special_tokens=False)["input_ids"] == [1999]
    assert read_json(tmp_path / f"{name.replace('/', '--')}-toy" / "config.json")["vocab_size"] == 2000
