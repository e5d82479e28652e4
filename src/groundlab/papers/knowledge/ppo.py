"""PPO on a grid world, with curiosity (collection, RND), with shaping (the three forms of knowledge), or with neither.

    learner = Learner(world, seed, Settings(), potential)
    record = learner.improve(iteration)

A rollout of all environments, its credit, some epochs of clipped updates. Source: spec background-knowledge 2 and 6.
Called from: `collect.py`, `shaped.py`. Read next: `potentials.py`, `learning/shaping.py`.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.numpy import load, save
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.learning.returns import gae
from groundlab.learning.running_stats import RunningMoments
from groundlab.learning.shaping import Shaper
from groundlab.papers.knowledge.networks import RandomDistillation, TwoHeadedAgent
from groundlab.papers.knowledge.observations import GRID, History, Windows, adapter_for, normalised, stacked
from groundlab.papers.knowledge.potentials import Bonus, Potential, Zero
from groundlab.papers.knowledge.settings import Settings

TRAINING_LAYOUTS_FROM = 1_000_000  # reset seeds below are for tests and never start a training environment
_CLIPPED = 5.0  # deviations beyond which a normalised observation is cut


class Experience(NamedTuple):
    """N = T x B decisions, step after step, and what came of them."""

    observations: Tensor  # float [N, 3, 7, 7]
    actions: Tensor  # int64 [N]
    log_probs: Tensor  # [N]
    values: Tensor  # [N]
    returns: Tensor  # [N]
    intrinsic_returns: Tensor  # [N]
    advantages: Tensor  # [N]


def draw(logits: Tensor, rng: np.random.Generator) -> np.ndarray:
    """Actions [B] from logits [B, A]."""
    cumulative = logits.double().softmax(-1).cumsum(-1).numpy()
    drawn = (rng.random((len(cumulative), 1)) > cumulative).sum(1)
    return np.minimum(drawn, cumulative.shape[1] - 1)


def _beside(chosen: np.ndarray, views: np.ndarray) -> np.ndarray:
    """bool [B] as [B, 1, ...], to choose among views [B, ...]."""
    return chosen.reshape(-1, *[1] * (views.ndim - 1))


class IntrinsicReward:
    """How new observations are, in units that neither their channels nor the age of the predictor change."""

    def __init__(
        self, novelty: RandomDistillation, num_envs: int, gamma: float, shape: tuple[int, int, int] = GRID.shape
    ):
        """shape: of observations."""
        self._novelty, self._gamma = novelty, gamma
        self.observations, self.sums = RunningMoments(*shape), RunningMoments()
        self._before = torch.zeros(num_envs, dtype=torch.float64)

    def whitened(self, observations: Tensor) -> Tensor:
        """Observations [N, ...] in deviations from their running mean; not cut."""
        return ((observations - self.observations.mean) / self.observations.variance.sqrt()).float()

    def of(self, observations: Tensor) -> Tensor:
        """Curiosity [B] of observations just reached, not yet scaled."""
        return self._novelty.curiosity(self.whitened(observations).clamp(-_CLIPPED, _CLIPPED))

    def scaled(self, curiosity: Tensor) -> Tensor:
        """A rollout's curiosity [T, B] divided by the deviation of its discounted sums, this rollout's included."""
        sums = []
        for row in curiosity.double():
            self._before = self._gamma * self._before + row
            sums.append(self._before)
        self.sums.update(torch.stack(sums))
        return curiosity / float(self.sums.variance) ** 0.5

    def state(self) -> dict[str, Any]:
        """What `load_state` continues from, for JSON."""
        moments = {"observations": self.observations.state(), "sums": self.sums.state()}
        return {**moments, "before": self._before.tolist()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from what `state` gave."""
        self.observations.load_state(state["observations"])
        self.sums.load_state(state["sums"])
        self._before = torch.tensor(state["before"], dtype=torch.float64)


class Learner:
    """The agent in training, with all that runs on from rollout to rollout."""

    def __init__(
        self,
        world: str,
        seed: int,
        settings: Settings,
        advice: Potential | Bonus | None = None,
        scale: float = 1,
    ):
        """scale: what potentials and bonuses are divided by (`learning.shaping.scale_of`)."""
        self._seed, self._settings, self._scale = seed, settings, scale
        self._bonus = advice if isinstance(advice, Bonus) else None
        self._potential = advice if advice and not isinstance(advice, Bonus) else Zero()
        fidelity, count = settings.fidelity, settings.num_envs
        self._senses = senses = adapter_for(world)
        with checkpoints.seeded_construction(seed, "knowledge agent"):
            self.agent = TwoHeadedAgent(senses.shape, len(senses.actions), settings.network)
            self._novelty = RandomDistillation(senses.shape, settings.network) if settings.curiosity else None
        self.networks = nn.ModuleList([self.agent, self._novelty] if self._novelty else [self.agent])
        self._learnt = [weights for weights in self.networks.parameters() if weights.requires_grad]
        self._optimizer = torch.optim.Adam(self._learnt, lr=settings.lr, eps=settings.adam_eps)
        gamma = settings.curiosity_gamma
        self._curiosity = IntrinsicReward(self._novelty, count, gamma, senses.shape) if self._novelty else None
        self._advantages = RunningMoments()
        self._shaper = Shaper(count, settings.gamma, scale, fidelity.quirks)
        padding = None if fidelity.first_action_fills else senses.padding
        horizon = (self._bonus or self._potential).horizon
        self._history = History(count, horizon, padding, fidelity.quirks)
        self._envs = senses.make(world, count, "same-step")
        layouts = generator(seed, "training layouts").integers(TRAINING_LAYOUTS_FROM, 2**31, count)
        observations, _ = self._envs.reset(seed=layouts.tolist())
        self._views = senses.view(observations)
        self._history.start(self._views)
        self._lengths, self._returns, self._episodes = np.zeros(count, np.int64), np.zeros(count), []
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """CPU seconds of this process by what they went into: "worlds", "policy", "potential", "update"."""

    @contextmanager
    def _spent_on(self, part: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[part] += time.process_time() - start

    @property
    def frames_per_update(self) -> int:
        """Steps of all environments between two updates."""
        return self._settings.num_envs * self._settings.frames_per_env

    def improve(self, iteration: int) -> dict[str, Any]:
        """Collect a rollout and learn from it; the record of both."""
        experience, told = self._collect(generator(self._seed, "actions", iteration))
        with self._spent_on("update"):
            losses = self._update(experience, generator(self._seed, "minibatches", iteration))
        if not all(np.isfinite(list(losses.values()))):
            raise GroundlabError(f"PPO's losses are {losses}; lower lr (it is {self._settings.lr})")
        episodes, self._episodes = self._episodes, []
        means = {name: float(np.mean([row[name] for row in episodes])) for name in (episodes or [{}])[0]}
        return {"episodes": len(episodes), **means, **told, **losses}

    @torch.no_grad()
    def _collect(self, rng: np.random.Generator) -> tuple[Experience, dict[str, float]]:
        """The next steps of all environments, with their credit, and figures about it."""
        steps, windows, cut = [], [], []
        for _ in range(self._settings.frames_per_env):
            steps.append(self._step(rng, windows, cut))
        windows.append(self._history.windows())
        observations, actions, log_probs, values, curious_values, rewards, follows, ends, novelty = map(
            torch.stack, zip(*steps, strict=True)
        )
        with self._spent_on("potential"):
            phi, terms = self._pay(cut, ends) if self._bonus else self._shape(windows, cut, ends)
        last = self.agent(torch.from_numpy(normalised(self._views)))
        settings = self._settings
        earned = settings.reward_scale * rewards + terms + settings.gamma * follows
        advantages, returns = gae(earned, values, ends, last.value, settings.gamma, settings.lam)
        advantages, intrinsic_returns = settings.earned * advantages, torch.zeros_like(returns)
        if self._curiosity:
            scaled, never = self._curiosity.scaled(novelty), torch.zeros_like(ends)
            gamma, after = settings.curiosity_gamma, last.curiosity_value
            curious, intrinsic_returns = gae(scaled, curious_values, never, after, gamma, settings.lam)
            advantages = advantages + settings.curiosity * curious
            self._advantages.update(advantages)
            advantages = (advantages - self._advantages.mean) / (self._advantages.variance.sqrt() + 1e-8)
            self._curiosity.observations.update(observations)
        fields = (observations, actions, log_probs, values, returns, intrinsic_returns, advantages.float())
        told = {"potential": float(phi.mean()), "shaping": float(terms.abs().mean()), "novelty": float(novelty.mean())}
        return Experience._make(field.flatten(0, 1) for field in fields), told

    def _shape(self, windows: list[Windows], cut: list[tuple[np.ndarray, Windows]], ends: Tensor):
        """(potentials [T + 1, B], terms [T, B]) of a rollout. cut: whom a time limit stopped at each step."""
        values = torch.from_numpy(self._potential(stacked([*windows, *(windows for _, windows in cut)])))
        phi = values[: ends.shape[1] * len(windows)].reshape(len(windows), -1)
        if self._settings.timeouts == "terminal":
            return phi, self._shaper.terms(phi, ends).float() * self._settings.strength
        cut_off = torch.zeros_like(phi[1:])
        cut_off[torch.from_numpy(np.stack([limited for limited, _ in cut]))] = values[phi.numel() :]
        return phi, self._shaper.terms(phi, ends, cut_off).float() * self._settings.strength

    def _pay(self, reached: list[tuple[np.ndarray, Windows]], ends: Tensor) -> tuple[Tensor, Tensor]:
        """(what each step is worth to the bonus [T, B], what it is paid [T, B]). reached: the windows after each."""
        assert self._bonus is not None, "`_collect` asks only where there is one"
        paid = torch.from_numpy(self._bonus(stacked([windows for _, windows in reached]), ends.numpy()))
        return paid, (paid / self._scale).float() * self._settings.strength

    def _step(self, rng: np.random.Generator, windows: list, cut: list) -> tuple[Tensor, ...]:
        """One step of all environments; what `_collect` stacks."""
        with self._spent_on("policy"):
            observations = torch.from_numpy(normalised(self._views))
            judged = self.agent(observations)
            actions = draw(judged.logits, rng)
        with self._spent_on("worlds"):
            self._history.act(actions)
            windows.append(self._history.windows())
            seen, rewards, terminated, truncated, info = self._envs.step(actions)
            ended, self._views = terminated | truncated, self._senses.view(seen)
            limited = truncated & ~terminated
        follows = self._what_follows(limited, ended, info, cut)
        with self._spent_on("worlds"):
            self._history.see(self._views, ended)
            self._note(rewards, self._senses.succeeded(terminated, info), ended)
        with self._spent_on("policy"):
            chosen = torch.from_numpy(actions)
            log_probs = judged.logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]
            reached = torch.from_numpy(normalised(self._views)) if self._curiosity else observations
            novelty = self._curiosity.of(reached) if self._curiosity else torch.zeros(len(actions))
        earned, ends = torch.from_numpy(rewards).float(), torch.from_numpy(ended)
        return (
            observations,
            chosen,
            log_probs,
            judged.value,
            judged.curiosity_value,
            earned,
            follows,
            ends,
            novelty,
        )

    def _what_follows(self, limited: np.ndarray, ended: np.ndarray, info: dict[str, Any], cut: list) -> Tensor:
        """The values [B] of the observations that a time limit cuts off, 0 elsewhere; their windows join `cut`.

        For a bonus the windows of all environments do.
        """
        values, bootstrapped = torch.zeros(len(limited)), self._settings.timeouts == "bootstrap"
        if not (bootstrapped or self._bonus):
            return values
        after, reached = self._history.windows(), self._views
        if ended.any():
            reached = np.where(_beside(ended, reached), self._senses.view(info["final_obs"]), reached)
        if limited.any() or self._bonus:
            after = self._history.after(reached)
        if bootstrapped and limited.any():
            with self._spent_on("policy"):
                values[torch.from_numpy(limited)] = self.agent(torch.from_numpy(normalised(reached[limited]))).value
        cut.append((limited, after if self._bonus else Windows._make(field[limited] for field in after)))
        return values

    def _note(self, rewards: np.ndarray, succeeded: np.ndarray, ended: np.ndarray) -> None:
        """Keep the figures of episodes that have ended in this step."""
        self._lengths, self._returns = self._lengths + 1, self._returns + rewards
        for env in np.flatnonzero(ended).tolist():
            row = {"success": succeeded[env], "return": self._returns[env], "length": self._lengths[env]}
            self._episodes.append({name: float(value) for name, value in row.items()})
        self._lengths[ended], self._returns[ended] = 0, 0.0

    def _update(self, experience: Experience, rng: np.random.Generator) -> dict[str, float]:
        """Some epochs over a rollout; mean losses."""
        count, history = len(experience.actions), []
        size = -(-count // self._settings.minibatches)
        for _ in range(self._settings.epochs):
            for index in torch.from_numpy(rng.permutation(count)).split(size):
                losses = self._losses(Experience._make(field[index] for field in experience), rng)
                self._optimizer.zero_grad()
                losses["loss"].backward()
                if not self._settings.fidelity.unclipped_gradients:
                    nn.utils.clip_grad_norm_(self._learnt, self._settings.max_grad_norm)
                self._optimizer.step()
                history.append(torch.stack([loss.detach() for loss in losses.values()]))
        return dict(zip(losses, torch.stack(history).mean(0).tolist(), strict=True))

    def _losses(self, part: Experience, rng: np.random.Generator) -> dict[str, Tensor]:
        """The losses of one minibatch; "loss" is what is minimised."""
        settings, judged = self._settings, self.agent(part.observations)
        log_all = judged.logits.log_softmax(-1)
        entropy = -(log_all.exp() * log_all).sum(-1).mean()
        ratio = (log_all.gather(1, part.actions[:, None])[:, 0] - part.log_probs).exp()
        credit = part.advantages
        if not self._curiosity:  # with curiosity they are normalised by their running moments
            credit = (credit - credit.mean()) / (credit.std() + 1e-8)
        policy = -torch.min(ratio * credit, ratio.clamp(1 - settings.clip, 1 + settings.clip) * credit).mean()
        near = part.values + (judged.value - part.values).clamp(-settings.clip, settings.clip)
        value = 0.5 * torch.max((judged.value - part.returns) ** 2, (near - part.returns) ** 2).mean()
        prediction = torch.zeros(())
        if self._curiosity and self._novelty:
            value = value + 0.5 * (judged.curiosity_value - part.intrinsic_returns).pow(2).mean()
            predicted, true = self._novelty(self._curiosity.whitened(part.observations))
            kept = torch.from_numpy(rng.random(len(part.actions)) < settings.predicted_share)
            prediction = ((predicted - true).pow(2).mean(1) * kept).sum() / kept.sum().clamp(min=1)
        loss = policy - settings.entropy_coefficient * entropy + settings.value_coefficient * value + prediction
        return {"loss": loss, "policy_loss": policy, "value_loss": value, "entropy": entropy, "prediction": prediction}

    def state(self) -> Files:
        """The files of a checkpoint; to be taken between two updates."""
        facts = {"shaper": self._shaper.state(), "history": self._history.state(), "lengths": self._lengths.tolist()}
        facts |= {"advantages": self._advantages.state(), "returns": self._returns.tolist()}
        facts |= {"curiosity": self._curiosity.state()} if self._curiosity else {}
        facts |= {"bonus": self._bonus.state()} if self._bonus else {}
        files = checkpoints.pack(self.networks, self._optimizer, facts)
        return {**files, "envs.safetensors": save(self._envs.save())}

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        facts = checkpoints.unpack(files, self.networks, self._optimizer)
        self._shaper.load_state(facts["shaper"])
        self._history.load_state(facts["history"])
        self._advantages.load_state(facts["advantages"])
        if self._curiosity:
            self._curiosity.load_state(facts["curiosity"])
        if self._bonus:
            self._bonus.load_state(facts["bonus"])
        self._lengths, self._returns = np.array(facts["lengths"], np.int64), np.array(facts["returns"])
        self._envs.load(load(files["envs.safetensors"]))
        nobody = np.zeros(self._settings.num_envs, np.bool_)
        self._views = self._senses.view(self._envs.reset(options={"reset_mask": nobody})[0])
