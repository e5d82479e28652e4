"""Proximal policy optimisation (Schulman et al. 2017): the clipped update on one batch of decisions.

    losses = update(policy, optimizer, batch, advantages, settings, rng)

`policy` maps inputs [N, ...] to (logits [N, A], values [N]). Which inputs, and how returns were made, is the caller's
business. `descend` is the loop of every PPO here: a minibatch, its gradient, clipping, a step; means over all steps.
`sample_actions` is the one way in which actions are drawn: the inverse of the cumulative distribution, one
number a row.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError
from groundlab.learning.master_weights import parameters_of

NORMALISER_EPSILON = 1e-5


class Batch(NamedTuple):
    """N decisions and what came of them."""

    inputs: Tensor  # [N, ...]
    actions: Tensor  # int64 [N]
    log_probs: Tensor  # [N], under the policy that acted
    values: Tensor  # [N], predicted when acting
    returns: Tensor  # [N]


class Losses(NamedTuple):
    """Means over all minibatches of an update."""

    total: float
    policy: float
    value: float
    entropy: float


class PPOSettings(Protocol):
    """What `update` reads from a method's settings."""

    batch_size: int
    epochs: int
    clip: float
    entropy_coefficient: float
    value_coefficient: float
    max_grad_norm: float


def normalised(advantages: Tensor) -> Tensor:
    """Zero mean and unit (unbiased) standard deviation over the whole buffer [N]."""
    return (advantages - advantages.mean()) / (advantages.std() + NORMALISER_EPSILON)


def minibatches(size: int, batch_size: int, rng: np.random.Generator, epochs: int = 1) -> Iterator[Tensor]:
    """Random index sets without replacement, drawn when an epoch begins.

    The last incomplete one of an epoch is dropped; a buffer below one batch is one.
    """
    length = min(batch_size, size)
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(size))
        yield from (order[start : start + length] for start in range(0, size - length + 1, length))


def descend(
    optimizer: torch.optim.Optimizer,
    indices: Iterable[Tensor],
    backward: Callable[[Tensor], Tensor],
    max_grad_norm: float | None,
    wait: bool = True,
) -> list[float]:
    """A gradient step for each minibatch of `indices`; means of `gradients`' figures over them. Raises as it does.

    backward: of a minibatch, see `gradients`. Minibatches are taken one by one: what it draws comes in between.
    """
    history = []
    for index in indices:
        history.append(gradients(optimizer, partial(backward, index), max_grad_norm, wait))
        optimizer.step()
    means = torch.stack(history).mean(0).tolist()
    _check(means, optimizer)
    return means


def gradients(
    optimizer: torch.optim.Optimizer, backward: Callable[[], Tensor], max_grad_norm: float | None, wait: bool = True
) -> Tensor:
    """Clipped gradients of a minibatch; its figures, the loss first, and last the gradient's norm before clipping.

    backward() leaves the loss's gradient behind, read at once or in parts, and returns the figures before the norm [F].
    Raises GroundlabError when loss or gradient is NaN or infinite: before any weight is changed where `wait`, which on
    a GPU is a wait a step; else `descend` finds it in the means.
    """
    parameters = parameters_of(optimizer)
    for weights in parameters:  # what zero_grad does, without its calls of hooks
        weights.grad = None
    figures = backward()
    norm = nn.utils.clip_grad_norm_(parameters, float("inf") if max_grad_norm is None else max_grad_norm)
    figures = torch.cat([figures, norm.detach()[None]])
    if wait:
        figures = figures.cpu()
        _check([figures[0].item(), figures[-1].item()], optimizer)  # others may have no share in the loss
    return figures


def _check(figures: list[float], optimizer: torch.optim.Optimizer) -> None:
    if not np.isfinite(figures).all():
        loss, norm, lr = figures[0], figures[-1], optimizer.param_groups[0]["lr"]
        broken = f"the loss is NaN or infinite ({loss:.3g}, its gradient {norm:.3g})"
        raise GroundlabError(f"{broken}; use an lr below {lr:g}")


def policy_loss(log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """The clipped surrogate of N actions, to be minimised; old: under the policy that acted."""
    ratio = (log_probs - old_log_probs).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.min(ratio * advantages, clipped * advantages).mean()


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float) -> Tensor:
    """The squared error of N values, clipped around those predicted when acting; no factor 1/2."""
    near = old_values + (values - old_values).clamp(-clip, clip)
    return torch.max((values - returns) ** 2, (near - returns) ** 2).mean()


def losses_of(logits: Tensor, values: Tensor, batch: Batch, advantages: Tensor, settings: PPOSettings):
    """(total, policy, value, entropy) of one minibatch: clipped ratio, clipped value error, mean entropy."""
    log_all = torch.log_softmax(logits, dim=-1)
    log_probs = log_all.gather(1, batch.actions[:, None])[:, 0]
    entropy = -(log_all.exp() * log_all).sum(-1).mean()
    policy = policy_loss(log_probs, batch.log_probs, advantages, settings.clip)
    value = value_loss(values, batch.values, batch.returns, settings.clip)
    total = policy - settings.entropy_coefficient * entropy + settings.value_coefficient * value
    return total, policy, value, entropy


def update(
    policy: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    advantages: Tensor,
    settings: PPOSettings,
    rng: np.random.Generator,
) -> Losses:
    """Some epochs of clipped updates over `batch` with (not yet normalised) `advantages` [N]; changes `policy`."""
    advantages = normalised(advantages)

    def backward(index: Tensor) -> Tensor:
        part = Batch._make(field[index] for field in batch)
        logits, values = policy(part.inputs)
        losses = losses_of(logits, values, part, advantages[index], settings)
        losses[0].backward()
        return torch.stack(losses).detach()

    indices = minibatches(len(batch.actions), settings.batch_size, rng, settings.epochs)
    *means, _ = descend(optimizer, indices, backward, settings.max_grad_norm)
    return Losses._make(means)


def sample_actions(logits: Tensor, rng: np.random.Generator) -> np.ndarray:
    """Actions int64 [N] from logits [N, A], normalised or not; takes N uniform numbers from `rng`."""
    cumulative = logits.double().softmax(-1).cumsum(-1).numpy()
    numbers = rng.random(len(cumulative))
    return np.minimum((cumulative <= numbers[:, None]).sum(1), cumulative.shape[1] - 1)
