"""Tests change words, worlds, action names or the mission, and nothing else."""

import numpy as np
import pytest
import torch

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.papers.episodes import select_env
from groundlab.papers.glam.episodes import evaluate, parse_test, plan_tests
from groundlab.papers.glam.policy import UNALTERED, Alteration, Reader, TextPlayer
from groundlab.papers.glam.ppo import Settings

WORLD = "BabyAI-GoToLocalS8N4-v0"


def first_prompts(world=WORLD, alteration=UNALTERED, **settings):
    envs = worlds.make(world, 6, seed=0)
    observations, _ = envs.reset()
    reader = Reader(6, world, Settings(**settings), alteration)
    for env in range(6):
        reader.start(env, select_env(observations, env))
    return reader.prompts(observations, np.arange(6)), observations["mission"]


def test_a_prompt_tells_mission_and_last_observation():
    prompts, missions = first_prompts()
    for prompt, mission in zip(prompts, missions, strict=True):
        assert prompt.startswith(f"Goal of the agent: {mission} \n Observation 0: You see ")
        assert prompt.endswith(", \n Action 0: ")
    listed, _ = first_prompts(action_list=True)
    head = "Possible action of the agent: turn left, turn right, go forward, pick up, drop, toggle \n "
    assert listed == [head + prompt for prompt in prompts]


def test_the_control_tells_one_mission_and_shows_the_same_world():
    prompts, missions = first_prompts()
    fixed, _ = first_prompts(alteration=Alteration(mission="go to the red ball"))
    assert len(set(missions)) > 2
    for prompt, mission, control in zip(prompts, missions, fixed, strict=True):
        assert control == prompt.replace(f": {mission} \n", ": go to the red ball \n")
        assert mission == "go to the red ball" or mission not in control.split("\n")[0]


def test_modifiers_change_the_words_of_goal_and_observation_alike():
    prompts, _ = first_prompts()
    changed, _ = first_prompts(alteration=Alteration(modifier="other_name_same_categories"))
    assert changed == [
        prompt.replace("key", "chair").replace("ball", "table").replace("box", "car") for prompt in prompts
    ]


def test_french_worlds_are_told_in_french():
    prompts, _ = first_prompts("BabyAI-GoToFrench-v0", action_list=True)
    assert all("Actions possibles pour l'agent: tourner à gauche" in prompt for prompt in prompts)
    assert all("But de l'agent: aller à" in prompt and "Tu vois" in prompt for prompt in prompts)


def test_tests_are_named_by_their_words():
    test = parse_test("BabyAI-GoToLocal-v0 fixed-mission synonyms adj_synonym", Settings(fixed_mission="go home"))
    assert test.world == "BabyAI-GoToLocal-v0"
    assert test.alteration == Alteration("adj_synonym", "go home", "synonyms")
    with pytest.raises(GroundlabError, match="unknown word in tests 'adj_synonyms'; did you mean 'adj_synonym'"):
        parse_test("adj_synonyms", Settings())
    with pytest.raises(GroundlabError, match="set fixed_mission"):
        parse_test("fixed-mission", Settings(fixed_mission=""))


def test_every_policy_is_also_played_under_one_mission():
    named = [test.policy(choice) for test, choice in plan_tests(Settings(tests=["adj_synonym"]))]
    assert named == ["sampled", "greedy", "sampled fixed-mission", "greedy fixed-mission", "sampled adj_synonym"]
    assert [test.policy(choice) for test, choice in plan_tests(Settings(fixed_mission=""))] == ["sampled", "greedy"]


class Recorder:
    """A policy that prefers one text action for ever, and keeps the prompts."""

    def __init__(self, index):
        self.index, self.prompts = index, []

    def __call__(self, prompts):
        self.prompts += prompts
        return torch.eye(9)[[self.index] * len(prompts)].log(), torch.zeros(len(prompts))


def test_each_test_is_played_where_it_says_with_the_words_it_says():
    settings, recorders = Settings(layouts="3-4", nbr_obs=2, tests=["synonyms", "BabyAI-GoToObjS4-v0"]), []

    def player_for(world, alteration, num_envs, rng):
        recorders.append((Recorder(0), rng is None))
        return TextPlayer(recorders[-1][0], num_envs, world, settings, alteration, rng)

    results = {result["policy"]: result for result in evaluate(WORLD, 0, settings, player_for)}
    prompts = {name: recorder.prompts for name, (recorder, _) in zip(results, recorders, strict=True)}
    assert [greedy for _, greedy in recorders] == [name.startswith("greedy") for name in results]
    assert [row["layout"] for row in results["sampled"]["rows"]] == [3, 4]
    assert all(row["steps"] == 64 for row in results["sampled"]["rows"])
    assert [row["steps"] for row in results["sampled BabyAI-GoToObjS4-v0"]["rows"]] == [16, 16]
    assert all("go to the red ball" in prompt for prompt in prompts["sampled fixed-mission"])
    assert any("Action 0: rotate left \n" in prompt for prompt in prompts["sampled synonyms"])
    assert not any("turn left" in prompt for prompt in prompts["sampled synonyms"])
