"""Replies act in the worlds; an invalid one moves nothing, costs a penalty, and five in a row end the episode."""

import numpy as np
import pytest

from groundlab.papers.reasoning.evaluation import make_env
from groundlab.papers.reasoning.settings import ReplySettings
from groundlab.papers.reasoning.text_env import ACTIONS, HIDDEN
from groundlab.worlds import text

from .conftest import WORLD

SETTINGS = ReplySettings(num_dists=3, context_window=3)


def play(replies_of, envs=6, world=WORLD):
    """(rows, all rewards) of one episode an environment; `replies_of(env, number)` says what is answered."""
    text_env = make_env(world, envs, False, SETTINGS)
    text_env.reset(range(envs), range(envs))
    rows, rewards, active, number = {}, [[] for _ in range(envs)], list(range(envs)), 0
    while active:
        results = text_env.step(active, [replies_of(env, number) for env in active])
        for env, result in zip(active, results, strict=True):
            rewards[env].append(result.reward)
            if result.row is not None:
                rows[env] = result.row
        active, number = [env for env in active if env not in rows], number + 1
    return [rows[env] for env in range(envs)], rewards


def walk(env, number):
    return ACTIONS[np.random.default_rng([env, number]).choice([0, 1, 2], p=[0.2, 0.2, 0.6])]


def stutter(env, number):
    """The same walk, with an invalid reply before every other step, in environments 0, 2, 4."""
    if env % 2:
        return walk(env, number)
    return "hm" if number % 3 == 1 else walk(env, number - (number + 1) // 3)


def test_a_reasoning_episode_is_judged_as_by_the_original():
    text_env = make_env(WORLD, 1, True, SETTINGS)
    text_env.reset([0], [3])
    for reply, valid in [
        ("I go.\nfinal answer: go forward", True),
        ("final answer: Go Forward", False),
        ("Final answer: go forward", False),
        ("final answer: go forward.", False),
        ("go forward", False),
        ("final answer: x final answer: turn left  ", True),
        ("final answer:turn left", True),
    ]:
        assert text_env.step([0], [reply]) == [(0.0 if valid else -1.0, valid, None)], reply


def test_limit_and_penalty_are_settings():
    text_env = make_env(WORLD, 1, False, ReplySettings(invalid_penalty=-0.1, invalid_limit=1))
    text_env.reset([0])
    [result] = text_env.step([0], ["?"])
    assert result.reward == -0.1 and result.row is not None


def test_an_invalid_reply_moves_neither_the_world_nor_its_clock_nor_others():
    plain, _ = play(walk)
    stuttered, rewards = play(stutter)
    assert any(row["success"] for row in plain) and any(row["invalid"] for row in stuttered)
    for env, (row, other) in enumerate(zip(plain, stuttered, strict=True)):
        assert all(other[name] == row[name] for name in ("success", "return", "steps"))
        assert other["length"] == other["steps"] + other["invalid"] == len(rewards[env])
        assert sum(reward == -1 for reward in rewards[env]) == other["invalid"]


def test_an_episode_ends_by_its_success_or_its_time_or_the_fifth_invalid_reply_in_a_row():
    (success, *_), _ = play(walk, world="Reasoning-GoTo-v0")
    (spun,), _ = play(lambda env, number: "turn left" if number else "pick up", envs=1, world="Reasoning-Pickup-v0")
    (refused,), (penalties,) = play(lambda env, number: "go forward" if number == 4 else "?", envs=1)
    assert success["steps"] <= 64
    assert (spun["success"], spun["return"], spun["steps"], spun["length"]) == (False, 0.0, 64, 64)
    assert (refused["success"], refused["return"]) == (False, 0.0)
    assert (refused["steps"], refused["invalid"], refused["length"]) == (1, 9, 10)
    assert penalties == [-1.0] * 4 + [0.0] + [-1.0] * 5


def test_the_reward_of_a_success_is_the_worlds_own():
    rows, _ = play(walk, envs=20)
    won = [row for row in rows if row["success"]]
    assert won
    for row in won:
        assert row["return"] == pytest.approx(1 - 0.9 * row["steps"] / 64)


def test_the_model_reads_what_its_environment_shows():
    text_env = make_env(WORLD, 2, False, SETTINGS)
    text_env.reset([0, 1], [3, 4])
    text_env.step([0, 1], ["turn left", "go forward please"])
    envs = text_env._envs  # the same worlds, looked at without conversations
    shown = text.describe_batch(envs.save()["images"])
    first, second = text_env.messages(0), text_env.messages(1)
    assert [message["role"] for message in first] == ["system", "user", "assistant", "user"]
    assert first[2]["content"] == "turn left" and first[3]["content"] == "\n".join(shown[0])
    assert second[2]["content"] == HIDDEN and second[3]["content"].startswith("Invalid")
    assert second[1]["content"] == "\n".join(shown[1])


@pytest.mark.parametrize("window", [1, 2, 5])
def test_the_window_holds_the_last_observations_and_the_replies_between_them(window):
    whole, part = (make_env(WORLD, 1, False, ReplySettings(context_window=each)) for each in (9, window))
    for text_env in (whole, part):
        text_env.reset([0], [3])
    for reply in ("turn left", "turn right", "?", "go forward", "turn left", "turn left"):
        whole.step([0], [reply])
        part.step([0], [reply])
        system, *turns = whole.messages(0)
        assert part.messages(0) == [system, *turns[-(2 * window - 1) :]]


@pytest.mark.parametrize(("hidden", "shown"), [(True, HIDDEN), (False, "nonsense")])
def test_an_invalid_reply_is_hidden_or_shown(hidden, shown):
    text_env = make_env(WORLD, 1, False, ReplySettings(hide_invalid=hidden))
    text_env.reset([0])
    text_env.step([0], ["nonsense"])
    assert text_env.messages(0)[2]["content"] == shown


def test_an_episode_that_begins_forgets_the_one_before():
    text_env = make_env(WORLD, 2, False, SETTINGS)
    text_env.reset([0, 1], [3, 4])
    before = text_env.messages(1)
    text_env.step([0, 1], ["?", "?"])
    text_env.reset([0])
    assert len(text_env.messages(0)) == 2 and len(text_env.messages(1)) == len(before) + 2
    results = [text_env.step([0, 1], ["?", "?"]) for _ in range(5)]
    ended = [[result.row is not None for result in both] for both in results]
    assert [place for place, (first, _) in enumerate(ended) if first] == [4]
    assert next(place for place, (_, second) in enumerate(ended) if second) == 3


def test_open_episodes_go_on_from_what_was_stored():
    whole, resumed = (make_env(WORLD, 3, True, SETTINGS) for _ in range(2))
    whole.reset([0, 1, 2], [5, 6, 7])
    whole.step([0, 1, 2], ["final answer: turn left", "hm", "final answer: go forward"])
    resumed.load_state(whole.state())
    for text_env in (whole, resumed):
        text_env.step([1, 2], ["hm", "final answer: turn right"])
        text_env.reset([2])
    assert whole.state()["episodes.json"] == resumed.state()["episodes.json"]
    assert whole.state_digests() == resumed.state_digests()
    assert [whole.messages(env) for env in range(3)] == [resumed.messages(env) for env in range(3)]


def test_equal_states_have_equal_names_and_time_does_not_count():
    text_env = make_env(WORLD, 3, False, SETTINGS)
    text_env.reset([0, 1, 2], [5, 5, 6])
    first, second, other = text_env.state_digests()
    assert first == second != other
    text_env.step([0], ["turn left"])
    assert text_env.state_digests()[0] != first
    text_env.step([0], ["turn right"])
    assert text_env.state_digests()[:2] == [first, second]
