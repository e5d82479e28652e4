"""Every adapter keeps its trainer's contract: names, signatures, what is returned, and one level a group.

The packages themselves are not installed here; tests/adapters runs four of them for real (nox -s adapters).
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from scripted_agent import Interaction

from groundlab.core.errors import GroundlabError
from groundlab.worlds import TextEnv, adapters
from groundlab.worlds.adapters import balrog, gem, ragen, trl, verl_agent
from groundlab.worlds.adapters.replies import find_action

LOCAL = "BabyAI-GoToLocal-v0"
ACTIONS = TextEnv(LOCAL).actions


def test_adapters_are_imported_by_name_and_an_absent_package_is_one_line(monkeypatch):
    assert adapters.load("trl") is trl
    with pytest.raises(GroundlabError, match="unknown adapter 'tlr'; did you mean 'trl'"):
        adapters.load("tlr")
    for name in ("openenv", "verifiers"):
        for module in {name, *(each for each in sys.modules if each.startswith(f"{name}."))}:
            monkeypatch.setitem(sys.modules, module, None)  # not installed, wherever this runs
        monkeypatch.delitem(sys.modules, adapters.ADAPTERS[name], raising=False)
        with pytest.raises(GroundlabError, match=f"needs the package {name}, which is not installed") as error:
            adapters.load(name)
        assert "\n" not in str(error.value)


def test_listing_adapters_loads_none():
    code = "import sys; from groundlab.worlds import adapters; print([n for n in sys.modules if 'adapters.' in n])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("turn left", "turn left"),
        (" Turn  Left.\n", "turn left"),
        ("I saw a ball. <action>go forward</action>", "go forward"),
        ("<think><action>drop</action></think><answer> Pick up </answer>", "pick up"),
        ("so \\boxed{toggle}", "toggle"),
        ("I turn left now", "I turn left now"),
        ("<action>walk</action>", "walk"),
        ("", ""),
    ],
)
def test_an_action_is_found_in_a_reply_or_the_reply_stays(reply, action):
    assert find_action(reply, ACTIONS) == action


def test_trl_finds_six_documented_tools_and_no_other():
    """As GRPOTrainer does: functions of the class, without `reset`, `get_reward` and what is private."""
    names = {name for name, _ in inspect.getmembers(trl.GridTools, inspect.isfunction) if not name.startswith("_")}
    tools = names - {"reset", "get_reward"}
    assert {name.replace("_", " ") for name in tools} == set(ACTIONS)
    assert names - tools == {"reset", "get_reward"}
    for name in tools:
        tool = getattr(trl.GridTools, name)
        assert inspect.getdoc(tool) and inspect.signature(tool).return_annotation is str


def test_trls_groups_share_their_level_and_are_paid_the_worlds_reward():
    first, second = trl.factory(LOCAL)(), trl.factory(LOCAL)()
    row = trl.rows(3, first=7)[2]
    assert row["seed"] == 9 and row["prompt"][0]["role"] == "user"
    assert first.reset(**row) == second.reset(**row) == TextEnv(LOCAL, prompt="plain").reset(seed=9)[0]
    player = trl.GridTools(LOCAL)
    player.reset(seed=0)
    assert "Game over." not in player.go_forward() and player.get_reward() == 0
    assert player.go_forward().endswith("Game over.")
    assert player.get_reward() == pytest.approx(1 - 0.9 * 2 / 64)
    with pytest.raises(ValueError, match="Game over"):
        player.turn_left()
    player.reset(seed=0)
    assert player.get_reward() == 0
    with pytest.raises(GroundlabError, match="unknown world"):
        trl.factory("BabyAI-GoToLocl-v0")


def test_verl_agents_manager_gives_texts_anchors_and_one_level_a_group():
    manager = verl_agent.make(LOCAL, num_envs=2, group=3)
    observations, infos = manager.reset({"seed": 0})
    assert observations.keys() == {"text", "image", "anchor"} and observations["image"] is None
    assert [info["layout"] for info in infos] == [0, 0, 0, 1, 1, 1]
    assert len(set(observations["anchor"])) == len(set(observations["text"])) == 2
    replies = ["<action>go forward</action>"] * 2 + ["nothing I know"] + ["turn left", "turn right", "turn left"]
    observations, rewards, dones, infos = manager.step(replies)
    anchors = observations["anchor"]
    assert anchors[0] == anchors[1] != anchors[2] and anchors[3] == anchors[5] != anchors[4]
    assert [bool(info["is_action_valid"]) for info in infos] == [True, True, False, True, True, True]
    assert rewards.shape == dones.shape == (6,) and not dones.any()
    _, rewards, dones, infos = manager.step(["go forward"] * 6)
    assert dones[0] and infos[0]["won"] and rewards[0] > 0
    ended = [[{"active_masks": True}, {"active_masks": True}, {"active_masks": False}]] * 6
    total = [[{"won": False}, info, {"won": not info["won"]}] for info in infos]
    won = manager.success_evaluator(total_infos=total, total_batch_list=ended)["success_rate"]
    np.testing.assert_array_equal(won, [1, 1, 0, 0, 0, 0])
    assert manager.reset()[1][0]["layout"] is None


def test_ragens_environment_returns_a_text_and_four_values():
    env = ragen.GridEnv(ragen.GridConfig(world=LOCAL))
    text = env.reset(seed=0, mode="train")
    assert text == env.render() == env.reset(seed=0)
    _, reward, done, info = env.step("jump")
    assert (reward, done, info["action_is_valid"], info["action_is_effective"]) == (0.0, False, False, False)
    env.step("<answer>go forward</answer>")
    _, reward, done, info = env.step("go forward")
    assert done and info["success"] and reward > 0 and info["action_is_effective"]


def test_gems_environment_branches_and_samples_actions_that_it_understands():
    env = gem.GridEnv(LOCAL)
    text, _ = env.reset(seed=0)
    assert env.step(env.sample_random_action())[4]["action_is_valid"]
    env.step("\\boxed{turn right}")
    branch = env.spawn(same_state=True)
    assert [branch.step("go forward"), branch.step("turn left")] == [env.step("go forward"), env.step("turn left")]
    assert env.spawn(history=2).reset(seed=0)[0] == text
    with pytest.raises(ValueError, match="keeps its options"):
        env.spawn(same_state=True, history=2)


def test_balrogs_environment_has_what_its_wrapper_and_agents_read():
    env = balrog.make_env("BabyAI-MixedTrainLocal-v0/goto")
    observation, _ = env.reset(seed=0)
    assert observation["text"].keys() == {"long_term_context", "short_term_context"}
    assert observation["mission"] == env.get_stats()["mission"] and observation["image"] is None
    assert (env.max_steps, env.default_action, env.get_text_action(3)) == (64, "go forward", "pick up")
    assert env.get_text_action(SimpleNamespace(value=0)) == "turn left"
    assert env.get_stats()["progression"] == 0.0
    assert "You see" not in env.step("turn left")[0]["text"]["long_term_context"]


@pytest.fixture
def verifiers_package(monkeypatch):
    """As much of verifiers 0.4.0 as its textarena taskset uses, written out."""
    package, v1 = ModuleType("verifiers"), ModuleType("verifiers.v1")

    class Generic:
        def __class_getitem__(cls, _):
            return cls

        def __init__(self, *args, **fields):
            self.config, self.data, self.task = args[-1] if args else None, args[0] if args else None, None
            vars(self).update(fields)

    for name in ("TasksetConfig", "TaskData", "Task", "State", "TaskConfig", "Taskset", "EnvConfig", "AgentConfig"):
        setattr(v1, name, type(name, (Generic,), {}))
    v1.Env = type("Env", (Generic,), {})
    monkeypatch.setitem(sys.modules, "verifiers", package)
    monkeypatch.setitem(sys.modules, "verifiers.v1", v1)
    monkeypatch.delitem(sys.modules, "groundlab.worlds.adapters.verifiers", raising=False)
    yield adapters.load("verifiers")
    sys.modules.pop("groundlab.worlds.adapters.verifiers", None)


@pytest.mark.parametrize(
    ("replies", "won"), [(["<action>go forward</action>", "go forward"], True), (["?", "turn left"], False)]
)
def test_verifiers_plays_a_level_by_its_seed_and_pays_what_the_world_pays(verifiers_package, replies, won):
    import asyncio

    config = SimpleNamespace(world=LOCAL, task=None)
    tasks = verifiers_package.GridTaskset(config).load()
    task = next(tasks)
    assert task.data.prompt == TextEnv(LOCAL, prompt="plain").reset(seed=0)[0]
    assert next(tasks).data.info == {"world": LOCAL, "seed": 1}
    talk = Interaction(replies)
    agents = SimpleNamespace(player=SimpleNamespace(interaction=lambda _: talk))
    asyncio.run(verifiers_package.GridPlay(None).run(task, agents))
    assert talk.metrics == {"success": float(won)} and (talk.rewards["return"] > 0) == won
    assert talk.heard[0] is None and talk.heard[1].startswith(("Goal of the agent", "Unknown action"))


PAGE = (Path(__file__).parents[3] / "docs" / "adapters.md").read_text()
BLOCKS = {
    heading: code
    for heading, code in re.findall(r"^## ([\w-]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
}


def test_the_page_has_at_most_ten_lines_or_so_of_code_for_each_adapter():
    headings = {heading.lower() for heading in BLOCKS} - {"textenv"}
    assert headings == {name for name in adapters.ADAPTERS if name != "openenv-client"}
    assert all(code.count("\n") <= 13 for code in BLOCKS.values())


@pytest.mark.parametrize("heading", ["TextEnv", "verl-agent", "RAGEN", "BALROG", "GEM"])
def test_the_pages_code_runs(heading):
    exec(compile(BLOCKS[heading], heading, "exec"), {})


def test_the_pages_code_for_verifiers_runs(verifiers_package, capsys):
    exec(compile(BLOCKS["verifiers"], "verifiers", "exec"), {})
    assert "Goal of the agent" in capsys.readouterr().out


def test_the_faq_answers_every_thread_by_its_number():
    page = (Path(__file__).parents[3] / "docs" / "faq.md").read_text()
    assert [int(number) for number in re.findall(r"^\*\*(\d+)\. ", page, re.MULTILINE)] == [*range(1, 30)]
    threads = {
        "GLAM": (3, 9, 12, 24, 26, 17, 23, 18, 20, 21, 31, 33),
        "Lamorel": (23, 18, 20, 33, 34, 37, 38, 51, 53, 54, 45, 48),
        "LLM4RL": (4,), "LLM4Teach": (2, 4), "Minigrid": (423, 17), "rl-starter-files": (79,), "babyai": (105, 111),
        "BALROG": (6, 56, 59), "crafter": (31,), "RAGEN": (52, 68, 80, 114), "verl-agent": (155, 238, 243),
        "Agent-G2": (1,), "AgentOPSD": (11,), "OpenEnv": (1102,), "NEKO": (14,), "navix": (130,),
    }  # fmt: skip
    said = [part for each in re.findall(r"\(([^()]*#[^()]*)\)", " ".join(page.split())) for part in each.split(";")]
    for project, numbers in threads.items():
        own = " ".join(part for part in said if project in part)
        assert {int(number) for number in re.findall(r"#(\d+)", own)} >= set(numbers), project
