"""What settings refuse: numbers that are not finite, layouts without bound, what a chosen form does not read."""

import pytest

from groundlab.core.errors import GroundlabError, clip, unknown_name
from groundlab.core.schema import Strict, describe
from groundlab.papers import registry
from groundlab.papers.knowledge.labelling import Labelling

ROOM, GOTO = "BabyAI-GoToLocal-v0", "Reasoning-GoTo-v0"
REFUSED = [
    ("glam", ROOM, {"lr": float("inf")}, "finite"),
    ("glam", ROOM, {"clip": float("nan")}, "finite"),
    ("knowledge", ROOM, {"form": "goals", "threshold": float("nan")}, "finite"),
    ("knowledge", ROOM, {"source": "/nope"}, "has source, which a run with form=none does not read"),
    ("knowledge", ROOM, {"dataset": "/nope"}, "has dataset"),
    ("knowledge", ROOM, {"labelling": {"pairs": -3}}, "has labelling"),
    ("knowledge", ROOM, {"form": "goals", "maker": "recorded", "model": "m"}, "has model"),
    ("reasoning", GOTO, {"temperature": 0}, "above 0"),
    ("always", "SimpleDoorKey", {"chat": {"model": "m"}}, "planner=scripted does not ask"),
    ("always", "SimpleDoorKey", {"layouts": "٣-٤"}, "is no range"),
    ("bot", ROOM, {"layouts": "7-3"}, "is no range"),
    ("always", "SimpleDoorKey", {"layouts": "0-99999999"}, "give at most 100,000"),
    ("always", "SimpleDoorKey", {"layouts": "3000000000"}, "beyond the last layout"),
    ("always", "SimpleDoorKey", {"layouts": "9" * 5000}, "is no range"),
]


@pytest.mark.parametrize(("method", "world", "given", "reason"), REFUSED, ids=[str(each[2])[:40] for each in REFUSED])
def test_a_setting_that_means_nothing_is_refused_in_a_line(method, world, given, reason):
    with pytest.raises(GroundlabError, match=reason) as raised:
        registry.resolve(method, world, 0, given)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("method", "world", "given"),
    [
        ("knowledge", ROOM, {"form": "goals", "maker": "recorded", "dataset": "pretraining-s20"}),
        ("knowledge", ROOM, {"form": "code", "source": "mine.py"}),
        ("always", "SimpleDoorKey", {"layouts": "0-99999", "ledger": "kept.jsonl"}),
    ],
)
def test_the_same_settings_are_taken_where_they_are_read(method, world, given):
    spec = registry.resolve(method, world, 0, given)
    assert registry.resolve(method, world, 0, spec.settings) == spec, "complete settings say the same"


@pytest.mark.parametrize(
    ("form", "overrides"),
    [
        ("goals", {"rounds": -1}),
        ("code", {"rounds": 0}),
        ("preferences", {"pairs": 0}),
        ("preferences", {"error": 1.5}),
        ("preferences", {"error": float("nan")}),
    ],
)
def test_the_bounds_of_a_labelling_hold_with_its_own_defaults(tmp_path, form, overrides):
    with pytest.raises(GroundlabError, match="must be"):
        Labelling(form, tmp_path, overrides=overrides).settings  # noqa: B018 - a property that checks


class _Agent(Strict):
    lr: float = 1e-3
    """The rate
    of learning."""
    epochs: int = 4


class _Slow(_Agent):
    lr: float = 1e-5


def test_a_field_with_another_default_keeps_its_meaning():
    assert [row.meaning for row in describe(_Slow)] == ["The rate of learning.", ""]


def test_a_long_list_of_names_is_cut_to_ten():
    names = [f"name-{number}" for number in range(80)]
    assert str(unknown_name("thing", "zzz", names)).endswith("name-16, name-17 and 70 more")
    assert str(unknown_name("thing", "zzz", names, "x lists all")) == "unknown thing 'zzz' (x lists all)"
    assert len(str(unknown_name("thing", "z" * 5000, ["y" * 5000]))) < 300


def test_clipped_text_is_one_printable_line():
    assert clip("a\nb\x1b[31m") == "a b\\x1b[31m"
    assert len(clip("x" * 5000)) == 80 and clip("short") == "short"
