"""Background knowledge in Crafter: pictures are played from, and what is for grids is refused."""

import numpy as np
import pytest
import runs

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.papers import registry
from groundlab.papers.knowledge import bk_pref, captions
from groundlab.papers.knowledge.bk_pref import PreferenceTransformer
from groundlab.papers.knowledge.observations import CRAFTER, normalise
from groundlab.papers.knowledge.potentials import RandomPotential
from groundlab.papers.knowledge.ppo import PPO
from groundlab.papers.knowledge.settings import COLLECTION, PPOSettings
from groundlab.worlds.crafter.view import describe

WORLD = "Crafter-Text-CollectDrink"
SMALL = {"num_envs": 2, "frames_per_env": 8, "epochs": 1, "minibatches": 2}


def test_views_hold_the_picture_for_networks_and_the_codes_for_captions():
    envs = CRAFTER.make(WORLD, 3, "same-step")
    observations, _ = envs.reset(seed=[1, 2, 3])
    views = CRAFTER.view(observations)
    read = normalise(views)
    assert read.shape == (3, *CRAFTER.shape) and read.dtype == np.float32
    np.testing.assert_array_equal(read, observations["image"].transpose(0, 3, 1, 2).astype(np.float32) / 255)
    assert captions.observations(views) == [describe(codes) for codes in observations["codes"]]
    assert normalise(np.stack([views, views], 1)).shape == (3, 2, *CRAFTER.shape)


def test_shaping_and_curiosity_go_through_a_checkpoint():
    settings = PPOSettings.model_validate({**SMALL, **COLLECTION})
    runs.goes_on(lambda: PPO(WORLD, 0, settings, RandomPotential(0)), updates=1)


def run(folder, **given):
    return runs.executed(folder, "knowledge", WORLD, **SMALL, iterations=2, layouts="0-1", scale=1.0, **given)


OTHERS, FITTING = "use none, random, preference or goals", "is a dataset of other worlds; set dataset=crafter-reward"
FOR_GRIDS = [({"form": "oracle"}, OTHERS), ({"form": "code"}, OTHERS)]
FOR_GRIDS += [({"form": "goals", "maker": "recorded"}, FITTING), ({"form": "preference", "maker": "scripted"}, FITTING)]


@pytest.mark.parametrize(("given", "line"), FOR_GRIDS)
def test_what_is_for_grids_says_what_fits(tmp_path, given, line):
    with pytest.raises(GroundlabError, match=line):
        run(tmp_path / "run", **given)


def test_preferences_of_grids_are_not_read_in_crafter(tmp_path):
    bk_pref.store(tmp_path / "grids", PreferenceTransformer((3, 7, 7), 7, size="small"))
    with pytest.raises(GroundlabError, match="was learnt on other worlds; label preferences"):
        run(tmp_path / "run", form="preference", source=str(tmp_path / "grids"))


def test_the_public_game_is_not_a_world_of_the_paper():
    assert "Crafter-Reward" in worlds.CRAFTER_WORLDS
    with pytest.raises(GroundlabError, match="knowledge does not run on Crafter-Reward"):
        registry.check_world("knowledge", "Crafter-Reward")
