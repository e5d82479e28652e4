"""Seals: what they see, and that a file is read again as soon as it may have changed."""

import os

import pytest

from groundlab.core import seals, storage

FACTS = {"label": "ü", "seconds": 0.1, "settings": {"a": [1, None, True], 2: "b", 10: "c"}, "seal": "old"}


def test_a_seal_holds_for_facts_that_were_written_and_read_back(tmp_path):
    storage.write_json(tmp_path / "facts.json", seals.sealed(FACTS))
    stored = storage.read_json(tmp_path / "facts.json")
    assert seals.seal_holds(stored) and list(stored)[-1] == "seal"
    assert seals.sealed(stored) == stored


@pytest.mark.parametrize("change", [{"seconds": 0.2}, {"more": 1}, {"label": "u"}, {"seal": None}, {"seal": "0" * 64}])
def test_a_seal_does_not_hold_for_other_facts(change):
    stored = seals.sealed(FACTS)
    assert not seals.seal_holds({**stored, **change})
    assert not seals.seal_holds({key: value for key, value in stored.items() if key != "seconds"})


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(seals, "_SETTLED_NS", 0)
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b"12345")
    os.utime(file, ns=(10**18, 10**18))
    digests = seals.digests_of(tmp_path)
    assert seals.damaged(tmp_path, digests) == {}
    file.write_bytes(b"12354")
    os.utime(file, ns=(10**18, 10**18))
    assert seals.damaged(tmp_path, digests) == {"metrics.jsonl": "has changed since it was written"}


def test_a_file_that_was_just_written_is_read_each_time(tmp_path):
    """Two writes within one tick of the file system's clock leave the same time stamp."""
    file = tmp_path / "metrics.jsonl"
    for content in (b"one", b"two"):
        file.write_bytes(content)
        assert seals.digest_of(file) == (3, storage.digest_bytes(content))


def test_a_record_that_came_later_is_told(tmp_path):
    digests = seals.digests_of(tmp_path)
    (tmp_path / "evaluation.json").write_text("[]")
    assert seals.damaged(tmp_path, digests) == {"evaluation.json": "was not there when this was sealed"}
