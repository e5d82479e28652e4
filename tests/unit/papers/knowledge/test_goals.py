"""BK-Goal on a laptop: sentences instead of texts, and thresholds that belong to the encoder."""

import numpy as np
import pytest

from groundlab.papers.knowledge import bk_goal, labelling
from groundlab.papers.knowledge.bk_goal import GoalLibrary, GoalPotential, Sentences
from groundlab.papers.knowledge.captions import MINIGRID_ACTIONS, observations, trajectory
from groundlab.papers.knowledge.dataset import windows_of

LIBRARY = GoalLibrary(["a ball", "a wall", "a key"], [["Go to the ball."], ["Turn away."], ["Go to the key."]])


class Letters:
    """An encoder that counts letters, and the texts that it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked += texts
        letters = "abcdefghijklmnoprstuvwxy "
        counts = np.array([[text.lower().count(letter) + 0.01 for letter in letters] for text in texts])
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def windows():
    data = labelling.dataset()
    long = [number for number, length in enumerate(data.lengths) if length >= 30]
    parts = [data.segment(number, start, bk_goal.HORIZON) for number in long for start in (0, 1, 9)]
    return windows_of(parts)


def unit(vector):
    return vector / np.linalg.norm(vector)


def test_a_stretch_in_sentences_is_the_mean_of_all_that_is_seen_and_done(windows):
    embed = Letters()
    read = Sentences(embed, MINIGRID_ACTIONS).windows(windows)
    for number in range(0, len(windows.actions), 17):
        lines, actions = observations(windows.views[number]), windows.actions[number]
        said = [part.strip(".") for line in lines[:-1] for part in line.split(". ")]
        said += [f"You choose the action: {MINIGRID_ACTIONS[action]}" for action in actions[:-1]]
        np.testing.assert_allclose(read.history[number], unit(Letters()(said).sum(0)), atol=1e-5)
        last = [part.strip(".") for line in lines[-2:] for part in line.split(". ")]
        last.append(f"You choose the action: {MINIGRID_ACTIONS[actions[-1]]}")
        np.testing.assert_allclose(read.current[number], unit(Letters()(last).sum(0)), atol=1e-5)


def test_a_library_and_a_stretch_of_play_are_read_alike(windows):
    read = Sentences(Letters(), MINIGRID_ACTIONS)
    lines = [observations(views) for views in windows.views]
    texts = [trajectory(line[:-1], row[:-1]) for line, row in zip(lines, windows.actions.tolist(), strict=True)]
    np.testing.assert_allclose(read.windows(windows).history, read.texts(texts), atol=1e-5)


def test_each_sentence_is_encoded_once(windows):
    embed = Letters()
    read = Sentences(embed, MINIGRID_ACTIONS)
    half = type(windows)._make(field[::2] for field in windows)
    for some in (half, windows, half):
        read.windows(some)
    assert len(embed.asked) == len(set(embed.asked))


def test_what_is_remembered_of_views_may_be_forgotten(windows, monkeypatch):
    read = Sentences(Letters(), MINIGRID_ACTIONS)
    first = read.windows(windows)
    monkeypatch.setattr("groundlab.papers.knowledge.bk_goal._MOST_VIEWS", 10)
    np.testing.assert_array_equal(read.windows(windows).current, first.current)


@pytest.mark.parametrize("pooling", ["texts", "sentences"])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_threshold_calibrated_on_a_dataset_lets_a_share_of_its_windows_through(pooling, share):
    data, potential = labelling.dataset(), GoalPotential(LIBRARY, Letters(), threshold=2.0, pooling=pooling)
    bk_goal.calibrate(potential, data, share)
    rng = np.random.default_rng(1)
    windows = windows_of(data.draw(1500, bk_goal.HORIZON, rng))
    assert np.mean(potential(windows) > 0) == pytest.approx(share, abs=0.05)
