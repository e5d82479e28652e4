"""The player, run in node on the data that pages hold, against the records and against the engine."""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from groundlab.papers import playback
from groundlab.papers.stage import Stage
from groundlab.papers.worlds.published import load_episodes, text_hash
from groundlab.site import episodes

PLAYER = files("groundlab.assets").joinpath("site", "player.js")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def node(script: str, *arguments: object) -> Any:
    """What a script prints as JSON; `player` is the player's pure half, `read` reads a JSON file."""
    head = f"const player = require({json.dumps(str(PLAYER))}), args = process.argv.slice(1);"
    head += "const read = (file) => JSON.parse(require('fs').readFileSync(file, 'utf8'));"
    command = ["node", "-e", f"{head} console.log(JSON.stringify((() => {{ {script} }})()))", *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def submission():
    """The data of the first submission."""
    return episodes.balrog(load_episodes(), 0)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages and data, with one submission of the published episodes."""
    folder = tmp_path_factory.mktemp("source")
    episodes.write(folder, limit=1)
    return folder


@needs_node
def test_every_text_of_an_episode_stepped_to_its_end_is_the_recorded_one(submission, tmp_path):
    published, file = load_episodes(), tmp_path / "data.json"
    file.write_text(json.dumps(submission))
    script = "return data.episodes.map((each) => player.decode(data, each).map((frame) => frame.text));"
    texts = node(f"const data = read(args[0]); {script}", file)
    for number, told in enumerate(texts):
        record = published.texts[published.steps(number)].tolist()
        assert [text_hash(text) for text in told[1:]] == record, f"episode {number}"
        assert submission["episodes"][number]["mission"] == published.mission[number]


@needs_node
def test_the_player_reads_hashes_and_refuses_what_it_cannot_play(tmp_path):
    assert node("return player.readHash('#choice=a+b&episode=3&step=x')") == {"choice": "a b", "episode": 3, "step": 0}
    assert node("return player.readHash(player.writeHash({choice: 'ä&b', episode: 1, step: 2}))") == {
        **{"choice": "ä&b", "episode": 1, "step": 2}
    }
    for content, said in (
        ("null", "no episodes"),
        ('{"format": 99, "episodes": [1]}', "format 99"),
        ('{"actions": [], "layout": 0}', "episodes.json"),
    ):
        assert said in node(f"return player.complaint({content})")


@needs_node
def test_agents_stand_side_by_side_by_layout_in_their_order(site):
    script = (
        "const [folder, names] = [args[0], JSON.parse(args[1])]; global.window = {};"
        "for (const name of names) (0, eval)(require('fs').readFileSync(`${folder}/${name}.js`, 'utf8'));"
        "const rows = player.rowsOf(names.map((name) => window.groundlabEpisodes[name]));"
        "return rows.map((row) => row.map(({ episode }) => [episode.by, episode.layout]));"
    )
    for comparison in episodes.COMPARISONS:
        agents = [*comparison.recordings.values(), *comparison.plays.values()]
        files = [*comparison.recordings, f"{comparison.paper}-beside"]
        rows = node(script, site / "_static" / "episodes", json.dumps(files))
        assert rows == [[[agent, layout] for agent in agents] for layout in range(10)]


@pytest.mark.parametrize("name", [name for each in episodes.COMPARISONS for name in each.recordings])
def test_shipped_recordings_are_what_the_engine_does(name):
    data = episodes.shipped(name, "")
    for told in data["episodes"]:
        stage = Stage(told["world"], told["layout"], data["made"]["settings"].get("num_dists"))
        names = {playback.WORDS.get(action, action): action for action in stage.actions}
        grid = list(told["start"])
        for number, pairs in zip(told["did"], told["changes"], strict=True):
            assert grid == playback.tiles(stage).ravel().tolist()
            for cell, tile in zip(pairs[::2], pairs[1::2], strict=True):
                grid[cell] = tile
            stage.step(stage.actions.index(names[data["words"][number]]))
        assert (stage.outcome, stage.over) == (told["outcome"], True)
    assert data["format"] == playback.FORMAT


def test_probabilities_of_trained_agents_are_told_and_sum_to_one():
    for name in ("glam", "mediator", "knowledge"):
        for told in episodes.shipped(name, "")["episodes"]:
            assert len(told["shares"]) == len(told["did"])
            assert all(len(told["decisions"]) == len(each) and abs(sum(each) - 1000) < 5 for each in told["shares"])


def test_pages_name_their_data_and_their_run(site: Path):
    for comparison in episodes.COMPARISONS:
        text = (site / "episodes" / f"{comparison.paper}.md").read_text()
        for name in comparison.recordings:
            assert f"{name}.js" in text and (episodes.shipped(name, "")["made"].get("run") or "") in text
