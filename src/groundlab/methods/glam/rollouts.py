"""Experience for PPO: some steps of parallel environments, the credit of every action, the episodes that ended.

    collector = Collector(envs, reader, settings)
    rollout = collector.collect(look, generator(seed, "actions", update))      # N = environments x steps decisions

Environments restart by themselves and go on from one rollout to the next. `state` and `load_state` carry everything
through a checkpoint. Source: spec glam-agents 2.1 and 2.2. Called from: `lm_ppo.py`.
"""

import io
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from groundlab.core.run import Files
from groundlab.language.prompts import env_actions
from groundlab.learning.returns import gae
from groundlab.methods.glam.policy import sample
from groundlab.methods.glam.reading import Reader
from groundlab.methods.glam.settings import TrainingSettings
from groundlab.methods.playing import one

Look = Callable[[Sequence[str]], tuple[Tensor, Tensor]]
Choose = Callable[[Tensor, np.random.Generator], np.ndarray]


class Rollout(NamedTuple):
    """N decisions, all steps of environment 0 first, and what came of them."""

    prompts: list[str]
    actions: Tensor  # int64 [N]
    log_probs: Tensor  # [N], under the policy that acted
    values: Tensor  # [N]
    advantages: Tensor  # [N], as they are
    returns: Tensor  # [N]
    episodes: list[dict[str, float]]  # success, return (raw rewards), length of those that ended


class Step(NamedTuple):
    """One step of B environments."""

    prompts: list[str]
    actions: Tensor  # int64 [B]
    log_probs: Tensor  # [B]
    values: Tensor  # [B]
    rewards: Tensor  # [B], as learnt from
    dones: Tensor  # bool [B]


class Collector:
    """Plays B environments that restart in the step in which they end (autoreset "same-step")."""

    def __init__(self, envs: Any, reader: Reader, settings: TrainingSettings, choose: Choose = sample):
        self._envs, self._reader, self._settings, self._choose = envs, reader, settings, choose
        self._everyone = np.arange(envs.num_envs)
        self._returns, self._lengths = np.zeros(envs.num_envs), np.zeros(envs.num_envs, np.int64)
        self._observations: dict[str, Any] = {}

    def start(self, seeds: list[int]) -> None:
        """First episodes: environment i begins with layout seeds[i]."""
        self._observations, _ = self._envs.reset(seed=seeds)
        for env in self._everyone.tolist():
            self._reader.start(env, one(self._observations, env))

    def collect(self, look: Look, rng: np.random.Generator) -> Rollout:
        """The next steps of all environments under the policy `look`."""
        episodes: list[dict[str, float]] = []
        steps = [self._step(look, rng, episodes) for _ in range(self._settings.frames_per_env)]
        _, last_values = look(self._prompts())
        _, actions, log_probs, values, rewards, dones = (list(field) for field in zip(*steps, strict=True))
        credit = gae(
            torch.stack(rewards),
            torch.stack(values),
            torch.stack(dones),
            last_values,
            self._settings.gamma,
            self._settings.lam,
        )
        prompts = [step.prompts[env] for env in self._everyone.tolist() for step in steps]
        decisions = (torch.stack(field) for field in (actions, log_probs, values))
        fields = [field.T.reshape(-1) for field in (*decisions, *credit)]  # environment after environment
        return Rollout._make([prompts, *fields, episodes])

    def _prompts(self) -> list[str]:
        return self._reader.prompts(self._observations, self._everyone)

    def _step(self, look: Look, rng: np.random.Generator, episodes: list[dict[str, float]]) -> Step:
        prompts = self._prompts()
        log_probs, values = look(prompts)
        chosen = self._choose(log_probs, rng)
        observations, rewards, terminated, truncated, info = self._envs.step(env_actions(chosen))
        learnt = torch.tensor(rewards * self._settings.reward_scale, dtype=torch.float32)
        if self._settings.timeouts == "bootstrap" and truncated.any():
            learnt += self._settings.gamma * self._cut_off(look, chosen, info["final_obs"], truncated & ~terminated)
        self._returns += rewards
        self._lengths += 1
        ended = terminated | truncated
        for env in self._everyone.tolist():
            if ended[env]:
                episodes.append(self._close(env, bool(terminated[env])))
                self._reader.start(env, one(observations, env))
            else:
                self._reader.see(env, int(chosen[env]), one(observations, env))
        self._observations = observations
        actions = torch.from_numpy(chosen.astype(np.int64))
        return Step(
            prompts, actions, log_probs.gather(1, actions[:, None])[:, 0], values, learnt, torch.from_numpy(ended)
        )

    def _cut_off(self, look: Look, chosen: np.ndarray, final: dict[str, Any], truncated: np.ndarray) -> Tensor:
        """Values [B] of the observations that the time limit cut off; 0 for other environments."""
        values, cut = torch.zeros(len(truncated)), np.flatnonzero(truncated)
        for env in cut.tolist():
            self._reader.see(env, int(chosen[env]), one(final, env))
        if len(cut):
            values[torch.from_numpy(cut)] = look(self._reader.prompts(final, cut))[1]
        return values

    def _close(self, env: int, success: bool) -> dict[str, float]:
        row = {"success": float(success), "return": float(self._returns[env]), "length": float(self._lengths[env])}
        self._returns[env], self._lengths[env] = 0.0, 0
        return row

    def state(self) -> Files:
        """The files to continue from."""
        arrays = io.BytesIO()
        np.savez(arrays, returns=self._returns, lengths=self._lengths, **_prefixed(self._envs.save()))
        return {"environments.npz": arrays.getvalue(), "histories.json": json.dumps(self._reader.state()).encode()}

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        with np.load(io.BytesIO(files["environments.npz"])) as arrays:
            saved = {name: arrays[name] for name in arrays.files}
        self._returns, self._lengths = saved.pop("returns"), saved.pop("lengths")
        self._envs.load({name.removeprefix(_WORLD): array for name, array in saved.items()})
        self._reader.load_state(json.loads(files["histories.json"]))
        nobody = np.zeros(len(self._everyone), np.bool_)
        self._observations, _ = self._envs.reset(options={"reset_mask": nobody})


_WORLD = "world."


def _prefixed(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {f"{_WORLD}{name}": array for name, array in arrays.items()}
