"""Rollouts are the original's, prompt by prompt and advantage by advantage."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from groundlab.papers.glam.episodes import EnvStream
from groundlab.papers.glam.policy import Reader
from groundlab.papers.glam.ppo import Collector, Settings

RECORDED = json.loads((Path(__file__).parents[3] / "golden" / "glam_rollout_gae.json").read_text())
WORLD = "BabyAI-GoToLocalS8N4-v0"
ENDS = {0: [3, 2, 99], 1: [5, 99]}  # lengths of the recorded episodes of both environments
REWARDED = {(0, 0)}  # (environment, episode) that ended with a reward of 0.9


class RecordedEnvs:
    """The stub of the recording: episodes of fixed lengths whose texts say where they are."""

    num_envs = 2

    def __init__(self, truncating: bool = False):
        self.episode, self.step_count, self.truncating = [0, 0], [0, 0], truncating

    def observation(self):
        says = [f"env {env} episode {self.episode[env]} step {self.step_count[env]}" for env in range(2)]
        return {"says": says, "mission": [f"go to the ball of episode {episode}" for episode in self.episode]}

    def reset(self, seed=None):
        return self.observation(), {}

    def step(self, actions):
        self.step_count = [count + 1 for count in self.step_count]
        final = self.observation()
        ended = np.array([self.step_count[env] == ENDS[env][self.episode[env]] for env in range(2)])
        rewards = np.array([0.9 * (ended[env] and (env, self.episode[env]) in REWARDED) for env in range(2)])
        for env in np.flatnonzero(ended):
            self.episode[env] += 1
            self.step_count[env] = 0
        cut = ended & (rewards == 0) & self.truncating
        return self.observation(), rewards, ended & ~cut, cut, {"final_obs": final}


class RecordedReader(Reader):
    def sentences(self, observation):
        return [observation["says"], "You see a wall 1 step left"]


def crc(text: str) -> float:
    return (zlib.crc32(text.encode()) % 1000) / 1000


def policy(prompts):
    actions = Reader(1, WORLD, Settings()).action_texts
    scores = torch.tensor([[crc(prompt + action) for action in actions] for prompt in prompts])
    return scores.log_softmax(-1), torch.tensor([2 * crc(prompt) - 1 for prompt in prompts])


def collect(**settings):
    resolved = Settings(nbr_obs=3, action_list=True, reward_scale=20, num_envs=2, frames_per_env=8, **settings)
    reader = RecordedReader(2, WORLD, resolved)
    actions = iter(np.array(RECORDED["actions"]).reshape(2, 8).T)
    stream = EnvStream(RecordedEnvs(truncating="timeouts" in settings), [0, 1])  # type: ignore[arg-type]
    collector = Collector(stream, reader, resolved, choose=lambda log_probs, rng: next(actions))
    return collector.collect(policy, np.random.default_rng(0))


def test_a_rollout_is_the_originals():
    rollout = collect()
    assert rollout.prompts == RECORDED["prompts"]
    for name in ("actions", "log_probs", "values", "advantages", "returns"):
        ours, recorded = getattr(rollout, name).double(), torch.tensor(RECORDED[name]).double()
        torch.testing.assert_close(ours, recorded, rtol=1e-5, atol=1e-6, msg=name)  # both were float32
    assert rollout.advantages[0].item() == pytest.approx(17.464195, abs=1e-4)
    logs = RECORDED["logs"]
    assert [row["return"] for row in rollout.episodes] == pytest.approx(logs["return_per_episode"])
    assert [row["length"] for row in rollout.episodes] == logs["num_frames_per_episode"]
    assert [row["success"] for row in rollout.episodes] == [1.0, 0.0, 0.0], "an end without a reward is no success"


def test_a_time_limit_may_be_bootstrapped_with_the_observation_that_it_cut_off():
    plain, bootstrapped = collect(), collect(timeouts="bootstrap")
    cut_off = RECORDED["prompts"][4].removesuffix("Action 1: ") + (
        "Action 1: pick up \n Observation 2: env 0 episode 1 step 2, You see a wall 1 step left, \n Action 2: "
    )
    added = 0.99 * policy([cut_off])[1].item()
    difference = bootstrapped.advantages - plain.advantages
    assert difference[4].item() == pytest.approx(added, abs=1e-5)
    assert difference[3].item() == pytest.approx(added * 0.99 * 0.99, abs=1e-5)
    assert (difference[[0, 1, 2, 5, 6, 7, 13, 14, 15]] == 0).all(), "rewarded ends and open ones are as they were"
    assert bootstrapped.prompts == plain.prompts
    assert [row["success"] for row in bootstrapped.episodes] == [1.0, 0.0, 0.0]
