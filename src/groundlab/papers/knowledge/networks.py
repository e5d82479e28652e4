"""The paper's networks, for policy and curiosity (docs/papers/knowledge-method.md#s2 and #s6), and small ones of ours.

    agent = TwoHeadedAgent((3, 7, 7), 7)           policy, and values of the world's rewards and of curiosity's
    novelty = RandomDistillation((3, 7, 7))        curiosity: how badly a fixed random network is predicted
    small = TwoHeadedAgent((3, 7, 7), 7, "small")  for laptops: a seventieth of the arithmetic; of pictures an eighth

`forward_flops` counts the arithmetic of one observation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from groundlab.learning.devices import send
from groundlab.papers.knowledge.observations import distinct, normalise

HIDDEN = 512
_SMALL = 16  # pixels; smaller inputs are grids, larger ones images
_CELL = 7  # pixels of a cell in a picture of Crafter
FEW = 64  # features of the small networks
Size = Literal["paper", "small"]


def convolutions(shape: tuple[int, int, int]) -> nn.Sequential:
    """[N, C, H, W] to [N, 512], no activation at the end; PyTorch's own initialisation."""
    channels, height, width = shape
    layouts = ((3, 1, 1),) * 3 if width < _SMALL else ((8, 4, 0), (4, 2, 0), (3, 1, 0))
    layers: list[nn.Module] = []
    for out, (kernel, stride, padding) in zip((32, 64, 64), layouts, strict=True):
        layers += [nn.Conv2d(channels, out, kernel, stride, padding), nn.ReLU()]
        channels = out
        height, width = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, HIDDEN))


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class PolicyOutput(NamedTuple):
    """Of the agent, for N observations."""

    logits: Tensor  # [N, A]
    value: Tensor  # [N], of what the world pays
    curiosity_value: Tensor  # [N], of what curiosity pays


def few_convolutions(shape: tuple[int, int, int], widths: tuple[int, int] = (16, 32)) -> nn.Sequential:
    """Grids [N, C, 7, 7] or pictures [N, C, 64, 64] to [N, 64]: two layers; no activation at the end.

    Both look at 3 x 3 cells at a time, but the first layer of pictures reads each of their cells (7 pixels) by itself.
    """
    channels, height, width = shape
    first, second = widths
    if width < _SMALL:
        begin, cells = nn.Conv2d(channels, first, 3), (height - 4) * (width - 4)
    else:
        begin, cells = nn.Conv2d(channels, first, _CELL, _CELL), (height // _CELL - 2) * (width // _CELL - 2)
    layers = [begin, nn.ReLU(), nn.Conv2d(first, second, 3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(second * cells, FEW))


@dataclass(frozen=True)
class Pieces:
    """M grid views cut into what the two layers of `few_convolutions` look at, each piece that differs once.

    A copy of the small network's forward, held equal by `test_views_in_pieces_are_read_as_whole_views_are`: an update
    takes 1.18 times as long without. Views share most of their pieces: thousands of them have a thirteenth as many
    distinct squares of 3 x 3 cells.
    """

    squares: Tensor  # float [P, 27], of 3 x 3 cells
    blocks: Tensor  # int64 [Q, 9], of 5 x 5 cells: their squares
    views: Tensor  # int64 [M, 9]: their blocks

    @classmethod
    def of(cls, observations: Tensor) -> "Pieces":
        """Those of observations [M, 3, 7, 7]."""
        squares = observations.unfold(2, 3, 1).unfold(3, 3, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 27)
        first, which = distinct(squares.numpy())
        grid = torch.from_numpy(which).view(-1, 5, 5)
        blocks = grid.unfold(1, 3, 1).unfold(2, 3, 1).reshape(-1, 9)
        chosen, views = distinct(blocks[:, ::2].numpy())  # the corners and the middle tell what is between them
        return cls(squares[first], blocks[chosen], torch.from_numpy(views).view(-1, 9))

    def __getitem__(self, numbers: Tensor) -> "Pieces":
        """Those of some of the views."""
        blocks, views = used(self.views[numbers], len(self.blocks))
        squares, inside = used(self.blocks[blocks], len(self.squares))
        return Pieces(self.squares[squares], inside, views)

    def read(self, layers: nn.Sequential) -> Tensor:
        """What `few_convolutions` of the views gives [M, 64]."""
        parts: list[Any] = [*layers]
        first, _, second, _, _, last = parts
        squares = functional.linear(self.squares, first.weight.flatten(1), first.bias).relu()
        inside = _rows(squares, self.blocks)
        blocks = functional.linear(inside, _places_first(second.weight.flatten(2)), second.bias).relu()
        inside = _rows(blocks, self.views)
        return functional.linear(inside, _places_first(last.weight.unflatten(1, (-1, 9))), last.bias)


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """The rows of values [N, d] that an index int64 [M, k] names, side by side: [M, k d]."""
    return values.index_select(0, index.flatten()).view(len(index), -1)


def used(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(the numbers below `size` that occur, and the index among them)."""
    flags = torch.zeros(size, dtype=torch.bool, device=index.device)
    flags.index_fill_(0, index.flatten(), True)
    return flags.nonzero()[:, 0], (flags.cumsum(0) - 1)[index]


def _squares(cells: Tensor) -> Tensor:
    """The squares of 3 x 3 of cells [N, S, S, C] as rows [N (S - 2)^2, 9 C]; one that is contiguous is copied once."""
    count, side, _, channels = cells.shape
    within, between = channels, side * channels
    shape, strides = (count, side - 2, side - 2, 3, 3 * channels), (side * between, between, within, between, 1)
    return cells.as_strided(shape, strides).reshape(-1, 9 * channels)


def _places_first(weight: Tensor) -> Tensor:
    """[out, C, 9] to [out, 9 C]."""
    return weight.transpose(1, 2).flatten(1)


class TwoHeadedAgent(nn.Module):
    """The RND agent, which the original also plays PPO with, its second value head idle (quirk Q17).

    The small one has no layers between features and heads.
    """

    def __init__(self, shape: tuple[int, int, int], actions: int, size: Size = "paper"):
        super().__init__()
        self.reads_pieces = size == "small" and shape[2] < _SMALL
        if size == "small":
            self.network, self.extra_layer = nn.Sequential(few_convolutions(shape), nn.ReLU()), None
            self.actor = _linear(FEW, actions, 0.01)
            self.critic_ext, self.critic_int = _linear(FEW, 1, 0.01), _linear(FEW, 1, 0.01)
            return
        self.network = convolutions(shape)
        self.extra_layer = nn.Sequential(_linear(HIDDEN, HIDDEN, 0.1), nn.ReLU())
        self.actor = nn.Sequential(_linear(HIDDEN, HIDDEN, 0.01), nn.ReLU(), _linear(HIDDEN, actions, 0.01))
        self.critic_ext, self.critic_int = _linear(HIDDEN, 1, 0.01), _linear(HIDDEN, 1, 0.01)

    def forward(self, observations: Tensor | Pieces) -> PolicyOutput:
        """observations: float [N, C, H, W], normalised; the small network reads grids in pieces as well."""
        if isinstance(observations, Pieces):
            hidden = observations.read(self.network[0]).relu()  # pyright: ignore[reportArgumentType]
        else:
            hidden = self.network(observations)
        features = self.extra_layer(hidden) + hidden if self.extra_layer else hidden
        return PolicyOutput(self.actor(hidden), self.critic_ext(features)[:, 0], self.critic_int(features)[:, 0])

    @torch.no_grad()
    def look(self, views: np.ndarray, act: Callable[[Tensor], PolicyOutput] | None = None) -> PolicyOutput:
        """What it says of views [N, ...] as the world gives them, on the CPU. act: what `prepared` gave."""
        observations = send(torch.from_numpy(normalise(views)), self.critic_ext.weight.device)
        return PolicyOutput._make(field.cpu() for field in (act or self)(observations))

    @torch.no_grad()
    def prepared(self) -> Callable[[Tensor], PolicyOutput]:
        """The agent with its weights of now, for many small batches of observations; no gradient.

        A copy of `forward`, held equal by `test_an_agent_prepared_to_act_says_what_it_says`: small batches wait for
        torch's convolutions to start, so the small network reads grids by products alone. A training step takes 1.10
        times as long without.
        """
        if not self.reads_pieces:
            return self
        parts: list[Any] = [*self.network[0]]  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
        first, _, second, _, _, last = parts
        layers = [(_places_first(layer.weight.flatten(2)), layer.bias) for layer in (first, second)]
        layers.append((_places_first(last.weight.unflatten(1, (-1, 9))), last.bias))
        heads = (self.actor, self.critic_ext, self.critic_int)
        outputs = [torch.cat([getattr(head, name) for head in heads]) for name in ("weight", "bias")]

        def read(observations: Tensor) -> PolicyOutput:
            count, features = len(observations), observations.permute(0, 2, 3, 1).contiguous()
            for (weight, bias), side in zip(layers, (5, 3, 1), strict=True):
                if side > 1:
                    features = _squares(features.view(count, side + 2, side + 2, -1))
                features = functional.linear(features.reshape(-1, weight.shape[1]), weight, bias).relu_()
            features = functional.linear(features, *outputs)
            return PolicyOutput(features[:, :-2], features[:, -2], features[:, -1])

        return read


class RandomDistillation(nn.Module):
    """Burda et al. 2019: a predictor learns what a fixed random network says; where it fails is new."""

    def __init__(self, shape: tuple[int, int, int], size: Size = "paper"):
        super().__init__()
        if size == "small":
            self.predictor = nn.Sequential(few_convolutions(shape), nn.ReLU(), _linear(FEW, FEW, math.sqrt(2)))
            self.target = few_convolutions(shape).requires_grad_(False)
            return
        last = [_linear(HIDDEN, HIDDEN, math.sqrt(2)), nn.ReLU(), _linear(HIDDEN, HIDDEN, math.sqrt(2))]
        self.predictor = nn.Sequential(convolutions(shape), nn.ReLU(), *last)
        self.target = convolutions(shape)
        self.target.requires_grad_(False)

    @property
    def device(self) -> torch.device:
        return next(self.predictor.parameters()).device

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(predicted, true) features [N, F] of observations [N, C, H, W], normalised by their running moments."""
        return self.predictor(observations), self.target(observations)

    @torch.no_grad()
    def curiosity(self, observations: Tensor) -> Tensor:
        """Half the squared error [N]."""
        predicted, true = self(observations)
        return 0.5 * (predicted - true).pow(2).sum(1)


@torch.no_grad()
def forward_flops(network: nn.Module, shape: tuple[int, int, int]) -> int:
    """Multiplications and additions of the matrix products that one observation [C, H, W] takes."""
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, *shape))
    return counter.get_total_flops()
