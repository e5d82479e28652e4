"""Tests change words, worlds, action names or the mission, and nothing else."""

import numpy as np
import pytest

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.papers.episodes import one
from groundlab.papers.glam.evaluation import examine, parse_test, planned
from groundlab.papers.glam.policy import UNALTERED, Alteration, Reader, ReadingPlayer
from groundlab.papers.glam.ppo import Settings

WORLD = "BabyAI-GoToLocalS8N4-v0"


def first_prompts(world=WORLD, alteration=UNALTERED, **settings):
    envs = worlds.make(world, 6, seed=0)
    observations, _ = envs.reset()
    reader = Reader(6, world, Settings(**settings), alteration)
    for env in range(6):
        reader.start(env, one(observations, env))
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
    named = [test.policy(choice) for test, choice in planned(Settings(tests=["adj_synonym"]))]
    assert named == ["sampled", "greedy", "sampled fixed-mission", "greedy fixed-mission", "sampled adj_synonym"]
    assert [test.policy(choice) for test, choice in planned(Settings(fixed_mission=""))] == ["sampled", "greedy"]


class Recorder(ReadingPlayer):
    """Does one text action for ever, and keeps the prompts."""

    def __init__(self, index, *args):
        super().__init__(*args)
        self.index, self.read = index, []

    def choose(self, prompts):
        self.read += prompts
        return np.full(len(prompts), self.index)


def test_each_test_is_played_where_it_says_with_the_words_it_says():
    settings, players = Settings(layouts="3-4", nbr_obs=2, tests=["synonyms", "BabyAI-GoToObjS4-v0"]), {}

    def player_for(world, alteration, greedy, num_envs, purpose):
        assert greedy == purpose.startswith("greedy")
        players[purpose] = Recorder(0, num_envs, world, settings, alteration)
        return players[purpose]

    results = {result["policy"]: result for result in examine(WORLD, settings, player_for)}
    assert [row["layout"] for row in results["sampled"]["rows"]] == [3, 4]
    assert all(row["steps"] == 64 for row in results["sampled"]["rows"])
    assert [row["steps"] for row in results["sampled BabyAI-GoToObjS4-v0"]["rows"]] == [16, 16]
    assert all("go to the red ball" in prompt for prompt in players["sampled fixed-mission"].read)
    assert any("Action 0: rotate left \n" in prompt for prompt in players["sampled synonyms"].read)
    assert not any("turn left" in prompt for prompt in players["sampled synonyms"].read)


def test_generalisation_tests_can_have_layouts_of_their_own_and_the_agents_own_world_keeps_its_own():
    settings = Settings(
        layouts="0-2", test_layouts="7-8", tests=["fixed-mission adj_synonym"], fixed_mission="go to a key"
    )
    results = examine(WORLD, settings, lambda w, a, g, n, p: Recorder(2, n, w, settings, a))
    layouts = {result["policy"]: [row["layout"] for row in result["rows"]] for result in results}
    assert layouts["sampled"] == layouts["greedy fixed-mission"] == [0, 1, 2]
    assert layouts["sampled fixed-mission adj_synonym"] == [7, 8]


def test_actions_that_the_world_lacks_are_told_as_they_were_chosen_and_do_nothing():
    settings = Settings(layouts="0-1", nbr_obs=2, action_space=9, fixed_mission="")
    players = []

    def player_for(world, alteration, greedy, num_envs, purpose):
        players.append(Recorder(8, num_envs, world, settings, alteration))
        return players[-1]

    results = examine("BabyAI-GoToObjS4-v0", settings, player_for)
    assert all("Action 0: think \n" in prompt for prompt in players[0].read[2:])
    assert results[0]["mean"]["success"] == 0


def test_first_finished_episodes_are_counted_where_asked():
    settings = Settings(layouts="0-1", fixed_mission="", first_finished=5, num_envs=2)
    results = examine("BabyAI-GoToObjS4-v0", settings, lambda w, a, g, n, p: Recorder(2, n, w, settings, a))
    assert [result["policy"] for result in results] == ["sampled", "greedy", "first-finished"]
    assert len(results[-1]["rows"]) == 5
