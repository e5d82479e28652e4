"""PPO with curiosity (RND), with shaping or a bonus (the forms of knowledge), or with neither.

    ppo = PPO(world, seed, PPOSettings(), potential)
    record = ppo.train_step(number)

A train step is a rollout of all environments, its advantages and returns, and some epochs of clipped updates. It is the
part that `agent.py` and `rnd.py` share. Source: docs/papers/knowledge-method.md#s2 and #s6.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.numpy import load, save
from torch import Tensor, nn

from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.run import Files
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.learning.devices import check_device, send
from groundlab.learning.ppo import descend, policy_loss, sample_actions, value_loss
from groundlab.learning.returns import gae
from groundlab.learning.shaping import RunningMeanStd, Shaper
from groundlab.papers.knowledge.networks import Pieces, PolicyOutput, RandomDistillation, TwoHeadedAgent, used
from groundlab.papers.knowledge.observations import (
    GRID,
    History,
    Windows,
    adapter_for,
    distinct,
    normalise,
    stack,
)
from groundlab.papers.knowledge.potentials import Bonus, Potential, Zero
from groundlab.papers.knowledge.settings import PPOSettings

LOSSES = ("loss", "policy_loss", "value_loss", "entropy", "prediction")
_CLIPPED = 5.0  # deviations beyond which a normalised observation is cut


class Step(NamedTuple):
    """One step of B environments; stacked, T steps of them [T, B, ...]."""

    actions: Tensor  # int64 [B]
    logits: Tensor  # [B, A]
    values: Tensor  # [B]
    intrinsic_values: Tensor  # [B]
    rewards: Tensor  # [B], as the world pays them
    truncation_values: Tensor  # [B], of the observations that a time limit cuts off; 0 elsewhere
    ends: Tensor  # bool [B]


class Experience(NamedTuple):
    """N = T x B decisions, step after step, with advantages and returns."""

    seen: Tensor  # float [M, C, H, W], the distinct observations of the rollout; networks read each once
    numbers: Tensor  # int64 [N], which of them was acted on
    actions: Tensor  # int64 [N]
    log_probs: Tensor  # [N]
    values: Tensor  # [N]
    returns: Tensor  # [N]
    intrinsic_returns: Tensor  # [N]
    advantages: Tensor  # [N]

    def rows(self, index: Tensor) -> "Experience":
        return Experience(self.seen, *(field[index] for field in self[1:]))


class Lessons(NamedTuple):
    """What the predictor of curiosity learns after a rollout."""

    inputs: Tensor  # [M, C, H, W], standardised
    targets: Tensor  # [M, F], what the fixed network says of them


class IntrinsicReward:
    """How new observations are, in units that neither their channels nor the age of the predictor change."""

    def __init__(
        self, novelty: RandomDistillation, num_envs: int, gamma: float, shape: tuple[int, int, int] = GRID.shape
    ):
        self._novelty, self._gamma = novelty, gamma
        self.observations, self.sums = RunningMeanStd(*shape), RunningMeanStd()
        self._before = torch.zeros(num_envs, dtype=torch.float64)

    def standardise(self, observations: Tensor) -> Tensor:
        """Observations [N, ...] in deviations from their running mean; not cut."""
        return ((observations - self.observations.mean) / self.observations.variance.sqrt()).float()

    def novelty(self, observations: Tensor) -> Tensor:
        """The novelty [B] of observations just reached, not yet scaled."""
        seen = self.standardise(observations).clamp(-_CLIPPED, _CLIPPED)
        return self._novelty.curiosity(send(seen, self._novelty.device)).cpu()

    @torch.no_grad()
    def lessons(self, observations: Tensor) -> Lessons:
        """Those of observations [M, ...], where the networks are."""
        inputs = send(self.standardise(observations), self._novelty.device)
        return Lessons(inputs, self._novelty.target(inputs))

    def scale(self, novelty: Tensor) -> Tensor:
        """A rollout's novelty [T, B] divided by the deviation of its discounted sums, this rollout's included."""
        sums = []
        for row in novelty.double():
            self._before = self._gamma * self._before + row
            sums.append(self._before)
        self.sums.update(torch.stack(sums))
        return novelty / float(self.sums.variance) ** 0.5

    def state(self) -> dict[str, Any]:
        """What `load_state` continues from, for JSON."""
        moments = {"observations": self.observations.state(), "sums": self.sums.state()}
        return {**moments, "before": self._before.tolist()}

    def load_state(self, state: dict[str, Any]) -> None:
        self.observations.load_state(state["observations"])
        self.sums.load_state(state["sums"])
        self._before = torch.tensor(state["before"], dtype=torch.float64)


class PPO:
    """The agent in training, with all that continues from rollout to rollout."""

    def __init__(
        self,
        world: str,
        seed: int,
        settings: PPOSettings,
        knowledge: Potential | Bonus | None = None,
        scale: float = 1,
        strength: float | None = None,
    ):
        """scale: what potentials and bonuses are divided by (`potentials.measure_scale`); strength: what they are
        multiplied by then, instead of the settings' own."""
        self._seed, self._settings, self._scale = seed, settings, scale
        self._strength = settings.strength if strength is None else strength
        self._bonus = knowledge if isinstance(knowledge, Bonus) else None
        self._potential = knowledge if knowledge and not isinstance(knowledge, Bonus) else Zero()
        fidelity, count = settings.fidelity, settings.num_envs
        check_device(settings.device)
        self._device = torch.device(settings.device)
        self._adapter = adapter = adapter_for(world)
        with checkpoints.seeded_construction(seed, "knowledge agent"):
            self.agent = TwoHeadedAgent(adapter.shape, len(adapter.actions), settings.network)
            self._novelty = RandomDistillation(adapter.shape, settings.network) if settings.curiosity else None
        self.networks = nn.ModuleList([self.agent, self._novelty] if self._novelty else [self.agent])
        self.networks.to(self._device)
        parameters = [weights for weights in self.networks.parameters() if weights.requires_grad]
        fused = settings.device == "cpu"
        self.optimizer = torch.optim.Adam(parameters, lr=settings.lr, eps=settings.adam_eps, fused=fused)
        gamma = settings.curiosity_gamma
        self._intrinsic = IntrinsicReward(self._novelty, count, gamma, adapter.shape) if self._novelty else None
        self._advantages = RunningMeanStd()
        self._shaper = Shaper(count, settings.gamma, scale, fidelity.quirks)
        padding = None if fidelity.first_action_fills else adapter.padding
        horizon = (self._bonus or self._potential).horizon
        self._history = History(count, horizon, padding, fidelity.quirks)
        self._envs = adapter.make(world, count, "same-step")
        layouts = generator(seed, "training layouts").integers(*TRAINING_LAYOUTS, count)
        observations, _ = self._envs.reset(seed=layouts.tolist())
        self._views = adapter.view(observations)
        self._history.start(self._views)
        self._lengths, self._returns, self._episodes = np.zeros(count, np.int64), np.zeros(count), []
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """CPU seconds of this process by part: "worlds", "policy", "potential", "update"."""

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[part] += time.process_time() - start

    @property
    def frames_per_update(self) -> int:
        """Steps of all environments between two updates."""
        return self._settings.num_envs * self._settings.frames_per_env

    def train_step(self, number: int) -> dict[str, Any]:
        """Collect rollout `number` (from 1) and learn from it; the record of both."""
        experience, figures = self._collect(generator(self._seed, "actions", number))
        with self._timed("update"):
            losses = self._update(experience, generator(self._seed, "minibatches", number))
        episodes, self._episodes = self._episodes, []
        means = {name: float(np.mean([row[name] for row in episodes])) for name in (episodes or [{}])[0]}
        return {"episodes": len(episodes), **means, **figures, **losses}

    # --- The rollout

    @torch.no_grad()
    def _collect(self, rng: np.random.Generator) -> tuple[Experience, dict[str, float]]:
        """The next steps of all environments, with advantages and returns, and figures about them."""
        steps, views, windows, cut, act = [], [], [], [], self.agent.prepared()
        for _ in range(self._settings.frames_per_env):
            views.append(self._views.copy())
            steps.append(self._step(act, rng, windows, cut))
        windows.append(self._history.windows())
        rollout = Step._make(map(torch.stack, zip(*steps, strict=True)))
        with self._timed("potential"):
            phi, terms = self._pay(cut, rollout.ends) if self._bonus else self._shape(windows, cut, rollout.ends)
        last, settings = self.agent.look(self._views), self._settings
        rewards = settings.reward_scale * rollout.rewards + terms + settings.gamma * rollout.truncation_values
        advantages, returns = gae(rewards, rollout.values, rollout.ends, last.value, settings.gamma, settings.lam)
        advantages, intrinsic_returns = settings.earned * advantages, torch.zeros_like(returns)
        seen, numbers = self._seen([*views, self._views])
        novelty = torch.zeros_like(returns)
        if self._intrinsic:
            with self._timed("policy"):
                novelty = self._intrinsic.novelty(seen)[numbers[1:]]
            scaled, never = self._intrinsic.scale(novelty), torch.zeros_like(rollout.ends)
            gamma, values = settings.curiosity_gamma, rollout.intrinsic_values
            intrinsic, intrinsic_returns = gae(scaled, values, never, last.curiosity_value, gamma, settings.lam)
            advantages = advantages + settings.curiosity * intrinsic
            if settings.advantage_norm == "running":
                self._advantages.update(advantages)
                advantages = (advantages - self._advantages.mean) / (self._advantages.variance.sqrt() + 1e-8)
            self._intrinsic.observations.update(seen[numbers[:-1]])
        log_probs = rollout.logits.log_softmax(-1).gather(-1, rollout.actions[..., None])[..., 0]
        decisions = (numbers[:-1], rollout.actions, log_probs, rollout.values)
        fields = (*decisions, returns, intrinsic_returns, advantages.float())
        means = {"potential": phi.mean(), "shaping": terms.abs().mean(), "novelty": novelty.mean()}
        figures = {name: float(mean) for name, mean in means.items()}
        return Experience(seen, *(field.flatten(0, 1) for field in fields)), figures

    def _seen(self, views: list[np.ndarray]) -> tuple[Tensor, Tensor]:
        """The distinct observations [M, C, H, W] of views [B, ...] of T + 1 steps, and which are where [T + 1, B]."""
        flat = np.concatenate(views)
        first, which = distinct(flat)
        return torch.from_numpy(normalise(flat[first])), torch.from_numpy(which).view(len(views), -1)

    def _step(self, act: Callable[[Tensor], PolicyOutput], rng: np.random.Generator, windows: list, cut: list) -> Step:
        """One step of all environments; their windows before it join `windows`, see `_truncation_values` for `cut`."""
        with self._timed("policy"):
            output = self.agent.look(self._views, act)
            choice = sample_actions(output.logits, rng)
        with self._timed("worlds"):
            self._history.act(choice)
            windows.append(self._history.windows())
            following, rewards, terminated, truncated, info = self._envs.step(choice)
            ended, self._views = terminated | truncated, self._adapter.view(following)
        truncation_values = self._truncation_values(truncated & ~terminated, ended, info, cut)
        with self._timed("worlds"):
            self._history.observe(self._views, ended)
            self._count_episodes(rewards, self._adapter.success(terminated, info), ended)
        return Step(
            torch.from_numpy(choice),
            output.logits,
            output.value,
            output.curiosity_value,
            torch.from_numpy(rewards).float(),
            truncation_values,
            torch.from_numpy(ended),
        )

    def _truncation_values(self, limited: np.ndarray, ended: np.ndarray, info: dict[str, Any], cut: list) -> Tensor:
        """The values [B] of the observations that a time limit cuts off, 0 elsewhere; their windows join `cut`.

        limited: bool [B], whom a time limit stopped. For a bonus the windows of all environments join `cut`.
        """
        values, bootstraps = torch.zeros(len(limited)), self._settings.timeouts == "bootstrap"
        if not (bootstraps or self._bonus):
            return values
        after, reached = self._history.windows(), self._views
        if ended.any():
            rows = ended.reshape(-1, *[1] * (reached.ndim - 1))
            reached = np.where(rows, self._adapter.view(info["final_obs"]), reached)
        if limited.any() or self._bonus:
            after = self._history.after(reached)
        if bootstraps and limited.any():
            with self._timed("policy"):
                values[torch.from_numpy(limited)] = self.agent.look(reached[limited]).value
        cut.append((limited, after if self._bonus else Windows._make(field[limited] for field in after)))
        return values

    def _count_episodes(self, rewards: np.ndarray, success: np.ndarray, ended: np.ndarray) -> None:
        """Store the figures of episodes that have ended in this step."""
        self._lengths, self._returns = self._lengths + 1, self._returns + rewards
        for env in np.flatnonzero(ended).tolist():
            row = {"success": success[env], "return": self._returns[env], "length": self._lengths[env]}
            self._episodes.append({name: float(value) for name, value in row.items()})
        self._lengths[ended], self._returns[ended] = 0, 0.0

    def _shape(
        self, windows: list[Windows], cut: list[tuple[np.ndarray, Windows]], ends: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(potentials [T + 1, B], shaping terms [T, B]) of a rollout. cut: whom a time limit stopped at each step."""
        values = torch.from_numpy(self._potential(stack([*windows, *(after for _, after in cut)])))
        phi, truncation_phi = values[: ends.shape[1] * len(windows)].reshape(len(windows), -1), None
        if self._settings.timeouts == "bootstrap":
            truncation_phi = torch.zeros_like(phi[1:])
            truncation_phi[torch.from_numpy(np.stack([limited for limited, _ in cut]))] = values[phi.numel() :]
        return phi, self._shaper.terms(phi, ends, truncation_phi).float() * self._strength

    def _pay(self, cut: list[tuple[np.ndarray, Windows]], ends: Tensor) -> tuple[Tensor, Tensor]:
        """(bonuses [T, B], what each step is paid [T, B]). cut: with the windows after each step."""
        assert self._bonus is not None, "`_collect` asks only where there is one"
        bonuses = torch.from_numpy(self._bonus(stack([after for _, after in cut]), ends.numpy()))
        return bonuses, (bonuses / self._scale).float() * self._strength

    # --- The update

    def _update(self, experience: Experience, rng: np.random.Generator) -> dict[str, float]:
        """Some epochs over a rollout; mean losses."""
        count, device = len(experience.actions), self._device
        lessons = self._intrinsic.lessons(experience.seen) if self._intrinsic else None
        in_pieces = self.agent.reads_pieces and device.type == "cpu"
        seen = Pieces.of(experience.seen) if in_pieces else send(experience.seen, device)
        experience = Experience(experience.seen, *(send(field, device) for field in experience[1:]))
        size = -(-count // self._settings.minibatches)

        def backward(index: Tensor) -> Tensor:
            losses = self._losses(experience.rows(send(index, device)), seen, lessons, rng)
            losses[0].backward()
            return torch.stack(losses).detach()

        epochs = range(self._settings.epochs)
        indices = (index for _ in epochs for index in torch.from_numpy(rng.permutation(count)).split(size))
        limit = None if self._settings.fidelity.unclipped_gradients else self._settings.max_grad_norm
        *means, _ = descend(self.optimizer, indices, backward, limit)
        return dict(zip(LOSSES, means, strict=True))

    def _losses(
        self, part: Experience, seen: Tensor | Pieces, lessons: Lessons | None, rng: np.random.Generator
    ) -> list[Tensor]:
        """The `LOSSES` of one minibatch; the first is minimised. seen, lessons: of the whole rollout."""
        settings, (numbers, where) = self._settings, used(part.numbers, len(part.seen))
        output = PolicyOutput._make(field.index_select(0, where) for field in self.agent(seen[numbers]))
        log_all = output.logits.log_softmax(-1)  # entropy first: autograd sums in the order of use, to the last bit
        entropy = -(log_all.exp() * log_all).sum(-1).mean()
        log_probs = log_all.gather(1, part.actions[:, None])[:, 0]
        credit = part.advantages
        if not self._intrinsic or settings.advantage_norm == "minibatch":
            credit = (credit - credit.mean()) / (credit.std() + 1e-8)
        policy = policy_loss(log_probs, part.log_probs, credit, settings.clip)
        value = 0.5 * value_loss(output.value, part.values, part.returns, settings.clip)
        prediction = torch.zeros((), device=self._device)
        if self._novelty and lessons:
            value = value + 0.5 * (output.curiosity_value - part.intrinsic_returns).pow(2).mean()
            drawn = rng.random(len(part.actions)) < settings.predicted_share
            subset = send(torch.from_numpy(drawn), self._device)
            numbers, times = part.numbers[subset].unique(return_counts=True)
            errors = (self._novelty.predictor(lessons.inputs[numbers]) - lessons.targets[numbers]).pow(2).mean(1)
            prediction = (errors * times).sum() / times.sum().clamp(min=1)
        loss = policy - settings.entropy_coefficient * entropy + settings.value_coefficient * value + prediction
        return [loss, policy, value, entropy, prediction]

    # --- Checkpoints

    def state(self) -> Files:
        """The files of a checkpoint; to be taken between two train steps."""
        facts = {"shaper": self._shaper.state(), "history": self._history.state(), "lengths": self._lengths.tolist()}
        facts |= {"advantages": self._advantages.state(), "returns": self._returns.tolist()}
        facts |= {"curiosity": self._intrinsic.state()} if self._intrinsic else {}
        facts |= {"bonus": self._bonus.state()} if self._bonus else {"potential": self._potential.state()}
        files = checkpoints.pack(self.networks, self.optimizer, facts)
        return {**files, "envs.safetensors": save(self._envs.save())}

    def load_state(self, files: Files) -> None:
        facts = checkpoints.unpack(files, self.networks, self.optimizer)
        self._shaper.load_state(facts["shaper"])
        self._history.load_state(facts["history"])
        self._advantages.load_state(facts["advantages"])
        if self._intrinsic:
            self._intrinsic.load_state(facts["curiosity"])
        if self._bonus:
            self._bonus.load_state(facts["bonus"])
        elif facts["potential"]:
            self._potential.load_state(facts["potential"])
        self._lengths, self._returns = np.array(facts["lengths"], np.int64), np.array(facts["returns"])
        self._envs.load(load(files["envs.safetensors"]))
        nobody = np.zeros(self._settings.num_envs, np.bool_)
        self._views = self._adapter.view(self._envs.reset(options={"reset_mask": nobody})[0])

    def load_weights(self, files: Files) -> None:
        checkpoints.unpack(files, self.networks)

    def close(self) -> None:
        """End the process that a program of BK-Code runs in."""
        self._potential.close()
