"""What fails on the way to a number is counted in the record of its run, or ends it: one of each group is planted.

Batches of the sandbox are in test_sandbox.py; exhibits and claims that break, in the report's test_damage.py.
"""

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import chat_server
import knowledge_data
import numpy as np
import pandas as pd
import pytest

from groundlab.assets import resolve_model
from groundlab.core.errors import GroundlabError
from groundlab.lab import execute_run
from groundlab.language.chat import Sampling, connection
from groundlab.language.sentence_embedding import Embedder, load_encoder
from groundlab.papers import registry
from groundlab.papers.knowledge import bk_goal, bk_pref, labelling
from groundlab.report.claims import Claim
from groundlab.report.judging import judge_claim
from groundlab.report.records import Records


def test_a_planner_without_an_answer_is_counted_where_the_run_goes_on_without_it(tmp_path, monkeypatch):
    settings = {"planner": "openai", "layouts": "0-2", "ledger": str(tmp_path / "l")}
    chat = {"model": "m", "unanswered": "fallback"}
    with chat_server.ChatServer(chat_server.status(400)) as server:
        monkeypatch.setenv(connection.ADDRESS, server.base_url)
        spec = registry.resolve("always", "SimpleDoorKey", 0, {**settings, "chat": chat})
        manifest = execute_run(spec, tmp_path / "run")
        asked = len(server.requests)
    warned = {"groundlab.papers.mediator.planner: %s; the plan is to explore": asked}
    assert asked > 0 and manifest["history"][-1]["warnings"] == warned
    assert (tmp_path / "run" / "log.txt").read_text().count("; the plan is to explore") == asked
    assert not (tmp_path / "l").exists(), "a fallback is no reply"


def test_a_chat_agent_takes_an_empty_reply_where_it_may_go_on_without_an_answer(tmp_path, monkeypatch):
    settings = {"maker": "openai", "layouts": "0", "ledger": str(tmp_path / "l")}
    chat = {"model": "m", "unanswered": "fallback"}
    with chat_server.ChatServer(chat_server.answer("")) as server:
        monkeypatch.setenv(connection.ADDRESS, server.base_url)
        spec = registry.resolve("chat", "BabyAI-GoToObjS4-v0", 0, {**settings, "chat": chat})
        manifest = execute_run(spec, tmp_path / "run")
    warned = {"groundlab.language.chat.ledger: %s; an empty reply is taken": len(server.requests)}
    assert server.requests and manifest["history"][-1]["warnings"] == warned


def run_with(server, folder, **settings) -> Counter:
    """What the manifest of a run that asks this server, or replays its ledger, counts."""
    settings = {"planner": "openai", "layouts": "0-2", "ledger": str(folder.parent / "l"), **settings}
    spec = registry.resolve("always", "SimpleDoorKey", 0, {**settings, "chat": {"model": "m"}})
    return Counter(execute_run(spec, folder)["history"][-1].get("warnings", {}))


def test_replies_without_a_plan_are_counted(tmp_path, monkeypatch):
    with chat_server.ChatServer(chat_server.answer("I would rather not say")) as server:
        monkeypatch.setenv(connection.ADDRESS, server.base_url)
        warned = run_with(server, tmp_path / "run")
    kind = "groundlab.papers.mediator.planner: %s gave no plan in %d replies; the plan is to explore"
    assert warned.keys() == {kind} and warned[kind] * 3 >= len(server.requests) > 0


def test_cut_replies_and_those_of_another_model_are_counted_when_they_come_and_when_they_are_replayed(
    tmp_path, monkeypatch
):
    cut, other = chat_server.answer(finish="length"), chat_server.answer(of="m-small\x1b[2J")
    with chat_server.ChatServer(cut, other, chat_server.answer()) as server:
        monkeypatch.setenv(connection.ADDRESS, server.base_url)
        warned = run_with(server, tmp_path / "run")
    kinds = {"a reply of %s was cut by length", "a reply was asked of %s and came from %s"}
    kinds = {f"groundlab.language.chat.ledger: {kind}" for kind in kinds}
    assert warned.keys() == kinds and warned.total() < len(server.requests) + 10
    assert run_with(None, tmp_path / "again", planner="recorded") == warned
    told = (tmp_path / "again" / "log.txt").read_text()
    assert r"asked of m and came from 'm-small\x1b[2J'" in told and "\x1b" not in told
    lines = [json.loads(line) for line in (tmp_path / "l").read_text().splitlines()[:3]]
    assert [line.keys() & {"cut", "of"} for line in lines] == [{"cut"}, {"of"}, set()]


def test_a_text_that_the_encoder_reads_only_in_part_is_warned_of(caplog):
    embed = Embedder(load_encoder(resolve_model("quick-t5-s0")))
    embed(["go to the red ball"])
    assert not caplog.records
    embed(["go to the red ball", "go " * 600])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "is read to its token 512 only" in caplog.text


def test_a_seed_of_which_no_training_episode_ended_is_named_in_the_verdict():
    runs = [{"run": f"r{seed}", "seed": seed, "cpu_seconds": 1.0} for seed in range(5)]
    spec = {"paper": "mediator", "method": "mediator", "world": "SimpleDoorKey", "settings": {}}
    curves = pd.DataFrame(
        {**spec, "run": run["run"], "seed": run["seed"], "iteration": number, "frames": number, "success": success}
        for run in runs
        for number, success in enumerate([None, None] if run["seed"] == 3 else [None, 50.0], start=1)
    )
    none = pd.DataFrame(columns=["method", "world", "settings", "policy", "seed", "run", "paper"])
    version: Any = SimpleNamespace(scale="quick", planned=[])
    records = Records(version, pd.DataFrame([{**spec, **run} for run in runs]), none, curves, none)
    facts = {"id": "a", "paper": "mediator", "locus": "x", "statement": "s", "source": "t", "tolerance": "numeric"}
    select = {"method": "mediator", "world": "SimpleDoorKey", "when": "training"}
    claim = Claim.model_validate({**facts, "range": {"success": ("0", "100")}, "select": select})
    assert "no training episode of seed 3 of" in judge_claim(claim, records).reason
    ended = replace(records, curves=curves.assign(success=50.0))
    assert "no training episode" not in judge_claim(claim, ended).reason


def test_replies_that_name_no_preference_are_counted_beside_the_labels(data, tmp_path):
    settings = bk_pref.LabelSettings(pairs=4)
    chat = knowledge_data.FixedReplies(["[Rank] A > B", "no", "[Rank] A = B", "no"])
    labels = bk_pref.judge(chat, lambda draw: Sampling(), data, settings, seed=0)
    bk_pref.store_labels(tmp_path / "preferences.json", labels, data, settings)
    stored = json.loads((tmp_path / "preferences.json").read_text())
    assert (stored["unread"], len(stored["pairs"])) == (2, 2)


def test_stretches_without_a_list_of_goals_are_counted_beside_the_library(data, tmp_path, monkeypatch):
    replies = knowledge_data.FixedReplies(["- open the door\n", "none", "none"])
    monkeypatch.setattr(labelling, "labeller", lambda *given: replies)
    job = labelling.Labelling("goals", tmp_path / "out", "scripted", overrides={"rounds": 2, "attempts": 2})
    labelling.label(job, data)
    made = json.loads((tmp_path / "out" / "account.json").read_text())["made"]
    assert made.endswith("for 1 stretches of play (1 without a list)")
    assert len(bk_goal.load(tmp_path / "out").captions) == 1


def test_a_vector_that_is_no_number_ends_the_run_and_is_not_kept():
    embed = Embedder(lambda texts: np.full((len(texts), 4), np.nan))
    for _ in range(2):
        with pytest.raises(GroundlabError, match="vector of 'a door' is not finite"):
            embed(["a door"])
