"""GLAM's agent: the policy is the language model itself, and online PPO tunes all of its weights.

    groundlab run glam --world BabyAI-GoToLocalS8N4-v0 --seed 0 --set frames=20000 --out runs/glam

    policy     the softmax, over actions, of how likely their words are after the prompt (or an action head's)
    value      a head on the state that predicts an action's first word
    learning   rollouts of 32 environments, generalised advantages, a few epochs of clipped updates
    test       a fixed list of layouts, sampled and greedy, as it is and with one mission for all (generalization.py)

The five variants of the pretraining study are five method names (`variants.py`); they share every line and every
default. Everything random is drawn from a generator of (seed, purpose, update), so a resumed run is the uninterrupted
one bit for bit on CPU. Several processes may train one agent (`distributed.py`). Source: Carta et al. 2023; spec
glam-agents 1 and 2. Read next: `rollouts.py`, `tuning.py`.
"""

import io
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run
from groundlab.core.seeding import generator
from groundlab.language.prompts import env_actions, probe_prompts, text_actions
from groundlab.language.scoring import ActionScorer
from groundlab.learning import checkpoints
from groundlab.learning.distributed import SINGLE_PROCESS, Group, joined
from groundlab.learning.ppo import Batch, minibatches, normalised
from groundlab.learning.ppo import losses_of as clipped_losses
from groundlab.learning.returns import gae
from groundlab.papers.episodes import one
from groundlab.papers.glam import evaluation
from groundlab.papers.glam.policy import (
    VARIANTS,
    Alteration,
    LanguagePlayer,
    Reader,
    Scores,
    build_scorer,
    published_name,
    sample,
)
from groundlab.papers.glam.settings import TRAINING_LAYOUTS_FROM, ModelSettings, TrainingSettings
from groundlab.papers.method import Request
from groundlab.worlds import GridVectorEnv

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


FIGURES = ("loss", "policy_loss", "value_loss", "entropy", "kl", "grad_norm")


def trained(scorer: ActionScorer) -> list[nn.Parameter]:
    """The weights that are tuned: all, or adapters and heads."""
    return [parameter for parameter in scorer.parameters() if parameter.requires_grad]


def broadcast_value_loss(values: Tensor, part: Batch, minibatch: Batch, clip: float) -> Tensor:
    """Every value [p] against every return of the minibatch [B], clipped likewise: the original's bug (Q1)."""
    row = values[:, None]
    near = minibatch.values + (row - minibatch.values).clamp(-clip, clip)
    return torch.max((row - minibatch.returns) ** 2, (near - minibatch.returns) ** 2).mean()


def losses_of(
    scores: Tensor,
    values: Tensor,
    part: Batch,
    advantages: Tensor,
    minibatch: Batch,
    settings: TrainingSettings,
) -> Tensor:
    """[total, policy, value, entropy, kl] of a part of a minibatch, means over the part.

    kl is the estimate E[ratio - 1 - log ratio] of how far the policy has moved from the one that acted.
    """
    total, policy, value, entropy = clipped_losses(scores, values, part, advantages, settings)
    if settings.fidelity.value_loss_broadcast:
        value = broadcast_value_loss(values, part, minibatch, settings.clip)
        total = policy - settings.entropy_coefficient * entropy + settings.value_coefficient * value
    ratio = scores.log_softmax(-1).gather(1, part.actions[:, None])[:, 0].detach() - part.log_probs
    return torch.stack([total, policy, value, entropy, (ratio.exp() - 1 - ratio).mean()])


def step(
    scorer: ActionScorer,
    optimizer: torch.optim.Optimizer,
    prompts: list[str],
    minibatch: Batch,
    advantages: Tensor,
    settings: TrainingSettings,
    group: Group = SINGLE_PROCESS,
) -> Tensor:
    """One gradient step on B prompts; returns `FIGURES` [6], grad_norm before clipping.

    Each process of a group reads its share of the prompts; all take the same step.
    Raises GroundlabError, before any weight is changed, when loss or gradient is not a number.
    """
    seen = torch.zeros(len(FIGURES) - 1, device=advantages.device)
    mine = torch.tensor(group.share(prompts), dtype=torch.int64, device=advantages.device)

    def loss(own: Tensor, scores: Tensor, values: Tensor) -> Tensor:
        index = mine[own]
        part = Batch._make(field[index] for field in minibatch)
        share = len(index) / len(prompts) * losses_of(scores, values, part, advantages[index], minibatch, settings)
        seen.add_(share.detach())
        return share[0]

    optimizer.zero_grad()
    if len(mine):
        scorer.backward([prompts[place] for place in mine.tolist()], loss)
    seen = group.add_gradients(trained(scorer), seen)
    norm = nn.utils.clip_grad_norm_(trained(scorer), settings.max_grad_norm)
    if not (seen.isfinite().all() and norm.isfinite()):
        raise GroundlabError(f"the loss is no number any more (loss {seen[0]:.3g}); use an lr below {settings.lr:g}")
    optimizer.step()
    return torch.cat([seen, norm.detach()[None]]).cpu()


def update(
    scorer: ActionScorer,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    settings: TrainingSettings,
    rng: np.random.Generator,
    group: Group = SINGLE_PROCESS,
) -> dict[str, float]:
    """Some epochs over a rollout; returns the mean of each of `FIGURES` over all gradient steps."""
    device = trained(scorer)[0].device
    advantages = normalised(rollout.advantages) if settings.normalise_advantages else rollout.advantages
    size = len(rollout.prompts)
    batch = Batch(torch.arange(size), rollout.actions, rollout.log_probs, rollout.values, rollout.returns)
    history = []
    for _ in range(settings.epochs):
        for index in minibatches(size, settings.batch_size, rng):
            prompts = [rollout.prompts[place] for place in index.tolist()]
            minibatch = Batch._make(field[index].to(device) for field in batch)
            history.append(step(scorer, optimizer, prompts, minibatch, advantages[index].to(device), settings, group))
    return dict(zip(FIGURES, torch.stack(history).mean(0).tolist(), strict=True))


__all__ = ["DISTRIBUTED", "WORLDS", "Settings", "evaluate"]

Settings = TrainingSettings
WORLDS = tuple(name for name, world in worlds.WORLDS.items() if not world.is_door_key)
LAYOUTS_END = 2**31
DISTRIBUTED = True  # `accelerate launch` may start several processes that train one agent


class Learner:
    """An agent while it learns: network, optimizer, environments. Checkpoints as files."""

    def __init__(self, method: str, world: str, seed: int, settings: TrainingSettings, group: Group = SINGLE_PROCESS):
        self._world, self._seed, self._settings, self._group = world, seed, settings, group
        self._variant = VARIANTS[method]
        for _ in evaluation.planned(settings):
            pass  # a misspelt test is told before training
        self._texts = text_actions(settings.action_space, worlds.find(world).language)
        self._drops = settings.fidelity.dropout and not self._variant.pretrained
        self.scorer = build_scorer(self._variant, settings, self._texts, seed, dropout=self._drops)
        self._look = Scores(self.scorer, remember=not self._drops, group=group)
        self.optimizer = torch.optim.Adam(
            trained(self.scorer), lr=settings.lr, eps=settings.adam_eps, fused=settings.device == "cpu"
        )
        self._collector = self._new_collector()

    def _new_collector(self) -> Collector:
        settings = self._settings
        envs = GridVectorEnv(
            worlds.find(self._world), settings.num_envs, autoreset="same-step", num_dists=settings.num_dists
        )
        collector = Collector(envs, Reader(settings.num_envs, self._world, settings), settings)
        rng = generator(self._seed, "training layouts")
        collector.start(rng.integers(TRAINING_LAYOUTS_FROM, LAYOUTS_END, settings.num_envs).tolist())
        return collector

    def improve(self, number: int) -> dict[str, Any]:
        """Update `number` (from 1): collect, tune; returns its record."""
        own = (self._group.rank,) if self._group.rank else ()  # processes read different prompts, with different masks
        drop = checkpoints.seeded_construction(self._seed, "dropout", number, *own) if self._drops else nullcontext()
        with drop:
            self.scorer.train(self._drops)
            record = self._probe()
            rollout = self._collector.collect(self._look, generator(self._seed, "actions", number))
            rng = generator(self._seed, "minibatches", number)
            figures = update(self.scorer, self.optimizer, rollout, self._settings, rng, self._group)
        self._look.forget()
        return {**record, **_outcomes(rollout), **figures}

    def _probe(self) -> dict[str, Any]:
        """The policy on the paper's probe prompts, prompt by prompt; with action heads there is none."""
        if not self._settings.probe_template or self._variant.use_action_heads:
            return {}
        log_probs, _ = self._look(probe_prompts(self._texts, self._settings.probe_template))
        return {"probe": [round(p, 6) for p in log_probs.exp().flatten().tolist()]}

    def test(self) -> list[dict[str, Any]]:
        """Evaluations on the test layouts; see `generalization.py`."""
        self.scorer.train(False)
        return examine(self.scorer, self._world, self._seed, self._settings, group=self._group)

    def state(self, facts: dict[str, Any]) -> Files:
        """The files of a checkpoint."""
        return {**checkpoints.pack(self.scorer, self.optimizer, facts), **self._collector.state()}

    def load_state(self, files: Files) -> dict[str, Any]:
        """Go on from a checkpoint; returns its facts."""
        facts = checkpoints.unpack(files, self.scorer, self.optimizer)
        self._collector.load_state(files)
        return facts


def _outcomes(rollout: Rollout) -> dict[str, Any]:
    """What the episodes that ended in a rollout came to: their number and means, which a rollout may be without."""
    rows = rollout.episodes
    means = {name: float(np.mean([row[name] for row in rows])) for name in ("success", "return", "length") if rows}
    return {"episodes": len(rows), **means}


def with_actions(scorer: ActionScorer, actions: tuple[str, ...], settings: ModelSettings) -> ActionScorer:
    """The same network over other action texts; an action head keeps its outputs, whatever they are called."""
    if list(actions) == scorer.actions or scorer.action_head is not None:
        return scorer
    options = {"rule": settings.rule, "temperature": scorer.temperature, "token_budget": settings.token_budget}
    return ActionScorer(scorer.model, scorer.tokenizer, actions, value_head=False, **options)


def examine(
    scorer: ActionScorer,
    world: str,
    seed: int,
    settings: ModelSettings,
    temperature: float = 1.0,
    group: Group = SINGLE_PROCESS,
) -> list[dict[str, Any]]:
    """All tests of a language-model policy; equal prompts are read once in all of them."""
    looks: dict[tuple[str, ...], Scores] = {}

    def player_for(place: str, alteration: Alteration, greedy: bool, num_envs: int, purpose: str) -> LanguagePlayer:
        space = alteration.action_space or settings.action_space
        actions = text_actions(space, worlds.find(place).language)
        if actions not in looks:
            looks[actions] = Scores(with_actions(scorer, actions, settings), temperature, group=group)
        rng = None if greedy else generator(seed, "evaluation", purpose)
        return LanguagePlayer(looks[actions], num_envs, place, settings, alteration, rng)

    return evaluation.examine(world, settings, player_for)


def execute(run: Run) -> None:
    """Train, then store all evaluations."""
    settings = TrainingSettings(**run.spec.settings)
    learner = Learner(run.spec.method, run.spec.world, run.spec.seed, settings, joined())
    train(run, learner, settings)
    run.write_evaluation(learner.test())


def train(run: Run, learner: Learner, settings: TrainingSettings) -> None:
    """Train to the end (or to a stop), logging one record an update."""
    checkpoint = run.restore()
    if checkpoint is None:
        spec = run.spec
        run.say(f"by the original's naming: {published_name(spec.method, spec.world, settings, spec.seed)}")
    else:
        learner.load_state(checkpoint.files)
    for number in range(checkpoint.step + 1 if checkpoint else 1, settings.updates + 1):
        frames = number * settings.num_envs * settings.frames_per_env
        record = {"iteration": number, "frames": frames, **learner.improve(number)}
        run.log(record)
        shown = {name: record[name] for name in ("success", "entropy") if name in record}
        run.advance(number, settings.updates, lambda: learner.state({"frames": frames}), **shown)  # noqa: B023


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts."""
    if request.watch:
        raise GroundlabError(f"{request.method} asks nobody, so there is no dialogue; leave out --show and --record")
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    settings = TrainingSettings(**request.settings)
    learner = Learner(request.method, request.world, request.seed, settings)
    checkpoints.unpack(request.checkpoint.files, learner.scorer)
    return learner.test()
