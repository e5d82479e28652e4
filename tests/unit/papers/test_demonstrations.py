"""Exported demonstrations hold what the agent read, saw and earned."""

import json
import re

import numpy as np
import pytest
from tiny_models import write_t5
from typer.testing import CliRunner

from groundlab import cli, worlds
from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Checkpoint, RunSpec
from groundlab.core.storage import digest_bytes
from groundlab.papers import registry
from groundlab.papers.demonstrations import play
from groundlab.papers.worlds import bot

WORLD, FIRST = "BabyAI-GoToLocal-v0", TRAINING_LAYOUTS[0]
MIXED = "BabyAI-MixedTrainLocal-v0"
LAYOUTS = range(FIRST, FIRST + 5)


@pytest.fixture(scope="module")
def episodes():
    return list(play(WORLD, LAYOUTS, "bot"))


def outcomes(episodes):
    return [(each[0]["seed"], len(each), each[0]["success"], each[0]["return"]) for each in episodes]


def expected(rows):
    return [(row["layout"], row["steps"], row["success"], row["return"]) for row in rows]


def test_the_bots_episodes_are_those_that_it_is_measured_by(episodes):
    assert outcomes(episodes) == expected(bot.play(WORLD, list(LAYOUTS)))


def test_each_step_holds_what_was_in_view_before_it_and_what_the_rest_earned(episodes):
    env = worlds.GridEnv(WORLD)
    for steps in episodes:
        view, _ = env.reset(seed=steps[0]["seed"])
        for number, step in enumerate(steps):
            np.testing.assert_array_equal(step["image"], view["image"])
            assert (step["direction"], step["mission"]) == (view["direction"], view["mission"])
            assert step["mission"] in step["prompt"] and step["caption"] in step["prompt"]
            assert step["return"] == pytest.approx(sum(each["reward"] for each in steps[number:]))
            view, reward, terminated, truncated, _ = env.step(step["action"])
            assert (step["reward"], step["terminated"], step["truncated"]) == (reward, terminated, truncated)
        assert terminated or truncated


@pytest.mark.parametrize("agent", ["random", "reflex"])
def test_agents_play_mixed_worlds_kind_by_kind_and_again_alike(agent):
    played = list(play(MIXED, LAYOUTS, agent))
    assert [steps[0]["world"] for steps in played] == [f"{MIXED}/{kind}" for kind in worlds.find(MIXED).kinds]
    assert played == list(play(MIXED, LAYOUTS, agent))


def test_a_trained_agents_episodes_are_those_that_it_is_evaluated_by(tmp_path):
    from groundlab.papers.glam.ppo import make_learner

    given = {"model": str(write_t5(tmp_path)), "layouts": "0-4", "tests": [], "num_envs": 2, "first_finished": 0}
    spec = RunSpec(method="glam", world=WORLD, seed=0, settings=registry.resolve_settings("glam", WORLD, given))
    learner = make_learner(spec)
    checkpoint = Checkpoint(1, spec, learner.state())
    (greedy,) = [each["rows"] for each in learner.evaluate() if each["policy"] == "greedy"]
    assert outcomes(play(WORLD, range(5), "glam", checkpoint=checkpoint)) == expected(greedy)
    with pytest.raises(GroundlabError, match="the checkpoint is of glam; give --agent glam"):
        list(play(WORLD, range(5), "bot", checkpoint=checkpoint))


@pytest.mark.parametrize(
    ("world", "agent", "line"),
    [
        (WORLD, "bott", "unknown agent 'bott'; did you mean 'bot'"),
        (WORLD, "glam", "glam needs a trained agent; give --checkpoint FOLDER of a run"),
        ("SimpleDoorKey", "random", "SimpleDoorKey has no words"),
        ("Crafter-Text-Reward", "random", "expected a world of cells, got Crafter-Text-Reward; export a BabyAI"),
    ],
)
def test_what_cannot_be_demonstrated_is_one_clear_line(world, agent, line):
    with pytest.raises(GroundlabError, match=re.escape(line)):
        list(play(world, range(FIRST, FIRST + 1), agent))


def test_the_command_writes_steps_and_a_card_and_never_over_them(tmp_path, episodes):
    command = ["export", "demonstrations", "--world", WORLD, "--episodes", "5", "--out", str(tmp_path / "bot")]
    said = CliRunner().invoke(cli.app, command)
    assert said.exit_code == 0 and "5 of 5 episodes succeed" in said.output
    file = tmp_path / "bot" / "steps.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows == [{"episode": number, **step} for number, steps in enumerate(episodes) for step in steps]
    card = json.loads((tmp_path / "bot" / "card.json").read_text())
    assert card["seeds"] == list(LAYOUTS) and card["steps"] == len(rows) and card["world"] == WORLD
    assert card["sha256"] == {"steps.jsonl": digest_bytes(file.read_bytes())}
    again = CliRunner().invoke(cli.app, command)
    assert isinstance(again.exception, GroundlabError) and "holds demonstrations" in str(again.exception)
