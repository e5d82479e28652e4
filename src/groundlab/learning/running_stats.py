"""Mean and variance of everything seen so far, by batch moments in double precision (RunningMeanStd)."""

from typing import Any

import torch
from torch import Tensor


class RunningMeanStd:
    """Of tensors of one shape; they begin at 0 and 1 with the weight of a ten-thousandth of a sample."""

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
