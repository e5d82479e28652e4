"""Damage to a ledger: a broken line is reported with its repair, and half a line costs its own reply only."""

import json
from datetime import UTC, datetime

import pytest
from fixed_replies import FixedReplies

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Ledger, Recorded, Recording, Reply, Sampling, Tokens, ledger

QUESTIONS = [[{"role": "user", "content": f"question {number}"}] for number in range(3)]
REPLIES = [Reply(f"long: {'é' * 40}", Tokens(40, 9), 0.25)]
LONGEST = 480  # characters of an error line


class Noon(datetime):
    """So that two ledgers with the same replies are the same bytes."""

    @classmethod
    def now(cls, tz=None):
        return datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def at_noon(monkeypatch):
    monkeypatch.setattr(ledger, "datetime", Noon)


def fill(file) -> int:
    """Ask all questions; says how many were put to the model."""
    maker = FixedReplies(REPLIES)
    for question in QUESTIONS:
        Recording(maker, Ledger(file), "openai").reply(question, Sampling())
    return len(maker.prompts)


@pytest.fixture
def file(tmp_path):
    fill(tmp_path / "ledger.jsonl")
    return tmp_path / "ledger.jsonl"


def changed(**fields) -> bytes:
    """A line of a ledger with other values."""
    record = {"key": "k", "model": "M", "reply": "r", "tokens": {"prompt": 1, "completion": 2}, "cost": 0.5}
    return json.dumps(record | fields).encode()


NO_LINES = {
    "words": b"go to the red ball",
    "nothing": b"",
    "an empty object": b"{}",
    "Latin-1": changed(reply="REPLY").replace(b"REPLY", b"caf\xe9"),
    "half a surrogate": changed(reply="REPLY").replace(b"REPLY", b"\\ud800"),
    "tokens below 0": changed(tokens={"prompt": -5_000_000, "completion": 2}),
    "cost of nan": changed(cost=float("nan")),
}


@pytest.mark.parametrize("name", NO_LINES)
def test_a_line_that_is_none_is_named_and_deleting_it_is_the_way_back(name, file):
    first, second, third, end = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([first, NO_LINES[name], third, end]))
    with pytest.raises(GroundlabError, match=r"ledger\.jsonl:2 is no line of a ledger \(.*; delete that line") as error:
        Ledger(file)
    assert len(str(error.value)) < LONGEST + len(str(file)) and str(error.value).isprintable()
    file.write_bytes(b"\n".join([first, third, end]))
    assert fill(file) == 1
    assert file.read_bytes() == b"\n".join([first, third, second, end])


def test_a_line_of_the_least_that_a_replay_needs_is_enough(file):
    file.write_bytes(b'{"key": "k", "model": "M", "reply": "r"}\n' + file.read_bytes())
    assert Ledger(file).account().replies == 4 and fill(file) == 0


def test_a_ledger_cut_at_any_byte_is_continued_to_equal_bytes_and_each_reading_warns_once(file, caplog):
    whole = file.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(whole) - 1):
        file.write_bytes(whole[:end])
        caplog.clear()
        assert fill(file) == 1
        assert file.read_bytes() == whole
        cut = f"{file}: the last line was cut short (by a kill?) and is ignored"
        assert [record.message for record in caplog.records] == [cut] * (len(QUESTIONS) if end > start else 0)


def test_a_last_line_that_lacks_only_its_end_is_kept(file, caplog):
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert fill(file) == 0 and Ledger(file).account().replies == 3 and not caplog.messages
    reader, other = Ledger(file), [{"role": "user", "content": "another question"}]
    Ledger(file).add("fixed", other, Sampling(), "yes", "openai")
    assert file.read_bytes().startswith(whole) and len(file.read_bytes().splitlines()) == 4
    with reader.asking("fixed", other, Sampling()):
        assert reader.find("fixed", other, Sampling()) == "yes" and reader.account().replies == 4


@pytest.mark.parametrize("reply", ["\x00\x1b\u2028\n\r", "{" * 1000, "٣-٤ ²", "\U0001f600" * 10])
def test_any_reply_is_replayed_as_it_was(tmp_path, reply):
    file = tmp_path / "ledger.jsonl"
    Ledger(file).add("M", QUESTIONS[0], Sampling(), reply, "openai")
    assert Recorded("M", Ledger(file)).reply(QUESTIONS[0], Sampling()) == reply


def test_a_question_that_is_not_on_file_is_told_in_one_line_however_long_it_is(file):
    with pytest.raises(GroundlabError, match=r"holds no reply of .*--set planner=scripted") as error:
        Recorded("M" * 500, Ledger(file)).reply([{"role": "user", "content": "word\n" * 9999}], Sampling())
    assert len(str(error.value)) < LONGEST and str(error.value).isprintable()


@pytest.mark.parametrize("wrong", ["a folder", "a link to itself"])
def test_a_ledger_that_is_no_file_is_one_line(tmp_path, wrong):
    path = tmp_path / "ledger.jsonl"
    path.mkdir() if wrong == "a folder" else path.symlink_to(path)
    with pytest.raises(GroundlabError, match=r"ledger\.jsonl"):
        Recording(FixedReplies(REPLIES), Ledger(path), "openai").reply(QUESTIONS[0], Sampling())
