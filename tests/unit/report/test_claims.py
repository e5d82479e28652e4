"""Verdicts: each class of claim holds and misses when it should; the published claims are well formed."""

import shutil
from decimal import Decimal

import made_up
import numpy as np
import pytest
import yaml
from scipy import stats

from groundlab.core.errors import GroundlabError
from groundlab.core.paths import repository_root
from groundlab.report.claims import Claim, Comparison, Selector, load_claims, published_cells, read_claims
from groundlab.report.judging import (
    _by_few_seeds,
    _values,
    estimate,
    judge,
    judge_claim,
    outcome,
    round_as,
)
from groundlab.report.records import load
from groundlab.report.statistics import Estimate, in_two_groups, mean_interval
from groundlab.report.verdicts import Outcome, Verdicts, count_sentence, readable_row, statements

ALWAYS = {"method": "always", "world": "SimpleDoorKey", "settings": {"plans": "head"}}
OURS = {"method": "mediator", "world": "SimpleDoorKey", "policy": "sampled"}


def claim(tolerance: str, **given) -> Claim:
    return made_up.claim(given.pop("paper", "mediator"), tolerance, **given)


def verdict(folder, tolerance: str, **given):
    return judge_claim(claim(tolerance, **given), load(folder))


def test_rounding_is_half_up_at_the_published_decimals():
    assert round_as(64.9, Decimal("64.90")) == Decimal("64.90")
    assert round_as(12.745, Decimal("12.75")) == Decimal("12.75")
    assert round_as(0.1 + 0.2, Decimal("0.3")) == Decimal("0.3")


@pytest.mark.parametrize(("select", "drawn"), [(OURS, True), (OURS, False), (ALWAYS, True), (ALWAYS, False)])
def test_a_share_that_never_failed_has_an_interval_within_its_bounds_unless_nothing_can_vary(stored, select, drawn):
    records, selector = load(stored), Selector.model_validate(select)
    found = estimate(selector, "success", records, drawn)
    assert found.value == 100
    if select == OURS:  # only of what was not trained a published value is one more repetition
        assert found == mean_interval(_values(records, selector, "success"), drawn=drawn, bounds=(0, 100))
    assert found.known and found.low < found.high == 100 if select == OURS or drawn else not found.known


WIDE = {"points": "5", "source": "chosen for this test"}
NARROW = {"points": {"interactions": "0.05"}, "source": "half of the interval here is about 0.1"}
FAILING = {"method": "always", "world": "RandomBoxKey"}
RULE = {"method": "on-change", "world": "SimpleDoorKey"}
INTERACTIONS, SUCCESS = "interactions", "success"


def order(metric: str, direction: str, points: str = "") -> dict:
    """Ours against asking always: 26.5 interactions less; success is 100 % on both sides, give or take 2 points."""
    compared = {"metric": metric, "direction": direction, "of": OURS, "than": ALWAYS}
    return {"compare": [compared | ({"margin": {"points": points, "source": "for this test"}} if points else {})]}


@pytest.mark.parametrize(
    ("tolerance", "given", "expected"),
    [
        ("exact", {"published": {"steps": "30.00"}, "select": ALWAYS}, "matches (printed value)"),
        ("exact", {"published": {"steps": "30.01"}, "select": ALWAYS}, "contradicted (another value)"),
        ("exact", {"failed_layouts": (3, 61, 63, 76, 84, 95), "select": FAILING}, "matches (printed value)"),
        ("exact", {"failed_layouts": (3, 61, 63, 76, 84), "select": FAILING}, "contradicted (another value)"),
        (
            "numeric",
            {"published": {"steps": "30.1"}, "within": {"steps": "0.1"}, "select": ALWAYS},
            "matches (printed value)",
        ),
        (
            "numeric",
            {"published": {"steps": "29.9"}, "within": {"steps": "0.1"}, "select": ALWAYS},
            "matches (printed value)",
        ),
        (
            "numeric",
            {"published": {"steps": "30.11"}, "within": {"steps": "0.1"}, "select": ALWAYS},
            "contradicted (another value)",
        ),
        ("numeric", {"range": {INTERACTIONS: ("0", "5")}, "select": OURS}, "matches (printed value)"),
        ("numeric", {"range": {INTERACTIONS: ("0", "3.2")}, "select": OURS}, "contradicted (another value)"),
        ("numeric", {"range": {"steps": ("30", "30")}, "select": ALWAYS}, "matches (printed value)"),
        ("interval", {"published": {INTERACTIONS: "3.5"}, "select": OURS, "margin": WIDE}, "matches (in our interval)"),
        (
            "interval",
            {"published": {INTERACTIONS: "4.2"}, "select": OURS, "margin": WIDE},
            "contradicted (another value)",
        ),
        (
            "interval",
            {"published": {INTERACTIONS: "3.5"}, "select": OURS, "margin": NARROW},
            "inconclusive (interval too wide)",
        ),
        (
            "interval",
            {"published": {INTERACTIONS: "9"}, "select": OURS, "margin": NARROW},
            "contradicted (another value)",
        ),
        ("ordering", order(INTERACTIONS, "lower"), "supported (ordering)"),
        ("ordering", order(INTERACTIONS, "higher"), "contradicted (opposite order)"),
        (
            "ordering",
            order(SUCCESS, "higher"),
            "inconclusive (both signs possible)",
        ),  # nothing is shown, so nothing holds
        (
            "ordering",
            order(INTERACTIONS, "not significantly higher"),
            "supported (no effect claimed, the opposite seen)",
        ),
        ("ordering", order(SUCCESS, "not significantly higher"), "inconclusive (no effect claimed, none seen)"),
        ("ordering", order(INTERACTIONS, "not higher", "1"), "supported (ordering)"),
        ("ordering", order(INTERACTIONS, "not lower", "30"), "supported (ordering)"),
        ("ordering", order(INTERACTIONS, "not lower", "20"), "contradicted (beyond the margin)"),
        ("ordering", order(SUCCESS, "not lower", "3"), "supported (ordering)"),
        ("ordering", order(SUCCESS, "not lower", "0.5"), "inconclusive (within and beyond 0.5 points possible)"),
        ("equivalence", order(INTERACTIONS, "lower", "30"), "supported (within the margin)"),
        ("equivalence", order(INTERACTIONS, "lower", "20"), "contradicted (beyond the margin)"),
        ("equivalence", order(INTERACTIONS, "lower", "26.47"), "inconclusive (within and beyond the margin possible)"),
    ],
)
def test_what_a_claim_comes_to(stored, tolerance, given, expected):
    found = verdict(stored, tolerance, **given)
    assert f"{found.verdict} ({found.because})" == expected


def test_only_a_printed_number_can_be_matched(stored):
    """Our own bars and the original's re-run support; what random actions do as well supports nothing."""
    ours = verdict(stored, "numeric", kind="own", range={"steps": ("30", "30")}, select=ALWAYS)
    rerun = verdict(stored, "exact", against="original", original={"steps": "30.00"}, select=ALWAYS)
    void = verdict(stored, "ordering", **order(INTERACTIONS, "lower"), no_support="chance as well", formerly="was held")
    assert [(each.verdict, each.because) for each in (ours, rerun, void)] == [
        ("supported", "our bar"),
        ("supported", "the original's re-run"),
        ("inconclusive", "chance as well"),
    ]
    assert void.reason.endswith("; was held") and void.by_metric.popitem()[1] == "supported"


def test_a_statement_counts_once_by_its_main_row_or_the_first_that_is_tested():
    rows = [
        {"id": "b", "kind": "paper", "repeats": "a", "verdict": "contradicted"},
        {"id": "a", "kind": "paper", "repeats": "", "verdict": "not tested"},
        {"id": "c", "kind": "paper", "repeats": "", "verdict": "supported"},
        {"id": "d", "kind": "paper", "repeats": "c", "verdict": "contradicted"},
        {"id": "e", "kind": "paper", "verdict": "not tested"},
        {"id": "f", "kind": "own", "verdict": "matches"},
    ]
    assert [each["id"] for each in statements(rows)] == ["b", "c", "e"]
    counted = "2 could be tested: 0 matching a printed number, 1 supported, 0 inconclusive, 1 contradicted."
    assert count_sentence(rows, "of theirs") == f"Of the 3 claims of theirs, {counted}"
    assert count_sentence(rows[4:5], "of theirs") == "Of the 1 claim of theirs, none could be tested."
    assert count_sentence(rows[5:]) == ""


def test_a_claim_of_two_metrics_misses_with_either_and_says_which(stored):
    missed = verdict(stored, "exact", published={"steps": "30.01", "success": "100"}, select=ALWAYS)
    assert missed.verdict == "contradicted"
    assert missed.by_metric == {"steps": "contradicted", "success": "matches"}


@pytest.mark.parametrize(
    ("tolerance", "given", "message"),
    [
        ("exact", {"tolerence": "exact"}, "tolerence"),
        ("exact", {"published": {"steps": 64.9}, "select": ALWAYS}, "quoted number"),
        ("exact", {"published": {"steps": "1"}}, "needs select"),
        ("exact", {"published": {"steps": "1"}, "select": ALWAYS, "primary": True}, "primary of no family"),
        ("exact", {"published": {"steps": "mean"}, "select": ALWAYS}, "published.steps"),
        ("exact", {"published": {}, "trials": {"steps": ["mean"]}}, "lists of quoted numbers"),
        ("exact", {"published": {}, "trials": {"steps": []}}, "lists of quoted numbers"),
        ("exact", {"published": {"steps": "30"}, "select": ALWAYS, "kind": "own"}, "our own and has published values"),
        ("exact", {"published": {"thought_words": "1"}, "select": ALWAYS}, "'thought_words'; it must be one of inter"),
        ("exact", {"published": {}, "select": {**ALWAYS, "policy": "greedy"}}, "'greedy'; it must be one of rule, sam"),
        ("exact", {"published": {"steps": "1"}, "select": ALWAYS, "paper": "meditator"}, "'meditator'; papers are"),
        *(
            ("exact", {"published": {"steps": "1"}, "select": {**ALWAYS, **slip}}, message)
            for slip, message in (
                ({"method": "alwys"}, r"unknown method 'alwys'; did you mean 'always'"),
                ({"world": "SimpleDoorKye"}, r"unknown world 'SimpleDoorKye'; did you mean 'SimpleDoorKey'"),
                ({"world": "BabyAI-GoToObj-v0"}, "always does not run on BabyAI-GoToObj-v0"),
                ({"kind": "go too"}, "unknown kind of SimpleDoorKey 'go too'"),
                ({"settings": {"layuots": "0-4"}}, "unknown setting of always 'layuots'; did you mean 'layouts'"),
                (
                    {"settings": {"planner": ["scripted", "scrpted"]}},
                    "unknown planner of always 'scrpted'; did you mean",
                ),
            )
        ),
        ("interval", {"published": {"steps": "1"}, "select": OURS, "margin": NARROW}, "needs a margin of steps"),
        ("ordering", order(SUCCESS, "not lower"), "not lower and not higher need a margin, and nothing else"),
        ("ordering", order(SUCCESS, "lower", "5"), "not lower and not higher need a margin, and nothing else"),
        (
            "ordering",
            {"compare": [{**order(SUCCESS, "lower")["compare"][0], "than": OURS}]},
            "calls two sides 'trained",
        ),
        ("equivalence", {}, "needs compare"),
        ("equivalence", order(SUCCESS, "lower"), "equivalence, not lower and not higher need a margin"),
        ("equivalence", order(SUCCESS, "not significantly higher", "5"), "is an ordering; equivalence needs another"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused_with_the_reason(tolerance, given, message):
    with pytest.raises(ValueError, match=message):
        claim(tolerance, **given)


@pytest.fixture(scope="module")
def few(stored, tmp_path_factory):
    """Three trainings instead of five."""
    copy = shutil.copytree(stored, tmp_path_factory.mktemp("few") / stored.name)
    made_up.rewrite(copy, lambda run, _: run["method"] != "mediator" or run["seed"] < 3)
    return copy


@pytest.mark.parametrize(
    ("tolerance", "given", "expected"),
    [
        ("ordering", order(INTERACTIONS, "lower"), "preliminary (for, 3 seeds)"),
        ("ordering", order(INTERACTIONS, "higher"), "preliminary (against, 3 seeds)"),
        ("ordering", order(INTERACTIONS, "not higher", "5"), "inconclusive (only 3 seeds)"),
        ("ordering", order(INTERACTIONS, "not significantly higher"), "inconclusive (only 3 seeds)"),
        ("ordering", {"compare": [order(INTERACTIONS, "lower")["compare"][0] | {"of": RULE}]}, "supported (ordering)"),
        (
            "interval",
            {"published": {INTERACTIONS: "3.5"}, "select": OURS, "margin": WIDE},
            "inconclusive (only 3 seeds)",
        ),
        ("numeric", {"range": {INTERACTIONS: ("0", "5")}, "select": OURS}, "inconclusive (only 3 seeds)"),
        ("numeric", {"range": {INTERACTIONS: ("0", "3.2")}, "select": OURS}, "inconclusive (only 3 seeds)"),
    ],
)
def test_fewer_than_five_trainings_show_an_ordering_at_best_and_rules_have_no_seeds(few, tolerance, given, expected):
    found = verdict(few, tolerance, **given)
    assert f"{found.verdict} ({found.because})" == expected


@pytest.mark.parametrize(
    ("word", "beyond", "expected"),
    [
        (Outcome.HOLDS, 1, Outcome.FOR),
        (Outcome.HOLDS, 0.15, Outcome.FEW),
        (Outcome.REVERSED, -1, Outcome.AGAINST),
        (Outcome.EITHER, 1, Outcome.FEW),
    ],
)
def test_few_seeds_show_an_ordering_only_where_none_of_one_side_is_among_the_other(word, beyond, expected):
    (compared,), ours = order(INTERACTIONS, "lower")["compare"], np.array([[3.0], [3.1], [3.2]])
    assert _by_few_seeds(Comparison.model_validate(compared), word, ours, ours + beyond) == expected


def test_only_the_primary_comparison_of_a_family_keeps_the_level(stored):
    compare = [{"metric": "interactions", "direction": "lower", "of": OURS, "than": ALWAYS}]
    given = {"compare": compare, "family": "askers"}
    others = [claim("ordering", **given | {"id": str(n)}) for n in range(4)]
    claims = [claim("ordering", **given, primary=True), *others]
    primary, *others = judge(stored, claims=claims)
    width = {each.claim.id: (found := next(iter(each.fresh.values()))).high - found.low for each in (primary, *others)}
    assert all(width[str(number)] > width["a"] for number in range(4))
    assert "98.75 %" in others[0].reason and "98.75 %" not in primary.reason


def test_our_own_bars_and_later_work_are_counted_apart(stored):
    verdicts = Verdicts(each.as_json() for each in judge(stored))
    kinds = [verdicts.of_kind(kind) for kind in ("paper", "baseline", "own", "later work")]
    assert all(kinds) and sum(map(len, kinds)) == len(verdicts)
    assert claim("exact", kind="later work", published={"steps": "30"}, select=ALWAYS).expected == {"steps": 30}


def test_the_least_successful_test_of_training_is_what_counts_as_during_learning(stored):
    argmax = {**OURS, "policy": "argmax", "when": "worst test"}
    compare = [{"metric": "success", "direction": "lower", "of": argmax, "than": {**OURS, "when": "worst test"}}]
    found = verdict(stored, "ordering", compare=compare)
    assert found.verdict == "supported" and next(iter(found.fresh.values())).value == pytest.approx(-34)


@pytest.mark.parametrize(("high", "holds"), [(-1e-14, False), (0.0, False), (-0.01, True)])
def test_an_end_that_is_zero_but_for_rounding_touches_zero(high, holds):
    sides = Comparison.model_validate({"metric": "success", "direction": "lower", "of": OURS, "than": ALWAYS})
    assert (outcome(sides, Estimate(-5.0, -10.0, high)) == Outcome.HOLDS) is holds


def test_not_significantly_higher_is_refuted_by_a_difference_that_is():
    compared = {"metric": "success", "direction": "not significantly higher", "of": OURS, "than": ALWAYS}
    assert outcome(Comparison.model_validate(compared), Estimate(5.0, 1.0, 9.0)) == Outcome.REVERSED


def test_a_difference_on_its_side_that_is_smaller_than_stated_is_a_miss():
    compared = {"metric": "success", "direction": "lower", "of": OURS, "than": ALWAYS, "by": "30"}
    sides = Comparison.model_validate(compared)
    assert outcome(sides, Estimate(-25.0, -29.0, -20.0)) == Outcome.SMALLER
    assert outcome(sides, Estimate(-31.0, -35.0, -20.0)) == Outcome.EITHER, "30 lie within"
    assert outcome(sides, Estimate(-33.0, -35.0, -31.0)) == Outcome.HOLDS


def test_two_measurements_of_the_same_trainings_are_paired_by_seed(stored):
    last, first = ({**OURS, "when": when} for when in ("last tenth", "first tenth"))
    compare = {"metric": "interactions", "direction": "lower", "of": last, "than": first}
    (gap,) = verdict(stored, "ordering", compare=[compare]).fresh.values()
    records = load(stored)
    sides = [_values(records, Selector.model_validate(side), "interactions")[:, 0] for side in (last, first)]
    paired = stats.ttest_rel(*sides).confidence_interval()
    assert (gap.low, gap.high) == pytest.approx((paired.low, paired.high))


def test_a_value_is_held_as_exactly_as_it_was_printed(stored):
    given = {"select": OURS, "margin": WIDE}
    found = estimate(Selector.model_validate(OURS), "interactions", load(stored))
    beyond = Decimal(f"{found.high + 0.004:.2f}")
    assert float(beyond) > found.high
    assert verdict(stored, "interval", published={"interactions": f"{beyond}"}, **given).verdict == "matches"
    assert verdict(stored, "interval", published={"interactions": f"{beyond}0"}, **given).verdict == "contradicted"


@pytest.mark.parametrize(
    ("of", "than", "unit"),
    [
        (ALWAYS, RULE, "layouts"),
        (OURS, ALWAYS, "training seeds and layouts"),
        ({**OURS, "when": "last tenth"}, {**OURS, "when": "first tenth"}, "training seeds"),
    ],
)
def test_an_interval_names_what_varies_in_it(stored, of, than, unit):
    found = verdict(
        stored, "ordering", compare=[{"metric": "interactions", "direction": "lower", "of": of, "than": than}]
    )
    assert found.unit == unit and readable_row(found)["here"].endswith(f"; intervals over {unit}")


@pytest.mark.parametrize(("models", "unit"), [(1, "one pretraining"), (5, "5 pretrainings")])
def test_an_interval_says_over_how_many_pretrained_models_it_is(tmp_path, models, unit):
    world, metrics = "BabyAI-GoToLocalS8N4-v0", [{"iteration": 1, "success": 0.5}, {"iteration": 2, "success": 0.6}]
    for seed in range(5):
        rows = [{"layout": n, "success": (n + seed) % 2, "return": 0.5, "steps": 9} for n in range(4)]
        settings = {"model": f"model-{seed % models}"}
        made_up.store_run(
            tmp_path / "my-quick-page",
            "glam",
            "glam",
            world,
            seed,
            {"sampled": rows},
            metrics,
            settings,
            cpu_seconds=3.0,
        )
    given = {"paper": "glam", "range": {"success": ["0", "100"]}, "within": {}}
    found = verdict(
        tmp_path / "my-quick-page", "numeric", select={"method": "glam", "world": world, "policy": "sampled"}, **given
    )
    assert found.unit == f"training seeds of {unit} and layouts"
    assert found.cpu_seconds == 15, "processor time, which a busy machine does not stretch"


def test_a_row_tells_its_sides_apart_and_shows_their_levels(stored):
    sides = [{**OURS, "label": "at the end"}, {**OURS, "when": "first tenth"}]
    compare = {"metric": "interactions", "direction": "lower", "of": sides[0], "than": sides[1], "beside": [ALWAYS]}
    found = verdict(stored, "ordering", compare=[compare])
    ((name, levels),) = found.levels.items()
    assert list(levels) == ["at the end", "trained policy, first tenth", "always"]
    assert levels["always"] == pytest.approx(30.0)
    gap = found.fresh[name]
    assert gap.value == pytest.approx(levels["at the end"] - levels["trained policy, first tenth"])


def test_a_claim_says_how_many_of_its_runs_are_missing(results):
    trained = [each for each in load(results).version.runs() if each["method"] == "mediator" and each["seed"] == 4]
    lost = [made_up.lost(each, status="missing", seed=5) for each in trained]
    made_up.rewrite(results, more=lost)
    found = verdict(results, "numeric", range={"interactions": ("0", "5")}, select=OURS)
    assert len(lost) > found.missing == 1, "one of them was planned for another world"
    assert found.runs == found.seeds == 5
    assert found.as_json()["missing"] == found.missing


def test_seeds_that_learn_or_do_not_are_in_two_groups():
    assert in_two_groups(np.array([99.0, 97.0, 4.0])) and not in_two_groups(np.array([10.0, 45.0, 80.0, 99.0]))
    assert not in_two_groups(np.array([60.0, 70.0, 85.0])) and not in_two_groups(np.array([50.0]))


def test_a_verdict_says_that_its_seeds_either_learn_or_do_not(results):
    """Two of five seeds fail on all but a tenth of the layouts."""
    given = {"published": {"success": "64"}, "select": OURS, "margin": {"points": "200", "source": "for this test"}}
    assert "two groups" not in verdict(results, "interval", **given).reason
    fail = made_up.change_rows(lambda row: {"success": row["layout"] < 10})
    made_up.rewrite(results, lambda run, records: fail(run, records) if run["seed"] > 2 else None)
    found = verdict(results, "interval", **given)
    assert found.verdict == "matches" and "seeds of trained policy fall into two groups" in found.reason


def test_one_repetition_without_an_interval_cannot_tell(stored):
    given = {"select": ALWAYS, "margin": {"points": {"steps": "5"}, "source": "for this test"}, "layouts": "fixed"}
    found = verdict(stored, "interval", published={"steps": "12"}, **given)
    assert found.verdict == "inconclusive" and "one seed has no interval" in found.reason


def statistics_of(each: Claim) -> list[tuple[str, ...]]:
    """What a claim is judged by: a metric of a selection and what it is held against, or of two."""
    values = [(metric, each.select.key, str(value)) for metric, value in each.expected.items() if each.select]
    return values + [(part.metric, part.of.key, part.than.key) for part in each.compare]


def test_no_two_claims_of_a_paper_rest_on_the_same_statistic():
    for paper in {each.paper for each in load_claims()}:
        every = [
            (scale, *each)
            for claim in load_claims(paper)
            for scale in claim.scales
            if claim.not_run is None
            for each in set(statistics_of(claim))
        ]
        assert sorted(each for each in set(every) if every.count(each) > 1) == []


def test_no_claim_about_a_papers_method_is_of_agents_that_never_learn():
    """Rows of rules, of random and of untuned agents are counted apart."""
    untrained = {"random", "always", "hard-coded", "bot", "zero-shot", "direct-zero-shot", "reasoning-zero-shot"}
    rows = {each.id: each.select.method for each in load_claims() if each.kind == "paper" and each.select}
    assert rows and {name: method for name, method in rows.items() if method in untrained} == {}


def test_equal_selections_have_equal_keys_however_they_were_written():
    one = Selector.model_validate({**ALWAYS, "settings": {"plans": "head", "probability": 0.5}})
    other = Selector.model_validate({**ALWAYS, "settings": {"probability": 0.5, "plans": "head"}, "when": "end"})
    assert one.key == other.key != Selector.model_validate(ALWAYS).key


def test_what_was_not_run_is_not_judged(results):
    absent = {"method": "always", "world": "KeyInBox"}
    given = {"published": {"steps": "1"}, "select": absent}
    assert "no finished run of always in KeyInBox" in verdict(results, "exact", **given).reason
    smoke = shutil.copytree(results, results.parent / "0.1.0-smoke-20260101-abcdef1")
    made_up.rewrite(smoke, scale="smoke")
    here = verdict(smoke, "exact", published={"steps": "30"}, select=ALWAYS)
    assert here.verdict == "not tested" and "this is smoke" in here.reason
    assert here.because == "judged at scale quick, full, paper"
    needy = verdict(smoke, "exact", published={"steps": "30"}, select=ALWAYS, needs="GPT-4")
    assert readable_row(needy)["verdict"] == "paper: – not tested (needs GPT-4)"


def test_a_claim_whose_runs_failed_says_so_and_is_counted_and_an_exact_one_fails(results):
    run = load(results).version.runs()[0]
    gone = {"method": "always", "world": "KeyInBox", "status": "failed", "error": "out of memory"}
    made_up.rewrite(results, more=[made_up.lost(run, **gone, seed=seed) for seed in (0, 1)])
    given = {"published": {"steps": "1"}, "select": {"method": "always", "world": "KeyInBox"}}
    found = verdict(results, "exact", **given)
    assert (found.verdict, found.because, found.missing, found.judged) == ("not tested", "runs failed", 2, False)
    assert "2 failed (out of memory)" in found.reason
    assert Verdicts([found.as_json()]).exact_failed
    elsewhere = verdict(results, "exact", scales=["full"], **given)
    assert (elsewhere.verdict, elsewhere.because) == ("not tested", "judged at scale full")


def test_published_claims_are_valid_and_complete():
    claims = load_claims()
    cells = published_cells("mediator", "Table 1")
    worlds = ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey", "MovingObstacle")
    expected = {(world, method) for world in worlds for method in ("hard-coded", "always", "random", "mediator")}
    assert set(cells) == expected and len({each.id for each in claims}) == len(claims)
    assert all(set(cell) == {"interactions", "steps", "success"} for cell in cells.values())
    barely_trained = [each for each in claims if each.select and each.select.method == "mediator"]
    assert not any("smoke" in each.scales for each in barely_trained if each.not_run is None)


def test_a_file_with_slips_is_refused_by_name(tmp_path):
    stored = yaml.safe_load((repository_root() / "configs" / "mediator" / "claims.yaml").read_text())["claims"][0]
    slips = [
        ([stored, stored], "used twice"),
        ([{**stored, "tolerence": "exact"}], "tolerance"),
        ([{**stored, "repeats": "b"}], "repeats 'b'; name a claim of its kind that repeats none"),
        ([{**stored, "family": "rules"}], "0 claims of family 'rules' are primary"),
    ]
    for number, (claims, message) in enumerate(slips):
        file = tmp_path / f"claims-{number}.yaml"
        file.write_text(yaml.safe_dump({"claims": claims}))
        with pytest.raises(GroundlabError, match=message):
            read_claims(file)


@pytest.mark.parametrize(("word", "value"), [("mean", "56"), ("first", "98"), ("42", "42")])
def test_a_published_value_may_be_the_mean_or_the_first_of_the_printed_trials(word, value):
    rows = {"method": "direct", "world": "Reasoning-GoTo-v0"}
    trials = {"success": ["98", "14"], "return": ["0.88", "0.13"]}
    made = claim("exact", paper="reasoning", trials=trials, published={"success": word}, select=rows)
    assert {metric: str(each) for metric, each in made.expected.items()} == {"success": value}
