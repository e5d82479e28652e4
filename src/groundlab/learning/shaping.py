"""Potential-based shaping (Ng, Harada & Russell 1999): rewards that speed learning up and leave optimal policies alone.

    shaping(potentials, ends, gamma)             [T + 1, B] and [T, B] to the terms [T, B]; nothing is kept
    Shaper(num_envs, gamma, scale=..).terms(..)  the same rollout after rollout, with the original's quirks on request

F_t = gamma phi(s_{t+1}) - phi(s_t), and phi is 0 where an episode has ended, so that the discounted terms of an episode
add up to -phi(s_0): a constant that no policy can change. phi may look back at the history of the episode, but not at
the action about to be taken. The background-knowledge paper's code pays other terms; each of its five deviations is a
named option of `Quirks` (docs/papers/knowledge-method.md#s6 and docs/papers/knowledge-reference.md#s11).
"""

from typing import Any

import torch
from torch import Tensor

from groundlab.learning.options import Quirks


class RunningMeanStd:
    """Mean and variance of all tensors of one shape so far, by batch moments in double precision.

    They begin at 0 and 1 with the weight of a ten-thousandth of a sample.
    """

    def __init__(self, *shape: int):
        self.mean, self.variance = torch.zeros(shape).double(), torch.ones(shape).double()
        self.count = 1e-4

    def update(self, values: Tensor) -> None:
        """Take in values [..., *shape]; all leading dimensions are samples."""
        batch = values.double().reshape(-1, *self.mean.shape)
        size, total = len(batch), self.count + len(batch)
        difference = batch.mean(0) - self.mean
        squares = self.variance * self.count + batch.var(0, correction=0) * size
        self.variance = (squares + difference**2 * self.count * size / total) / total
        self.mean = self.mean + difference * size / total
        self.count = total

    def state(self) -> dict[str, Any]:
        """What `load_state` continues from, for JSON."""
        return {"mean": self.mean.tolist(), "variance": self.variance.tolist(), "count": self.count}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from what `state` gave."""
        self.mean, self.variance = (torch.tensor(state[name], dtype=torch.float64) for name in ("mean", "variance"))
        self.count = state["count"]


def shaping(potentials: Tensor, ends: Tensor, gamma: float, truncation_values: Tensor | None = None) -> Tensor:
    """The terms [T, B] of a rollout.

    potentials: [T + 1, B], of the observations acted on, and of those after the last step. ends: bool [T, B], step t
    ended its episode, so that row t + 1 belongs to the next one. truncation_values: [T, B], for learners that
    bootstrap after a time limit: the potentials of the observations that it cut off, 0 where it ended otherwise.
    Raises ValueError when shapes differ.
    """
    _check(potentials, ends, truncation_values)
    after_end = torch.zeros_like(potentials[1:]) if truncation_values is None else truncation_values
    return gamma * torch.where(ends.bool(), after_end, potentials[1:]) - potentials[:-1]


def _check(potentials: Tensor, ends: Tensor, truncation_values: Tensor | None) -> None:
    steps = (len(potentials) - 1, *potentials.shape[1:])
    if ends.shape != steps or (truncation_values is not None and truncation_values.shape != steps):
        shapes = [tuple(x.shape) for x in (potentials, ends, truncation_values) if x is not None]
        raise ValueError(f"potentials must be [T + 1, B], ends and truncation_values [T, B], not {shapes}")


def scale_of(potentials: Tensor, gamma: float) -> float:
    """The original's measure of how large potentials are: the standard deviation of their discounted sums.

    potentials: [T, B], steps in B streams. Measured once, on data from before training, and kept (`Shaper.scale`), it
    leaves the optimal policies alone; measured on the way it does not. 1 for potentials that are all 0.
    """
    spread = float(_discounted_sums(potentials.double(), torch.zeros(potentials.shape[1:]).double(), gamma).std())
    return spread if spread > 0 else 1.0


class Shaper:
    """Terms rollout after rollout: a fixed scale, or the quirks' state."""

    def __init__(self, num_envs: int, gamma: float, scale: float = 1.0, quirks: Quirks | None = None):
        """scale: what potentials are divided by (`scale_of`), unless quirks say running_scale."""
        self._gamma, self._scale, self._quirks = gamma, scale, quirks or Quirks()
        self.running = RunningMeanStd()
        self._sums = torch.zeros(num_envs, dtype=torch.float64)
        self._carried = torch.zeros(num_envs, dtype=torch.float64)
        self._ended = torch.ones(num_envs, dtype=torch.bool)

    def terms(self, potentials: Tensor, ends: Tensor, truncation_values: Tensor | None = None) -> Tensor:
        """The terms [T, B] of the next rollout, as the function `shaping` takes its arguments, in its precision.

        With quirk `late` the last row of `potentials` and `truncation_values` are not read.
        """
        _check(potentials, ends, truncation_values)
        ends, given = ends.bool(), potentials.double()
        late = self._quirks.late
        rows = torch.cat([self._carried[None], given[:-1]]) if late else given
        scale = self._measured(rows) if self._quirks.running_scale else self._scale
        scaled = rows / scale
        if late:
            terms = self._late(scaled, ends)
            self._carried = scaled[-1] if self._quirks.carried_twice else rows[-1]
        elif self._quirks.no_boundaries:
            terms = self._gamma * scaled[1:] - scaled[:-1]
        else:
            terms = shaping(
                scaled, ends, self._gamma, None if truncation_values is None else truncation_values.double() / scale
            )
        self._ended = ends[-1].clone()
        return terms.to(potentials.dtype)

    def _late(self, scaled: Tensor, ends: Tensor) -> Tensor:
        terms = self._gamma * scaled[1:] - scaled[:-1]
        starts = torch.cat([self._ended[None], ends[:-1]])
        return terms if self._quirks.no_boundaries else torch.where(starts, 0.0, terms)

    def _measured(self, rows: Tensor) -> float:
        """The running deviation with this rollout taken in: rows that the next one sees again do not count."""
        new = rows[:-1] if not self._quirks.late else rows if self._quirks.carried_twice else rows[1:]
        sums = _discounted_sums(new, self._sums, self._gamma)
        self._sums = sums[-1]
        self.running.update(sums)
        return float(self.running.variance) ** 0.5

    def state(self) -> dict[str, Any]:
        """What `load_state` continues from, for JSON."""
        tensors = {"sums": self._sums, "carried": self._carried, "ended": self._ended}
        return {name: tensor.tolist() for name, tensor in tensors.items()} | {"running": self.running.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from what `state` gave."""
        self._sums, self._carried = (torch.tensor(state[name], dtype=torch.float64) for name in ("sums", "carried"))
        self._ended = torch.tensor(state["ended"], dtype=torch.bool)
        self.running.load_state(state["running"])


def _discounted_sums(rows: Tensor, before: Tensor, gamma: float) -> Tensor:
    """R_t = gamma R_{t-1} + row_t, over ends of episodes as the original does it."""
    sums = torch.empty_like(rows)
    for t, row in enumerate(rows):
        before = sums[t] = gamma * before + row
    return sums
