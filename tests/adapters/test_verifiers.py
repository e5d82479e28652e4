"""verifiers itself: levels found and played by its own means. Run by `nox -s adapters`."""

import asyncio
import sys
from types import SimpleNamespace

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
