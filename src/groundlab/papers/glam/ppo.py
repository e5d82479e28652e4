"""GLAM's agent: the policy is the language model itself, and online PPO tunes all of its weights.

    groundlab run glam --world BabyAI-GoToLocalS8N4-v0 --seed 0 --set frames=20000 --out runs/glam

    policy     the softmax, over actions, of how likely their words are after the prompt (or an action head's)
    value      a head on the state that predicts an action's first word
    learning   rollouts of 32 environments, generalised advantages, a few epochs of clipped updates
    test       a fixed list of layouts, sampled and greedy, as it is and with one mission for all (episodes.py)

The file reads from the top: the learner and its `train_step`, the rollout that it collects, the update it makes of it.
The five variants of the pretraining study are five method names (`policy.VARIANTS`); they share every line and every
default. Everything random is drawn from a generator of (seed, purpose, update), so a resumed run is the uninterrupted
one bit for bit on CPU. Several processes may train one agent (`learning/distributed.py`). Source: Carta et al. 2023;
docs/papers/glam-method.md#agents-1 and #agents-2.
"""

import json
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run, RunSpec
from groundlab.core.seeding import generator
from groundlab.core.storage import digest_bytes, digest_json
from groundlab.language.scoring import ActionScorer
from groundlab.learning import checkpoints
from groundlab.learning.devices import send
from groundlab.learning.distributed import SINGLE_PROCESS, GradientSum, Group, joined
from groundlab.learning.master_weights import make_optimizer
from groundlab.learning.ppo import Batch, descend, minibatches, normalised, sample_actions
from groundlab.learning.ppo import losses_of as clipped_losses
from groundlab.learning.returns import gae
from groundlab.papers import training
from groundlab.papers.episodes import select_env
from groundlab.papers.glam.episodes import (
    EnvStream,
    Episode,
    StreamStep,
    episode_stats,
    evaluate_scorer,
    plan_tests,
    training_stream,
)
from groundlab.papers.glam.policy import (
    VARIANTS,
    CachedPolicy,
    PolicyFn,
    Reader,
    build_scorer,
    is_released,
    trainable_parameters,
    watched_reader,
)
from groundlab.papers.glam.settings import TrainingSettings
from groundlab.papers.watching import WatchedPlayer
from groundlab.worlds.text_env.prompts import env_actions, probe_prompts, text_actions

__all__ = ["DISTRIBUTED", "Settings", "make_learner"]

Settings = TrainingSettings
DISTRIBUTED = True  # `accelerate launch` may start several processes that train one agent
METRICS = ("loss", "policy_loss", "value_loss", "entropy", "kl", "grad_norm")


def make_learner(spec: RunSpec, run: Run | None = None) -> training.Learner:
    """The agent of a run, before its first update. Raises GroundlabError for a misspelt test or an unknown model."""
    return PPOLearner(spec, joined())


def comes_trained(settings: dict[str, Any]) -> bool:
    """Whether the model of these settings is an agent already, which can be played without a run of ours."""
    return is_released(Settings(**settings))


class PPOLearner(training.Learner):
    """An agent while it learns: network, optimizer, environments."""

    def __init__(self, spec: RunSpec, group: Group = SINGLE_PROCESS):
        self._spec, self._group = spec, group
        self.settings = settings = Settings(**spec.settings)
        self.updates = settings.updates
        self._variant = VARIANTS[spec.method]
        plan_tests(settings)  # so that a misspelt test is refused before training
        self._actions = text_actions(settings.action_space, worlds.find(spec.world).language)
        self._drops = settings.fidelity.dropout and not self._variant.pretrained
        self.scorer = build_scorer(self._variant, settings, self._actions, spec.seed, dropout=self._drops)
        self._policy = CachedPolicy(self.scorer, remember=not self._drops, group=group)
        options: dict[str, Any] = {"lr": settings.lr, "eps": settings.adam_eps, "fused": settings.device == "cpu"}
        self.optimizer = make_optimizer(torch.optim.Adam, trainable_parameters(self.scorer), **options)
        stream = training_stream(spec.world, settings.num_envs, spec.seed, settings.num_dists)
        self._collector = Collector(stream, Reader(settings.num_envs, spec.world, settings), settings)

    def train_step(self, number: int) -> dict[str, Any]:
        """Update `number` (from 1): collect a rollout, tune on it; returns its record."""
        seed, settings = self._spec.seed, self.settings
        own = (self._group.rank,) if self._group.rank else ()  # processes read different prompts, with different masks
        with checkpoints.seeded_construction(seed, "dropout", number, *own) if self._drops else nullcontext():
            self.scorer.train(self._drops)
            probe = self._probe()
            rollout = self._collector.collect(self._policy, generator(seed, "actions", number))
            rng = generator(seed, "minibatches", number)
            losses = update(self.scorer, self.optimizer, rollout, settings, rng, self._group)
        self._policy.clear()
        frames = number * settings.num_envs * settings.frames_per_env
        return {"frames": frames, **probe, **episode_stats(rollout.episodes), **losses}

    def _probe(self) -> dict[str, Any]:
        """The policy on the paper's probe prompts, prompt by prompt; with action heads there is none."""
        if not self.settings.probe_template or self._variant.use_action_heads:
            return {}
        log_probs, _ = self._policy(probe_prompts(self._actions, self.settings.probe_template))
        return {"probe": [round(p, 6) for p in log_probs.exp().flatten().tolist()]}

    def evaluate(self) -> list[training.Evaluation]:
        """Evaluations on the test layouts."""
        self.scorer.train(False)
        return evaluate_scorer(self.scorer, self._spec.world, self._spec.seed, self.settings, group=self._group)

    def watched(self, rng: np.random.Generator) -> WatchedPlayer:
        """The agent over the action texts that it is trained on."""
        self.scorer.train(False)
        return watched_reader(CachedPolicy(self.scorer), self._spec.world, self.settings, rng)

    def state(self) -> Files:
        """The files of a checkpoint."""
        return {**checkpoints.pack(self.scorer, self.optimizer, self._base), **self._collector.state()}

    def load_state(self, files: Files) -> None:
        """Go on from a checkpoint."""
        self._check_base(checkpoints.unpack(files, self.scorer, self.optimizer))
        self._collector.load_state(files)

    def load_weights(self, files: Files) -> None:
        """Take the network from a checkpoint."""
        self._check_base(checkpoints.unpack(files, self.scorer))

    @cached_property
    def _base(self) -> dict[str, str]:
        """The digest of the model's files where a checkpoint holds adapters or heads alone; nothing otherwise."""
        if not (self.settings.lora_rank or self.settings.feature_layer):
            return {}
        files = self.settings.inputs().items()
        return {"base": digest_json({name: _digest(each) for name, each in files})}

    def _check_base(self, facts: dict[str, str]) -> None:
        if facts and facts != self._base:  # of 1.1 they are empty
            raise GroundlabError(
                f"expected the model that this checkpoint was trained on, got other files in {self.settings.model}; "
                "give the model that its run read"
            )


def _digest(each: Path | bytes | str) -> str:
    """Return the digest of a file or its content; a public model is given by its digest."""
    return each if isinstance(each, str) else digest_bytes(each if isinstance(each, bytes) else each.read_bytes())


# The rollout.


class Rollout(NamedTuple):
    """N decisions, all steps of environment 0 first, and what they led to."""

    prompts: list[str]
    actions: Tensor  # int64 [N]
    log_probs: Tensor  # [N], under the policy that acted
    values: Tensor  # [N]
    advantages: Tensor  # [N], as they are
    returns: Tensor  # [N]
    episodes: list[Episode]  # those that ended


class Step(NamedTuple):
    """One step of B environments."""

    prompts: list[str]
    actions: Tensor  # int64 [B]
    log_probs: Tensor  # [B]
    values: Tensor  # [B]
    rewards: Tensor  # [B], as learnt from
    dones: Tensor  # bool [B]


class Collector:
    """Collects rollouts: environments that restart by themselves, and the reader that makes prompts of them."""

    def __init__(
        self,
        stream: EnvStream,
        reader: Reader,
        settings: TrainingSettings,
        choose: Callable[[Tensor, np.random.Generator], np.ndarray] = sample_actions,
    ):
        self._stream, self._reader, self._settings, self._choose = stream, reader, settings, choose
        self._everyone = np.arange(stream.num_envs)
        for env in self._everyone.tolist():
            reader.start(env, select_env(stream.observations, env))

    def collect(self, policy: PolicyFn, rng: np.random.Generator) -> Rollout:
        """The next `frames_per_env` steps of all environments under a policy."""
        steps = [self._step(policy, rng) for _ in range(self._settings.frames_per_env)]
        _, last_values = policy(self._prompts())
        _, actions, log_probs, values, rewards, dones = (list(field) for field in zip(*steps, strict=True))
        advantages, returns = gae(
            torch.stack(rewards),
            torch.stack(values),
            torch.stack(dones),
            last_values,
            self._settings.gamma,
            self._settings.lam,
        )
        prompts = [step.prompts[env] for env in self._everyone.tolist() for step in steps]
        decisions = (torch.stack(field) for field in (actions, log_probs, values))
        fields = [field.T.reshape(-1) for field in (*decisions, advantages, returns)]  # environment after environment
        return Rollout._make([prompts, *fields, self._stream.pop_episodes()])

    def _prompts(self) -> list[str]:
        return self._reader.prompts(self._stream.observations, self._everyone)

    def _step(self, policy: PolicyFn, rng: np.random.Generator) -> Step:
        prompts = self._prompts()
        log_probs, values = policy(prompts)
        chosen = self._choose(log_probs, rng)
        step = self._stream.step(env_actions(chosen))
        rewards = torch.tensor(step.rewards * self._settings.reward_scale, dtype=torch.float32)
        if self._settings.timeouts == "bootstrap" and step.truncated.any():
            rewards += self._settings.gamma * self._truncation_values(policy, chosen, step)
        self._reader.step(chosen, step.ended, self._stream.observations)
        actions = torch.from_numpy(chosen.astype(np.int64))
        own_log_probs = log_probs.gather(1, actions[:, None])[:, 0]
        return Step(prompts, actions, own_log_probs, values, rewards, torch.from_numpy(step.ended))

    def _truncation_values(self, policy: PolicyFn, chosen: np.ndarray, step: StreamStep) -> Tensor:
        """Values [B] of the observations after which the time limit ended an episode; 0 for other environments."""
        values, truncated = torch.zeros(len(chosen)), np.flatnonzero(step.truncated)
        for env in truncated.tolist():
            self._reader.observe(env, int(chosen[env]), select_env(step.final_observations, env))
        values[torch.from_numpy(truncated)] = policy(self._reader.prompts(step.final_observations, truncated))[1]
        return values

    def state(self) -> Files:
        """The files to continue from."""
        return {**self._stream.state(), "histories.json": json.dumps(self._reader.state()).encode()}

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        self._stream.load_state(files)
        self._reader.load_state(json.loads(files["histories.json"]))


# The update.


def update(
    scorer: ActionScorer,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    settings: TrainingSettings,
    rng: np.random.Generator,
    group: Group = SINGLE_PROCESS,
) -> dict[str, float]:
    """Some epochs over a rollout; returns the mean of each of `METRICS` over all gradient steps."""
    device = trainable_parameters(scorer)[0].device
    advantages = normalised(rollout.advantages) if settings.normalise_advantages else rollout.advantages
    size = len(rollout.prompts)
    batch = Batch(torch.arange(size), rollout.actions, rollout.log_probs, rollout.values, rollout.returns)
    batch, advantages = Batch._make(send(field, device) for field in batch), send(advantages, device)

    def gradient(index: Tensor) -> Tensor:
        prompts = [rollout.prompts[number] for number in index.tolist()]
        index = send(index, device)
        minibatch = Batch._make(field[index] for field in batch)
        return backward(scorer, optimizer, prompts, minibatch, advantages[index], settings, group)

    indices = minibatches(size, settings.batch_size, rng, settings.epochs)
    return dict(zip(METRICS, descend(optimizer, indices, gradient, settings.max_grad_norm), strict=True))


def backward(
    scorer: ActionScorer,
    optimizer: torch.optim.Optimizer,
    prompts: list[str],
    minibatch: Batch,
    advantages: Tensor,
    settings: TrainingSettings,
    group: Group = SINGLE_PROCESS,
) -> Tensor:
    """The gradient of the loss of B prompts; returns all `METRICS` [5] but the last, which is the gradient's norm.

    Each process of a group reads its share of the prompts; all have the same gradient.
    """
    losses = torch.zeros(len(METRICS) - 1, device=advantages.device)
    places = group.share(prompts)
    share, unread = send(torch.tensor(places, dtype=torch.int64), advantages.device), len(places)
    gradients = GradientSum(group, optimizer)

    def loss(rows: Tensor, scores: Tensor, values: Tensor) -> Tensor:
        """What the rows of this process's share, read together, add to the minibatch's loss."""
        nonlocal unread
        unread -= len(rows)
        if not unread:  # the gradients of the last rows complete the sums
            gradients.begin()
        index = share[rows]
        part = Batch._make(field[index] for field in minibatch)
        weighted = len(index) / len(prompts) * part_losses(scores, values, part, advantages[index], minibatch, settings)
        losses.add_(weighted.detach())
        return weighted[0]

    if places:
        scorer.backward([prompts[place] for place in places], loss)
    return gradients.finish(losses)


def part_losses(
    scores: Tensor, values: Tensor, part: Batch, advantages: Tensor, minibatch: Batch, settings: TrainingSettings
) -> Tensor:
    """[total, policy, value, entropy, kl] of a part [p] of a minibatch [B], means over the part.

    kl is the estimate E[ratio - 1 - log ratio] of how far the policy has moved from the one that acted.
    """
    total, policy, value, entropy = clipped_losses(scores, values, part, advantages, settings)
    if settings.fidelity.value_loss_broadcast:
        value = broadcast_value_loss(values, minibatch, settings.clip)
        total = policy - settings.entropy_coefficient * entropy + settings.value_coefficient * value
    log_ratio = scores.log_softmax(-1).gather(1, part.actions[:, None])[:, 0].detach() - part.log_probs
    return torch.stack([total, policy, value, entropy, (log_ratio.exp() - 1 - log_ratio).mean()])


def broadcast_value_loss(values: Tensor, minibatch: Batch, clip: float) -> Tensor:
    """Every value [p] against every return of the minibatch [B], clipped likewise: the original's bug (Q1)."""
    row = values[:, None]
    near = minibatch.values + (row - minibatch.values).clamp(-clip, clip)
    return torch.max((row - minibatch.returns) ** 2, (near - minibatch.returns) ** 2).mean()
