"""Every adapter keeps its trainer's contract: names, signatures, what is returned, and one level a group.

The packages themselves are not installed here; tests/adapters runs them for real (nox -s adapters).
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from scripted_agent import Interaction

from groundlab.core.errors import GroundlabError
from groundlab.worlds import TextEnv, adapters
from groundlab.worlds.adapters import trl
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
        monkeypatch.delitem(sys.modules, f"{adapters.__name__}.{name}", raising=False)
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
_FIRST_BLOCK = re.compile(r"^## ([\w -]+)\n(?:(?!^## ).)*?```python\n(.*?)```", re.MULTILINE | re.DOTALL)
BLOCKS = dict(_FIRST_BLOCK.findall(PAGE))


@pytest.mark.parametrize("heading", ["TextEnv", "Another trainer"])
def test_the_pages_code_runs(heading):
    exec(compile(BLOCKS[heading], heading, "exec"), {})


def test_the_pages_code_for_verifiers_runs(verifiers_package, capsys):
    exec(compile(BLOCKS["verifiers"], "verifiers", "exec"), {})
    assert "Goal of the agent" in capsys.readouterr().out
