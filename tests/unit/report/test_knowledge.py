"""The knowledge paper's exhibits: areas under curves, how far they are from phi = 0, and what few seeds say."""

import shutil

import made_up
import numpy as np
import pytest

from groundlab.papers.knowledge import arms, crafter_exhibits, figures, tables
from groundlab.papers.knowledge.labelling import PreferencesSettings
from groundlab.papers.knowledge.settings import Fidelity
from groundlab.report.claims import Claim, load_claims
from groundlab.report.judging import judge_claim
from groundlab.report.records import load

WORLD = "BabyAI-Text-GoToLocal-RedBall-S10"
MAKERS = {**dict.fromkeys(("code", "goals", "ellm"), "recorded"), "preference": "scripted", "motif": "scripted"}
CLEAN = {name: False for name in Fidelity.model_fields}


def store(
    folder,
    form,
    seed,
    successes,
    final=0.5,
    world=WORLD,
    method="knowledge",
    arm="",
    label="",
    reached=None,
    **settings,
):
    """One run whose updates of 1,000 frames succeed so often, and which ends with `final` on 100 layouts.

    Its arm is that of its form or method where none is named. reached: on how many layouts each achievement is made.
    """
    given = {"form": form, "frames": 1000 * len(successes), "fidelity": CLEAN}
    given |= ({"maker": MAKERS[form]} if form in MAKERS else {}) | settings
    shaping = 0.0 if form == "none" else 0.02
    records = [
        {"iteration": k + 1, "frames": 1000 * (k + 1), "episodes": 100, "success": success, "shaping": shaping}
        for k, success in enumerate(successes)
    ]
    rows = [
        {"layout": n, "steps": 20, "success": n < 100 * final, "return": 0.5 * (n < 100 * final)} for n in range(100)
    ]
    for each in rows if reached else []:
        each["achievements"] = [name for name, count in reached.items() if each["layout"] < count]
    named = {"arm": arm or (form if method == "knowledge" else method), "arm_label": label}
    evaluations = dict.fromkeys(arms.POLICIES, rows)
    made_up.store_run(folder, "knowledge", method, world, seed, evaluations, records, given, **named)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Three seeds an arm: phi = 0 at 20, 30, 40 %; BK-Code overlaps it; BK-Pref and the oracle are above every seed."""
    home = tmp_path_factory.mktemp("results") / "0.1.0-quick-20260101-abcdef1"
    for seed in range(3):
        store(home, "none", seed, [0.2 + 0.1 * seed] * 4, 0.4)
        store(home, "code", seed, [0.17 + 0.1 * seed, 0.45 + 0.1 * seed, 0.2, 0.2], 0.4)
        store(home, "preference", seed, [0.5, 0.6, 0.6, 0.7], 0.6)
        store(home, "oracle", seed, [0.7, 0.8, 0.9, 0.9], 0.9)
        store(home, "random", seed, [0.1, 0.1, 0.2, 0.2 + 0.1 * seed], 0.3)
        store(home, "none", seed, [0.3] * 4, 0.4, method="rnd", curiosity=1.0)
    return home


@pytest.fixture
def folder(built, tmp_path):
    """A copy to change."""
    return shutil.copytree(built, tmp_path / built.name)


def row(table, **given):
    (found,) = [each for each in table.readable.to_dict("records") if given.items() <= each.items()]
    return found


def test_the_area_under_a_curve_is_the_mean_success_over_all_frames(built):
    table = tables.improvement_table(load(built))
    base = row(table, arm="φ = 0 (plain PPO)")
    assert base["area under the curve"] == "30 % [5.2, 54.8]" and base["seeds"] == "3"
    assert row(table, arm="BK-Pref")["area under the curve"] == "60 % [60, 60]"
    assert row(table, arm="BK-Pref")["minus φ = 0"].startswith("+30.0 [")
    # the random potential has 15, 17.5 and 20 %, so Welch's interval is 4.30 * 1.44 on either side
    assert row(table, arm="BK-Pref")["minus random potential"] == "+42.5 [+36.3, +48.7]"
    assert {base["minus φ = 0"], base["minus random potential"]} == {"–"}


def test_the_p_of_more_counts_relabelled_seeds(built):
    table = tables.improvement_table(load(built))
    assert row(table, arm="BK-Pref")["p of more than φ = 0"] == "0.050", "1 of 20: every seed is above"
    # areas 25.5, 30.5, 35.5 against 20, 30, 40: 9 of 20 choices of three have as large a sum
    assert row(table, arm="BK-Code")["p of more than φ = 0"] == "0.450"
    assert row(table, arm="φ = 0 (plain PPO)")["p of more than φ = 0"] == "–"


def test_curiosity_on_equal_terms_and_as_in_collection_are_two_arms(folder):
    for seed in range(3):
        store(folder, "none", seed, [0.35] * 4, method="rnd", arm="curious", curiosity=5.0, timeouts="bootstrap")
    table = tables.improvement_table(load(folder)).readable.set_index("arm")
    assert table.loc["RND", "area under the curve"].startswith("30 %")
    assert table.loc["RND, on equal terms", "area under the curve"].startswith("35 %")


def test_every_arm_says_whose_knowledge_it_has(folder):
    for form in arms.REWARDS:
        store(folder, form, 0, [0.2] * 4)
    store(folder, "code", 0, [0.1] * 4, arm="negated code", negated=True)
    told = tables.improvement_table(load(folder)).readable.set_index("arm")["knowledge"]
    assert told["BK-Code"] == told["BK-Code, negated (control)"] == "hand-written knowledge"
    assert told["reward in the style of ELLM, one weight, not tuned"] == "hand-written knowledge"
    assert told["BK-Pref"] == told["reward in the style of Motif, one weight, not tuned"]
    assert told["BK-Pref"] == "scripted labeller, error 10 %"
    assert told["oracle potential (control, knows the task)"] == "–"


def test_the_error_that_is_told_without_a_setting_is_the_scripted_judges_own():
    assert PreferencesSettings().error == arms.WRONG_BY_DEFAULT


def test_every_quirk_of_the_settings_has_words():
    assert set(arms.QUIRKS) == {*Fidelity.model_fields, "unscaled_attention"}


def test_final_success_is_compared_layout_by_layout(built):
    table = tables.final_table(load(built))
    ours = row(table, arm="BK-Pref")
    assert ours["sampled"].startswith("60 % [") and ours["minus φ = 0"].startswith("+20.0 [")
    assert row(table, arm="φ = 0 (plain PPO)")["minus φ = 0"] == "–"


def variant(folder, value, label, steps=4, seed=0, study="labels", success=0.6, **settings):
    """A run of a variant of BK-Pref."""
    store(folder, "preference", seed, [success] * steps, arm=f"preference/{study}/{value}", label=label, **settings)


def test_another_error_of_the_labels_is_an_arm_of_its_own_and_not_of_the_comparison(folder):
    variant(folder, "40-wrong", "error 40 %", labelling={"error": 0.4})
    variant(folder, "own-model", "own model", maker="local", model="quick-t5-s0")
    variant(folder, "late", "late, frames 2000", steps=2, study="quirks", fidelity={**CLEAN, "late": True})
    every = arms.knowledge_arms(load(folder))
    variants = ["", "error 40 %", "late, frames 2000", "own model"]
    assert [each.variant for each in every if each.kind == "preference"] == variants
    assert sum(each.kind == "preference" for each in arms.usual_arms(every)) == 1


def test_an_arm_that_no_figure_knows_has_a_style_of_its_own_and_is_listed(folder):
    for seed in range(3):
        store(folder, "none", seed, [0.6] * 4, arm="wishes", label="BK-Wish (ours)")
        store(folder, "none", seed, [0.2] * 4, arm="dreams")
    labels = {"BK-Wish (ours)", "dreams"}
    assert labels <= set(tables.improvement_table(load(folder)).readable["arm"])


def test_labels_are_told_by_their_errors_then_other_judges_and_the_mean_is_that_of_the_seeds(folder):
    variant(folder, "40-wrong", "error 40 %", success=0.3, labelling={"error": 0.4})
    variant(folder, "200-pairs", "pairs 200", labelling={"pairs": 200})
    variant(folder, "own-model", "own model", success=0.5, maker="local", model="quick-t5-s0")
    figure = figures.label_errors(load(folder))
    assert figure is not None
    (axis,) = figure.axes
    marks = [line for line in axis.get_lines() if line.get_marker() == "^" and len(np.asarray(line.get_ydata()))]
    assert [np.mean(np.asarray(line.get_ydata())) for line in marks] == pytest.approx([60, 30, 50, 60])
    means = [np.asarray(line.get_ydata())[0] for line in axis.get_lines() if line.get_marker() == "_"]
    assert means == pytest.approx([60]), "a single seed has no mean"


def test_a_quirk_is_compared_over_the_seeds_and_frames_that_both_have(folder):
    late = {**CLEAN, "late": True}
    store(folder, "preference", 1, [0.5, 0.4], arm="preference/quirks/late", label="late", fidelity=late)
    variant(folder, "both", "both", 2, 1, "quirks", 0.5, fidelity={**late, "running_scale": True})
    table = tables.quirks_table(load(folder))
    assert table is not None
    late = row(table, quirk="paid one step late (Q2)", arm="BK-Pref", seeds="1", steps="2,000")
    assert [late[name] for name in ("with it", "without", "difference")] == ["45.0 %", "55.0 %", "-10.0"]
    assert late["φ = 0"] == "30.0 %"
    assert len(table.readable) == 2


def test_the_quirk_of_the_labelling_is_a_quirk_and_no_other_labelling(folder):
    variant(folder, "unscaled", "Q16", study="quirks", labelling={"train": {"scaled_attention": False}})
    (quirky,) = [arm for arm in arms.knowledge_arms(load(folder)) if arm.quirks]
    assert (quirky.quirks, quirky.variant) == (["unscaled_attention"], "Q16")


def test_other_worlds_are_held_against_phi_0_of_the_same_world(folder):
    store(folder, "none", 0, [0.1, 0.1], world="BabyAI-Text-GoToLocal-RedBall-S20")
    store(folder, "code", 0, [0.1, 0.3], world="BabyAI-Text-GoToLocal-RedBall-S20")
    table = tables.worlds_table(load(folder))
    assert table is not None
    assert row(table, arm="BK-Code")["minus φ = 0"] == "+10.0"
    assert {each["world"] for each in table.readable.to_dict("records")} == {"GoToLocal-RedBall-S20"}
    assert all(arm.world == WORLD for arm in arms.usual_arms(arms.knowledge_arms(load(folder))))


def test_crafters_tasks_have_a_panel_each_and_tell_who_achieved_what_on_the_way(tmp_path):
    home = tmp_path / "0.1.0-full-20260101-abcdef1"
    for form, share in (("none", 20), ("goals", 50)):
        store(home, form, 0, [0.2] * 4, world="Crafter-Text-EatCow", reached={"eat_cow": share, "wake_up": 70})
    store(home, "none", 0, [0.2] * 4, world="Crafter-Text-CollectDrink", reached={"collect_drink": 10})
    records = load(home)
    figure, table = crafter_exhibits.curves(records), crafter_exhibits.achievements(records)
    assert figure is not None and [axis.get_title() for axis in figure.axes] == ["CollectDrink", "EatCow"]
    assert table is not None and table.readable[
        ["task", "achievement", "φ = 0 (plain PPO)", "BK-Goal"]
    ].values.tolist() == [
        ["CollectDrink", "collect drink", "10 %", "–"],
        ["EatCow", "eat cow", "20 %", "50 %"],
        ["EatCow", "wake up", "70 %", "70 %"],
    ]
    store(
        home,
        "goals",
        0,
        [0.2] * 4,
        world="Crafter-Text-EatCow",
        arm="goals/source/x",
        label="x",
        reached={"eat_cow": 90},
    )
    both = crafter_exhibits.achievements(load(home))
    assert both is not None and {"BK-Goal", "BK-Goal, x"} <= set(both.readable), "two arms of one kind, two columns"


@pytest.mark.parametrize(
    ("settings", "source"),
    [
        ({"source": "smollm2/goals"}, "SmolLM2-135M-Instruct"),
        ({"source": "smollm2/goals", "shuffled": True}, "SmolLM2-135M-Instruct, shuffled"),
        ({"maker": "recorded"}, "hand-written knowledge"),
        ({"source": "labels/goals"}, "from labels/goals"),
    ],
)
def test_tables_say_whose_knowledge_it_is(settings, source):
    assert arms.source_of("goals", settings) == source


def test_crafter_has_no_exhibit_where_it_was_not_played(built):
    assert crafter_exhibits.curves(load(built)) is None and crafter_exhibits.achievements(load(built)) is None


def test_curves_are_left_out_where_no_run_has_episodes_enough_for_a_point(tmp_path):
    home = tmp_path / "0.1.0-smoke-20260101-abcdef1"
    store(home, "none", 0, [0.5])

    def shorten(run, records):
        records["metrics.jsonl"] = records["metrics.jsonl"].replace(b'"episodes": 100', b'"episodes": 99')

    made_up.rewrite(home, shorten)
    assert figures.curves(load(home)) is None


def test_a_card_is_told_snapshot_by_snapshot():
    snapshot = {"episodes": 20, "success": 0.35, "return": 0.3, "length": 250.0, "distinct_views": 900}
    card = {"world": "W", "snapshots": {"2048": snapshot, "200704": {**snapshot, "success": 0.9}}, "episodes": 40}
    card |= {"steps": 10_000, "distinct_views": 1500, "distinct_captions": 700, "cells_visited": {"2048": 0.81}}
    table = tables.card_table({"small": card})
    assert table is not None
    assert table.readable["policy after"].tolist() == ["2,048 steps", "200,704 steps", "all"]
    first = row(table, **{"policy after": "2,048 steps"})
    assert (first["success"], first["cells"], first["steps"]) == ("35 %", "81 %", "5,000")
    assert row(table, **{"policy after": "all"})["captions"] == "700"


def test_the_rooms_of_the_dataset_that_ships_are_drawn_from_what_was_counted():
    folder = tables.DATASETS / "pretraining-s20"
    (card,) = [card for name, card in tables.cards().items() if name == folder.name]
    counted = figures.visits(folder)
    assert sum(counts.sum() for counts in counted.values()) == card["steps"] + card["episodes"]
    figure = figures.coverage()
    assert figure is not None
    drawn = [axis.images[0].get_array() for axis in figure.axes if axis.images]
    for counts, picture in zip(counted.values(), drawn, strict=True):
        np.testing.assert_array_equal(np.ma.filled(picture, 0), counts)


# --- Claims


def claim(form: str, direction: str = "higher", **of: dict) -> Claim:
    usual = {"method": "knowledge", "world": WORLD, "when": "training"}
    sides = {name: usual | {"settings": {"form": each}} for name, each in (("of", form), ("than", "none"))}
    compared = {"metric": "success", "direction": direction, "measure": "permutation", **sides, **of}
    return made_up.claim("knowledge", "ordering", compare=[compared])


@pytest.mark.parametrize(
    ("form", "direction", "verdict"),
    [
        ("preference", "higher", "preliminary"),
        ("code", "higher", "inconclusive"),
        ("random", "lower", "inconclusive"),
        ("random", "higher", "inconclusive"),
        ("preference", "lower", "preliminary"),
    ],
)
def test_three_seeds_show_an_order_or_the_opposite_and_give_no_verdict(built, form, direction, verdict):
    judged = judge_claim(claim(form, direction), load(built))
    assert judged.verdict == verdict, judged.reason
    assert judged.seeds == 3


def test_five_seeds_are_enough_for_a_verdict(folder):
    for seed in (3, 4):
        store(folder, "none", seed, [0.3] * 4)
        store(folder, "preference", seed, [0.6] * 4)
    assert judge_claim(claim("preference"), load(folder)).verdict == "supported"


def test_permutations_are_of_seeds_and_not_of_layouts(built):
    end = {"method": "knowledge", "world": WORLD, "policy": "sampled", "when": "end"}
    sides = {side: end | {"settings": {"form": form}} for side, form in (("of", "preference"), ("than", "none"))}
    judged = judge_claim(claim("preference", "higher", **sides), load(built))
    p = next(iter(judged.fresh.values())).value
    assert np.isclose(p, 1 / 20), "60 % of layouts against 40 %, in every seed"


def test_of_three_seeds_each_claim_at_quick_can_be_shown_or_refuted():
    """Relabelling three seeds gives no p below 0.05, so a claim judged at a corrected level could do neither."""
    at_quick = [claim for claim in load_claims("knowledge") if claim.scales == ("quick",)]
    assert at_quick and not [each.id for each in at_quick for side in each.compare if side.measure == "permutation"]
