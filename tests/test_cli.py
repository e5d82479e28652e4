"""The command line as a user meets it: what it prints, what it writes, and one clear line for every mistake."""

import json
import shutil

import pytest
from PIL import Image

from groundlab import cli


@pytest.fixture
def groundlab(monkeypatch, capsys):
    """Run the command line in this process: groundlab("worlds") -> (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["groundlab", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run folder of the asking policy, trained for two iterations on SimpleDoorKey."""
    from groundlab import lab
    from groundlab.lab import identity

    folder = tmp_path_factory.mktemp("runs") / "mediator"
    spec = identity.resolve("mediator", "SimpleDoorKey", 1, {"iterations": 2, "trajectories": 2, "layouts": "0-4"})
    lab.execute_run(spec, folder)
    return folder


def test_evaluate_writes_the_fixed_json(groundlab, tmp_path):
    file = tmp_path / "always.json"
    code, out, _ = groundlab("evaluate", "always", "--world", "SimpleDoorKey", "--layouts", "0-9", "--json", file)
    result = json.loads(file.read_text())
    assert code == 0 and "interactions" in out
    assert [row["layout"] for row in result["rows"]] == list(range(10))
    assert set(result["rows"][0]) >= {"layout", "steps", "success", "return", "interactions"}
    assert result["mean"]["steps"] == sum(row["steps"] for row in result["rows"]) / 10


def test_a_trained_policy_is_evaluated_as_its_run_was(groundlab, trained, tmp_path):
    stored = json.loads((trained / "evaluation.json").read_text())
    file = tmp_path / "mediator.json"
    arguments = ("evaluate", "mediator", "--world", "SimpleDoorKey", "--layouts", "0-4")
    assert groundlab(*arguments, "--checkpoint", trained, "--json", file)[0] == 0
    result = json.loads(file.read_text())
    assert [result["policy"], *(other["policy"] for other in result["others"])] == ["sampled", "argmax"]
    assert [result["rows"], result["others"][0]["rows"]] == [evaluation["rows"] for evaluation in stored]


def test_run_trains_in_a_folder_and_a_second_call_changes_nothing(groundlab, tmp_path):
    arguments = ("run", "never", "--world", "SimpleDoorKey", "--seed", 2, "--set", "iterations=1", "--set", "lr=0.01")
    more = ("--set", "trajectories=1", "--set", "layouts=0-1", "--out", tmp_path / "run")
    assert groundlab(*arguments, *more)[0] == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.is_file()}
    assert groundlab(*arguments, *more)[0] == 0
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.is_file()} == before
    assert json.loads(before["evaluation.json"])[0]["rows"][0]["layout"] == 0


def test_the_dialogue_is_shown_and_recorded(groundlab, tmp_path):
    arguments = ("evaluate", "on-change", "--world", "SimpleDoorKey", "--layouts", "2", "--show", "--record", tmp_path)
    code, out, _ = groundlab(*arguments)
    assert code == 0 and "observation: {observed a key" in out and "door opened" in out
    assert "You guide an agent" in out
    text = (tmp_path / "2-rule.txt").read_text()
    assert text.startswith("step:0\nobservation: {") and "action: {" in text
    with Image.open(tmp_path / "2-rule.gif") as gif:
        assert gif.size == (320, 320) and gif.n_frames > 10


def test_replies_are_recorded_and_replayed(groundlab, tmp_path):
    ledger, first, second = tmp_path / "ledger.jsonl", tmp_path / "a.json", tmp_path / "b.json"
    arguments = ("evaluate", "always", "--world", "KeyInBox", "--layouts", "0-5", "--set", f"ledger={ledger}")
    assert groundlab(*arguments, "--json", first)[0] == 0
    assert groundlab(*arguments, "--set", "planner=recorded", "--json", second)[0] == 0
    assert json.loads(first.read_text()) == json.loads(second.read_text())


def test_the_benchmark_prints_and_writes_its_figures(groundlab, monkeypatch, tmp_path):
    from groundlab.lab import bench

    monkeypatch.setattr(bench, "_SECONDS", 0.02)
    code, out, _ = groundlab("bench", "worlds", "--json", tmp_path / "bench.json")
    stored = json.loads((tmp_path / "bench.json").read_text())
    assert code == 0 and "minigrid" in out and stored["hardware"]["cores"] >= 1
    assert all(figure["value"] > 0 for figure in stored["figures"])


def test_worlds_and_version_are_listed(groundlab):
    assert "MovingObstacle" in groundlab("worlds")[1]
    assert groundlab("--version")[1].strip() == "0.1.0"


def test_a_door_can_be_opened_by_hand(groundlab, monkeypatch):
    from io import StringIO

    keys = {"0": "a", "1": "d", "2": "w", "3": "p", "5": "t"}
    monkeypatch.setattr("sys.stdin", StringIO("".join(keys[action] for action in "02221302222122205") + "\n"))
    code, out, _ = groundlab("play", "SimpleDoorKey")
    assert code == 0 and "the door is open, reward 0.847 after 17 steps" in out


MISTAKES = [
    (("evaluate", "always", "--world", "SimpleDorKey"), "unknown world 'SimpleDorKey'; did you mean 'SimpleDoorKey'?"),
    (("evaluate", "alway", "--world", "SimpleDoorKey"), "unknown method 'alway'; did you mean 'always'?"),
    (("evaluate", "never", "--world", "KeyInBox"), "never does not run on KeyInBox; it runs on SimpleDoorKey"),
    (("evaluate", "always", "--world", "KeyInBox", "--layouts", "9-3"), "is no range: give first-last, as in 0-99"),
    (("evaluate", "always", "--world", "KeyInBox", "--layouts", "abc"), "is no range"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "ask_lamda=1"), "did you mean 'ask_lambda'?"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "ask_lambda=much"), "ask_lambda"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "fidelity.penalti=head"), "did you mean 'penalty'?"),
    (("evaluate", "always", "--world", "KeyInBox", "--epsilon", "2"), "epsilon"),
    (("evaluate", "always", "--world", "KeyInBox", "--plans", "heads"), "did you mean 'head'?"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "epsilon"), "write --set key=value"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "planner=recorded"), "needs a ledger file"),
    (("evaluate", "mediator", "--world", "SimpleDoorKey"), "give --checkpoint"),
    (("evaluate", "always", "--world", "KeyInBox", "--checkpoint", "x"), "leave out --checkpoint"),
    (("reproduce", "--scale", "quik", "--dry-run"), "did you mean 'quick'?"),
    (("reproduce", "--only", "mediatr", "--dry-run"), "did you mean 'mediator'?"),
    (("reproduce", "--figure", "mediator-curve", "--dry-run"), "did you mean 'mediator-curves'?"),
    (("reproduce", "--executor", "slum", "--dry-run"), "unknown executor"),
    (("bench", "world"), "did you mean 'worlds'?"),
    (("play", "SimpleDoorKy"), "did you mean 'SimpleDoorKey'?"),
]


@pytest.mark.parametrize(("arguments", "fix"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_a_mistake_is_one_line_that_names_the_fix(groundlab, arguments, fix):
    code, _, err = groundlab(*arguments)
    assert code == 2
    assert fix in err and len(err.strip().splitlines()) == 1


def test_checkpoints_of_other_worlds_and_corrupt_ones_are_refused(groundlab, trained, tmp_path):
    code, _, err = groundlab("evaluate", "mediator", "--world", "KeyInBox", "--checkpoint", trained)
    assert code == 2 and "is a checkpoint of world SimpleDoorKey, not KeyInBox" in err
    code, _, err = groundlab("evaluate", "never", "--world", "SimpleDoorKey", "--checkpoint", trained)
    assert code == 2 and "is a checkpoint of method mediator, not never" in err
    broken = tmp_path / "broken"
    shutil.copytree(trained, broken)
    weights = broken / "checkpoint" / "2" / "network.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    code, _, err = groundlab("evaluate", "mediator", "--world", "SimpleDoorKey", "--checkpoint", broken)
    assert code == 2 and "is corrupt" in err and len(err.strip().splitlines()) == 1


def test_a_corrupt_ledger_line_is_named(groundlab, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("{broken\n")
    code, _, err = groundlab("evaluate", "always", "--world", "KeyInBox", "--set", f"ledger={ledger}")
    assert code == 2 and "ledger.jsonl:1" in err and len(err.strip().splitlines()) == 1


def test_a_folder_with_other_files_is_left_alone(groundlab, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    code, _, err = groundlab("run", "always", "--world", "KeyInBox", "--out", tmp_path)
    assert code == 2 and "choose an empty or a new folder" in err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_folder_is_never_given_to_another_run(groundlab, trained):
    code, _, err = groundlab("run", "mediator", "--world", "KeyInBox", "--seed", 1, "--out", trained)
    assert code == 2 and "world SimpleDoorKey, not KeyInBox" in err and "choose another folder" in err
