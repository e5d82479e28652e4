"""Playing and watching in a terminal, and what `evaluate --record` leaves."""

import json
import os
import pty
import threading
from contextlib import suppress
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from groundlab import cli
from groundlab.cli.keys import Keys
from groundlab.core.errors import GroundlabError
from groundlab.papers import recording
from groundlab.papers.glam.policy import watched_reader
from groundlab.papers.glam.settings import ReadingSettings
from groundlab.papers.stage import Stage

MIXED = "BabyAI-MixedTrainLocal-v0"


@pytest.fixture
def recorded(groundlab, tmp_path):
    """A folder with the recordings of `random` on four mixed layouts, and what was printed."""
    layouts = ("--layouts", "4-7", "--set", "num_dists=3", "--json", tmp_path / "rows.json")
    code, out, _ = groundlab("evaluate", "random", "--world", MIXED, *layouts, "--record", tmp_path / "r", "--show")
    assert code == 0
    return tmp_path / "r", out, json.loads((tmp_path / "rows.json").read_text())["rows"]


def test_an_episode_of_babyai_is_recorded_as_pictures_words_and_actions(recorded):
    folder, out, rows = recorded
    for row in rows:
        stem = folder / f"{row['layout']}-random"
        with Image.open(stem.with_suffix(".gif")) as gif:
            assert gif.n_frames == row["steps"] + 1 and gif.size[0] <= 480
        words = stem.with_suffix(".txt").read_text()
        assert words.count("    > ") == row["steps"] and words.rstrip() in out.replace("recorded", "\nrecorded")
        assert ("mission done" in words) == row["success"]
        episode = recording.read(stem.with_suffix(".json"))
        assert (episode.world, len(episode.actions)) == (f"{MIXED}/{row['kind']}", row["steps"])


def test_recording_changes_no_figure(recorded, groundlab, tmp_path):
    plain = ("--layouts", "4-7", "--set", "num_dists=3", "--json", tmp_path / "plain.json")
    assert groundlab("evaluate", "random", "--world", MIXED, *plain)[0] == 0
    assert json.loads((tmp_path / "plain.json").read_text())["rows"] == recorded[2]


def test_a_recording_holds_what_the_sites_player_shows(recorded):
    folder, _, rows = recorded
    data = json.loads((folder / "episodes.json").read_text())
    shown = [(each["layout"], len(each["did"]), each["success"]) for each in data["episodes"]]
    assert shown == [(row["layout"], row["steps"], row["success"]) for row in rows]
    assert all(len(each["read"]) == len(each["changes"]) + 1 for each in data["episodes"])
    assert (data["made"]["method"], data["made"]["run"]) == ("random", None)


def test_a_recording_of_a_trained_agent_says_how_likely_its_choices_were(trained, groundlab, tmp_path):
    world, layouts = ("--world", "SimpleDoorKey"), ("--layouts", "0-1")
    code, _, _ = groundlab("evaluate", "mediator", *world, *layouts, "--checkpoint", trained, "--record", tmp_path)
    data = json.loads((tmp_path / "episodes.json").read_text())
    assert code == 0 and data["made"]["run"] == json.loads((trained / "manifest.json").read_text())["hash"]
    for each in data["episodes"]:
        assert each["decisions"] == ["go on", "ask"] and len(each["shares"]) == len(each["did"])
        assert all(abs(sum(shares) - 1000) <= 1 for shares in each["shares"])


def test_a_recording_is_played_again_from_its_file(recorded):
    folder, _, rows = recorded
    episode = recording.read(folder / f"{rows[0]['layout']}-random.json")
    played = [(stage.steps, stage.over, action) for stage, action, _ in recording.replay(episode)]
    assert played == [*((step, False, name) for step, name in enumerate(episode.actions)), (rows[0]["steps"], True, "")]


def test_a_recording_that_was_changed_is_refused(recorded):
    file = recorded[0] / "4-random.json"
    content = json.loads(file.read_text())
    for change, said in (
        ({"success": not content["success"]}, "ends otherwise than recorded"),
        ({"actions": ["fly"]}, "action 'fly' is none of"),
        ({"layout": -1}, "layout"),
        ({"world": "BabyAI-GoToLocl-v0"}, "did you mean"),
    ):
        file.write_text(json.dumps(content | change))
        with pytest.raises(GroundlabError, match=said):
            list(recording.replay(recording.read(file)))


def test_an_agent_left_alone_plays_as_its_evaluation_says(groundlab, trained):
    row = json.loads((trained / "evaluation.json").read_text())[0]["rows"][3]
    code, out, _ = groundlab("play", "--agent", trained, "--seed", 3, keys=">")
    assert code == 0 and f"after {row['steps']} step" in out.splitlines()[-1]
    shares = [float(line.split()[-2 if "#" in line else -1]) for line in out.splitlines() if " ask  " in line]
    assert len(shares) == row["steps"] and all(0 <= share <= 1 for share in shares)


def test_a_person_can_ask_in_the_agents_place(groundlab, trained):
    asked = groundlab("play", "--agent", trained, "--seed", 3, keys="12212q")[1]
    assert "plan at step 4" in groundlab("play", "--agent", trained, "--seed", 3, keys="12222.q")[1]
    assert "stopped after 5 steps" in asked


def test_an_agent_that_reads_goes_on_from_what_a_person_did_in_its_place():
    prompts: list[str] = []

    def policy(read):
        prompts.extend(read)
        return torch.log_softmax(torch.tensor([[0.0, 0, 9, 0, 0, 0]]), -1), torch.zeros(1)

    stage = Stage("BabyAI-GoToLocal-v0", 0)
    agent = watched_reader(policy, stage.world.name, ReadingSettings(nbr_obs=3), np.random.default_rng(0))
    agent.start(stage)
    probabilities, choice = agent.decide(stage)
    assert agent.decisions[choice] == "go forward" and probabilities[choice] == pytest.approx(1, abs=0.01)
    own = agent.choice_of(stage.actions.index("left"))
    assert own is not None and stage.actions[agent.act(own)] == "left"
    stage.step(agent.act(own))
    agent.observe(stage)
    agent.decide(stage)
    assert [prompt.count("go forward") for prompt in prompts] == [0, 0], "what the agent had chosen was not done"
    assert [prompt.count("turn left") for prompt in prompts] == [0, 1]


def test_crafter_is_played_by_hand(groundlab):
    code, out, _ = groundlab("play", "Crafter-Reward", "--seed", 1, keys="ddc\x1b[Dq")
    assert code == 0 and "stopped after 4 steps" in out.splitlines()[-1]
    screens = out.split("step ")
    assert "@@ player" in screens[0] and "health: 9/9, food: 9/9" in screens[1]
    rows = [line for screen in screens[1:3] for line in screen.splitlines() if "@@" in line]
    assert [row.index("@@") for row in rows] == [8, 8], "the view is centred on the player"


def at_a_terminal(monkeypatch, typed: bytes, *arguments: str) -> str:
    """What the command line shows on a pseudo-terminal when these keys are typed."""
    master, slave = pty.openpty()
    shown: list[bytes] = []

    def watch():
        with suppress(OSError):  # the terminal is gone
            while data := os.read(master, 65536):
                shown.append(data)

    reader = threading.Thread(target=watch, daemon=True)
    reader.start()
    os.write(master, typed)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with os.fdopen(slave) as stdin, os.fdopen(os.dup(slave), "w") as stdout, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        patch.setattr("sys.stdout", stdout)
        patch.setattr("sys.argv", ["groundlab", *arguments])
        with pytest.raises(SystemExit):
            cli.main()
    reader.join(60)
    os.close(master)
    return b"".join(shown).decode()


def test_a_terminal_has_arrow_keys_and_colours(monkeypatch):
    shown = at_a_terminal(monkeypatch, b"\x1b[C\x1bOA q", "play", "BabyAI-GoToLocal-v0", "--seed", "3")
    assert "step 2 of 64" in shown and "stopped after 2 steps" in shown
    assert "\x1b[1;31mKR" in shown and "\x1b[1;35mAP" in shown, "a red key is red, a purple ball purple"
    assert "\x1b[2J" in shown or "\x1b[H" in shown, "a screen is drawn over the one before"


def test_keys_of_a_pipe_end(monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO(" w\x1b[A\x1bx"))
    with Keys() as keys:
        assert [keys.read() for _ in range(4)] == ["w", "up", "\x1b", ""]


def test_a_method_with_a_loop_of_its_own_says_that_it_is_not_recorded(tmp_path: Path):
    with recording.recorded() as kept:
        pass
    with pytest.raises(GroundlabError, match="is not recorded"):
        recording.by_policy(kept, [{"policy": "x", "rows": [{}]}], "own")
