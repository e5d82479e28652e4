"""verifiers and GEM themselves: levels found and played by their own means. Run by `nox -s adapters`."""

import asyncio
import copy
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripted_agent import Interaction

from groundlab.worlds import TextEnv, adapters

WORLD = "BabyAI-GoToLocal-v0"


def test_verifiers_finds_the_taskset_and_a_level_is_played(tmp_path, monkeypatch):
    pytest.importorskip("verifiers", reason="nox -s adapters has it")
    from verifiers.v1.utils import loaders

    adapter = adapters.load("verifiers")
    lines = "from groundlab.worlds.adapters.verifiers import GridPlay, GridTaskset\n"
    lines += "__all__ = ['GridPlay', 'GridTaskset']"
    (tmp_path / "groundlab_worlds.py").write_text(lines)
    monkeypatch.syspath_prepend(tmp_path)
    assert loaders.environment_class("groundlab_worlds") is adapter.GridPlay
    tasks = list(loaders.load_taskset(adapter.GridConfig(id="groundlab_worlds", world=WORLD)).take(2))
    assert [task.data.info["seed"] for task in tasks] == [0, 1]
    assert tasks[1].data.prompt == TextEnv(WORLD, prompt="plain").reset(seed=1)[0]
    talk = Interaction(["<action>go forward</action>", "go forward"])
    agents = SimpleNamespace(player=SimpleNamespace(interaction=lambda _: talk))
    asyncio.run(adapter.GridPlay.run(object.__new__(adapter.GridPlay), tasks[0], agents))
    assert (talk.rewards, talk.metrics) == ({"return": pytest.approx(1 - 0.9 * 2 / 64)}, {"success": 1.0})
    sys.modules.pop("groundlab_worlds", None)


def test_gem_makes_plays_and_branches_a_world():
    gem = pytest.importorskip("gem", reason="nox -s adapters has it")
    adapter = adapters.load("gem")
    env = gem.make(adapter.register_world(WORLD))
    assert isinstance(env, gem.Env)
    assert env.reset(seed=0)[0] == TextEnv(WORLD, prompt="plain").reset(seed=0)[0]
    assert env.step(env.sample_random_action())[4]["action_is_valid"]
    env.step("turn left")
    assert env.spawn(same_state=True).step("go forward") == env.step("go forward")


def test_the_pages_batch_of_gem_plays_episodes_as_in_this_process():
    """As GEM's training collects them: a seed for each environment, a restart in the step that ends an episode."""
    pytest.importorskip("gem", reason="nox -s adapters has it")
    page = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page.partition("## GEM\n")[2], re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(blocks[1], "docs/adapters.md", "exec"), names)
    envs, ended, here = names["envs"], 0, [TextEnv(WORLD, prompt="plain") for _ in range(4)]
    for number, env in enumerate(here):
        env.reset(seed=7 + number)
    begun = [env.reset()[0] for env in here]
    assert [text.rstrip("\n") for text in envs.reset()[0]] == begun
    while ended < 8:
        said = [env.unwrapped.sample_random_action() for env in envs.envs]
        branches = [copy.deepcopy(env).step(word) for env, word in zip(envs.envs, said, strict=True)]
        texts, rewards, terminated, truncated, infos = envs.step(said)
        for number, env in enumerate(here):
            text, reward, *ends, _ = env.step(said[number][7:-1])
            assert branches[number][1] == rewards[number] == reward
            assert [bool(terminated[number]), bool(truncated[number])] == ends
            if any(ends):
                text, ended = env.reset()[0], ended + 1
                assert infos[number]["prev_ep_cumulative_rewards"] == reward
            assert texts[number].rstrip("\n").endswith(text)
