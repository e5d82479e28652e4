"""GLAM's exhibits: sample efficiency over finished episodes, what the control costs, and what changed words cost."""

import shutil
from pathlib import Path

import made_up
import numpy as np
import pandas as pd
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.papers.glam import arms, figures, pretraining_exhibits, pretraining_study, tables, transfer_exhibits
from groundlab.report.claims import Claim
from groundlab.report.exhibits import draw
from groundlab.report.judging import judge_claim
from groundlab.report.records import levels_at, load, running_success, training_means

WORLD = "BabyAI-GoToLocalS8N4-v0"


def rows(rate: float, layouts: int = 100) -> list[dict]:
    """A hundred episodes of so many layouts."""
    facts = ((n % layouts, n < 100 * rate) for n in range(100))
    return [{"layout": layout, "steps": 20, "success": won, "return": 0.7 * won} for layout, won in facts]


def store(folder, method, seed, rates, successes=(), world=WORLD, variant="", label="", **settings):
    """One run of a method's usual arm, or of a variant: `nbr_obs/3`."""
    records = [
        {"iteration": k + 1, "frames": 1000 * (k + 1), "episodes": 100, "success": success}
        for k, success in enumerate(successes)
    ]
    evaluations = {policy: rows(rate, 4 if policy == "first-finished" else 100) for policy, rate in rates.items()}
    given = {"nbr_obs": 1, **settings}
    named = {"arm": f"{method}/{variant}" if variant else method, "arm_label": label or variant.replace("/", " ")}
    made_up.store_run(folder, "glam", method, world, seed, evaluations, records or [{"iteration": 1}], given, **named)


@pytest.fixture
def folder(tmp_path):
    """That of a version without runs."""
    return tmp_path / "0.1.0-quick-20260101-abcdef1"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "0.1.0-quick-20260101-abcdef1"
    read = {"sampled": 0.9, "greedy": 0.8, "sampled fixed-mission": 0.4, "sampled adj_synonym": 0.45}
    for seed in range(3):
        store(folder, "glam", seed, read, [0.2, 0.7, 0.9, 0.9])
        store(folder, "npae", seed, {"sampled": 0.5, "sampled fixed-mission": 0.5}, [0.2, 0.3, 0.4, 0.5])
    store(folder, "glam", 0, read, [0.9, 0.9], variant="nbr_obs/3", label="nbr_obs 3", nbr_obs=3)
    store(folder, "random", 0, {"random": 0.3})
    store(folder, "random", 0, {"random": 0.25}, world=arms.EIGHT)
    return folder


@pytest.fixture
def glam_results(built, tmp_path):
    """A copy to change."""
    return shutil.copytree(built, tmp_path / built.name)


def curve(*updates: tuple[int, float | None]) -> pd.DataFrame:
    lines = [{"frames": 1000 * (k + 1), "episodes": n, "success": rate} for k, (n, rate) in enumerate(updates)]
    return pd.DataFrame(lines)


def test_the_lead_is_over_npae_of_the_same_pretraining_and_stays_out_of_other_exhibits(folder):
    for number in range(3):
        for words, level in (("usual", 0.9), ("opaque", 0.6)):
            store(folder, "glam", 3 * number, {"sampled": 0.9}, [0.2, level], variant=f"words/{words}-s{number}")
        store(folder, "npae", 3 * number, {"sampled": 0.5}, [0.3, 0.1 * number], variant=f"words/usual-s{number}")
    for number in range(2):
        store(folder, "glam", number, {}, [0.1, 0.5], arms.MIXED, f"words/opaque-tasks-s{number}")
    store(folder, "npae", 0, {}, [0.1, 0.1], arms.MIXED, model="tasks-t5-s0")
    records = load(folder)
    found = pretraining_study.lead_table(records).data.set_index(["world", "what"])
    assert found["lead"].round(9).to_dict() == {
        (WORLD, "usual words, whole corpus"): 35,
        (WORLD, "words: opaque"): 20,
        (arms.MIXED, "words: opaque"): 20,
    }
    opaque = found.loc[(WORLD, "words: opaque")]
    assert (opaque["glam"], opaque["glam first"], opaque["npae first"]) == pytest.approx((40, 20, 30))
    assert (opaque["pretrainings"], opaque["trainings"]) == (3, 3)
    assert opaque["lead_low"] < 15 < 25 < opaque["lead_high"], "over three pretrainings"
    assert {each.study for each in arms.glam_arms(records)} == {""}


def test_running_success_counts_the_last_episodes_and_not_updates():
    frames, success = running_success(curve((50, 0.0), (0, None), (50, 50.0), (100, 80.0), (20, 0.0)))
    assert frames.tolist() == [3000, 4000, 5000], "before, there are fewer than 100 episodes"
    assert success == pytest.approx([25.0, 80.0, 100 * 80.0 / 120])
    frames, success = running_success(curve((200, 50.0), (0, None), (200, 100.0)))
    assert frames.tolist() == [1000, 2000, 3000] and success == pytest.approx([50.0, 50.0, 100.0]), "a gap stays level"


def test_a_curve_begins_before_its_window_is_full_but_not_where_only_successes_can_have_ended():
    counts, success = (10, 30, 40, 40), (100.0, 50.0, 50.0, 100.0)
    curve = pd.DataFrame({"frames": [1, 2, 3, 4], "episodes": counts, "success": success})
    assert running_success(curve)[0].tolist() == [4]
    frames, values = running_success(curve, filling=True)
    assert frames.tolist() == [2, 3, 4]
    assert values[:2].tolist() == [100 * (10 + 15) / 40, 100 * (10 + 15 + 20) / 80]
    assert values[2] == running_success(curve)[1][0]


def test_what_is_kept_of_an_arm_is_of_one_policy_and_one_metric(built):
    agent = next(each for each in arms.glam_arms(load(built)) if each.name == "glam")
    named = [(policy, metric) for policy in ("sampled", "greedy") for metric in ("success", "steps", "return")]
    for _ in ("measured", "kept"):
        found = [agent.estimate(*each) for each in named]
        assert [each and each.value for each in found] == pytest.approx([90, 20, 0.63, 80, 20, 0.56])


def test_a_level_is_reached_at_the_first_point_there_and_maybe_earlier_where_the_curve_begins_there(folder):
    learning = curve((200, 10.0), (200, 85.0), (200, 70.0))
    told = [str(tables.reached(learning, level)) for level in (80, 90, 10)]
    assert told == ["2.0k", "not in 3.0k", "≤ 1.0k"]
    assert str(tables.reached(curve((50, 90.0), (50, 85.0)))) == "≤ 2.0k", "the first 100 episodes end in two updates"
    assert str(tables.reached(curve((50, 100.0)))) == "not in 1.0k", "no point at all"
    for seed in range(2):
        store(folder, "glam", seed, {"sampled": 0.9}, [0.9, 0.9])
        store(folder, "npae", seed, {"sampled": 0.5}, [0.2, 0.3])
        store(folder, "drrn", seed, {"sampled": 0.5}, [0.85, 0.9])
    table = tables.efficiency_table(load(folder)).readable.set_index("agent")
    assert table.loc["pretrained LM, PPO (GLAM)", "frames to 80 %"] == "≤ 1.0k, ≤ 1.0k"
    assert table.loc["embeddings only, action head (NPAE)", "times GLAM's"].startswith("≥ 2.0 ")
    assert table.loc["DRRN", "times GLAM's"].startswith("≶ 1.0 ")


def test_sizes_hold_what_differs_in_one_number_only(folder):
    for method, success in (("glam", 0.9), ("npae", 0.3)):
        for seed in range(5):
            store(folder, method, seed, {"sampled": 0.9}, [success, 0.01 * seed + success], action_space=6)
            store(folder, method, seed, {"sampled": 0.9}, [success], world="BabyAI-GoToLocalS8N16-v0", action_space=6)
    for seed in range(2):
        store(folder, "glam", seed, {"sampled": 0.9}, [0.5], variant="action_space/9", action_space=9, lr=1)
    both = {"action_space": 9, "nbr_obs": 3, "lr": 1}
    store(folder, "glam", 0, {"sampled": 0.9}, [0.5], variant="nbr_obs/3-9-actions", **both)
    counted = figures.sized([each for each in arms.glam_arms(load(folder)) if each.learns])
    told = {
        what: {kind: {number: len(each.seeds) for number, each in agents.items()} for kind, agents in kinds.items()}
        for what, kinds in counted.items()
    }
    objects = {"glam": {4: 5, 16: 5}, "npae": {4: 5, 16: 5}}
    assert told == {"actions": {"glam": {6: 5, 9: 2}}, "objects": objects}, "NPAE has one number of actions"
    drawn = figures.sizes(load(folder))
    second = drawn.axes[1]
    means = second.containers[0].lines[0].get_ydata()
    assert list(means) == pytest.approx([91.0, 90.0]), "the mean over seeds of the success of their updates"


def test_an_untuned_model_stands_in_the_table_counted_as_training_counts_too(folder):
    store(folder, "glam", 0, {"sampled": 0.9}, [0.9])
    store(folder, "zero-shot", 0, {"sampled": 0.6, "first-finished": 0.75})
    table = tables.agents_table(load(folder)).readable.set_index("agent")
    assert table.loc["LM without tuning", "sampled"].startswith("60 %")
    assert table.loc["LM without tuning", "as they finish"].startswith("75 %")


def test_the_agents_table_tells_what_the_control_costs(built):
    table = tables.agents_table(load(built)).readable.set_index("agent")
    ours = table.loc["pretrained LM, PPO (GLAM)"]
    assert ours["lost"].startswith("50 %") and ours["one mission"].startswith("40 %")
    other = table.loc["embeddings only, action head (NPAE)"]
    assert other["lost"].startswith("0 %")
    chance = table.loc["random"]
    assert chance["sampled"].startswith("30 %") and chance["8 objects"].startswith("25 %")
    assert "pretrained LM, PPO (GLAM), nbr_obs 3" in table.index


def test_frames_are_compared_by_ratio_and_a_seed_that_never_got_there_makes_it_a_bound(built):
    table = tables.efficiency_table(load(built)).readable.set_index("agent")
    assert table.loc["pretrained LM, PPO (GLAM)", "frames to 80 %"] == "3.0k, 3.0k, 3.0k"
    other = table.loc["embeddings only, action head (NPAE)"]
    assert other["frames to 80 %"] == "not in 4.0k, not in 4.0k, not in 4.0k"
    assert other["times GLAM's"] == "≥ 1.3 [1.3, 1.3]"
    assert other["sample efficiency"].startswith("35 %"), "the mean of 20, 30, 40, 50"


def test_an_agent_that_no_figure_knows_is_drawn_and_listed_whether_it_learns_or_not(glam_results):
    for seed in range(3):
        store(glam_results, "reader", seed, {"sampled": 0.7}, [0.3, 0.6, 0.7, 0.7], label="our reader")
        store(glam_results, "rule", seed, {"sampled": 0.2})
    records = load(glam_results)
    assert {"our reader", "rule"} <= set(tables.agents_table(records).readable["agent"])
    assert "our reader" in set(tables.efficiency_table(records).readable["agent"])


def test_doses_are_told_with_what_their_probes_said_before_tuning(folder):
    whole, quarter = ({"model": f"quick-t5{name}-s0", "temperature": "stored"} for name in ("", "-quarter"))
    for seed in (1, 2):
        store(folder, "glam", seed, {"sampled": 0.9, "sampled adj_synonym": 0.7}, [0.2, 0.9], **whole)
    store(folder, "glam", 0, {"sampled": 0.5}, [0.2, 0.4], variant="model/quarter", **quarter)
    store(folder, "glam", 0, {"sampled": 0.1}, [0.1], world="BabyAI-GoToLocalS8N16-v0", **whole)
    store(folder, "glam", 3, {"sampled": 0.3}, [0.1], variant="temperature/1", **whole | {"temperature": 1})
    records = load(folder)
    rows = pretraining_exhibits.doses_table(records).readable
    order = [("25% of the steps (seed 0)", "1.77"), ("all (seed 0)", "1.00"), ("all (seed 0)", "2.14")]
    told = list(rows[["pretrained on", "temperature"]].itertuples(index=False, name=None))
    assert told == order, "what binds least comes first"
    table = rows.drop(index=1).set_index("pretrained on")
    assert table.loc["all (seed 0)", "knew: binding"] == "88%"
    assert table.loc["all (seed 0)", "frames to 80 %"] == "2.0k, 2.0k"
    assert table.loc["all (seed 0)", "synonyms of the colours"].startswith("70 %")
    assert table.loc["25% of the steps (seed 0)", "synonyms of the colours"] == "–"


def crossed(folder: Path, seeds: int) -> Path:
    """Two recipes at two temperatures, each in so many pretraining seeds, and one at its own temperature."""
    for name in ("", "-no-spatial"):
        for seed, at in ((seed, at) for seed in range(seeds) for at in (1, 2.1436)):
            model = {"model": f"quick-t5{name}-s{seed}", "temperature": at}
            variant = f"model/{model['model']}-{at}"
            read = {"sampled": 0.9, "sampled synonyms": at / 3}
            store(folder, "glam", 0, read, [0.5, 0.7 if name else 0.9], variant=variant, **model)
            store(folder, "zero-shot", 0, {"sampled": 0.4, "first-finished": 0.3}, variant=variant, **model)
    alone = {"model": "quick-t5-quarter-s0", "temperature": "stored"}
    store(folder, "glam", 0, {"sampled": 0.5}, [0.2], variant="model/quarter", **alone)
    return folder


def test_the_study_of_pretraining_compares_recipes_at_equal_temperature_only(tmp_path):
    one = crossed(tmp_path / "1.0.0-full-20260101-abcdef1", seeds=1)
    assert pretraining_study.study(load(one)) is None, "one pretraining seed says nothing of a recipe"
    drawn = pretraining_study.study(load(crossed(tmp_path / "1.0.0-full-20260102-abcdef1", seeds=2)))
    learning, words = drawn.axes
    marks = [line.get_ydata()[0] for line in learning.lines if line.get_marker() in "o^"]
    assert sorted(marks) == pytest.approx([60] * 4 + [70] * 4), "two recipes, two seeds, two temperatures"
    left = {line.get_ydata()[0] for line in words.lines if line.get_marker() in "o^"}
    assert left == {34, 72, 90}, "other words at two temperatures, the usual ones hollow"


def test_the_generalisation_table_holds_what_was_played_and_its_change(built):
    table = tables.generalization(load(built)).readable.set_index("test")
    assert list(table.index) == ["the training task", "synonyms of the colours"]
    cell = table.loc["synonyms of the colours", "pretrained LM, PPO (GLAM)"]
    assert cell.startswith("45 % [") and cell.endswith("(-50 %)")


def lower(policy: str) -> Claim:
    """GLAM's agent, played so, succeeds less often than NPAE's."""
    of, than = ({"method": method, "world": WORLD, "policy": "sampled"} for method in ("glam", "npae"))
    of |= {"policy": policy, "settings": {"nbr_obs": 1}}
    compared = {"metric": "success", "direction": "lower", "of": of, "than": than}
    return made_up.claim("glam", "ordering", compare=[compared])


def test_tests_of_a_policy_are_selected_by_their_name(built):
    judged = judge_claim(lower("sampled adj_synonym"), load(built))
    assert next(iter(judged.fresh.values())).value == pytest.approx(45 - 50)
    with pytest.raises(ValueError, match="must be one of"):
        lower("sampeld adj_synonym")


def test_training_success_is_weighted_by_frames_and_updates_without_episodes_are_left_out():
    told = {"frames": [1000, 2000, 5000], "success": [np.nan, 20.0, 60.0]}
    curve = pd.DataFrame({"seed": 0, "iteration": [1, 2, 3], **told})
    assert training_means(curve) == pytest.approx(np.array([[(20 * 1000 + 60 * 3000) / 4000]]))


def test_a_level_at_a_number_of_frames_is_that_of_the_last_hundred_episodes():
    told = {"frames": [1000, 2000, 3000], "episodes": [100, 100, 100], "success": [20.0, 60.0, 80.0]}
    curve = pd.DataFrame({"seed": 0, "iteration": [1, 2, 3], **told})
    assert levels_at(curve, 2000) == pytest.approx(np.array([[60.0]]))
    assert levels_at(curve, 2500) == pytest.approx(np.array([[70.0]]))
    with pytest.raises(GroundlabError, match="seed 0 has no 9,000 frames"):
        levels_at(curve, 9000)
    assert levels_at(curve, 500) == pytest.approx(np.array([[20.0]])), "the first there is"
    with pytest.raises(GroundlabError, match="seed 0 ended fewer than 100 episodes"):
        levels_at(curve.assign(episodes=10), 2000)


LOCAL = "BabyAI-GoToLocal-v0"


def policy(seed: int, update: int) -> np.ndarray:
    """[11, 6]: on every probe action 2 grows from 1/6 to 1, by a fifth an update, later for seed 1."""
    share = min(1.0, max(0, update - seed) / 5)
    return np.full((11, 6), (1 - share) / 6) + share * np.eye(6)[2]


def store_probed(folder, method, seed, updates, template):
    records = [
        {"iteration": k + 1, "frames": k, "episodes": 1, "success": 0.0}
        | ({"probe": policy(seed, k).flatten().tolist()} if template else {})
        for k in range(updates)
    ]
    settings = {"nbr_obs": 1, "probe_template": template}
    made_up.store_run(folder, "glam", method, LOCAL, seed, [], records, settings)


def test_the_curves_are_those_of_each_prompt_and_action_as_far_as_all_seeds_are(folder):
    store_probed(folder, "glam", 0, 8, 1)
    store_probed(folder, "glam", 1, 6, 1)
    store_probed(folder, "npae", 0, 8, 0)
    updates, found = figures.probabilities(figures.probed_arm(load(folder)).curves)
    assert updates.tolist() == [0, 1, 2, 3, 4, 5] and found.shape == (2, 6, 11, 6)
    assert np.allclose(found, [[policy(seed, k) for k in range(6)] for seed in (0, 1)])
    figure = figures.probe_actions(load(folder))
    panels = [axis for axis in figure.axes if axis.lines]
    assert len(panels) == 11
    forward = next(line for line in panels[3].lines if line.get_label() == "go forward")
    assert forward.get_ydata() == pytest.approx([np.mean([policy(s, k)[3, 2] for s in (0, 1)]) for k in range(6)])


def test_where_nothing_was_logged_nothing_is_drawn(folder):
    store_probed(folder, "glam", 0, 4, 0)
    assert "holds nothing of it" in draw("glam-probe-actions", folder).skipped


def test_every_level_of_the_papers_fig_4_is_found_in_its_claims():
    levels = transfer_exhibits.published_levels()
    assert set(levels) == {"glam", "npae", "drrn"}
    assert all(set(found) == set(transfer_exhibits.TESTS) for found in levels.values())
    assert levels["glam"] == {"training task": 89, "unseen nouns": 87, "invented words": 77} | {
        **{"two tasks in a row": 12, "other words for the actions": 12, "French": 1}
    }


def test_success_by_kind_of_mission_counts_the_layouts_of_each_kind(folder):
    kinds = tuple(transfer_exhibits.MISSIONS)
    for seed in range(5):
        won = {"goto": 10, "pickup": 5 + seed % 2, "open": 0, "putnext": 1, "pick_up_seq_go_to": 4}
        played = [
            {"layout": 5 * number + place, "kind": kind, "success": number < won[kind], "steps": 9, "return": 0.5}
            for place, kind in enumerate(kinds)
            for number in range(10)
        ]
        facts = {"arm": "glam", "arm_label": ""}
        made_up.store_run(folder, "glam", "glam", transfer_exhibits.MIXED, seed, {"sampled": played}, **facts)
    store(folder, "random", 0, {"random": 0.3})
    (agent,) = (each for each in arms.glam_arms(load(folder)) if each.kind == "glam")
    found = {kind: estimate.value for kind, estimate in transfer_exhibits.by_kind(agent, "sampled").items()}
    assert found == pytest.approx(dict(zip(kinds, (100, 54, 0, 10, 40), strict=True)))
    table = transfer_exhibits.kinds_table(load(folder))
    assert table is not None and list(table.readable["agent"]) == [agent.label], "no one else played the mixed task"
    assert transfer_exhibits.tests_figure(load(folder)) is None, "nobody was tested in other words"


def test_bars_of_tests_stand_beside_the_papers_levels_and_chance(folder):
    for seed in range(3):
        store(folder, "glam", seed, {"sampled": 0.9, "sampled synonyms": 0.6, "sampled no_meaning_words": 0.8})
    store(folder, "random", 0, {"random": 0.3})
    figure = transfer_exhibits.tests_figure(load(folder))
    assert figure is not None
    (axis,) = figure.axes
    assert [round(bar.get_height()) for bar in axis.patches] == [90, 80, 60]
    drawn = sorted(round(float(lines.get_segments()[0][0][1])) for lines in axis.collections if lines.get_label())
    assert {12, 30, 77, 89} <= set(drawn)
