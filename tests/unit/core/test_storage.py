"""Stored JSON reads back as it was written, and stays small: one line for what holds no further lists."""

import json
import os

import pytest

from groundlab.core import storage
from groundlab.core.errors import GroundlabError

VALUES = [None, 0.1, 1e300, "ü", [], {}, [[1, True], {"b": [None], "a": {"10": "c", "2": []}}]]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_json_reads_back_as_it_was_written_with_keys_in_their_order(tmp_path, value):
    storage.write_json(tmp_path / "value.json", value)
    assert json.dumps(storage.read_json(tmp_path / "value.json")) == json.dumps(value)


def test_rows_are_a_line_each(tmp_path):
    storage.write_json(
        tmp_path / "rows.json", [{"policy": "sampled", "rows": [{"layout": 0, "steps": 3}, {"layout": 1}]}]
    )
    lines = (tmp_path / "rows.json").read_text().splitlines()
    assert '   {"layout": 0, "steps": 3},' in lines and len(lines) == 9


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * 300, "File name too long"),
        ("file/inside", "Not a directory|File exists"),
        ("loop/deep/inside", "Too many levels of symbolic links"),
        ("folder", "Is a directory"),
    ],
)
def test_a_refusal_of_the_file_system_is_a_line_that_says_what_to_do(tmp_path, name, reason):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(GroundlabError, match=reason):
        storage.write_json(tmp_path / name, {})
    assert [each.name for each in tmp_path.rglob("*.tmp")] == []


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "9" * 5000, "\x00"])
def test_broken_json_is_one_line(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(GroundlabError, match=r"a\.json is not valid JSON") as raised:
        storage.read_json(tmp_path / "a.json")
    assert len(str(raised.value)) < 400


def test_a_pipe_is_never_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for write in (storage.check_file, lambda path: storage.write_atomic(path, b"1")):
        with pytest.raises(GroundlabError, match="is a device or a pipe; name a file"):
            write(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_place_is_checked_without_making_anything(tmp_path):
    storage.check_writable(tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for place in (tmp_path / name for name in ("file", "file/deep", "loop/deep")):
        with pytest.raises(GroundlabError):
            storage.check_writable(place)
    with pytest.raises(GroundlabError, match="Is a directory"):
        storage.check_file(tmp_path)
