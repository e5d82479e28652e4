"""The one reader of YAML: plain values come back as they were, and each kind of damage is one line with its fix."""

import pytest
import yaml

from groundlab.core.errors import GroundlabError
from groundlab.core.paths import repository_root
from groundlab.core.yaml_files import dump_yaml, parse_yaml, read_yaml

WORDS = ("1:30", "yes", "no", "010", "2026-11-22", "1e-3", "<<", "=", "~", "null", "0x1", ".inf", "1_0", "a: b", "")


@pytest.mark.parametrize(
    "value", [None, True, -1, 2**62, 0.1, 1e-7, *WORDS, [[], {}], {"b": [1], "a": "ü\n"}], ids=repr
)
def test_plain_values_read_back_as_they_were_written(value):
    assert parse_yaml(dump_yaml({"a": value}), "it") == {"a": value}


def test_every_config_means_what_it_meant_to_the_common_reader():
    files = sorted((repository_root() / "configs").rglob("*.yaml"))
    for file in files:
        assert repr(read_yaml(file)) == repr(yaml.load(file.read_text(), yaml.CSafeLoader)), file


@pytest.mark.parametrize(
    ("text", "value"),
    [("1:30", "1:30"), ("no", "no"), ("010", "010"), ("2026-11-22", "2026-11-22"), ("1_000", 1000), ("0x10", 16)],
)
def test_words_that_surprise_in_yaml_1_1_stay_text(text, value):
    assert parse_yaml(f"seeds: {text}", "it") == {"seeds": value}


DAMAGE = {
    "a: [": "in line 2",
    "a: !!python/object:os.system {}": "the tag 'tag:yaml.org,2002:python/object:os.system'",
    "a: 1\na: 2": "the key 'a' is given twice",
    "\udcff": "is not valid YAML",
}


@pytest.mark.parametrize(("text", "reason"), DAMAGE.items(), ids=list(DAMAGE.values()))
def test_damage_is_one_line_with_its_place_and_the_fix(text, reason):
    with pytest.raises(GroundlabError) as raised:
        parse_yaml(text, "plan.yaml", fix="mend that line")
    line = str(raised.value)
    assert line.startswith("plan.yaml is") and reason in line and line.endswith("; mend that line")
    assert len(line) < 300 and line.isprintable()


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\r\n\x1a\n", "a: é".encode("latin-1"), "a: 1".encode("utf-16"), "a: 1".encode("utf-16-be"), b"a: \0"],
)
def test_a_file_of_another_kind_is_named(tmp_path, content):
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(GroundlabError, match=r"a\.yaml is (no UTF-8 text|not valid YAML)"):
        read_yaml(tmp_path / "a.yaml")


def test_what_is_no_file_is_told(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in (("none", "does not exist"), (".", "is no file"), ("loop", "."), ("x" * 300, "cannot be read")):
        with pytest.raises(GroundlabError, match=reason):
            read_yaml(tmp_path / name)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    (tmp_path / "a.yaml").write_bytes("a: 1".encode("utf-8-sig"))
    assert read_yaml(tmp_path / "a.yaml") == {"a": 1}
