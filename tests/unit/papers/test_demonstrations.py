"""Exported demonstrations hold what the agent read, saw and earned, and are read back by the packages they are for."""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tiny_models import write_t5
from typer.testing import CliRunner

from groundlab import cli, worlds
from groundlab.assets import read_text
from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Checkpoint, RunSpec
from groundlab.core.storage import digest_bytes
from groundlab.papers import demonstrations as demonstrated
from groundlab.papers import registry
from groundlab.papers.demonstrations import croissant, demonstrations, formats, replay
from groundlab.papers.worlds import bot

WORLD, FIRST = "BabyAI-GoToLocal-v0", TRAINING_LAYOUTS[0]
MIXED = "BabyAI-MixedTrainLocal-v0"
LAYOUTS = range(FIRST, FIRST + 5)


def needs(package):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"needs {package}: pip install {package}")


@pytest.fixture(scope="module")
def episodes():
    return list(demonstrations(WORLD, LAYOUTS, "bot"))


def test_the_bots_episodes_are_those_that_it_is_measured_by(episodes):
    rows = bot.play(WORLD, list(LAYOUTS))
    told = [(each.layout, len(each.actions), each.success, each.rewards.sum()) for each in episodes]
    assert told == [(row["layout"], row["steps"], row["success"], row["return"]) for row in rows]


def test_actions_lead_from_one_image_to_the_next(episodes):
    env = worlds.GridEnv(WORLD)
    for each in episodes:
        seen = [env.reset(seed=each.layout)[0]] + [env.step(int(action))[0] for action in each.actions]
        np.testing.assert_array_equal(each.images, [view["image"] for view in seen])
        np.testing.assert_array_equal(each.directions, [view["direction"] for view in seen])
        assert {view["mission"] for view in seen} == {each.mission}


def test_a_prompt_holds_its_mission_and_caption_and_a_return_what_is_still_earned(episodes):
    for each in episodes:
        np.testing.assert_allclose(each.returns, each.rewards[::-1].cumsum()[::-1])
        assert all(each.mission in prompt for prompt in each.prompts)
        assert all(caption in prompt for caption, prompt in zip(each.captions, each.prompts, strict=False))


@pytest.mark.parametrize("agent", ["random", "reflex"])
def test_agents_of_many_environments_play_mixed_worlds_kind_by_kind(agent):
    played = list(demonstrations(MIXED, LAYOUTS, agent))
    assert [each.world for each in played] == [f"{MIXED}/{kind}" for kind in worlds.find(MIXED).kinds]
    again = list(demonstrations(MIXED, LAYOUTS, agent))
    assert [each.words for each in played] == [each.words for each in again]


def test_a_trained_agents_episodes_are_those_that_it_is_evaluated_by(tmp_path):
    from groundlab.papers.glam.ppo import make_learner

    given = {"model": str(write_t5(tmp_path)), "layouts": "0-4", "tests": [], "num_envs": 2, "first_finished": 0}
    spec = RunSpec(method="glam", world=WORLD, seed=0, settings=registry.resolve_settings("glam", WORLD, given))
    learner = make_learner(spec)
    (greedy,) = [each["rows"] for each in learner.evaluate() if each["policy"] == "greedy"]
    played = demonstrations(WORLD, range(5), "glam", checkpoint=Checkpoint(1, spec, learner.state()))
    told = [(each.layout, len(each.actions), each.rewards.sum()) for each in played]
    assert told == [(row["layout"], row["steps"], row["return"]) for row in greedy]


def forward(text, info):
    return "go forward"


def test_any_function_of_the_text_is_an_agent():
    (each,) = demonstrations(WORLD, [FIRST], forward)
    assert each.agent == "forward" and set(each.words) == {"go forward"} and each.truncated


@pytest.mark.parametrize(
    ("world", "agent", "line"),
    [
        (WORLD, "bott", "unknown agent 'bott'; did you mean 'bot'"),
        (WORLD, "glam", "glam needs a trained agent; give --checkpoint FOLDER of a run"),
        (WORLD, lambda text, info: "jump", "the agent said 'jump'; let it say one of: turn left"),
        ("SimpleDoorKey", "random", "SimpleDoorKey has no words"),
        ("Crafter-Text-Reward", "random", "Crafter-Text-Reward is no grid of cells; export a BabyAI"),
    ],
)
def test_what_cannot_be_demonstrated_is_one_clear_line(world, agent, line):
    with pytest.raises(GroundlabError, match=re.escape(line)):
        list(demonstrations(world, [FIRST], agent))


def test_an_episode_that_ends_elsewhere_is_refused(episodes):
    actions = episodes[0].actions.tolist()
    with pytest.raises(GroundlabError, match="has no end"):
        replay(WORLD, FIRST, actions[:-1], "bot")
    with pytest.raises(GroundlabError, match="goes on after its end"):
        replay(WORLD, FIRST, [*actions, 0], "bot")


def test_the_command_writes_lines_that_hold_every_column(tmp_path, episodes):
    command = ["export", "demonstrations", "--world", WORLD, "--episodes", "5", "--out", str(tmp_path / "bot")]
    said = CliRunner().invoke(cli.app, command)
    assert said.exit_code == 0 and "5 of 5 episodes succeed" in said.output
    rows = [json.loads(line) for line in (tmp_path / "bot" / "steps.jsonl").read_text().splitlines()]
    assert [set(row) for row in rows] == [{column.name for column in formats.COLUMNS}] * len(rows)
    assert rows == list(formats.steps(episodes))
    card = json.loads((tmp_path / "bot" / "card.json").read_text())
    assert card["seeds"] == list(LAYOUTS) and card["steps"] == len(rows)
    assert card["sha256"] == {"steps.jsonl": digest_bytes((tmp_path / "bot" / "steps.jsonl").read_bytes())}
    again = CliRunner().invoke(cli.app, command)
    assert isinstance(again.exception, GroundlabError) and "holds demonstrations" in str(again.exception)


@needs("datasets")
def test_datasets_loads_what_was_exported(tmp_path, episodes):
    import datasets

    formats.export(tmp_path, "datasets", episodes)
    data = datasets.load_from_disk(str(tmp_path / "datasets"))
    assert list(data) == list(formats.steps(episodes))


@needs("minari")
def test_minari_loads_what_was_exported(tmp_path, episodes, monkeypatch):
    import minari

    formats.export(tmp_path, "minari", episodes)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    data = minari.load_dataset("groundlab/BabyAI-GoToLocal-bot-v0")
    assert data.total_episodes == len(episodes) and data.total_steps == sum(len(each.actions) for each in episodes)
    for mine, theirs in zip(episodes, data.iterate_episodes(), strict=True):
        np.testing.assert_array_equal(theirs.observations["image"], mine.images)
        np.testing.assert_array_equal(theirs.actions, mine.actions)
        np.testing.assert_array_equal(theirs.rewards, mine.rewards)
        assert list(theirs.observations["prompt"]) == [*mine.prompts, ""]
        assert list(theirs.observations["caption"]) == mine.captions
        assert bool(theirs.terminations[-1]) == mine.terminated and not theirs.terminations[:-1].any()


@pytest.mark.parametrize("form", ["datasets", "minari"])
def test_a_format_whose_package_is_missing_says_what_to_install(tmp_path, episodes, form, monkeypatch):
    monkeypatch.setitem(sys.modules, form, None)
    with pytest.raises(GroundlabError, match=rf"pip install 'groundlab\[{form}\]'"):
        formats.export(tmp_path, form, episodes)


def test_the_columns_and_files_are_described(tmp_path, episodes):
    formats.export(tmp_path, "jsonl", episodes)
    metadata = json.loads((tmp_path / "croissant.json").read_text())
    (file,) = metadata["distribution"]
    assert file["sha256"] == digest_bytes((tmp_path / file["contentUrl"]).read_bytes())
    row = json.loads((tmp_path / file["contentUrl"]).read_text().splitlines()[0])
    fields = metadata["recordSet"][0]["field"]
    assert [field["source"]["extract"]["column"] for field in fields] == list(row)


@needs("mlcroissant")
def test_croissants_own_reader_finds_no_fault_and_every_row(tmp_path, episodes):
    import mlcroissant

    formats.export(tmp_path, "jsonl", episodes)
    data = mlcroissant.Dataset(str(tmp_path / "croissant.json"))
    assert data.metadata.issues.errors == set()
    words = [row["steps/word"].decode() for row in data.records("steps")]
    assert words == [word for each in episodes for word in each.words]


def test_the_shipped_datasets_are_described_as_they_are():
    folder = Path(str(demonstrated.__file__)).parents[2] / "assets" / "knowledge"
    metadata = croissant.describe_shipped(folder)
    assert json.loads(read_text("knowledge/croissant.json")) == metadata
    for file in metadata["distribution"]:
        assert digest_bytes((folder / file["contentUrl"]).read_bytes()) == file["sha256"]
