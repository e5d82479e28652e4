"""Benchmarks that are kept: what is compared, and when a ratio counts as lost."""

import json

import pytest

from groundlab.bench import history
from groundlab.bench.measurement import Measurement
from groundlab.core.errors import GroundlabError

HERE = {"cpu": "Intel(R) Xeon(R) Processor, family 6, model 167"}
STEPS, RATIO = Measurement("steps", 1000.0, "steps/s"), Measurement("steps / peer", 200.0, "x")
RECORD = Measurement("steps / as recorded", 8.0, "x of a record")


@pytest.fixture
def kept(tmp_path):
    return history.save([STEPS, RATIO, RECORD], HERE, tmp_path)


def test_a_file_is_named_by_date_and_machine_and_holds_the_figures(kept):
    assert kept.name.endswith("-intel-r-xeon-r-processor-family-6-model-167.json")
    stored = json.loads(kept.read_text())
    assert stored["hardware"] == HERE
    assert stored["figures"][1] == {"name": "steps / peer", "value": 200.0, "unit": "x"}


def test_measuring_a_part_again_renews_that_part(kept, tmp_path):
    history.save([RATIO._replace(value=150.0)], HERE, tmp_path)
    values = {each["name"]: each["value"] for each in json.loads(kept.read_text())["figures"]}
    assert values == {"steps": 1000.0, "steps / peer": 150.0, "steps / as recorded": 8.0}


@pytest.mark.parametrize(("value", "count"), [(101.0, 0), (400.0, 0), (99.0, 1)])
def test_a_ratio_below_half_is_lost_and_a_higher_one_never(kept, value, count):
    assert len(history.lost([RATIO._replace(value=value)], kept)) == count


def test_only_ratios_of_one_run_are_compared(kept):
    assert not history.lost([STEPS._replace(value=1.0), RECORD._replace(value=1.0)], kept)
    assert not history.lost([Measurement("a new ratio", 0.1, "x")], kept)


def test_a_machines_own_latest_ratios_come_first(kept, tmp_path):
    figures = [Measurement("steps / peer", 1.0, "x")._asdict()]
    (tmp_path / "2099-01-01-other.json").write_text(json.dumps({"hardware": {"cpu": "other"}, "figures": figures}))
    assert history.latest(HERE, tmp_path) == kept
    assert history.latest({"cpu": "third"}, tmp_path).name == "2099-01-01-other.json"
    counts = [Measurement("waits", 3, "an update")._asdict()]
    (tmp_path / "2099-02-01-here.json").write_text(json.dumps({"hardware": HERE, "figures": counts}))
    assert history.latest(HERE, tmp_path) == kept, "there is no ratio in a later file"


def test_nothing_to_compare_with_and_a_broken_file_are_one_line(tmp_path):
    with pytest.raises(GroundlabError, match="write some: groundlab bench --save"):
        history.latest(HERE, tmp_path)
    broken = tmp_path / "2026-01-01-x.json"
    broken.write_text(json.dumps({"hardware": HERE, "figures": [{"speed": 1}]}))
    with pytest.raises(GroundlabError, match="delete it"):
        history.lost([RATIO], broken)
