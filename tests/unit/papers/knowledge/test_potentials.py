"""Each form of knowledge gives the potential that the paper's code gave, and fails in one clear line."""

import json

import numpy as np
import pytest
from knowledge_data import known_views

from groundlab.core.errors import GroundlabError
from groundlab.papers.knowledge import bk_goal
from groundlab.papers.knowledge.bk_code import CodePotential
from groundlab.papers.knowledge.bk_goal import GoalLibrary, GoalPotential
from groundlab.papers.knowledge.observations import Windows
from groundlab.papers.knowledge.potentials import Adjusted, OraclePotential, RandomPotential, Zero

HEAD = "def compute_reward(obs, past_obs, past_actions):\n    "


def letters(texts):
    """The recording's embedder: counts of letters by code, modulo 16."""
    counts = np.array([np.bincount([ord(c) % 16 for c in text.lower()], minlength=16) for text in texts], float)
    return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def windows():
    views = known_views()
    chosen = np.random.default_rng(0).integers(0, len(views), (50, 6))
    actions = np.random.default_rng(1).integers(0, 7, (50, 5))
    return Windows(views[chosen], actions, np.tile(np.arange(6), (50, 1)))


@pytest.fixture
def library(golden):
    facts = golden["misc"]["goal"]
    return GoalLibrary(facts["keys"], [[facts["goals"][index] for index in goals] for goals in facts["goal_library"]])


@pytest.fixture
def recorded_windows(golden, monkeypatch):
    """The recording's windows: it kept no views, so captions stand for them."""
    monkeypatch.setattr(bk_goal, "observations", lambda captions: captions.tolist())
    facts = golden["misc"]["goal"]
    actions = np.array([row[:-1] for row in facts["actions"]])
    return Windows(np.array(facts["descriptions"], dtype=object), actions, np.zeros((len(actions), 5), np.int64))


def test_goals_give_the_potentials_that_the_original_gave(golden, library, recorded_windows):
    for threshold, expected in golden["misc"]["goal"]["results"].items():
        phi = GoalPotential(library, letters, float(threshold))(recorded_windows)
        np.testing.assert_allclose(phi, expected, atol=1e-6)


def test_the_nearest_captions_are_the_originals(golden, library):
    facts = golden["misc"]["goal"]
    potential = GoalPotential(library, letters)
    assert potential.nearest(letters(facts["query_captions"])).tolist() == facts["top3_indices_ascending"]


def test_goals_that_the_nearest_captions_do_not_offer_count_for_nothing(golden, library, recorded_windows):
    facts = golden["misc"]["goal"]
    one = GoalPotential(GoalLibrary(library.captions, [*library.goals[:3], facts["transition_captions"]]), letters)
    other = GoalPotential(GoalLibrary(library.captions, [*library.goals[:3], []]), letters)
    # products with more goals, and with fewer
    np.testing.assert_allclose(one(recorded_windows), other(recorded_windows), atol=1e-6)


def test_a_library_without_goals_is_one_clear_line():
    with pytest.raises(GroundlabError, match="label some captions first"):
        GoalPotential(GoalLibrary(["a"], [[]]), letters)


def test_a_program_sees_whole_codes_by_default_and_the_originals_fractions_on_request(windows, sandbox):
    source = HEAD + 'return float(np.sum(obs[0] == OBJECT_TO_IDX["wall"])), {}'
    walls = (windows.views[:, -1, ..., 0] == 2).sum((1, 2))
    assert walls.any()
    np.testing.assert_array_equal(CodePotential(source, sandbox)(windows), walls)
    assert not CodePotential(source, sandbox, normalised=True)(windows).any()


def test_a_program_sees_the_actions_before_the_present_view(windows, sandbox):
    phi = CodePotential(HEAD + "return 10.0 * past_actions[0] + past_actions[-1], {}", sandbox)(windows)
    np.testing.assert_array_equal(phi, 10 * windows.actions[:, 0] + windows.actions[:, -1])


def test_failures_are_counted_by_kind_for_the_manifest_and_through_a_checkpoint(windows, sandbox):
    source = HEAD + "assert past_actions[-1] != 2\n    return 1.0, {}"
    potential = CodePotential(source, sandbox, most_failures=1.0)
    failed = int((potential(windows) == 0).sum())
    assert potential.state() == {"windows": 50, "failed": {"error": failed}} and failed > 0
    later = CodePotential(source, sandbox, most_failures=1.0)
    later.load_state(json.loads(json.dumps(potential.state())))
    later(windows)
    notes = Adjusted(later, negated=True).notes()["sandbox"]
    assert (notes["windows"], notes["failed"]) == (100, {"error": 2 * failed})
    assert notes["protections"] and notes["batches_put_again"] == 0


def test_a_program_that_fails_too_often_ends_the_run_in_one_line(windows, sandbox):
    potential = CodePotential(HEAD + "return 1 / (past_actions[-1] - 2), {}", sandbox)
    assert (windows.actions[:, -1] == 2).any()
    with pytest.raises(GroundlabError, match=r"fails on \d+% of 200 windows .*choose another"):
        for _ in range(4):
            potential(windows)


def test_the_oracle_knows_what_is_in_view(windows):
    phi = OraclePotential([("ball", "red"), ("box", "blue")])(windows)
    for value, view in zip(phi, windows.views[:, -1], strict=True):
        kinds = {tuple(cell[:2]) for cell in view.reshape(-1, 3).tolist()}
        assert value == float(bool(kinds & {(6, 0), (7, 2)}))


def test_a_random_potential_belongs_to_the_view_and_the_seed(windows):
    one = RandomPotential(0)(windows)
    views = {view.tobytes(): value for view, value in zip(windows.views[:, -1], one, strict=True)}
    assert [views[view.tobytes()] for view in windows.views[:, -1]] == one.tolist()
    assert len(set(views.values())) == len(views) and one.min() >= 0 and one.max() < 1 and one.std() > 0.1
    assert not np.array_equal(one, RandomPotential(1)(windows))
    assert not Zero()(windows).any()
