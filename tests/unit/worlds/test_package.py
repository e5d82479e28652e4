"""Worlds that only the minigrid package has: its own environments behind our batched interface."""

import io
from contextlib import redirect_stdout

import gymnasium as gym
import numpy as np
import pytest

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.worlds.adapters import minigrid_package as package

WORLDS = ("MiniGrid-LockedRoom-v0", "MiniGrid-Empty-5x5-v0")
SHORT = "MiniGrid-Empty-5x5-v0"


def same(ours: dict, env: int, theirs: dict) -> bool:
    kept = (ours["direction"][env], ours["mission"][env]) == (theirs["direction"], theirs["mission"])
    return kept and np.array_equal(ours["image"][env], theirs["image"])


def test_no_native_world_runs_through_the_package():
    assert isinstance(worlds.make("BabyAI-GoToLocal-v0", 1), worlds.GridVectorEnv)
    assert isinstance(worlds.make("MiniGrid-LockedRoom-v0", 1), package.PackageVectorEnv)


def test_all_of_babyai_and_the_mazes_of_minigrid_are_native():
    families = ("BabyAI-", "MiniGrid-Unlock", "MiniGrid-BlockedUnlock", "MiniGrid-KeyCorridor", "MiniGrid-Obstructed")
    native = {name for name in package.package_ids() if name.startswith(families)}
    assert len(native) > 100 and native <= worlds.WORLDS.keys()


@pytest.mark.parametrize("world", WORLDS)
def test_episodes_of_a_seed_are_the_packages_own(world):
    seeds, actions = [7, 3, 11], np.random.default_rng(0).integers(0, 7, (60, 3))
    ours, theirs = worlds.make(world, 3), [gym.make(world).unwrapped for _ in seeds]
    observations, _ = ours.reset(seed=seeds)
    finished = np.zeros(3, bool)
    with redirect_stdout(io.StringIO()):
        for env, seed in enumerate(seeds):
            assert same(observations, env, theirs[env].reset(seed=seed)[0])
        for row in actions:
            observations, rewards, terminated, truncated, _ = ours.step(row)
            for env in range(3):
                if finished[env]:
                    expected = (theirs[env].reset()[0], 0.0, False, False, {})
                else:
                    expected = theirs[env].step(row[env])
                assert same(observations, env, expected[0])
                assert (rewards[env], terminated[env], truncated[env]) == expected[1:4]
            finished = terminated | truncated
    assert observations["image"].shape == (3, 7, 7, 3) and observations["image"].dtype == np.uint8


def test_minigrids_printing_is_silenced(capsys):
    env = package.PackageVectorEnv("BabyAI-BossLevel-v0", 8, seed=0)
    for _ in range(3):
        env.reset()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("mistake", "fix"),
    [
        (lambda: worlds.make(SHORT, 2).save(), "cannot be checkpointed; use one of `groundlab worlds`"),
        (lambda: worlds.make(SHORT, 0), "give at least 1"),
        (lambda: worlds.make(SHORT, 2, kinds="per-episode"), "takes autoreset"),
        (lambda: worlds.make("MiniGrid-Emty-5x5-v0", 2), "unknown world 'MiniGrid-Emty-5x5-v0'"),
    ],
)
def test_mistakes_are_answered_with_their_fix(mistake, fix):
    with pytest.raises(GroundlabError, match=fix):
        mistake()
