"""Stored JSON reads back as it was written, and stays small: one line for what holds no further lists."""

import json

from hypothesis import given
from hypothesis import strategies as st

from groundlab.core import storage

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


@given(VALUES)
def test_json_reads_back_as_it_was_written_with_keys_in_their_order(tmp_path_factory, value):
    file = tmp_path_factory.mktemp("json") / "value.json"
    storage.write_json(file, value)
    assert json.dumps(storage.read_json(file)) == json.dumps(value)


def test_rows_are_a_line_each(tmp_path):
    storage.write_json(
        tmp_path / "rows.json", [{"policy": "sampled", "rows": [{"layout": 0, "steps": 3}, {"layout": 1}]}]
    )
    lines = (tmp_path / "rows.json").read_text().splitlines()
    assert '   {"layout": 0, "steps": 3},' in lines and len(lines) == 9
