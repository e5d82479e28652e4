"""BALROG's test for our own agents: the same levels under every name, refusals in one line, and all kinds counted."""

import json

import pytest
import runs

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import load_checkpoint
from groundlab.papers import protocols
from groundlab.papers.worlds import bot

KINDS = ["goto", "pickup", "open", "putnext", "pick_up_seq_go_to"]


def test_a_kind_is_the_same_level_under_each_of_its_names():
    for kind, names in protocols.KINDS.items():
        for seed in (0, 7):
            levels = []
            for name in names:
                env = worlds.GridEnv(name, num_dists=0)
                observation, _ = env.reset(seed=seed)
                levels.append((observation["mission"], env.grids.cells.tobytes(), int(env.grids.max_steps[0])))
            assert len(set(levels)) == 1, kind
        assert levels[0][2] == (64 if kind in ("goto", "pickup") else 128)


def test_ten_episodes_of_each_kind_with_intervals_and_rows():
    outcome = protocols.play("balrog", "chat")
    (policy,) = outcome["policies"]
    assert [each["kind"] for each in policy["kinds"]] == KINDS and outcome["left_out"] == {}
    assert all(each["episodes"] == 10 and each["low"] <= each["success"] <= each["high"] for each in policy["kinds"])
    assert policy["in_all"]["episodes"] == len(policy["rows"]) == 50
    rows = [row for row in policy["rows"] if row["kind"] == "putnext"]
    putnext = policy["kinds"][3]
    assert putnext["success"] == 10 * sum(row["success"] for row in rows) and putnext["world"].endswith("/putnext")
    assert json.loads(json.dumps(outcome)) == outcome


def test_it_is_played_without_distractors_and_solved_by_the_bot_but_not_by_chance():
    rows = protocols.play("balrog", "bot", layouts="0-3")["policies"][0]["rows"]
    steps = {row["kind"]: [each["steps"] for each in rows if each["kind"] == row["kind"]] for row in rows}
    for kind, played in steps.items():
        world = f"BabyAI-MixedTrainLocal-v0/{kind}"
        assert played == [row["steps"] for row in bot.play(world, [0, 1, 2, 3], 0)], kind
    assert steps["open"] != [row["steps"] for row in bot.play("BabyAI-MixedTrainLocal-v0/open", [0, 1, 2, 3])]
    chance = protocols.play("balrog", "random", layouts="0-3")["policies"][0]["in_all"]["success"]
    assert all(row["success"] for row in rows) and chance < 50


def test_kinds_that_take_more_actions_than_an_agent_has_are_left_out_and_said_so():
    outcome = protocols.play("balrog", "random", {"actions": 4}, layouts="0")
    assert set(outcome["left_out"]) == {"open", "putnext"}
    assert outcome["left_out"]["open"] == "open takes 6 actions, and it has 4"
    assert [each["kind"] for each in outcome["policies"][0]["kinds"]] == ["goto", "pickup", "pick_up_seq_go_to"]
    with pytest.raises(GroundlabError, match="random cannot play balrog: goto takes 3 actions, and it has 2"):
        protocols.play("balrog", "random", {"actions": 2})


@pytest.mark.parametrize(
    ("protocol", "method", "line"),
    [
        ("balrogg", "random", "did you mean 'balrog'"),
        ("balrog", "always", "always cannot play balrog: it does not run on"),
        ("balrog", "facts", "facts cannot play balrog: it does not run on"),
        ("balrog", "knowledge", "knowledge cannot play balrog"),
        ("balrog-corrected", "glam", "glam does not read BALROG's prompt"),
    ],
)
def test_who_cannot_play_is_told_why_in_one_line(protocol, method, line):
    with pytest.raises(GroundlabError, match=line) as error:
        protocols.play(protocol, method)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "more"), [("symbolic", {"recurrence": 4}), ("glam", {"fixed_mission": ""})])
def test_an_agent_trained_elsewhere_plays_it_from_its_checkpoint(method, more, tmp_path):
    tiny = {"num_envs": 2, "frames_per_env": 4, "frames": 8, "layouts": "0"}
    trained = load_checkpoint(runs.executed(tmp_path, method, "BabyAI-GoToLocalS8N4-v0", **tiny, **more))
    outcome = protocols.play("balrog", method, dict(trained.spec.settings), "0", 0, trained)
    assert {policy["policy"] for policy in outcome["policies"]} >= {"sampled"}
    for policy in outcome["policies"]:
        assert [each["kind"] for each in policy["kinds"]] == KINDS and policy["in_all"]["episodes"] == 5


@pytest.mark.slow
def test_an_agent_that_answers_in_words_plays_it_in_its_own_worlds():
    outcome = protocols.play("balrog", "direct-zero-shot", {"max_new_tokens": 1}, layouts="0")
    (policy,) = outcome["policies"]
    assert [each["world"] for each in policy["kinds"]][:2] == ["Reasoning-GoTo-v0", "Reasoning-Pickup-v0"]
    assert policy["in_all"]["episodes"] == 5
