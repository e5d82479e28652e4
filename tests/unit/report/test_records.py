"""Reading stored results: what frames hold, and how broken folders are told."""

from dataclasses import replace

import made_up
import pandas as pd
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.papers.mediator.settings import Fidelity
from groundlab.report import judging
from groundlab.report.claims import Selector, settings_fit
from groundlab.report.judging import select_rows
from groundlab.report.records import load, select, table


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({"model": "small"}, True),
        ({"model": ["large", "small"]}, True),
        ({"model": ["large", "huge"]}, False),
        ({"tests": ["synonyms"]}, True),
        ({"tests": []}, False),
    ],
)
def test_a_wanted_list_is_the_value_or_holds_it(wanted, fits):
    assert settings_fit({"model": "small", "tests": ["synonyms"]}, wanted) is fits


def test_a_table_has_a_row_a_seed_and_a_column_a_layout_in_any_order_and_no_hole(stored):
    rows = select(load(stored).evaluations, method="mediator", world="SimpleDoorKey", policy="sampled")
    shuffled, wanted = rows.sample(frac=1, random_state=0), rows.pivot(index="seed", columns="layout", values="return")
    assert table(shuffled, "return").tolist() == wanted.to_numpy().tolist()
    with pytest.raises(GroundlabError, match="the seeds differ in their layouts"):
        table(shuffled.iloc[1:], "return")


@pytest.mark.parametrize(
    ("method", "random_policy", "wide"),
    [("random", "half", False), ("random", "untrained", True), ("untrained", "half", True)],
)
def test_the_seeds_of_networks_with_first_weights_count_as_policies_and_those_of_a_rule_do_not(
    tmp_path, method, random_policy, wide
):
    settings = {"fidelity": Fidelity(random_policy=random_policy).model_dump(mode="json")}
    for seed, asked in enumerate((4, 10, 16)):
        rows = [{"layout": layout, "success": True, "interactions": asked} for layout in range(100)]
        made_up.store_run(tmp_path, "mediator", method, "KeyInBox", seed, {"rule": rows}, settings=settings)
    estimate = judging.estimate(Selector(method=method, world="KeyInBox"), "interactions", load(tmp_path))
    assert estimate.value == 10
    # each seed asks as often on every layout: no spread of one policy, and t(2) * 6 / sqrt(3) among three
    assert estimate.high - estimate.value == pytest.approx(14.905 if wide else 0, abs=0.01)


def test_a_folder_without_runs_says_how_to_make_some(tmp_path):
    with pytest.raises(GroundlabError, match="make one: groundlab reproduce"):
        load(tmp_path)


def test_a_broken_line_of_metrics_is_named_by_number(results):
    broken = b'{"iteration": 1}\nnonsense\n{"iteration": 3}\n'
    made_up.rewrite(results, lambda run, records: records.update({"metrics.jsonl": broken}))
    with pytest.raises(GroundlabError, match=r"metrics\.jsonl:2"):
        load(results)


def test_a_version_is_read_again_when_it_has_changed_and_only_then(results):
    first = load(results)
    assert load(results) is first
    made_up.rewrite(results, made_up.change_rows(lambda row: {"steps": row["steps"] + 1}))
    assert load(results).evaluations["steps"].sum() > first.evaluations["steps"].sum()


def test_records_with_other_rows_know_nothing_of_what_was_selected_before(stored):
    records, rule = load(stored), Selector(method="hard-coded", world="SimpleDoorKey")
    assert len(select_rows(records, rule)) == 100
    assert select_rows(records, rule) is select_rows(records, rule)
    fewer = replace(records, evaluations=records.evaluations.loc[records.evaluations["layout"] < 10])
    assert len(select_rows(fewer, rule)) == 10


def test_two_runs_of_one_seed_are_named():
    rows = pd.DataFrame({"seed": [0, 0, 1], "layout": [5, 5, 5], "run": ["first", "second", "other"], "steps": 3.0})
    with pytest.raises(GroundlabError, match=r"two runs of one seed match \(first, second\); .*or take out what"):
        table(rows, "steps")
    assert table(rows.iloc[1:], "steps").tolist() == [[3.0], [3.0]]
