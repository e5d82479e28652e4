"""The loop by which every PPO here updates: a minibatch, its gradient, clipping, a step; means over all steps.

    means = descend(optimizer, minibatches(size, batch_size, rng, epochs), backward, max_grad_norm)

`backward(minibatch)` is the method's own: it leaves the gradient of its loss behind, read at once or in parts, and
returns the minibatch's figures, the loss first. Minibatches are drawn one by one, so what it draws comes in between.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError
from groundlab.learning.master_weights import parameters_of

M = TypeVar("M")


def descend(
    optimizer: torch.optim.Optimizer,
    minibatches: Iterable[M],
    backward: Callable[[M], Tensor],
    max_grad_norm: float | None,
    wait: bool = True,
) -> list[float]:
    """Some gradient steps; the mean of each of `gradients`' figures over them. Raises as `gradients`."""
    history = []
    for minibatch in minibatches:
        history.append(gradients(optimizer, partial(backward, minibatch), max_grad_norm, wait))
        optimizer.step()
    means = torch.stack(history).mean(0).tolist()
    _check(means, optimizer)
    return means


def gradients(
    optimizer: torch.optim.Optimizer, backward: Callable[[], Tensor], max_grad_norm: float | None, wait: bool = True
) -> Tensor:
    """Clipped gradients of a minibatch; returns the figures [F] that `backward` gives, and the norm before clipping.

    Raises GroundlabError when loss or gradient is not finite: before any weight is changed where `wait`, which on a GPU
    is a wait a step; else `descend` finds it in the means.
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
        raise GroundlabError(
            f"the loss is NaN or infinite ({loss:.3g}, its gradient {norm:.3g}); use an lr below {lr:g}"
        )
