"""The reasoning and the direct agent: a causal language model answers in words, and nested PPO tunes it.

    groundlab run reasoning --world Reasoning-GoTo-v0 --seed 0 --set iterations=100 --out runs/reasoning
    groundlab run direct --world Reasoning-GoTo-v0 --seed 0 --set num_dists=0 --out runs/direct

    policy     the model itself, token by token: "turn left", or a thought and then "final answer: turn left"
    value      a head on the state before each token
    learning   replies in many environments (`rollouts.py`), credit over steps and over tokens (`learning/credit.py`), a
               KL to the model before training, some epochs of clipped updates (`learning/token_ppo.py`)
    test       fixed layouts, each to its end (`evaluation.py`)

`Learner.train_step` is one update; the functions below it are its parts, in their order. Everything random is drawn
from a generator of (seed, purpose, update), so a resumed run is the uninterrupted one bit for bit on CPU. The trained
model is also left in peft's format, in the run's folder `model`.

Source: Gandhi et al. 2025; docs/papers/reasoning-method.md.
"""

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run, RunSpec
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.token_policy import Reading, TokenPolicy
from groundlab.learning import checkpoints, credit, token_ppo
from groundlab.learning.devices import send
from groundlab.learning.master_weights import make_optimizer
from groundlab.learning.options import KLController
from groundlab.papers import training
from groundlab.papers.reasoning import evaluation
from groundlab.papers.reasoning.policy import (
    ChatPolicy,
    adapter_dropout,
    evaluation_policy,
    open_policy,
    save_policy,
)
from groundlab.papers.reasoning.rollouts import Collector, Rollout
from groundlab.papers.reasoning.settings import TrainingSettings
from groundlab.papers.reasoning.thoughts import probe, thought_stats

MODEL = "model"
"""Where, in a run's folder, the trained model is left."""
LARGEST_GAP = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.03}
"""Nats by which log-probabilities may differ between generation and training, in the mean: rounding, by precision."""


def make_learner(spec: RunSpec, run: Run | None = None) -> "Learner":
    """The agent of a run, before its first update."""
    return Learner(spec)


class Learner(training.Learner):
    """An agent while it learns: model, value head, optimizer, open episodes."""

    shown = ("success", "valid")

    def __init__(self, spec: RunSpec):
        settings = TrainingSettings(**spec.settings)
        self._world, self._seed, self._settings = spec.world, spec.seed, settings
        self._thinks = spec.method.startswith("reasoning")
        self.updates = settings.iterations
        self.policy, self.tokenizer = open_policy(settings, self._seed)
        parameters = [parameter for parameter in self.policy.parameters() if parameter.requires_grad]
        fused = settings.device == "cpu"
        self.optimizer = make_optimizer(torch.optim.Adam, parameters, lr=settings.lr, fused=fused)
        self.kl = settings.kl_controller()
        self._frames = 0  # replies so far
        self._chat_policy = ChatPolicy(self.policy.model, self.tokenizer, settings)
        self._env = evaluation.make_env(self._world, settings.num_envs, self._thinks, settings)
        self._collector = Collector(self._env, self._chat_policy, settings, self._seed)

    def begin(self, run: Run) -> None:
        """Record 0: the test before the first update."""
        if self._settings.test_every:
            run.log({"iteration": 0, "frames": 0, **self._curve_point()})

    def train_step(self, number: int) -> dict[str, Any]:
        """Collect a rollout, learn from it, and test where a test is due."""
        settings = self._settings
        drops = settings.fidelity.dropout
        with adapter_dropout(self.policy.model, self._seed, "dropout", number) if drops else nullcontext():
            rollout = self._collector.collect(number)
        figures = update_policy(
            self.policy,
            self.optimizer,
            self.kl,
            rollout,
            settings,
            generator(self._seed, "minibatches", number),
            self._chat_policy.end_token,
            check_mismatch=number == 1,
        )
        record = {**episode_stats(rollout), **reply_stats(rollout, self._thinks), **figures}
        self._frames += record["replies"]
        tested = self._curve_point() if settings.test_every and number % settings.test_every == 0 else {}
        return {"frames": self._frames, **record, **tested}

    def _curve_point(self) -> dict[str, Any]:
        """A test in the course of training: means over its layouts as `test_*`, and a probe of the thoughts."""
        settings = self._settings
        chat_policy = self._evaluation_policy()
        layouts = parse_layouts(settings.curve_layouts)
        plain = settings.model_copy(update={"transcripts": 0})
        rows = evaluation.play_layouts(chat_policy, self._world, layouts, self._thinks, plain, self._seed)
        mean = evaluation.summarise("", rows)["mean"]
        record = {f"test_{name}": mean[name] for name in ("success", "return", "length", "invalid")}
        if not self._thinks:
            return record
        states = evaluation.probe_states(self._world, chat_policy, settings, self._seed)
        return record | probe(self.policy, chat_policy, *states)

    def evaluate(self) -> list[training.Evaluation]:
        """Play the test layouts; see `evaluation.py`."""
        return evaluation.evaluate(self._evaluation_policy(), self._world, self._thinks, self._settings, self._seed)

    def _evaluation_policy(self) -> ChatPolicy:
        return evaluation_policy(self.policy.model, self.tokenizer, self._settings)

    def state(self) -> Files:
        """Weights, optimizer, KL coefficient, count of replies, open episodes."""
        facts = {"frames": self._frames, "kl_coefficient": self.kl.coefficient}
        return {**checkpoints.pack(self.policy, self.optimizer, facts), **self._env.state()}

    def load_state(self, files: Files) -> None:
        """Go on from a checkpoint."""
        facts = checkpoints.unpack(files, self.policy, self.optimizer)
        self._frames, self.kl.coefficient = facts["frames"], facts["kl_coefficient"]
        self._env.load_state(files)

    def load_weights(self, files: Files) -> None:
        """Take the model from a checkpoint."""
        checkpoints.unpack(files, self.policy)

    def finish(self, run: Run) -> None:
        """Leave the model in the run's folder."""
        save_policy(self.policy, self.tokenizer, run.folder / MODEL)


def update_policy(
    policy: TokenPolicy,
    optimizer: torch.optim.Optimizer,
    kl: KLController,
    rollout: Rollout,
    settings: TrainingSettings,
    rng: np.random.Generator,
    end_token: int,
    check_mismatch: bool = False,
) -> dict[str, Any]:
    """One update of the policy from a rollout; returns its figures, means over the minibatches.

    check_mismatch: raise GroundlabError where the tokens were sampled by another model than the one that learns.
    """
    policy.eval()  # turns gradient checkpointing on again, which generation has turned off
    estimates = read_rollout(policy, rollout, settings, end_token)
    mismatch = logprob_mismatch(rollout, estimates.reading, settings)
    if check_mismatch and mismatch is not None and mismatch > LARGEST_GAP[settings.dtype]:
        raise GroundlabError(
            f"tokens were drawn with other probabilities than they are learnt from (by {mismatch:.2g} nats);"
            " give attention that takes a mask (sdpa or eager), or dtype=float32"
        )
    batch = make_batch(rollout, estimates, kl.coefficient, settings)
    prompts = [step.prompt for step in rollout.steps]
    responses = [step.reply.tokens for step in rollout.steps]
    if settings.fidelity.drop_unfinished:
        chosen = torch.from_numpy(rng.permutation(len(prompts))[: settings.steps])
        batch = token_ppo.select(batch, chosen)
        prompts, responses = ([rows[index] for index in chosen.tolist()] for rows in (prompts, responses))
    if not settings.is_critic_free:
        batch = batch._replace(advantages=token_ppo.whitened(batch.advantages))
    kl_per_reply = float((batch.log_probs - batch.reference).sum()) / len(prompts)
    figures = {"drawing_gap": mismatch} if mismatch is not None else {}
    figures |= {"kl": kl_per_reply, "kl_coefficient": kl.coefficient, "value": float(batch.values.mean())}
    batch = token_ppo.Batch(batch.lengths, *(send(field, policy.device) for field in batch[1:]))

    def backward(index: Tensor, loss: token_ppo.Loss) -> None:
        rows = index.tolist()
        policy.backward([prompts[row] for row in rows], [responses[row] for row in rows], loss)

    figures |= token_ppo.update(backward, optimizer, batch, settings, rng)
    kl.update(kl_per_reply, len(prompts))
    return figures


class RolloutEstimates(NamedTuple):
    """What the model that learns says of a rollout, on the CPU: N tokens of S replies."""

    reading: Reading
    reference: Tensor  # [N], log-probabilities; the policy's own where no reference is asked for
    bootstrap_values: list[float]  # of each segment's next observation; 0 where the episode ended


def read_rollout(policy: TokenPolicy, rollout: Rollout, settings: TrainingSettings, end_token: int) -> RolloutEstimates:
    """Read all replies, and the observations after the open segments, in one go."""
    prompts = [step.prompt for step in rollout.steps]
    responses = [step.reply.tokens for step in rollout.steps]
    next_prompts = [segment.next_prompt for segment in rollout.segments if segment.next_prompt is not None]
    # The value of an observation is that of the state before a reply, whatever its first token is.
    whole = policy.read([*prompts, *next_prompts], [*responses, *([end_token] for _ in next_prompts)])
    whole = Reading(*torch.cat(whole).cpu().split([len(field) for field in whole]))  # one wait for all
    tokens = sum(map(len, responses))
    reading = Reading(
        whole.log_probs[:tokens], whole.values[:tokens], whole.entropies[:tokens], whole.after[: len(responses)]
    )
    reference = reading.log_probs if settings.kl == "none" else policy.reference(prompts, responses).cpu()
    values = iter(whole.values[tokens:].tolist())
    bootstrap_values = [next(values) if segment.next_prompt else 0.0 for segment in rollout.segments]
    return RolloutEstimates(reading, reference, bootstrap_values)


def logprob_mismatch(rollout: Rollout, reading: Reading, settings: TrainingSettings) -> float | None:
    """The mean difference between a token's log-probability when it was sampled and when it is learnt from, in nats.

    None where they are of different distributions by intent: truncated sampling, or dropout while sampling.
    """
    plain = settings.learning_temperature == 1
    if settings.fidelity.dropout or not (plain or (settings.top_k == 0 and settings.top_p == 1)):
        return None
    replies = [step.reply for step in rollout.steps]
    sampled = [number for reply in replies for number in (reply.log_probs if plain else reply.sampling_log_probs)]
    return float((torch.tensor(sampled) - reading.log_probs).abs().mean())


def make_batch(
    rollout: Rollout, estimates: RolloutEstimates, kl_coefficient: float, settings: TrainingSettings
) -> token_ppo.Batch:
    """The batch that PPO learns from; `kl_coefficient` is that of the KL in the rewards."""
    reading, reference = estimates.reading, estimates.reference
    penalties = -kl_coefficient * token_ppo.kl_estimate(reading.log_probs, reference, settings.kl_estimator)
    lengths = torch.tensor([len(step.reply.tokens) for step in rollout.steps])
    steps = [len(segment.steps) for segment in rollout.segments]
    tokens = [int(part.sum()) for part in lengths.split(steps)]
    parts = zip(
        rollout.segments,
        estimates.bootstrap_values,
        lengths.split(steps),
        reading.values.split(tokens),
        reading.after.split(steps),
        penalties.split(tokens),
        strict=True,
    )
    episodes = [
        credit.Episode(
            torch.tensor([step.reward for step in segment.steps]),
            *of_tokens,
            done=segment.next_prompt is None,
            last_value=bootstrap_value,
            group=segment.group,
            anchors=[step.anchor for step in segment.steps],
        )
        for segment, bootstrap_value, *of_tokens in parts
    ]
    credits = credit.assign(episodes, settings)
    advantages, returns, _ = (torch.cat(field) for field in zip(*credits, strict=True))
    return token_ppo.Batch(lengths, reading.log_probs, reference, reading.values, advantages, returns)


def episode_stats(rollout: Rollout) -> dict[str, Any]:
    """The number of episodes that ended, and their means where there are any."""
    rows = rollout.episodes
    names = ("success", "return", "length", "invalid") if rows else ()
    return {"episodes": len(rows), **{name: float(np.mean([row[name] for row in rows])) for name in names}}


def reply_stats(rollout: Rollout, thinks: bool) -> dict[str, Any]:
    """Replies: shares of valid ones and of those cut off, tokens, measures of thoughts, and the first as text."""
    steps = rollout.steps
    return {
        "replies": len(steps),
        "valid": float(np.mean([step.valid for step in steps])),
        "cut_off": float(np.mean([not step.reply.ended for step in steps])),
        "reply_tokens": float(np.mean([len(step.reply.tokens) for step in steps])),
        **(thought_stats(steps) if thinks else {}),
        "said": steps[0].reply.text,
    }
