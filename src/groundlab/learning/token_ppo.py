"""PPO on the tokens of responses: clipped losses, the KL to a reference, updates whose gradient no split changes.

    figures = update(backward, optimizer, batch, settings, rng)

A batch holds S responses of N tokens in all, one after the other, without padding: no masks. `backward(index, loss)`
reads responses `index` in parts that fit the memory and adds up the gradients of `loss`; which model it reads with,
and what the prompts are, is the caller's business (`TokenPolicy.backward` in language/token_policy.py). Every loss is a
sum over tokens divided by the tokens of the whole minibatch, so the parts add up to the same gradient however it is
cut.
Source: trl 0.11.4 as described in docs/papers/reasoning-method.md#s3-3 to #s3-5. Credits come from `credit.py`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from groundlab.learning.devices import send
from groundlab.learning.master_weights import parameters_of
from groundlab.learning.options import KLEstimator
from groundlab.learning.ppo import gradients, minibatches

_WHITENING_EPSILON = 1e-8

FIGURES: tuple[str, ...] = (
    "loss",
    "policy_loss",
    "value_loss",
    "reference_kl",
    "entropy",
    "approx_kl",
    "policy_kl",
    "ratio",
    "clip_fraction",
    "value_clip_fraction",
    "grad_norm",
)
"""What `step` tells of a minibatch, means over its tokens; value_loss with its half, before its coefficient."""


class Batch(NamedTuple):
    """S responses of N tokens in all, response after response, and what came of them."""

    lengths: Tensor  # int64 [S], on the CPU
    log_probs: Tensor  # [N], under the policy that acted
    reference: Tensor  # [N], log-probabilities under the reference
    values: Tensor  # [N], predicted when acting
    advantages: Tensor  # [N], whitened or not
    returns: Tensor  # [N]


class Reading(Protocol):
    """What the network that learns says of n tokens."""

    @property
    def log_probs(self) -> Tensor: ...  # [n], with gradient

    @property
    def values(self) -> Tensor: ...  # [n], with gradient

    @property
    def entropies(self) -> Tensor: ...  # [n], with gradient


Loss = Callable[[Tensor, Reading], Tensor]  # places [s] in the minibatch, on the CPU, and the reading of their tokens
Backward = Callable[[Tensor, Loss], object]  # response indices [b] of a minibatch, on the CPU, and its loss


class TokenPPOSettings(Protocol):
    """What `update` reads from a method's settings."""

    epochs: int
    minibatch_size: int  # responses a gradient step
    clip: float
    value_clip: float
    entropy_coefficient: float
    max_grad_norm: float | None  # None: not clipped
    ratio_threshold: float | None  # a mean ratio above it makes the gradient 0
    target_kl: float | None  # no further epoch once an epoch's mean approx_kl is above it

    @property
    def critic_coefficient(self) -> float: ...  # of the value loss; 0 where there is no critic

    @property
    def kl_loss_coefficient(self) -> float: ...  # of the KL as a loss; 0 where it is in the reward, or nowhere

    @property
    def kl_estimator(self) -> KLEstimator: ...


def whitened(advantages: Tensor) -> Tensor:
    """Zero mean and unit (unbiased) variance over all tokens [N] of a batch; a single token is only centred."""
    centred = advantages - advantages.mean()
    return centred * (advantages.var() + _WHITENING_EPSILON).rsqrt() if len(advantages) > 1 else centred


def kl_estimate(log_probs: Tensor, reference: Tensor, estimator: KLEstimator) -> Tensor:
    """Estimates of KL(policy | reference) at tokens that the policy drew, of the same shape as both.

    With x = log_probs - reference: k1 = x, which can be negative; k3 = exp(-x) - 1 + x, unbiased and never negative
    (Schulman 2020).
    """
    x = log_probs - reference
    return x if estimator == "k1" else torch.expm1(-x) + x


def tokens_of(lengths: Tensor, index: Tensor) -> Tensor:
    """Where the tokens of responses `index` [s] stand among all N, int64, response after response in that order."""
    chosen = lengths[index]
    starts = (lengths.cumsum(0) - lengths)[index]
    within = torch.arange(int(chosen.sum()))
    return within + (starts - (chosen.cumsum(0) - chosen)).repeat_interleave(chosen)


def select(batch: Batch, index: Tensor) -> Batch:
    """The responses `index` [s] of a batch, in that order."""
    tokens = send(tokens_of(batch.lengths, index), batch.log_probs.device)
    return Batch(batch.lengths[index], *(field[tokens] for field in batch[1:]))


def losses_of(reading: Reading, part: Batch, settings: TokenPPOSettings) -> Tensor:
    """All `FIGURES` but the last as sums over the tokens of `part`, [10]: divide by the minibatch's tokens.

    Only the first, the loss, has a gradient: those of figures without a share in it may be no numbers.
    """
    change = reading.log_probs - part.log_probs
    ratio = change.exp()
    plain, clipped = (-part.advantages * r for r in (ratio, ratio.clamp(1 - settings.clip, 1 + settings.clip)))
    policy = torch.max(plain, clipped).sum()
    near = part.values + (reading.values - part.values).clamp(-settings.value_clip, settings.value_clip)
    error, near_error = (reading.values - part.returns).square(), (near - part.returns).square()
    value = torch.max(error, near_error).sum() / 2
    kl = kl_estimate(reading.log_probs, part.reference, settings.kl_estimator).sum()
    entropy = reading.entropies.sum()
    total = policy + settings.critic_coefficient * value
    if settings.kl_loss_coefficient:
        total = total + settings.kl_loss_coefficient * kl
    if settings.entropy_coefficient:
        total = total - settings.entropy_coefficient * entropy
    distances = [change.square().sum() / 2, -change.sum(), ratio.sum()]
    cut = [(clipped > plain).sum(), (near_error > error).sum()]
    figures = [policy, value, kl, entropy, *distances, *cut]
    return torch.stack([total, *(figure.detach().to(total.dtype) for figure in figures)])


def step(
    backward: Callable[[Loss], object], optimizer: torch.optim.Optimizer, batch: Batch, settings: TokenPPOSettings
) -> dict[str, float]:
    """One gradient step on a minibatch; returns `FIGURES`, grad_norm before clipping.

    backward(loss) reads all responses of the minibatch in parts, and calls loss(places [s], reading) for each.
    Raises GroundlabError, before any weight is changed, when loss or gradient is not a number.
    """
    tokens, seen = len(batch.log_probs), torch.zeros(len(FIGURES) - 1, device=batch.log_probs.device)

    def loss(places: Tensor, reading: Reading) -> Tensor:
        shares = losses_of(reading, select(batch, places), settings) / tokens
        seen.add_(shares.detach())
        return shares[0]

    def read() -> Tensor:
        backward(loss)
        return seen

    figures = dict(zip(FIGURES, gradients(optimizer, read, settings.max_grad_norm).tolist(), strict=True))
    if settings.ratio_threshold is not None and figures["ratio"] > settings.ratio_threshold:
        for parameter in parameters_of(optimizer):
            if parameter.grad is not None:
                parameter.grad.zero_()  # and not skipped: the original's optimizer goes on by its momentum
    optimizer.step()
    return figures


def update(
    backward: Backward,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    settings: TokenPPOSettings,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Some epochs over a batch in minibatches of responses; the mean of each of `FIGURES`, and the epochs done.

    Responses that do not fill a minibatch are left out of an epoch, others in each. Raises as `step`.
    """
    history: list[dict[str, float]] = []  # no `descend`: an epoch's mean may end the loop, and means are of float64
    epochs = 0
    for _ in range(settings.epochs):
        epoch = []
        for index in minibatches(len(batch.lengths), settings.minibatch_size, rng):
            epoch.append(step(lambda loss: backward(index, loss), optimizer, select(batch, index), settings))  # noqa: B023
        history, epochs = history + epoch, epochs + 1
        if settings.target_kl is not None and np.mean([row["approx_kl"] for row in epoch]) > settings.target_kl:
            break
    return {name: float(np.mean([row[name] for row in history])) for name in FIGURES} | {"epochs": float(epochs)}
