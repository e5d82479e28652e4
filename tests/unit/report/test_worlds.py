"""The exhibits and claims of the worlds: kinds, two ways of counting, intervals, and equality with minigrid."""

import re
from pathlib import Path

import made_up
import pandas as pd
import pytest

from groundlab.papers.worlds.exhibits import KINDS, TRAIN, rows_of
from groundlab.report.claims import Selector, load_claims
from groundlab.report.exhibits import draw
from groundlab.report.judging import judge, judge_claim, select_rows
from groundlab.report.records import load
from groundlab.report.verdicts import Verdict, readable_row

RATES = {"goto": 30, "pickup": 14, "open": 1, "putnext": 2, "pick_up_seq_go_to": 10}  # successes in 100 layouts


def episode(layout: int, success: bool, steps: int, kind: str | None = None) -> dict:
    row = {"layout": layout, "steps": steps, "success": success, "return": 0.5 if success else 0.0}
    return {**row, "kind": kind} if kind else row


def of_every_kind() -> list[dict]:
    """500 layouts, layout s of kind s mod 5, each kind with its rate of success."""
    rows = []
    for layout in range(500):
        kind = KINDS[layout % 5]
        success = layout // 5 < RATES[kind]
        rows.append(episode(layout, success, 20 if success else 128, kind))
    return rows


def as_they_finish() -> list[dict]:
    """400 episodes of environments 0 to 3, whose layout repeats: success in 16 of 100."""
    return [episode(n % 4, n % 25 < 4, 20 if n % 25 < 4 else 90, KINDS[n % 4]) for n in range(400)]


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "0.1.0-quick-20260101-abcdef1"
    for seed in range(3):
        made_up.store_run(
            folder, "worlds", "random", TRAIN, seed, {"random": of_every_kind(), "first-finished": as_they_finish()}
        )
        rows = [episode(layout, layout % 10 < 3, 40) for layout in range(200)]
        made_up.store_run(folder, "worlds", "random", "BabyAI-GoToLocal-v0", seed, {"random": rows})
    solved = [episode(layout, True, 10, KINDS[layout % 5]) for layout in range(100)]
    made_up.store_run(folder, "worlds", "bot", TRAIN, 0, {"bot": solved})
    for world, wrong in (("BabyAI-GoToLocal-v0", 0), ("BabyAI-GoToObj-v0", 1)):
        made_up.store_run(
            folder, "worlds", "facts", world, 0, {"facts": [{"layout": 0, "states": 5000, "mismatches": wrong}]}
        )
    return folder


@pytest.fixture(scope="module")
def verdicts(played) -> dict[str, Verdict]:
    return {each.claim.id: each for each in judge(played, "worlds")}


def test_a_kind_is_judged_by_its_own_layouts(played):
    records = load(played)
    for kind, rate in RATES.items():
        selector = Selector(method="random", world=TRAIN, policy="random", kind=kind)
        rows = select_rows(records, selector)
        assert len(rows) == 300 and rows["success"].mean() == pytest.approx(rate)


def test_worlds_without_kinds_have_no_rows_of_a_kind(played):
    selector = Selector(method="bot", world="BabyAI-GoToLocal-v0", policy="bot", kind="goto")
    assert select_rows(load(played), selector).empty


def test_finished_episodes_are_counted_in_their_order_though_their_layouts_repeat(verdicts):
    counted = verdicts["worlds-random-MixedTrainLocal-first-finished"]
    assert counted.verdict == "matches" and counted.fresh["success"].value == pytest.approx(16)
    bias = verdicts["worlds-counting-bias"]
    assert bias.verdict == "supported"
    assert next(iter(bias.fresh.values())).value == pytest.approx(16 - 11.4)


def test_one_state_that_differs_from_minigrids_refutes_the_claim(verdicts):
    assert verdicts["worlds-parity-GoToLocal"].verdict == "supported"
    assert verdicts["worlds-parity-GoToObj"].verdict == "contradicted"
    assert verdicts["worlds-parity-PutNextLocal"].verdict == "not tested"


def test_a_slow_bot_misses_its_length_and_keeps_its_success(verdicts):
    slow = verdicts["worlds-bot-goto"]  # 10 steps, recorded 5.7
    assert slow.by_metric["success"] == "supported" and slow.by_metric["steps"] == "contradicted"


def test_the_table_shows_both_ways_of_counting_beside_the_published_value_and_its_error_bar(played):
    drawn = draw("worlds-agents", played)
    text = drawn.path("md").read_text()
    assert re.search(r"\| MixedTrainLocal, every kind alike \| 11\.4 % \[\S+, \S+\] \| – \| 12\.1 % \|", text)
    assert re.search(r"\| MixedTrainLocal, as episodes finish \| 16\.0 % \[\S+, \S+\] \| 15 ± 5 % \| 16\.5 % \|", text)
    assert "10,000 states compared, 1 differ" in text
    data = pd.read_csv(drawn.path("csv"))
    assert data.loc[data["kind"] == "goto", "success"].tolist() == [30, 100]


def test_the_figure_is_drawn_from_the_random_agent_alone(played):
    assert all(path.stat().st_size > 1000 for path in draw("worlds-random", played).paths)
    assert [row.name for row in rows_of(load(played), "random")][-1] == "GoToLocal"


def test_an_error_bar_is_shown_and_not_judged_by(played):
    select = {"method": "random", "world": "BabyAI-GoToLocal-v0", "policy": "random"}
    given = {"published": {"success": "33"}, "error_bar": {"success": "5"}, "select": select}
    verdict = judge_claim(made_up.claim("worlds", "exact", **given), load(played))
    assert verdict.verdict == "contradicted"
    assert readable_row(verdict)["paper"] == "success 33 ± 5 %"


def test_every_level_of_a_claim_is_a_row_of_the_table(played):
    claims = [each for each in load_claims() if each.paper == "worlds" and each.select]
    shown = {str(row.selector) for agent in ("random", "bot") for row in rows_of(load(played), agent)}
    judged_here = {str(each.select) for each in claims if not select_rows(load(played), each.select).empty}
    assert {each for each in judged_here if not each.startswith("facts")} <= shown
