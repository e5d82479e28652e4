"""The text environments: Gymnasium's rules, the image worlds' levels, what is read, what an unknown word does."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.worlds import TextEnv, TextVectorEnv
from groundlab.worlds.registry import TEXT_ENV
from groundlab.worlds.text import Wording, describe_batch
from groundlab.worlds.text_env.batch import PENALTY
from groundlab.worlds.text_env.prompts import glam_prompt, text_actions

LOCAL, MIXED = "BabyAI-GoToLocal-v0", "BabyAI-MixedTrainLocal-v0"
WITH_WORDS = (
    *(LOCAL, "BabyAI-GoToFrench-v0", f"{MIXED}/putnext", "Reasoning-Open-v0", "BabyAI-BossLevel-v0"),
    "Crafter-Text-EatCow",
)


@pytest.mark.parametrize("world", WITH_WORDS)
def test_it_passes_gymnasiums_checker(world, recwarn):
    check_env(gym.make(TEXT_ENV, world=world, prompt="plain", history=2).unwrapped, skip_render_check=True)
    batch = gym.make_vec(TEXT_ENV, num_envs=2, vectorization_mode="vector_entry_point", world=world)
    texts, _ = batch.reset(seed=3)
    assert texts in batch.observation_space
    assert batch.action_space.sample() in batch.action_space


@pytest.mark.parametrize("world", [LOCAL, f"{MIXED}/open", "Reasoning-PutNext-v0", "BabyAI-KeyCorridor-v0"])
def test_a_seed_gives_the_level_steps_and_words_of_the_image_worlds(world):
    """1,000 steps beside GridEnv: missions, sentences, rewards and ends are the same."""
    rng, pictures, words = np.random.default_rng(1), worlds.GridEnv(world), TextEnv(world)
    for seed in range(8):
        image, (_, info) = pictures.reset(seed=seed)[0], words.reset(seed=seed)
        assert (info["mission"], info["layout"]) == (image["mission"], seed)
        for action in rng.integers(0, 6, 125).tolist():
            image, *outcome, _ = pictures.step(action)
            _, *said, info = words.step(words.actions[action])
            assert said == outcome
            assert list(info["descriptions"]) == describe_batch(image["image"][None])[0]
            assert info["success"] == (outcome[0] > 0)
            if outcome[1] or outcome[2]:
                break


def test_glams_prompt_is_that_of_its_agents():
    """The last three observations and the actions between them, as the paper's own function writes them."""
    env = TextEnv(LOCAL, history=3)
    text, info = env.reset(seed=5)
    observations, actions = [info["descriptions"]], []
    assert text == glam_prompt(info["mission"], env.actions, observations, [])
    for action in ("turn left", "go forward", "turn right", "go forward"):
        text, _, _, _, info = env.step(action)
        observations, actions = [*observations, info["descriptions"]][-3:], [*actions, action][-2:]
        assert text == glam_prompt(info["mission"], text_actions(6), observations, actions)


def test_a_french_world_is_read_and_acted_in_in_french():
    env = TextEnv("BabyAI-GoToFrench-v0", history=2)
    env.reset(seed=0)
    text = env.step("tourner à gauche")[0]
    assert "But de l'agent: aller à" in text and "Action 0: tourner à gauche" in text
    assert not env.step("turn left")[4]["action_is_valid"]


def test_balrogs_observation_has_a_sentence_a_line_without_you_see():
    env = TextEnv(f"{MIXED}/goto", prompt="balrog", num_dists=0, invalid="forward")
    text, info = env.reset(seed=3)
    assert text.split("\n") == [each.removeprefix("You see ") for each in info["descriptions"]]
    said = env.step("walk")[0]
    note = "\n\nYour previous output did not contain a valid action. Defaulted to action: go forward\n\nObservation:\n"
    assert said.startswith(note)


def test_plain_text_is_the_goal_and_what_is_seen():
    env = TextEnv(LOCAL, prompt="plain", history=2, wording=Wording(nothing=True))
    first, info = env.reset(seed=0)
    assert first == "\n".join([f"Goal of the agent: {info['mission']}", *info["descriptions"]])
    second, *_, later = env.step("turn left")
    assert second == "\n".join([first, "> turn left", *later["descriptions"]])


def test_an_unknown_word_does_what_was_chosen_and_the_next_text_says_so():
    for invalid, cost, moved in (("wait", 0.0, False), ("penalty", PENALTY, False), ("forward", 0.0, True)):
        env = TextEnv(LOCAL, invalid=invalid)
        _, before = env.reset(seed=0)
        text, reward, _, _, info = env.step("Turn left!")
        assert text.startswith("Unknown action 'Turn left!'; use one of: turn left, turn right")
        assert (reward, info["action_is_valid"], info["action_is_effective"]) == (cost, False, moved)
        assert (info["state"] != before["state"]) == moved


def test_unknown_words_use_up_the_time_limit():
    env = TextEnv(LOCAL, max_steps=5)
    env.reset(seed=0)
    assert [env.step("?")[3] for _ in range(5)] == [False] * 4 + [True]


def test_a_time_limit_counts_in_the_reward_as_minigrids_does():
    """Seed 0's target lies three steps ahead: two steps forward reach it."""
    rewards = []
    for limit in (None, 10):
        env = TextEnv(LOCAL, max_steps=limit)
        env.reset(seed=0)
        env.step("go forward")
        _, reward, terminated, _, info = env.step("go forward")
        assert terminated and info["success"]
        rewards.append(reward)
    assert rewards == pytest.approx([1 - 0.9 * 2 / 64, 1 - 0.9 * 2 / 10])


def test_a_branch_goes_on_from_its_state_and_the_trunk_knows_nothing_of_it():
    env = TextEnv(LOCAL, history=3)
    env.reset(seed=7)
    env.step("turn left")
    kept, branch = env.state(), env.spawn(same_state=True)
    plan = ["go forward", "turn right", "pick up", "go forward"]
    ours, theirs = [env.step(action) for action in plan], [branch.step(action) for action in plan]
    assert ours == theirs
    env.load_state(kept)
    assert [env.step(action) for action in plan] == ours
    assert env.reset()[1]["mission"] == branch.reset()[1]["mission"]  # the random stream is the state's too


def test_a_history_tells_what_was_done_in_place_of_an_unknown_word():
    for invalid, done in (("wait", "do nothing"), ("forward", "go forward")):
        env = TextEnv(LOCAL, history=2, prompt="plain", invalid=invalid)
        env.reset(seed=0)
        assert f"\n> {done}\n" in env.step("fly")[0]


@pytest.mark.parametrize("world", [MIXED, "BabyAI-BossLevelNoUnlock-v0"])
def test_equal_states_have_equal_names_and_others_have_not(world):
    env = TextEnv(LOCAL)
    _, start = env.reset(seed=2)
    around = [env.step("turn left")[4]["state"] for _ in range(4)]
    assert around[-1] == start["state"] and len(set(around)) == 4
    assert isinstance(start["state"], bytes) and len(start["state"]) == 16
    batch = TextVectorEnv(world, 512)
    batch.reset(seed=0)
    names = {}
    rng = np.random.default_rng(0)
    for _ in range(20):
        info = batch.step([batch.actions[k] for k in rng.integers(0, 6, 512)])[4]
        arrays = batch._envs.save()
        parts = ("cells", "contents", "tracked", "agents", "carried", "missions", "progress")
        for env, name in enumerate(info["state"]):
            names.setdefault(name, set()).add(b"".join(arrays[part][env].tobytes() for part in parts))
    assert len(names) > 2_000
    assert all(len(states) == 1 for states in names.values())
    assert len(set.union(*names.values())) == len(names)


@pytest.mark.parametrize("world", [MIXED, "Crafter-Text-Reward"])
def test_a_batch_is_its_environments_one_by_one(world):
    """Through the ends of episodes, unknown words, and more views than one."""
    options = {"history": 2, "prompt": "plain", "invalid": "penalty", "max_steps": 12}
    batch, rng = TextVectorEnv(world, 5, autoreset="disabled", **options), np.random.default_rng(2)
    kinds = worlds.find(world).kinds if world == MIXED else ("",)
    singles = [TextEnv(f"{world}/{kinds[i % 5]}" if world == MIXED else world, **options) for i in range(5)]
    texts, info = batch.reset(seed=10)
    assert list(texts) == [single.reset(seed=10 + i)[0] for i, single in enumerate(singles)]
    words = [*batch.actions, "?"]
    for _ in range(12):
        chosen = [words[k] for k in rng.integers(0, len(words), 5)]
        texts, rewards, terminated, truncated, info = batch.step(chosen)
        for i, single in enumerate(singles):
            text, reward, ended, over, own = single.step(chosen[i])
            assert (text, reward, ended, over) == (texts[i], rewards[i], terminated[i], truncated[i])
            shared = {"actions", "state"} if world == MIXED else {"actions"}  # a kind alone has a smaller canvas
            per_env = {name: values for name, values in info.items() if name not in shared}
            assert {name: values[i] for name, values in per_env.items()} == {name: own[name] for name in per_env}
    assert (terminated | truncated).all()


def test_after_an_end_the_next_step_begins_an_episode_whatever_is_said():
    env = TextVectorEnv(LOCAL, 2, max_steps=2, history=3, prompt="plain", invalid="penalty")
    env.reset(seed=0)
    env.step(["turn left"] * 2)
    assert env.step(["turn left"] * 2)[3].all()
    texts, rewards, terminated, truncated, info = env.step(["nonsense"] * 2)
    assert not (rewards.any() or terminated.any() or truncated.any())
    assert info["action_is_valid"].all() and not info["action_is_effective"].any()
    assert info["layout"] == [None, None]
    assert all(">" not in text and "Unknown" not in text for text in texts)


def test_a_memory_of_views_that_overflows_changes_nothing(monkeypatch):
    plan = [[text_actions(6)[k] for k in row] for row in np.random.default_rng(4).integers(0, 6, (30, 64))]

    def rollout() -> list:
        env = TextVectorEnv(LOCAL, 64)
        return [env.reset(seed=1)[0], *(env.step(actions)[0] for actions in plan)]

    whole = rollout()
    monkeypatch.setattr("groundlab.worlds.text_env.batch.REMEMBERED", 3)
    assert rollout() == whole


MISTAKES = {
    "unknown world 'BabyAI-GoToLocl-v0'; did you mean 'BabyAI-GoToLocal-v0'": ({"world": "BabyAI-GoToLocl-v0"}, {}),
    "SimpleDoorKey has no words": ({"world": "SimpleDoorKey"}, {}),
    "world is 3; give the name": ({"world": 3}, {}),
    "unknown prompt 'glm'; did you mean 'glam'": ({"prompt": "glm"}, {}),
    "unknown invalid 'stop'": ({"invalid": "stop"}, {}),
    "history is 0": ({"history": 0}, {}),
    "BALROG's agents keep their own history": ({"prompt": "balrog", "history": 2}, {}),
    "max_steps is 0": ({"max_steps": 0}, {}),
    "wording is 'glam'": ({"wording": "glam"}, {}),
    "has no option num_dists": ({"num_dists": 3}, {}),
    "is no grid world": ({"world": "Crafter-Text-EatCow", "invalid": "forward"}, {}),
    "as seed, got '3'; give one": ({}, {"seed": "3"}),
    "as seed, got -1": ({}, {"seed": -1}),
    "as seed, got True": ({}, {"seed": True}),
    "as seed, got 1.0": ({}, {"seed": 1.0}),
    "unknown reset option 'layout'": ({}, {"options": {"layout": 3}}),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_one_clear_line(message):
    settings, reset = MISTAKES[message]
    with pytest.raises(GroundlabError) as error:
        TextEnv(**{"world": LOCAL, **settings}).reset(**reset)
    assert message in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 500


def test_an_action_that_is_no_word_is_one_clear_line():
    env = TextEnv(LOCAL)
    env.reset(seed=0)
    for action in (3, None, ["turn left"], np.int64(2)):
        with pytest.raises(GroundlabError, match="give a word: turn left"):
            env.step(action)
    with pytest.raises(GroundlabError, match="2 for 3 environments"):
        TextVectorEnv(LOCAL, 3).step(["drop", "drop"])


def test_the_worlds_load_neither_torch_nor_transformers_not_even_in_words():
    code = """
import sys
from groundlab import worlds
worlds.names()
assert not {"numba", "minigrid", "crafter"} & set(sys.modules), "worlds are known before any engine is loaded"
worlds.TextEnv("BabyAI-GoToLocal-v0").reset(seed=0)
print(sorted({"torch", "transformers", "tokenizers", "openai"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
