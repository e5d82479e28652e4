"""Figures that are kept, and when a ratio counts as lost."""

import json

import pytest

from groundlab.bench import history
from groundlab.bench.measurement import Measurement
from groundlab.core.errors import GroundlabError

HERE = {"cpu": "Intel(R) Xeon(R) Processor, family 6, model 167"}
STEPS, RATIO = Measurement("steps", 1000.0, "steps/s"), Measurement("steps / peer", 200.0, "x")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def kept():
    return history.save([STEPS, RATIO], HERE)


def test_a_part_that_is_measured_again_is_replaced_in_the_file_of_this_day_and_machine(kept):
    assert history.save([RATIO._replace(value=150.0)], HERE) == kept
    assert kept.name.endswith("-intel-r-xeon-r-processor-family-6-model-167.json")
    stored = json.loads(kept.read_text())
    assert stored["hardware"] == HERE
    assert stored["figures"] == [STEPS._asdict(), {"name": "steps / peer", "value": 150.0, "unit": "x"}]


@pytest.mark.parametrize(
    ("measured", "count"),
    [
        (RATIO._replace(value=101.0), 0),
        (RATIO._replace(value=99.0), 1),
        (STEPS._replace(value=1.0), 0),
        (Measurement("a new ratio", 0.1, "x"), 1),
    ],
)
def test_a_ratio_below_half_of_what_was_kept_is_lost(kept, measured, count):
    assert len(history.lost([measured], history.kept_ratios(HERE))) == count


def test_the_latest_ratio_counts_and_a_machines_own_comes_first(kept, home):
    for date, cpu, value in (("2001-01-01", HERE["cpu"], 3.0), ("2099-01-01", "other", 1.0)):
        figures = [RATIO._replace(value=value)._asdict()]
        (home / f"{date}-x.json").write_text(json.dumps({"hardware": {"cpu": cpu}, "figures": figures}))
    assert history.kept_ratios(HERE) == {"steps / peer": 200.0}
    assert history.kept_ratios({"cpu": "third"}) == {"steps / peer": 1.0}


def test_nothing_to_compare_with_is_an_error():
    with pytest.raises(GroundlabError, match="write some: groundlab bench --save"):
        history.kept_ratios(HERE)
