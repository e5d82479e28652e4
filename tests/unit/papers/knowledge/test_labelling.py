"""Judges and advisers are asked fairly, read strictly, counted when they say nothing, and never paid twice."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from knowledge_data import FixedReplies, told, warm

from groundlab.core.errors import GroundlabError
from groundlab.lab import config
from groundlab.language.chat import Ledger, Recorded, Recording
from groundlab.language.chat.local_client import Local
from groundlab.papers.knowledge import bk_goal, bk_pref, dataset, labelling, scripted
from groundlab.papers.knowledge.captions import trajectory
from groundlab.papers.knowledge.observations import CRAFTER, GRID
from groundlab.papers.knowledge.settings import KnowledgeSettings

TALKER = str(Path(__file__).parents[3] / "golden" / "runs" / "talker")


def test_a_judge_that_always_names_the_first_place_prefers_nobody(data):
    judged = bk_pref.judge(FixedReplies(["[Rank]\nA > B"]), warm, data, bk_pref.LabelSettings(pairs=400), seed=0)
    assert len(judged.labels) == 400 and 0.4 < np.mean(judged.labels) < 0.6
    in_order = bk_pref.LabelSettings(pairs=5, random_order=False)
    original = bk_pref.judge(FixedReplies(["[Rank]\nA > B"]), warm, data, in_order, seed=0)
    assert original.labels == [0.0] * 5


@pytest.mark.parametrize(
    ("dataset", "adapter", "merit"),
    [
        ("pretraining-s20", GRID, scripted.score_grid_segment),
        ("crafter-reward", CRAFTER, scripted.score_crafter_segment),
    ],
    ids=["grid", "crafter"],
)
def test_a_label_follows_the_rule_whatever_the_order_shown_and_errs_as_stated(dataset, adapter, merit):
    data, settings = labelling.dataset(dataset), bk_pref.LabelSettings(pairs=300)

    def judged(error):
        return bk_pref.judge(scripted.scripted_judge(error, 1, adapter), warm, data, settings, seed=0)

    true, noisy = judged(0.0), judged(0.2)
    for one, other, label in zip(true.first, true.second, true.labels, strict=True):
        a, b = (merit(trajectory(each.captions, each.actions.tolist(), adapter.actions)) for each in (one, other))
        assert label == (0.5 if a == b else float(b > a))
    decided = [pair for pair in zip(true.labels, noisy.labels, strict=True) if pair[0] != 0.5]
    assert len(decided) > 150 and {0.0, 1.0} <= set(true.labels)
    assert np.mean([one != other for one, other in decided]) == pytest.approx(0.2, abs=0.07)
    assert noisy.labels == judged(0.2).labels


@pytest.mark.parametrize(
    ("steps", "now", "merit"),
    [
        ([("You see a wall 2 steps forward.", "forward")], "You see a wall 1 step forward", 1),
        ([("You see a wall 1 step forward.", "forward")], "You see a wall 1 step forward", -1),
        ([("You see a red ball 1 step forward.", "forward")], "You see a red ball 1 step forward", 1),
        ([("You see a red ball 1 step left and 1 step forward.", "forward")], "You see nothing in front.", 1),
        ([("You see nothing in front.", "turn left"), ("You see nothing in front.", "turn right")], "x", -1),
        ([("You see nothing in front.", "do nothing")], "You see a red box 1 step right and 1 step forward", -1),
    ],
)
def test_merit_is_what_it_says(steps, now, merit):
    assert scripted.score_grid_segment(told(steps, now)) == merit


def test_replies_without_a_preference_are_counted_and_dropped(data):
    said = ["[Rank]\nA > B OR B > A OR A = B", "[Rank]\nB > A", "nothing"]
    judged = bk_pref.judge(FixedReplies(said), warm, data, bk_pref.LabelSettings(pairs=4), seed=0)
    assert judged.unreadable == 3 and len(judged.labels) == 1
    pairs = judged.pairs()
    assert pairs.first.states.shape == (1, 6, 3, 7, 7) and pairs.second.times.shape == (1, 6)
    with pytest.raises(GroundlabError, match="names a preference"):
        bk_pref.Labels(unreadable=4).pairs()


@pytest.mark.parametrize(
    ("odds", "unreadable", "label", "facts"),
    [
        ((1.5, 0.5), 0, 0.0, {"first_shown": [12, 12], "same_segment": [0, 6]}),
        ((-0.5, -1.5), 0, 0.0, {"first_shown": [0, 12], "same_segment": [0, 6]}),
        ((-0.1, 0.2), 0, 1.0, {"first_shown": [6, 12], "same_segment": [6, 6]}),
        ((0.5, 0.5), 0, 0.5, {"first_shown": [12, 12], "same_segment": [0, 6]}),
        ((0.5, None), 6, None, {}),
    ],
)
def test_in_both_orders_the_larger_odds_decide_and_a_leaning_towards_the_first_shows(
    episodes, odds, unreadable, label, facts
):
    replies = [f"[Odds]\n{x:.4f}\n\n[Rank]\n{'A > B' if x > 0 else 'B > A'}" if x else "nothing" for x in odds]
    settings = bk_pref.LabelSettings(pairs=6, random_order="both")
    judged = bk_pref.judge(FixedReplies(6 * replies), warm, episodes, settings, seed=0)
    swapped = [pair.swapped for pair in bk_pref.sample_pairs(episodes, settings, 0)]
    assert judged.labels == ([] if label is None else [abs(label - each) if label != 0.5 else 0.5 for each in swapped])
    assert judged.unreadable == unreadable and {True, False} == set(swapped)
    if label is not None:
        assert facts.items() <= labelling.judging_facts(judged, episodes, settings.length).items()


def test_labels_by_nearness_to_what_the_mission_names_agree_with_progress(episodes):
    away, settings = dataset.target_distances(episodes), bk_pref.LabelSettings(pairs=80)
    assert [len(each) for each in away] == [length + 1 for length in episodes.lengths]
    assert {each[-1] for number, each in enumerate(away) if episodes.episode(number).terminated} == {1.0}
    labels = bk_pref.Labels()
    for pair in bk_pref.sample_pairs(episodes, settings, 0):
        gains = [away[number][start] - away[number][start + 5] for number, start in pair[:2]]
        labels.add(episodes, (*pair.first, *pair.second), 5, float(gains[1] > gains[0]))
        labels.orders.append([1.0, -1.0])
    right, decided = labelling.judging_facts(labels, episodes, 5)["progress"]
    assert 20 < right == decided < 80


def test_a_causal_model_ranks_by_its_next_word_and_its_replies_are_replayed_without_it(episodes, tmp_path):
    judge = scripted.LikelierRank(Local(TALKER))
    for pair in bk_pref.sample_pairs(episodes, bk_pref.LabelSettings(pairs=3), 0):
        asked = bk_pref.question(*(episodes.segment(*part, 5) for part in pair[:2]))
        kept, fresh = judge.reply(asked, warm(0)), scripted.LikelierRank(Local(TALKER)).reply(asked, warm(0))
        margin = bk_pref.margin_of(kept)
        assert margin == pytest.approx(bk_pref.margin_of(fresh), abs=1e-3) and (margin > 0) == ("A > B" in kept)
    settings = {"pairs": 12, "random_order": "both", "train": {"network": "small", "epochs": 1, "test_share": 0.3}}
    asked = labelling.Labelling("preferences", tmp_path / "a", "likelihood", TALKER, overrides=settings)
    assert labelling.label(asked, episodes).account.replies == 24 == labelling.estimate(asked, episodes).calls
    replayed = replace(asked, out=tmp_path / "b", maker="recorded", model=judge.model, ledger=asked.ledger_file)
    assert labelling.label(replayed, episodes).account.replies == 0
    for name in ("preferences.json", "judging.json", "network.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with pytest.raises(GroundlabError, match="likelihood is for preferences"):
        labelling.labeller(replace(asked, form="goals", overrides={}), GRID)


@pytest.mark.parametrize(
    ("label", "settings"),
    [(bk_pref.judge, bk_pref.LabelSettings(pairs=3)), (bk_goal.suggest, bk_goal.Settings(rounds=3))],
    ids=["judging", "suggesting"],
)
def test_a_labelling_goes_on_from_the_ledger(data, tmp_path, label, settings):
    ledger, first = Ledger(tmp_path / "ledger.jsonl"), FixedReplies(["[Rank]\nA > B\n- look around"])
    expected = label(Recording(first, ledger, "test"), warm, data, settings, seed=0)
    assert len(first.prompts) == 3
    assert str(label(Recorded("fixed", ledger), warm, data, settings, seed=0)) == str(expected)
    with pytest.raises(GroundlabError, match="holds no reply"):
        label(Recorded("fixed", ledger), warm, data, settings, seed=1)


def test_goals_grow_in_one_conversation(data, tmp_path):
    chat = FixedReplies(["- Find a ball.\n- Look around.", "no list", "- Look around.\n- Go to a key. "])
    library = bk_goal.suggest(chat, warm, data, bk_goal.Settings(rounds=2), seed=0)
    assert library.goals == [["Find a ball.", "Look around."], ["Look around.", "Go to a key."]]
    assert [len(asked) for asked in chat.prompts] == [3, 5, 5]
    assert library.captions[1] in chat.prompts[1][-1]["content"] and "Find a ball." in chat.prompts[1][3]["content"]
    bk_goal.store(tmp_path / "library", library)
    assert bk_goal.load(tmp_path / "library") == library
    names = ("goal_library", "goal_index")
    stored = [json.loads((tmp_path / "library" / f"{name}.json").read_text()) for name in names]
    assert stored == [[[0, 1], [1, 2]], {"Find a ball.": 0, "Look around.": 1, "Go to a key.": 2}]


def test_a_long_conversation_keeps_its_opening_and_the_latest_question(data):
    chat = FixedReplies(["- Look around."])
    bk_goal.suggest(chat, warm, data, bk_goal.Settings(rounds=6, max_prompt_tokens=900), seed=0)
    assert [len(asked) for asked in chat.prompts] != [3, 5, 7, 9, 11, 13]
    for asked in chat.prompts:
        assert asked[:2] == bk_goal.opening() and asked[-1]["role"] == "user"


def test_the_original_as_released_has_all_its_slips():
    released = [e for e in config.load("knowledge", "paper").runs if "as-published" in e.experiments]
    assert len(released) == 3
    for entry in released:
        settings = KnowledgeSettings.model_validate(entry.settings)
        assert all(vars(settings.fidelity).values()) and settings.timeouts == "terminal"


def test_at_quick_the_potentials_of_the_comparison_differ_in_form_and_knowledge_alone():
    knowledge = {"form", "maker", "labelling", "pooling", "share"}
    compared = [
        {name: value for name, value in entry.settings.items() if name not in knowledge}
        for entry in config.load("knowledge", "quick").runs
        if "forms" in entry.experiments and entry.settings.get("form", "none") not in ("none", "ellm", "motif")
        if entry.method == "knowledge"
    ]
    assert len(compared) == 5 and all(each == compared[0] for each in compared)
    assert compared[0]["centred"] and compared[0]["effect"]
