"""The small networks on top of a language model: the value head, and the action head that stands in for scoring.

Both are GLAM's: Linear(d, 1024), Sigmoid, Linear(1024, 1024), Sigmoid, Linear(1024, n), PyTorch's own initialisation,
float32 whatever the language model computes in (spec glam-agents sections 1.3 and 1.4). They read the state that
predicts an action's first token: the decoder's start token, or the prompt's last token of a causal model.
Called from: `scoring.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from groundlab.core.seeding import Purpose, child_seed

HIDDEN_SIZE = 1024


@contextmanager
def seeded_weights(seed: int, *purpose: Purpose) -> Iterator[None]:
    """Build weights inside: torch's layers draw from its global generator, which is put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(child_seed(seed, *purpose))
        yield


class Head(nn.Module):
    """States [P, d] of any float type to float32 [P, outputs]."""

    def __init__(self, size: int, outputs: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(size, HIDDEN_SIZE),
            nn.Sigmoid(),
            nn.Linear(HIDDEN_SIZE, HIDDEN_SIZE),
            nn.Sigmoid(),
            nn.Linear(HIDDEN_SIZE, outputs),
        )

    def forward(self, states: Tensor) -> Tensor:
        return self.layers(states.float())
