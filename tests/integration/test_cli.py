"""The command line as a user meets it: what it prints, what it writes, and one clear line for every mistake."""

import json
import shutil
import subprocess
import sys
import tomllib

import made_up
import pytest
import yaml
from PIL import Image

from groundlab import cli, report
from groundlab.cli import options, printing, runs
from groundlab.cli.runs import versions_in
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import repository_root
from groundlab.lab import config


@pytest.mark.parametrize("layouts", [("--layouts", "3-6"), ("--set", "layouts=3-6")])
def test_evaluate_writes_rows_and_their_mean(layouts, groundlab, tmp_path):
    file = tmp_path / "always.json"
    code, out, _ = groundlab("evaluate", "always", "--world", "SimpleDoorKey", *layouts, "--json", file)
    result = json.loads(file.read_text())
    assert code == 0 and "interactions" in out
    assert [row["layout"] for row in result["rows"]] == [3, 4, 5, 6]
    assert set(result["rows"][0]) >= {"layout", "steps", "success", "return", "interactions"}
    assert result["mean"]["steps"] == sum(row["steps"] for row in result["rows"]) / 4


def test_an_agent_that_answers_in_words_is_read_word_by_word(groundlab):
    asked = ("evaluate", "reasoning-zero-shot", "--world", "Reasoning-GoTo-v0", "--layouts", "0-1")
    code, told, _ = groundlab(*asked, "--set", "transcripts=1", "--set", "num_dists=0")
    assert code == 0 and "layout 0: go to the" in told and "layout 1:" not in told
    assert "  You see a wall" in told and "    > final answer: " in told and "reached after" in told


def test_a_trained_policy_is_evaluated_as_its_run_was(groundlab, trained, tmp_path):
    stored = json.loads((trained / "evaluation.json").read_text())
    file = tmp_path / "mediator.json"
    arguments = ("evaluate", "mediator", "--world", "SimpleDoorKey", "--layouts", "0-4")
    assert groundlab(*arguments, "--checkpoint", trained, "--json", file)[0] == 0
    result = json.loads(file.read_text())
    assert [result["policy"], *(other["policy"] for other in result["others"])] == ["sampled", "argmax"]
    assert [result["rows"], result["others"][0]["rows"]] == [evaluation["rows"] for evaluation in stored]


def test_a_nested_setting_of_an_evaluation_leaves_the_others_as_trained():
    trained = {"lr": 0.1, "fidelity": {"penalty": "paper", "skip": True}, "chat": {"seed": 3}}
    asked = options.overlay(trained, {"fidelity": {"skip": False}, "layouts": "0-4"})
    assert asked == {**trained, "fidelity": {"penalty": "paper", "skip": False}, "layouts": "0-4"}
    assert trained["fidelity"]["skip"] is True


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


def test_an_experiment_that_stands_alone_is_never_taken_for_the_newest_version_of_its_paper(tmp_path, monkeypatch):
    for name, created, alone in (("a", "2026-01-02", []), ("b", "2026-01-01", []), ("c", "2026-01-03", ["row"])):
        made_up.begin(tmp_path / name, created=created, alone=alone)
    monkeypatch.setenv("GROUNDLAB_RESULTS", str(tmp_path))
    assert [folder.name for folder in versions_in(None)] == ["b", "a"]
    assert versions_in(tmp_path / "c") == [tmp_path / "c"], "it is drawn when it is named"


@pytest.mark.parametrize(
    ("refusal", "line"),
    [
        (OSError(28, "No space left on device"), "the system says: No space left on device; repair that"),
        (OSError(13, "Permission denied", "/data/x"), "Permission denied: /data/x; repair that file or name another"),
    ],
)
def test_what_the_system_refuses_is_one_line_and_names_a_file_only_where_there_is_one(
    refusal, line, groundlab, monkeypatch
):
    def refuse():
        raise refusal

    monkeypatch.setattr(cli, "app", refuse)
    code, _, error = groundlab("worlds")
    assert code == 2 and line in error and len(error.splitlines()) == 1


def test_the_benchmark_prints_and_keeps_its_figures_and_checks_its_ratios(groundlab, monkeypatch, tmp_path):
    from groundlab.bench import history, measurement

    monkeypatch.setattr(measurement, "SECONDS", 0.01)
    monkeypatch.setattr(measurement, "TURNS", 1)
    monkeypatch.setattr(history, "folder", lambda: tmp_path)
    code, out, _ = groundlab("bench", "worlds", "--save")
    (file,) = tmp_path.glob("*.json")
    stored = json.loads(file.read_text())
    assert code == 0 and "minigrid" in out and stored["hardware"]["cores"] >= 1
    measured = {figure["name"]: figure["value"] for figure in stored["figures"]}
    for name in ("GoToLocal, batch of 256", "BossLevel, levels"):
        peer = measured[f"{name}: minigrid, same run"]
        assert measured[f"{name} / minigrid"] == pytest.approx(measured[name] / peer)
    stored["figures"] = [{**figure, "value": 1000 * figure["value"]} for figure in stored["figures"]]
    file.write_text(json.dumps(stored))
    code, out, _ = groundlab("bench", "worlds", "--check")
    assert code == 1 and "lost: GoToLocal, batch of 256 / minigrid" in out


def test_all_worlds_are_listed_and_those_of_the_package_on_request(groundlab):
    from groundlab.worlds import WORLDS

    out = groundlab("worlds")[1]
    assert set(WORLDS) <= set(out.split()) and "MiniGrid-LockedRoom-v0" not in out
    (row,) = [line.split() for line in out.splitlines() if "BabyAI-MixedTrainLocal-v0/open" in line]
    assert row[1:6] == ["15x8", "128", "open", "the", "door;"]
    words = groundlab("worlds", "--all")[1].split()
    assert {"MiniGrid-LockedRoom-v0", "SimpleDoorKey"} <= set(words) and words.count("BabyAI-GoToLocal-v0") == 1


def test_every_method_is_listed_with_its_paper_and_what_it_is(groundlab):
    from groundlab.papers import registry

    lines = [line.split() for line in groundlab("methods")[1].splitlines()]
    for paper, method in registry.methods():
        (row,) = [line for line in lines if line[:2] == [method.name, paper]]
        assert method.summary.split()[-1] in row


def test_a_method_shows_each_setting_with_type_default_published_value_and_meaning(groundlab):
    out = groundlab("methods", "drrn")[1]
    (lr,) = [line.split() for line in out.splitlines() if line.startswith(" lr ")]
    assert lr == ["lr", "float", ">", "0", "0.001", "0.0001", "The", "original:", "1e-4."]
    assert "fidelity.prompt_drift" in out and "Test layouts" in out, "nested and inherited settings too"
    both = groundlab("methods", "random")[1]
    assert "random (mediator)" in both and "random (worlds)" in both


def test_claims_are_listed_with_their_published_verdicts_and_one_is_told_whole(groundlab):
    from groundlab.core.paths import repository_root
    from groundlab.report.front_page import published

    lines = groundlab("claims", "mediator")[1].splitlines()
    for version in published(repository_root() / "results"):
        for claim in version.claims if version.paper == "mediator" else ():
            start = next(number for number, line in enumerate(lines) if line.split()[:1] == [claim["id"]])
            row = " ".join(lines[start : start + 8])
            assert claim["verdict"] == "not tested" or f"{version.scale}: " in row
    told = groundlab("claims", "mediator-beats-on-change-SimpleDoorKey")[1]
    assert "at scale full: our check: ✗ contradicted (" in told and "  why: " in told and "--scale full" in told
    assert "not tested (needs 9 CPU hours): " in groundlab("claims", "glam-fig2-drrn-end")[1]


LOADED = """
import sys
from groundlab import cli
for words in sys.argv[1:]:
    sys.argv = ["groundlab", *words.split()]
    try:
        cli.main()
    except SystemExit:
        pass
    print("loaded", sorted({"torch", "transformers", "numba", "pandas", "matplotlib"} & set(sys.modules)))
"""


def test_what_only_prints_a_list_or_a_plan_loads_neither_torch_nor_the_compiled_engine():
    lists = ("--help", "run --help", "worlds", "methods", "methods glam", "reproduce --dry-run --scale smoke")
    lists += ("reproduce --dry-run --scale full --experiment fitting",)  # with models that do not ship
    command = [sys.executable, "-c", LOADED, *lists]
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    loaded = [line for line in answer.stdout.splitlines() if line.startswith("loaded ")]
    assert loaded == ["loaded []"] * len(lists), answer.stdout[-300:] + answer.stderr[-300:]


def test_the_version_is_printed_and_the_same_everywhere(groundlab):
    version = groundlab("--version")[1].strip()
    assert tomllib.loads((repository_root() / "pyproject.toml").read_text())["project"]["version"] == version
    assert yaml.safe_load((repository_root() / "CITATION.cff").read_text())["version"] == version
    assert f"\n## {version}, " in (repository_root() / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("text", ["wrote [/bold].json", "[enforce fail at alloc.cpp] no memory", "x" * 300])
def test_paths_and_errors_are_printed_as_they_are(text, capsys):
    printing.print_text(text)
    assert capsys.readouterr().out == f"{text}\n"


@pytest.fixture
def play(groundlab):
    """Play a world with keys from a pipe: play("waq", "SimpleDoorKey") -> what was printed."""

    def call(keys: str, *arguments: object) -> str:
        code, out, _ = groundlab("play", *arguments, keys=keys)
        assert code == 0
        return out

    return call


def test_a_door_can_be_opened_by_hand(play):
    keys = {"0": "a", "1": "d", "2": "w", "3": "p", "5": "t"}
    out = play("".join(keys[action] for action in "02221302222122205") + "\n", "SimpleDoorKey")
    assert "observation: {observed a key" in out
    assert "mission done, reward 0.847 after 17 steps" in out


@pytest.mark.parametrize("kind", ["goto", "pickup", "putnext", "pick_up_seq_go_to", "open"])
def test_any_mission_can_be_played_by_hand(play, kind):
    from groundlab import worlds
    from groundlab.papers.worlds.bot import Bot

    world = f"BabyAI-MixedTrainLocal-v0/{kind}"
    env = worlds.GridEnv(world)
    observation, _ = env.reset(seed=4)
    bot, keys, done, reward = Bot(env), "", False, 0.0
    while not done:
        action = bot.act()
        keys += "adwpxtn"[action]
        _, reward, done, _, _ = env.step(action)
        bot.observe(action)
    out = play(keys, world, "--seed", 4)
    assert f"{world}, layout 4: {observation['mission']}\n" in out
    assert f"mission done, reward {reward:.3f} after {len(keys)} step" in out


def test_the_screen_shows_the_level_beside_the_sentences_in_the_worlds_language(play):
    out = play("", "BabyAI-GoToFrench-v0")
    assert "##AE. . KGAE. ##   - Tu vois une balle verte 3 pas devant" in out
    assert "stopped after 0 steps" in out


def test_floor_is_dotted_where_the_agent_sees_it(play):
    """The agent of this layout faces east, so it sees nothing behind its back."""
    lines = play("", "BabyAI-GoToLocal-v0", "--seed", 100).splitlines()
    row = next(line for line in lines if line.startswith("##") and ">>" in line)
    behind, ahead = row.split("   - ")[0].split(">>")
    assert ". " not in behind and ahead.strip() == "##"


def test_time_runs_out_and_unknown_keys_cost_nothing(play):
    assert "time is up after 16 steps" in play("?" + "n" * 16, "BabyAI-GoToObjS4-v0")


# That hostile words for every command and option are answered in a line: test_bad_input.py.
MISTAKES = [
    (("evaluate", "always", "--world", "SimpleDorKey"), "unknown world 'SimpleDorKey'; did you mean 'SimpleDoorKey'?"),
    (("evaluate", "alway", "--world", "SimpleDoorKey"), "unknown method 'alway'; did you mean 'always'?"),
    (("evaluate", "never", "--world", "KeyInBox"), "never does not run on KeyInBox; it runs on SimpleDoorKey"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "ask_lamda=1"), "did you mean 'ask_lambda'?"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "epsilon"), "write --set key=value"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "planner=recorded"), "needs a ledger file"),
    (("evaluate", "mediator", "--world", "SimpleDoorKey"), "give --checkpoint"),
    (("evaluate", "always", "--world", "KeyInBox", "--checkpoint", "x"), "leave out --checkpoint"),
    (("reproduce", "--figure", "glam-probes", "--dry-run"), "needs no run: groundlab figures --figure glam-probes"),
    (("reproduce", "--executor", "slurm", "--hours", "1", "--dry-run"), "--hours is for this machine"),
    (("figures", "--figure", "glam-probes", "--publish"), "leave out --figure"),
    (("reproduce", "--figure", "mediator-curves", "--only", "glam", "--dry-run"), "leave out --only"),
    (("evaluate", "always", "--world", "KeyInBox", "--set", "chat=2", "--set", "chat.model=x"), "a plain value"),
    (("play", "MiniGrid-LockedRoom-v0"), "runs through the minigrid package; play one of those"),
    (("play",), "no world is named"),
]


@pytest.mark.parametrize("scale", ["smoke", "quick", "full"])
def test_each_table_and_figure_can_be_made_alone_at_each_scale(scale):
    """What an exhibit shows beside is left out where a scale has no runs of it."""
    for figure in [each.id for each in report.exhibits().values() if each.methods]:
        if figure == "glam-options" and scale == "quick":
            with pytest.raises(GroundlabError, match="has no runs at scale quick; choose another"):
                runs._needed_by(figure, scale)
            continue
        paper, methods = runs._needed_by(figure, scale)
        assert set(methods) <= {entry.method for entry in config.load(paper, scale).runs}, figure


def test_one_figure_is_redrawn_from_stored_results_alone(groundlab, tmp_path):
    older, newer = tmp_path / "older", tmp_path / "newer"
    for version, paper in ((older, "mediator"), (newer, "glam")):
        (version / paper).mkdir(parents=True)
        made_up.begin(version)
    code, out, _ = groundlab("figures", "--figure", "glam-probes", "--results", tmp_path)
    assert code == 0
    drawn = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("glam-probes.*"))
    assert drawn == ["newer/glam/figures/glam-probes.pdf", "newer/glam/figures/glam-probes.png"]
    assert out.startswith("glam-probes: ") and len(out.splitlines()) == 1
    code, out, error = groundlab("figures", "--figure", "glam-probes", "--results", older)
    assert code != 0 and "hold nothing of glam" in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(("arguments", "fix"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_a_mistake_is_one_line_that_names_the_fix(groundlab, arguments, fix):
    code, _, err = groundlab(*arguments)
    assert code == 2
    assert fix in err and len(err.strip().splitlines()) == 1


def test_checkpoints_of_other_worlds_and_corrupt_ones_are_refused(groundlab, trained, tmp_path):
    for asked, line in (
        (("mediator", "--world", "KeyInBox"), "is a checkpoint of world SimpleDoorKey, not KeyInBox"),
        (("never", "--world", "SimpleDoorKey"), "is a checkpoint of method mediator, not never; name that method, or"),
        (("glam", "--protocol", "balrog"), "is a checkpoint of method mediator, not glam; name that method"),
    ):
        code, _, err = groundlab("evaluate", *asked, "--checkpoint", trained)
        assert code == 2 and line in err
    broken = tmp_path / "broken"
    shutil.copytree(trained, broken)
    weights = broken / "checkpoint" / "2" / "network.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    code, _, err = groundlab("evaluate", "mediator", "--world", "SimpleDoorKey", "--checkpoint", broken)
    assert code == 2 and "is corrupt" in err and len(err.strip().splitlines()) == 1


def test_a_folder_of_other_files_or_of_another_run_is_left_alone(groundlab, trained, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    code, _, err = groundlab("run", "always", "--world", "KeyInBox", "--out", tmp_path)
    assert code == 2 and "choose an empty or a new folder" in err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    code, _, err = groundlab("run", "mediator", "--world", "KeyInBox", "--seed", 1, "--out", trained)
    assert code == 2 and "world SimpleDoorKey, not KeyInBox" in err and "choose another folder" in err


def test_pretrain_writes_a_model_that_loads_by_its_folder(groundlab, tmp_path):
    from groundlab.language import models

    code, printed, _ = groundlab("pretrain", "smoke-t5", "--out", tmp_path / "lm", "--seed", 3)
    assert code == 0 and "accuracy by topic" in printed
    facts = json.loads((tmp_path / "lm" / "recipe.json").read_text())
    assert facts["recipe"]["seed"] == 3
    model, words = models.load(str(tmp_path / "lm"))
    assert sum(parameter.numel() for parameter in model.parameters()) == facts["parameters"] and len(words) > 100
