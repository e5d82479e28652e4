"""What fails on the way to a number is counted in the record of its run, or ends it: one of each group is planted.

The list of all such places is in docs/log/2026-11.md (2026-11-23). Batches of the sandbox are in test_sandbox.py;
records that no run writes, and exhibits and claims that break, in the report's test_damage.py.
"""

import json

import chat_server
import knowledge_data
import numpy as np
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.lab import execute_run
from groundlab.language.chat import Sampling, connection
from groundlab.language.sentence_embedding import Embedder
from groundlab.papers import registry
from groundlab.papers.knowledge import bk_goal, bk_pref, labelling


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return knowledge_data.write_data(tmp_path / "data")


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


def test_a_run_that_nothing_happened_to_has_no_warnings(tmp_path):
    spec = registry.resolve("always", "SimpleDoorKey", 0, {"layouts": "0-0"})
    assert "warnings" not in execute_run(spec, tmp_path / "run")["history"][-1]


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
