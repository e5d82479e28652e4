"""Published language-model agents, played again: all of them, and every kind of difference is noticed."""

from dataclasses import replace

import numpy as np
import pytest

from groundlab.papers import registry
from groundlab.papers.method import Request
from groundlab.papers.worlds.balrog_replay import EFFECTS, replay
from groundlab.papers.worlds.published import TRAIN, Episodes, load_episodes

PUBLISHED = load_episodes()
EQUAL = {"mission_differs": 0, "outcome_differs": 0, "texts_differ": 0}


def first_of(submission: int, count: int = 5) -> np.ndarray:
    """The first episodes of a submission, one of each kind."""
    mine = PUBLISHED.of(submission)
    return mine[np.unique(PUBLISHED.kind[mine], return_index=True)[1]][:count]


def differences(published: Episodes, chosen: np.ndarray, num_dists: int = 0) -> dict[str, int]:
    counts = replay(published, chosen, num_dists)
    return {name: int(counts[name].sum()) for name in EQUAL}


def changed(name: str, place: int, value: object) -> Episodes:
    """The published episodes with one entry of one array replaced."""
    values = getattr(PUBLISHED, name).copy()
    values[place] = value
    return replace(PUBLISHED, **{name: values})


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
    effects = dict(zip(EFFECTS, replay(made_up, np.array([0]), 0)["effects"][0].tolist(), strict=True))
    assert effects["again"] == 1 and effects["idle"] == 2 and effects["toggled"] == 1 and effects["blocked"] == 0
    assert effects["wall"] >= 2 and sum(effects.values()) == count


@pytest.fixture(scope="module")
def results():
    settings = registry.resolve_settings("balrog", TRAIN, {})
    return {each["policy"]: each for each in registry.evaluate(Request("balrog", TRAIN, 0, settings))}


def test_every_published_step_is_this_engines_and_putnext_fails_at_occupied_cells(results):
    """The figures that the claims worlds-later-balrog-episodes and -putnext quote."""
    facts = results["facts"]["mean"]
    assert (facts["replayed_episodes"], facts["replayed_steps"], facts["mismatches"]) == (850, 55_176, 0)
    names = ("episodes", "successes", "in_hand", "tried_occupied", "drops_occupied", "drops_free")
    assert [results["putnext"]["mean"][name] for name in names] == [160, 7, 104, 89, 3377, 123]


def test_submissions_are_counted_by_kind_and_baselines_play_their_levels(results):
    for number, name in enumerate(PUBLISHED.submissions):
        rows, mine = results[name]["rows"], PUBLISHED.of(number)
        won = [PUBLISHED.success[mine[PUBLISHED.kind[mine] == kind]].mean() for kind in range(5)]
        assert [row["success"] for row in rows] == won
        assert [row["kind"] for row in rows] == list(PUBLISHED.kinds)
        assert results[f"{name}, in all"]["mean"]["in_all"] == pytest.approx(100 * np.mean(won))
        steps = [row["steps"] * row["episodes"] for row in rows]
        assert [sum(row[effect] for effect in EFFECTS) for row in rows] == pytest.approx(steps)
    assert results["bot"]["mean"]["success"] == 1 and results["random"]["mean"]["success"] < 0.5
