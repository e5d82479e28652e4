"""Windows hold the last steps of the running episode, as the original's did, and nothing from after their last view."""

import numpy as np

from groundlab.learning.options import Quirks
from groundlab.papers.knowledge.observations import History, channels_first, distinct, normalise

LENGTHS = (3, 5)


def play(history, steps):
    """The recording's stub environments: env e's t-th view of episode p shows 100 (e + 1) + 10 p + t."""
    episode, at = np.zeros(2, int), np.zeros(2, int)
    history.start(100.0 * np.array([1, 2]))
    for call in range(1, steps + 1):
        actions = np.array([call % 3, 2 * call % 3])
        history.act(actions)
        yield actions, history.windows()
        at += 1
        ended = at == np.array(LENGTHS)
        episode, at = episode + ended, np.where(ended, 0, at)
        history.observe(100.0 * np.array([1, 2]) + 10 * episode + at, ended)


def recorded(golden, name):
    return np.concatenate([np.array(rollout[name]) for rollout in golden["train"]["train_loop"]["rollouts"]])


def test_windows_are_the_originals_where_asked_to_be(golden):
    seen = list(play(History(2, 2, padding=None, quirks=Quirks(shared_clock=True)), 18))
    views = np.stack([windows.views for _, windows in seen])
    actions = np.stack([np.concatenate([windows.actions, taken[:, None]], 1) for taken, windows in seen])
    np.testing.assert_array_equal(views, recorded(golden, "moving_obs_first_pixel"))
    np.testing.assert_array_equal(actions, recorded(golden, "moving_actions"))
    np.testing.assert_array_equal(np.stack([w.times for _, w in seen]), recorded(golden, "moving_timesteps"))


def test_every_environment_has_its_own_clock(golden):
    times = np.stack([windows.times[:, -1] for _, windows in play(History(2, 2), 12)])
    assert times[:, 0].tolist() == [0, 1, 2] * 4
    assert times[:, 1].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]
    assert not np.array_equal(times, recorded(golden, "moving_timesteps")[:12, :, -1])


def test_a_window_does_not_know_the_action_that_is_about_to_be_taken():
    one, other = History(2, 3), History(2, 3)
    for history, action in ((one, 1), (other, 2)):
        history.start(np.zeros(2))
        history.act(np.full(2, action))
    for first, second in zip(one.windows(), other.windows(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_the_view_that_a_time_limit_cuts_off_ends_a_window_of_its_own_episode():
    history = History(1, 2)
    history.start(np.array([1.0]))
    history.act(np.array([2]))
    cut = history.after(np.array([5.0]))
    history.observe(np.array([9.0]), np.array([True]))
    assert cut.views.tolist() == [[1.0, 1.0, 5.0]] and cut.actions.tolist() == [[6, 2]] and cut.times[0, -1] == 1
    assert history.windows().views.tolist() == [[9.0, 9.0, 9.0]]


def test_the_policys_view_is_divided_by_channel(golden):
    episode = golden["minigrid"]["minigrid_episodes"][0]
    image = np.array(episode["reset_image"], np.uint8)
    np.testing.assert_array_equal(channels_first(image), image.transpose(2, 0, 1))
    expected = np.array(golden["minigrid"]["wrapped_reset_image"])
    divided = normalise(image)
    assert divided.dtype == np.float32 and divided.shape == expected.shape
    np.testing.assert_allclose(divided, expected, atol=1e-6)


def test_distinct_views_and_which_of_them_each_is_make_the_views_again():
    views = np.random.default_rng(0).integers(0, 2, (60, 1, 2, 3), np.uint8)  # rows that end in zeros among them
    first, which = distinct(views)
    np.testing.assert_array_equal(views[first][which], views)
    assert len(first) == len(np.unique(views, axis=0)) < 60
    assert (np.diff(first) > 0).all()
    assert all((views[number] != views[:number]).any((1, 2, 3)).all() for number in first)
