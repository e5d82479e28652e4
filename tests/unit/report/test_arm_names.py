"""Which arm a stored run belongs to: what manifests say, of a version and of a run."""

import made_up
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.core.schema import parse
from groundlab.lab import config
from groundlab.lab.plan import plan
from groundlab.report.records import load
from groundlab.report.style import MARKERS, PlotStyle, with_styles

ENTRY = {"method": "glam", "worlds": ["W"], "estimate": {"seconds": 1, "megabytes": 1}}


def test_a_run_is_counted_to_the_arm_that_its_version_names_or_to_its_method(tmp_path):
    world = "BabyAI-Text-GoToLocal-RedBall-S10"
    made_up.store_run(tmp_path, "knowledge", "knowledge", world, 0, [])

    def arm() -> list[str]:
        return load(tmp_path).runs[["arm", "arm_label"]].to_numpy().ravel().tolist()

    assert arm() == ["knowledge", ""], "its method, where nothing names it"
    made_up.rewrite(tmp_path, lambda run, _: run.update(arm="code/draw/2", arm_label="draw 2"))
    assert arm() == ["code/draw/2", "draw 2"]


def test_a_variant_without_a_label_is_refused():
    with pytest.raises(GroundlabError, match="arm glam/lr/1 has no label; say in words"):
        parse(config.Entry, ENTRY | {"arm": "glam/lr/1"}, "entry")
    assert parse(config.Entry, ENTRY | {"arm": "glam/lr/1", "label": "lr 1"}, "entry").arm == "glam/lr/1"


def test_two_entries_of_one_arm_that_differ_in_a_setting_are_refused_and_the_setting_is_named(monkeypatch, tmp_path):
    experiment = config.load("mediator", "smoke")
    first = next(entry for entry in experiment.runs if entry.method == "mediator")
    slower = first.model_copy(update={"settings": first.settings | {"lr": 1e-5}})
    changed = experiment.model_copy(update={"runs": [first, slower]})
    monkeypatch.setattr(config, "load", lambda *_: changed)
    with pytest.raises(GroundlabError, match="arm 'mediator' in SimpleDoorKey, but differ in lr; name one"):
        plan("mediator", scale="smoke", results=tmp_path)


def test_styles_of_unknown_agents_never_repeat_one_even_when_colours_have_run_out():
    known = {"a": PlotStyle("A", "#D55E00", "o")}
    styles = with_styles(known, {"a": "", **{f"agent {number}": "" for number in range(60)}})
    looks = {(style.colour, style.marker) for style in styles.values()}
    assert len(looks) == 61 and styles["a"] == known["a"] and styles["agent 3"].label == "agent 3"
    assert {marker for _, marker in looks} <= set(MARKERS)
