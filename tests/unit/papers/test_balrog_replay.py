"""Published language-model agents, played again: all of them, and every kind of difference is noticed."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from groundlab.papers import registry
from groundlab.papers.method import Request
from groundlab.papers.worlds.balrog_replay import EFFECTS, Replay, replay
from groundlab.papers.worlds.published import TRAIN, Episodes, load_episodes

PUBLISHED = load_episodes()
EQUAL = {"mission_differs": 0, "outcome_differs": 0, "texts_differ": 0}


def first_of(submission: int, count: int = 5) -> np.ndarray:
    """The first episodes of a submission, one of each kind."""
    mine = PUBLISHED.of(submission)
    return mine[np.unique(PUBLISHED.kind[mine], return_index=True)[1]][:count]


@cache
def replayed(submission: int) -> Replay:
    """All episodes of a submission, once for all tests."""
    return replay(PUBLISHED, PUBLISHED.of(submission), int(PUBLISHED.num_dists[submission]))


def differing(counts: Replay) -> dict[str, int]:
    return {name: int(getattr(counts, name).sum()) for name in EQUAL}


def differences(published: Episodes, chosen: np.ndarray, num_dists: int = 0) -> dict[str, int]:
    return differing(replay(published, chosen, num_dists))


def changed(name: str, place: int, value: object) -> Episodes:
    """The published episodes with one entry of one array replaced."""
    values = getattr(PUBLISHED, name).copy()
    values[place] = value
    return replace(PUBLISHED, **{name: values})


def test_all_published_episodes_are_there():
    assert len(PUBLISHED.seed) == 850 and len(PUBLISHED.actions) == len(PUBLISHED.texts) == 55_176
    assert len(PUBLISHED.submissions) == 17 and all(len(PUBLISHED.of(number)) == 50 for number in range(17))
    eight = [name for name, count in zip(PUBLISHED.submissions, PUBLISHED.num_dists, strict=True) if count]
    assert eight == ["LLM/20241115_naive-Qwen2.5-7B-it"] and set(PUBLISHED.num_dists) == {0, 8}
    assert len(set(zip(PUBLISHED.kind, PUBLISHED.seed, strict=True))) == 850


@pytest.mark.parametrize("submission", range(17))
def test_every_published_step_is_this_engines(submission):
    counts = replayed(submission)
    assert len(counts.chosen) == 50 and differing(counts) == EQUAL


def test_the_crowded_submission_replays_among_eight_distractors_only():
    (crowded,) = np.flatnonzero(PUBLISHED.num_dists)
    chosen = first_of(crowded)
    assert differences(PUBLISHED, chosen, 8) == EQUAL
    without = differences(PUBLISHED, chosen, 0)
    assert without["mission_differs"] >= 3 and without["texts_differ"] > 100


def test_another_seed_action_text_or_outcome_is_noticed():
    chosen = first_of(3)
    episode = int(chosen[0])
    start = PUBLISHED.steps(episode).start
    wrong = differences(changed("seed", episode, PUBLISHED.seed[episode] + 1), chosen)
    assert wrong["texts_differ"] > 0
    turned = 1 if PUBLISHED.actions[start] != 1 else 0
    assert differences(changed("actions", start, turned), chosen)["texts_differ"] > 0
    assert differences(changed("texts", start, PUBLISHED.texts[start] ^ 1), chosen) == {**EQUAL, "texts_differ": 1}
    flipped = changed("success", episode, not PUBLISHED.success[episode])
    assert differences(flipped, chosen) == {**EQUAL, "outcome_differs": 1}


def test_what_a_step_did_is_read_off_the_grid():
    """A wall is walked into, a turn taken back, and nothing is picked up, dropped or toggled."""
    script = [1, 0, 3, 4, 5] + [2] * 8
    count = len(script)
    one = {"submission": 0, "kind": 0, "seed": 3, "success": False, "invalid": 0, "lengths": count}
    many = {"actions": np.array(script), "texts": np.zeros(count, int), "tokens": np.zeros((1, 2), int)}
    made_up = replace(PUBLISHED, mission=("",), **many, **{name: np.array([value]) for name, value in one.items()})
    effects = dict(zip(EFFECTS, replay(made_up, np.array([0]), 0).effects[0].tolist(), strict=True))
    assert effects["again"] == 1 and effects["idle"] == 2 and effects["toggled"] == 1 and effects["blocked"] == 0
    assert effects["wall"] >= 2 and sum(effects.values()) == count


def test_putnext_fails_at_occupied_cells():
    """The figures that the claim worlds-later-balrog-putnext quotes, over all submissions without distractors."""
    totals = np.zeros(6, int)
    for number in np.flatnonzero(PUBLISHED.num_dists == 0):
        counts = replayed(int(number))
        own = PUBLISHED.kind[counts.chosen] == PUBLISHED.kinds.index("putnext")
        won = counts.success[own].sum(), counts.held[own].sum(), counts.held_and_blocked[own].sum()
        totals += np.array([own.sum(), *won, *counts.drops[own].sum(axis=0)])
    assert totals.tolist() == [160, 7, 104, 89, 3377, 123]


def test_the_evaluation_counts_what_the_replay_finds():
    settings = registry.resolve_settings("balrog", TRAIN, {"episodes": 1})
    results = {each["policy"]: each for each in registry.evaluate(Request("balrog", TRAIN, 0, settings))}
    facts = results["facts"]["mean"]
    assert facts["mismatches"] == 0 and facts["replayed_episodes"] == 85
    assert results["putnext"]["mean"]["episodes"] == 16
    for number, name in enumerate(PUBLISHED.submissions):
        rows = results[name]["rows"]
        assert [row["success"] for row in rows] == PUBLISHED.success[first_of(number)].astype(float).tolist()
        assert [row["kind"] for row in rows] == list(PUBLISHED.kinds)
        assert results[f"{name}, in all"]["mean"]["in_all"] == 20 * sum(row["success"] for row in rows)
        assert all(sum(row[effect] for effect in EFFECTS) == row["steps"] * row["episodes"] for row in rows)
    assert results["bot"]["mean"]["success"] == 1 and results["random"]["mean"]["success"] < 0.5
