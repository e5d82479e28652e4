"""The reasoning agents' exhibits: arms, the final table, true against displayed success, studies, collapse, swaps."""

import json
import shutil
from dataclasses import replace

import made_up
import numpy as np
import pytest

from groundlab.papers.reasoning import arms, figures, tables, thought_figures
from groundlab.papers.reasoning.tables import cells
from groundlab.report.claims import Claim, Selector
from groundlab.report.judging import judge_claim, select_rows
from groundlab.report.records import load
from groundlab.report.verdicts import readable_row

WORLD, HELD_OUT = "Reasoning-GoTo-v0", "Reasoning-GoToTest-v0"
DROPPED = ("drop_unfinished/yes", "unfinished episodes dropped")
USUAL = {"num_dists": 0, "estimator": "nested", "episodes": "continuing", "max_new_tokens": 16, "context_window": 2}
USUAL |= {"iterations": 40, "fidelity": {"drop_unfinished": False, "dropout": False}}


def rows(rate: float, invalid: int = 0, layouts: int = 50) -> list[dict]:
    """The first layouts succeed after 10 steps, the others end after 64; each has so many invalid replies besides."""
    made = []
    for layout in range(layouts):
        won = layout < rate * layouts
        steps = 10 if won else 64
        row = {"layout": layout, "success": won, "return": 0.86 if won else 0.0, "steps": steps}
        made.append({**row, "length": steps + invalid, "invalid": invalid})
    return made


def update(number: int, success: float, thinks: bool, tested: bool) -> dict:
    """A record of training: what is displayed lies a tenth above the truth."""
    record: dict = {"iteration": number, "frames": 128 * number}
    if number:
        shown = min(1.0, success + 0.1)
        record |= {"episodes": 20, "success": shown, "return": 0.7, "length": 9.0, "invalid": 0.2}
        record |= {"valid": 0.9, "cut_off": 0.02, "reply_tokens": 7.0, "said": "go forward"}
        if thinks:
            words = 8 - 0.15 * number
            record |= {"thought_words": words, "thought_words_p10": words - 2, "thought_words_p90": words + 2}
            record |= {"echo_rate": 0.6 if 20 <= number < 30 else 0.1, "grounded_rate": 0.8, "hallucination_rate": 0.1}
    if tested:
        record |= {"test_success": success, "test_return": 0.6, "test_length": 20.0, "test_invalid": 1.0}
        if thinks:
            record |= {"mi_retrieval": 2.0, "mi_bound": float(np.log(24)), "retrieval_accuracy": 0.5}
            record |= {"thought_entropy": 1.5, "swap_empty": 0.3, "swap_other": 0.01 * number}
    return record


def store(folder, method, seed, rates, world=WORLD, iterations=40, variant="", label="", **settings):
    """One run of a method's usual arm, or of a variant: `num_dists/3`."""
    thinks, records = method.startswith("reasoning"), [{"iteration": 1}]
    if method in arms.UNTUNED:
        levels = 0.2 + 0.7 * np.arange(iterations + 1) / 40 + 0.01 * seed
        records = [update(number, levels[number], thinks, number % 10 == 0) for number in range(iterations + 1)]
    stored = {policy: rows(rate, invalid=1) for policy, rate in rates.items()}
    given = {**USUAL, "iterations": iterations, **settings}
    named = {"arm": f"{method}/{variant}" if variant else method, "arm_label": label}
    made_up.store_run(folder, "reasoning", method, world, seed, stored, records, given, **named)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both agents with three seeds, untuned and tuned; a study of each kind."""
    home = tmp_path_factory.mktemp("results") / "0.1.0-quick-20260101-abcdef1"
    swapped = {"thought emptied": 0.5, "another's thought": 0.4}
    for seed in range(3):
        store(home, "direct", seed, {"sampled": 0.96, HELD_OUT: 0.9, "first-finished": 0.98})
        store(home, "reasoning", seed, {"sampled": 0.86, HELD_OUT: 0.8, "first-finished": 0.9, **swapped})
        store(home, "direct-zero-shot", seed, {"sampled": 0.24, HELD_OUT: 0.2})
        store(home, "reasoning-zero-shot", seed, {"sampled": 0.36, HELD_OUT: 0.3, **swapped})
        store(home, "random", seed, {"random": 0.26})
    store(home, "random", 0, {"random": 0.22}, world=HELD_OUT)
    variants = (
        ("num_dists/3", "3 distractors", 0.5, {"num_dists": 3}),
        ("num_dists/5", "5 distractors", 0.4, {"num_dists": 5}),
        ("estimator/bandit", "bandit, whole episodes", 0.4, {"estimator": "bandit", "episodes": "whole"}),
        ("estimator/nested", "whole episodes", 0.4, {"episodes": "whole"}),
        (*DROPPED, 0.4, {"fidelity": {"drop_unfinished": True, "dropout": False}}),
    )
    for variant, label, rate, settings in variants:
        store(home, "direct", 0, {"sampled": rate}, iterations=20, variant=variant, label=label, **settings)
    distracted = {"variant": "num_dists/3", "label": "3 distractors", "num_dists": 3}
    store(home, "direct-zero-shot", 0, {"sampled": 0.2}, **distracted)
    longer = {"variant": "max_new_tokens/40", "label": "40 new tokens", "max_new_tokens": 40}
    store(home, "reasoning", 0, {"sampled": 0.4}, iterations=20, **longer)
    return home


@pytest.fixture(scope="module")
def records(built):
    """All that is stored."""
    return load(built)


@pytest.fixture
def folder(built, tmp_path):
    """A copy to change."""
    return shutil.copytree(built, tmp_path / built.name)


def readable(made, *keys: str) -> dict:
    frame = made.readable
    return {tuple(row[key] for key in keys): row for row in frame.to_dict("records")}


def test_an_agent_that_no_figure_knows_is_drawn_and_listed(folder):
    for seed in range(3):
        store(folder, "direct", seed + 3, {"sampled": 0.4})
    named = {"arm": "muttering", "arm_label": "mutters, then acts"}
    made_up.rewrite(folder, lambda run, _: run.update(named) if run["seed"] > 2 else None)
    records = load(folder)
    assert "mutters, then acts, trained" in set(tables.agents_table(records).readable["agent"])


def test_series_hold_the_updates_that_every_seed_has(records):
    arm = arms.main_arms(records)["direct"]
    frames, values = arm.series("test_success")
    assert frames.tolist() == [0, 1280, 2560, 3840, 5120]
    assert values.shape == (3, 5) and values[:, 0] == pytest.approx([20, 21, 22])
    assert arm.series("thought_words") is None and arm.series("length")[1].shape == (3, 40)


def test_the_final_table_has_the_verdict_as_a_paired_difference(records):
    table = readable(tables.agents_table(records), "distractors", "test", "agent")
    ours = table["0", "GoTo", "thinks, then acts, trained"]
    assert ours["success"].startswith("86 % [") and ours["report's success"] == "100 %, 100 %"
    assert table["0", "GoTo", "thinking minus not, trained"]["success"].startswith("-10.0 [")
    assert table["0", "GoTo", "thinking minus not, untuned"]["success"].startswith("+12.0 [")
    held_out = table["0", "GoTo, held-out objects", "answers at once, untuned"]
    assert (held_out["success"][:4], held_out["report's success"]) == ("20 %", "96 %")
    assert table["0", "GoTo, held-out objects", "random actions"]["success"].startswith("22 %")
    first = table["0", "GoTo, first finished", "answers at once, trained"]
    assert first["success"].startswith("98 %") and first["report's success"] == "–"


def test_the_verdict_pairs_layouts(records):
    found = arms.main_arms(records)
    gap = arms.difference(found["reasoning"], found["direct"], "sampled")
    alone = found["direct"].estimate("sampled")
    assert gap.value == pytest.approx(-10)
    assert gap.high - gap.low < 2 * (alone.high - alone.low), "what makes a layout hard cancels out"


def test_agents_trained_in_another_world_have_rows_and_a_row_of_panels_of_their_own(folder):
    store(folder, "direct", 0, {"sampled": 0.5}, world="Reasoning-Pickup-v0")
    store(folder, "direct-zero-shot", 0, {"sampled": 0.1}, world="Reasoning-Pickup-v0")
    records = load(folder)
    assert arms.homes(records) == [WORLD, "Reasoning-Pickup-v0"]
    table = readable(tables.agents_table(records), "distractors", "test", "agent")
    assert table["0", "Pickup", "answers at once, trained"]["success"].startswith("50 %")
    assert table["0", "Pickup", "answers at once, trained"]["report's success"] == "100 %, 100 %"
    assert table["0", "Pickup", "answers at once, untuned"]["success"].startswith("10 %")
    assert table["0", "GoTo", "answers at once, trained"]["success"].startswith("96 %"), "the first world as it was"


def test_displayed_success_is_the_mean_of_updates_and_leaves_out_those_without_episodes(records):
    arm = arms.main_arms(records)["direct"]
    frames, values = figures.displayed(arm)
    assert frames[0] == 1280 and values[0, 0] == pytest.approx(100 * (0.3 + 0.7 * np.mean(range(1, 11)) / 40))
    gaps = arm.curves.copy()
    gaps.loc[gaps["iteration"].isin([3, 4]), "success"] = np.nan
    thinned = replace(arm, curves=gaps)
    rest = [1, 2, 5, 6, 7, 8, 9, 10]
    shown = figures.displayed(thinned)[1]
    assert shown[0, 0] == pytest.approx(100 * (0.3 + 0.7 * np.mean(rest) / 40))


def test_an_arm_that_throws_unfinished_episodes_away_stands_beside_the_one_that_continues_them(records):
    ((kept, dropped),) = figures.biased_pairs(records)
    assert (kept.variant, dropped.variant) == ("", "unfinished episodes dropped")
    assert kept.first(dropped.updates).updates == 20 and kept.updates == 40


def test_the_originals_counting_displays_84_percent_where_68_are_true():
    """docs/papers/reasoning-reference.md#a17: successes of 12 replies in the mean, failures of 64."""
    rng = np.random.default_rng(0)
    success = rng.random(20_000) < 0.68
    length = np.where(success, rng.integers(4, 21, 20_000), 64)
    shown = figures.displayed_by_original(100.0 * success, length, rng)
    assert shown == pytest.approx(84, abs=3)


def test_counting_is_fair_to_an_agent_whose_episodes_are_all_as_long(records):
    rng = np.random.default_rng(0)
    won = 100.0 * (rng.random(20_000) < 0.4)
    assert figures.displayed_by_original(won, np.full(20_000, 7), rng) == pytest.approx(40, abs=1.5)
    true, shown = figures.true_and_displayed(arms.main_arms(records)["direct-zero-shot"])
    assert true == 24 and shown > 26, "its failures take six times as long"


def test_a_study_holds_arms_that_differ_in_one_setting_and_share_all_others(records):
    (credit,) = arms.ESTIMATORS.groups(records)
    told = [(arm.settings["estimator"], arm.settings["episodes"]) for arm in credit]
    assert told == [("nested", "whole"), ("bandit", "whole")], "the main arm goes on over updates: no fair comparison"
    trained, untuned = arms.DISTRACTORS.groups(records)
    assert [arm.distractors for arm in trained] == [0, 3, 5] and [arm.distractors for arm in untuned] == [0, 3]
    assert arms.WINDOWS.groups(records) == []


def test_a_study_compares_when_the_shortest_arm_stops(records):
    table = readable(tables.study_table(records, arms.DISTRACTORS), "agent", "arm")
    main, three = table["answers at once", "0 distractors"], table["answers at once", "3 distractors"]
    assert (main["by then"], three["by then"]) == ("47 %", "46 %"), "tests of updates 10 and 20"
    assert main["updates"] == "40" and three["updates"] == "20"
    assert (three["report, zero-shot"], three["report, trained"]) == ("80 %", "98 %, 100 %")


def test_a_model_that_is_read_leniently_is_named_so_and_its_valid_replies_are_counted(folder):
    public = {"model": "smollm2-135m-instruct", "label": "a public model"}
    store(folder, "direct-zero-shot", 0, {"sampled": 0.0}, variant="model/public", **public)
    store(folder, "direct-zero-shot", 0, {"sampled": 0.5}, variant="model/lenient", **public, parser="lenient")
    found = tables.study_table(load(folder), arms.MODELS).data.set_index("arm")["valid_replies"]
    assert found["smollm2-135m-instruct"] == pytest.approx(64 / 65)
    assert found["smollm2-135m-instruct, read leniently"] == pytest.approx(37 / 38), "half have 10 steps"


def test_a_study_names_worlds_where_it_has_several(records, mixed):
    assert "world" not in tables.study_table(records, arms.DISTRACTORS).readable
    assert set(tables.study_table(mixed, arms.DISTRACTORS).readable["world"]) == {"GoTo", "GoToPickup"}


def test_an_arm_that_was_not_tested_by_then_has_no_level_and_is_drawn_to_its_next_test(records):
    main = arms.DISTRACTORS.groups(records)[0][0]
    assert tables.level_at(main, 0) is not None and tables.level_at(main, 9) is None
    assert tables.level_at(main, 10) is not None
    assert [main.first_tested(updates).curves["iteration"].max() for updates in (9, 10, 39, 99)] == [10, 10, 40, 40]


@pytest.mark.parametrize(
    ("echo", "found"),
    [
        ([0.1, 0.6, 0.6, 0.2, 0.6, 0.6], (None, None)),
        ([0.1, 0.5, 0.5, 0.5, 0.4], (2, None)),
        ([0.6, 0.6, 0.6, 0.2, 0.3, 0.25, 0.2, 0.1], (1, 6)),
        ([0.6, 0.6, np.nan, 0.6, 0.6], (None, None)),
        ([0.9, 0.9], (None, None)),
    ],
)
def test_a_collapse_is_half_echoes_in_three_updates_and_over_after_three_at_a_quarter(echo, found):
    assert thought_figures.collapse(np.arange(1, len(echo) + 1), np.array(echo)) == found


def test_every_run_that_thinks_is_judged_by_both_rules(records):
    table = readable(thought_figures.collapse_table(records), "arm", "seed")
    assert set(table) == {("main", "0"), ("main", "1"), ("main", "2"), ("40 new tokens", "0")}
    assert table["main", "1"]["collapse"] == "at update 20, over at 30"
    assert table["main", "1"]["2 words"] == "at update 40"
    assert table["40 new tokens", "0"]["collapse"] == "none", "one update with echoes is none"
    assert table["main", "0"]["words, first"] == f"{8 - 0.15 * np.mean(range(1, 11)):.1f}"


def test_what_swapped_thoughts_cost_is_told_with_what_they_change(records):
    table = readable(thought_figures.swaps_table(records), "agent", "thoughts")
    trained = {thoughts: row for (agent, thoughts), row in table.items() if agent == "thinks, then acts, trained"}
    other = trained["from another episode's start"]
    assert (trained["left out"]["lost"], other["lost"]) == ("36 (36, 36, 36)", "46 (46, 46, 46)")
    assert trained["its own"]["information [nats]"] == f"2.00 of {np.log(24):.2f}" and trained["its own"]["lost"] == ""
    untuned = table["thinks, untuned", "from another episode's start"]["actions changed"]
    assert (untuned, other["actions changed"]) == ("0 %", "40 %"), "the first and the last test"


def test_a_transcript_is_one_episode_cut_in_the_middle_and_any_reply_stays_in_its_row(tmp_path):
    replies = [{"seen": "a | wall", "said": "a\r\n\u2028b | <b>\t日本\n\n", "valid": False}] * 10
    played = [{**row, "mission": "go to the red ball", "told": replies} for row in rows(1.0)]
    made_up.store_run(tmp_path, "reasoning", "direct-zero-shot", WORLD, 0, {"sampled": played}, settings=USUAL)
    made = tables.transcripts(load(tmp_path))
    lines = [line for line in made.markdown.splitlines() if line.startswith("|")]
    assert made.readable["reply"].tolist() == ["1", "2", "3", "4", "5", "6", "…", "8", "9", "10", ""]
    assert len(lines) == 2 + 11 and "“a ⏎ b \\| &lt;b&gt; 日本” ✗" in lines[2] and "<" not in made.markdown
    assert "layout 0: go to the red ball" in lines[2] and "success after 10 replies" in lines[-1]


@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize("world", ["GoTo", "Pickup", "GoToTest", "PickupTest"])
@pytest.mark.parametrize("distractors", [0, 3, 5])
def test_the_printed_tables_are_complete(distractors, world, thinks):
    for trained, trials in ((False, 1), (True, 1 if distractors == 5 else 2)):
        printed = cells(distractors, world, trained, thinks)
        assert len(printed["success"]) == len(printed["return"]) == trials
        for success, reward in zip(printed["success"], printed["return"], strict=True):
            assert 0 <= 100 * reward <= success <= 100, "no reward exceeds its success"


def test_printed_cells_are_those_of_the_claims():
    assert cells(3, "GoTo", True, True) == {"success": (98, 14), "return": (0.88, 0.13)}
    assert cells(0, "Pickup", False, False) == {"success": (68,), "return": (0.47,)}
    assert cells(8, "GoTo", True, True) == {}, "a room that the report does not print"


def ordering(of: dict, than: dict, direction: str = "lower", metric: str = "success", *more: dict) -> Claim:
    sides = {"metric": metric, "direction": direction, "of": of, "than": than}
    return made_up.claim("reasoning", "ordering", compare=[sides, *more])


def test_the_ends_of_training_are_compared_by_their_tenths(records):
    thinks = {"method": "reasoning", "world": WORLD, "settings": {"iterations": 40}}
    claim = ordering({**thinks, "when": "last tenth"}, {**thinks, "when": "first tenth"}, metric="thought_words")
    verdict = judge_claim(claim, records)
    (gap,) = verdict.fresh.values()
    assert gap.value == pytest.approx(-0.15 * 36), "the mean of updates 37 to 40 against 1 to 4"
    assert verdict.verdict == "preliminary" and "thinking first, last tenth" in next(iter(verdict.fresh))


def test_a_fall_is_how_far_the_last_test_lies_below_the_best_one(folder):
    """The made-up agents get better to the end; one seed is made to end at its first level."""

    def fall(run, records):
        if (run["method"], run["seed"]) == ("reasoning", 1):
            lines = [json.loads(line) for line in records["metrics.jsonl"].splitlines()]
            lines[-1]["test_success"] = lines[0]["test_success"]
            records["metrics.jsonl"] = "".join(json.dumps(line) + "\n" for line in lines).encode()

    made_up.rewrite(folder, fall)
    sides = [{"method": name, "world": WORLD, "settings": {"iterations": 40}, "when": "fall"} for name in arms.UNTUNED]
    judged = judge_claim(ordering(*sides, "higher", "test_success"), load(folder))
    levels = judged.levels["fall of test_success: thinking first - answering at once"]
    assert levels == {"thinking first": pytest.approx(52.5 / 3), "answering at once": 0}, "73.5 - 21 in one of three"
    assert judged.verdict == "inconclusive", "two seeds of three do not fall"


def test_the_last_five_tests_of_a_training_are_averaged(records):
    sides = [
        {"method": name, "world": WORLD, "settings": {"iterations": 40}, "when": "last tests"} for name in arms.UNTUNED
    ]
    judged = judge_claim(ordering(*sides, "lower", "test_success"), records)
    (levels,) = (
        judged.levels[name] for name in judged.levels if name.startswith("test_success in the last five tests")
    )
    curves = select_rows(records, Selector(**sides[0])).dropna(subset="test_success")
    by_seed = curves.sort_values("iteration").groupby("seed")["test_success"].agg(list)
    assert levels["thinking first"] == pytest.approx(np.mean([np.mean(tests[-5:]) for tests in by_seed]))


def test_comparisons_of_several_worlds_are_all_judged_and_name_their_world(folder):
    store(folder, "direct-zero-shot", 0, {"sampled": 0.9}, world="Reasoning-Pickup-v0")
    store(folder, "reasoning-zero-shot", 0, {"sampled": 0.1}, world="Reasoning-Pickup-v0")

    def side(method: str, world: str) -> dict:
        return {"method": f"{method}-zero-shot", "world": world, "policy": "sampled", "settings": {"num_dists": 0}}

    given = [
        {"metric": "success", "direction": "higher", "of": side("reasoning", world), "than": side("direct", world)}
        for world in ("Reasoning-Pickup-v0", WORLD)
    ]
    judged = judge_claim(ordering(given[0]["of"], given[0]["than"], "higher", "success", given[1]), load(folder))
    assert (judged.verdict, *judged.by_metric.values()) == ("contradicted", "contradicted", "supported")
    assert "success in Reasoning-Pickup-v0: thinking first untuned 10 %" in readable_row(judged)["here"]
    with pytest.raises(ValueError, match="calls two comparisons alike"):
        ordering(given[0]["of"], given[0]["than"], "higher", "success", given[0])


def test_swapped_thoughts_and_other_worlds_are_policies_that_a_claim_can_name(records):
    thinks = {"method": "reasoning", "world": WORLD, "settings": {"iterations": 40}}
    sampled = {**thinks, "policy": "sampled"}
    swapped = judge_claim(ordering({**thinks, "policy": "another's thought"}, sampled), records)
    assert next(iter(swapped.fresh.values())).value == pytest.approx(-46)
    held_out = judge_claim(ordering({**thinks, "policy": HELD_OUT}, sampled), records)
    assert next(iter(held_out.fresh.values())).value == pytest.approx(-6)
    with pytest.raises(ValueError, match="must be one of"):
        ordering({**thinks, "policy": "thoughts emptied"}, sampled)


def test_shares_of_fitting_actions_have_a_row_a_pretraining_and_are_not_there_with_one_share(folder):
    assert tables.fitting_table(load(folder)) is None
    for variant, model in (("model/s1", "quick-llama-chat-s1"), ("fitting/1-s0", "quick-llama-chat-fitting-1-s0")):
        for seed in range(2):
            store(folder, "reasoning", seed, {"sampled": 0.9}, variant=variant, label=variant, model=model)
    store(folder, "reasoning-zero-shot", 0, {"sampled": 0.5}, variant="fitting/1-s0", label=variant, model=model)
    made = tables.fitting_table(load(folder))
    assert made.readable["fitting"].tolist() == ["0.2", "1.0"] and made.data["pretraining"].tolist() == [1, 0]
    assert made.readable["thinks, then acts, untuned"].tolist() == ["–", "50 % [34.9, 65.1]"]
    assert made.data["reasoning over training"].tolist() == pytest.approx([64.25, 64.25])
    assert made.readable["thinks, then acts, at its end"].str.startswith("90 % [").all()


@pytest.fixture
def mixed(folder):
    """Agents of both tasks at once beside those of one, among none and three distractors."""
    for count, variant in ((0, {}), (3, {"variant": "num_dists/3", "label": "3 distractors", "num_dists": 3})):
        for seed in range(3):
            tests = {"sampled": 0.5, WORLD: 0.9 - 0.1 * count, HELD_OUT: 0.4}
            store(folder, "direct", seed, tests, world=arms.MIXTURE, **variant)
            store(folder, "reasoning", seed, {**tests, WORLD: 0.7}, world=arms.MIXTURE, **variant)
        store(folder, "direct-zero-shot", 0, {"sampled": 0.2, WORLD: 0.3}, world=arms.MIXTURE, **variant)
    return load(folder)


def test_agents_of_both_tasks_have_a_row_a_test_and_number_of_distractors(mixed):
    made = tables.mixture_table(mixed)
    data = made.data.set_index(["distractors", "test"])
    assert list(data.index) == [(n, t) for n in (0, 3) for t in ("GoToPickup", "GoTo", "GoTo, held-out objects")]
    assert data.loc[(0, "GoTo"), ["reasoning", "direct", "direct-zero-shot", "thinking_minus_not"]].tolist() == (
        pytest.approx([70, 90, 30, -20])
    )
    assert data.loc[(3, "GoTo"), ["direct", "thinking_minus_not"]].tolist() == pytest.approx([60, 10])
    rows = readable(made, "distractors", "test")
    assert rows["3", "GoTo"]["report: thinks, then acts"] == "98 %, 14 %"
    assert rows["0", "GoToPickup"]["report: answers at once"] == "–" and rows["0", "GoTo"]["seeds"] == "3"
    assert "GoToPickup" not in set(tables.agents_table(mixed).readable["test"])


def test_agents_of_both_tasks_learn_in_a_panel_a_number_of_distractors(mixed):
    three = figures.mixture_curves(mixed).axes[1]
    thick = {line.get_label(): line.get_ydata() for line in three.get_lines() if not line.get_label().startswith("_")}
    assert {"thinks, then acts", "answers at once", "answers at once, untuned"} <= set(thick)
    assert thick["answers at once"] == pytest.approx(100 * (0.2 + 0.7 * np.arange(5) / 4 + 0.01))


def test_without_agents_of_both_tasks_their_exhibits_are_not_there(records):
    assert tables.mixture_table(records) is None and figures.mixture_curves(records) is None
