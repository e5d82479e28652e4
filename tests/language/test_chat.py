"""The ledger: nothing is asked twice, broken files are told, a line cut short by a kill is skipped."""

import json

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Ledger, Recorded, Recording, Sampling, Scripted

QUESTION = [{"role": "system", "content": "s"}, {"role": "user", "content": "what now?"}]


class Counting:
    """A model that counts how often it is asked."""

    model = "counting"

    def __init__(self):
        self.asked = 0

    def reply(self, messages, sampling):
        self.asked += 1
        return f"reply {self.asked}"


def test_a_question_is_asked_once_and_replayed_ever_after(tmp_path):
    file, maker = tmp_path / "ledger.jsonl", Counting()
    assert [Recording(maker, Ledger(file), "test").reply(QUESTION, Sampling()) for _ in range(3)] == ["reply 1"] * 3
    assert maker.asked == 1
    assert Recorded("counting", Ledger(file)).reply(QUESTION, Sampling()) == "reply 1"


def test_other_sampling_messages_or_models_are_other_questions(tmp_path):
    ledger, maker = Ledger(tmp_path / "ledger.jsonl"), Counting()
    recording = Recording(maker, ledger, "test")
    recording.reply(QUESTION, Sampling())
    recording.reply(QUESTION, Sampling(temperature=1.0, seed=3))
    recording.reply(QUESTION[1:], Sampling())
    assert maker.asked == 3
    with pytest.raises(GroundlabError, match=r"no reply of 'other' to \"what now\?\".*--set planner=scripted"):
        Recorded("other", ledger).reply(QUESTION, Sampling())


def test_records_hold_who_said_what_under_which_sampling(tmp_path):
    file = tmp_path / "ledger.jsonl"
    Recording(Scripted("rule", lambda text, sampling: text.upper()), Ledger(file), "scripted").reply(
        QUESTION, Sampling()
    )
    record = json.loads(file.read_text())
    assert record["reply"] == "WHAT NOW?" and record["model"] == "rule" and record["source"] == "scripted"
    assert {"key", "messages_sha256", "sampling", "tokens", "cost", "created"} <= record.keys()


def test_a_last_line_cut_short_is_skipped_and_a_broken_one_is_told(tmp_path):
    file = tmp_path / "ledger.jsonl"
    Recording(Counting(), Ledger(file), "test").reply(QUESTION, Sampling())
    whole = file.read_text()
    file.write_text(whole + whole[:40])
    assert Ledger(file).find("counting", QUESTION, Sampling()) == "reply 1"
    file.write_text("not json\n" + whole)
    with pytest.raises(GroundlabError, match=r"ledger\.jsonl:1 .*delete that line"):
        Ledger(file)
    file.write_text('{"key": "x"}\n' + whole)
    with pytest.raises(GroundlabError, match="lacks model, reply"):
        Ledger(file)
