"""The frame network of both learning agents (docs/papers/mediator-method.md#s5-2), how it acts and how PPO changes it.

It reads the difference of two frames, so a still world shows nothing and news lights up. The mediator has two outputs
(43,699 parameters), the option policy five. `FrameNetwork` is the definition, in torch; `Playing` and `update` run it
in compiled loops (loops.py), several times faster, as most of torch's time went into starting small operations. A
network with heads of its own, or on a GPU, is left to torch.
"""

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from groundlab.learning import ppo
from groundlab.learning.devices import send
from groundlab.papers.mediator import loops
from groundlab.papers.mediator.loops import HALF, HIDDEN, POOLED, SECOND, THIRD

CHANNELS = 4


class FrameNetwork(nn.Module):
    """Frames float32 [N, 10, 10, 4] -> (logits [N, A], values [N]); one trunk, two heads."""

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs = outputs
        self.image_conv = nn.Sequential(
            nn.Conv2d(CHANNELS, 16, 2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 2), nn.ReLU(),
            nn.Conv2d(32, 64, 2), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        self.actor = nn.Sequential(nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, outputs))
        self.critic = nn.Sequential(nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        embedding = self.image_conv(frames.permute(0, 3, 1, 2))
        return self.actor(embedding), self.critic(embedding)[:, 0]


class _Flat:
    """One number a weight, in the loops' order: `flat` float32 [W], `arrays` that lie in it, and torch's order."""

    def __init__(self, outputs: int):
        shapes = (
            (2, 2, CHANNELS, POOLED), (POOLED,), (2, POOLED, 2 * SECOND), (SECOND,), (2, SECOND, 2 * THIRD), (THIRD,),
            (4 * THIRD, HIDDEN), (HIDDEN,), (HALF, outputs), (outputs,), (HALF,), (1,),
        )  # fmt: skip
        ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
        self.flat = np.zeros(ends[-1], np.float32)
        pieces = np.split(self.flat, ends[:-1])
        self.arrays = arrays = loops.Arrays(*(a.reshape(shape) for a, shape in zip(pieces, shapes, strict=True)))
        halves = [(arrays.hidden.reshape(4, THIRD, 2, HALF)[:, :, k], arrays.hidden_bias[k * HALF :]) for k in range(2)]
        self._as_in_torch = [
            arrays.first.transpose(3, 2, 0, 1), arrays.first_bias,
            _columns(arrays.second), arrays.second_bias, _columns(arrays.third), arrays.third_bias,
            halves[0][0].transpose(2, 1, 0), halves[0][1][:HALF], arrays.logits.T, arrays.logits_bias,
            halves[1][0].transpose(2, 1, 0), halves[1][1], arrays.value, arrays.value_bias,
        ]  # fmt: skip

    def read(self, tensors: Iterable[Tensor]) -> None:
        """Take over tensors in the order of `FrameNetwork.parameters`."""
        for mine, tensor in zip(self._as_in_torch, tensors, strict=True):
            mine[...] = tensor.detach().numpy().reshape(mine.shape)

    def write(self, tensors: Iterable[Tensor]) -> None:
        """Put the numbers into such tensors."""
        for mine, tensor in zip(self._as_in_torch, tensors, strict=True):
            tensor.detach().numpy().reshape(mine.shape)[...] = mine


def _columns(weights: np.ndarray) -> np.ndarray:
    """[2, C, 2 * O], the later column first, as torch has it: [O, C, 2, 2]."""
    return weights.reshape(*weights.shape[:2], 2, -1)[:, :, ::-1].transpose(3, 1, 0, 2)


def _device_of(network: nn.Module) -> torch.device:
    return next(network.parameters()).device


def _of(network: FrameNetwork) -> _Flat:
    flat = _Flat(network.outputs)
    flat.read(network.parameters())
    return flat


class Playing:
    """A network as it is now: frames float32 [n, 10, 10, 4] to (log-probabilities [n, A], values [n]), in NumPy.

    What an image gets does not depend on the others in the call.
    """

    def __init__(self, network: nn.Module):
        self._network = network
        on_cpu = _device_of(network).type == "cpu"
        self._weights = _of(network).arrays if type(network) is FrameNetwork and on_cpu else None
        self._layers = None if self._weights is None else loops.empty_layers(self._weights.logits_bias.size)

    def __call__(self, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._weights is None or self._layers is None:
            return _in_torch(self._network, frames)
        outputs = self._weights.logits_bias.size
        log_probs, values = np.empty((len(frames), outputs), np.float32), np.empty(len(frames), np.float32)
        loops.act(self._weights, np.ascontiguousarray(frames), self._layers, log_probs, values)
        return log_probs, values


def _in_torch(network: nn.Module, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with torch.inference_mode():
        logits, values = network(send(torch.from_numpy(frames), _device_of(network)))
        return torch.log_softmax(logits, dim=-1).cpu().numpy(), values.cpu().numpy()


def update(
    network: nn.Module,
    optimizer: torch.optim.Adam,
    batch: ppo.Batch,
    advantages: Tensor,
    settings: ppo.PPOSettings,
    rng: np.random.Generator,
) -> ppo.Losses:
    """`ppo.update`, in compiled loops where the network is a plain `FrameNetwork` on a CPU; equal up to rounding."""
    device = _device_of(network)
    if type(network) is not FrameNetwork or device.type != "cpu":
        there = ppo.Batch._make(send(field, device) for field in batch)
        return ppo.update(network, optimizer, there, send(advantages, device), settings, rng)
    size, moments = len(batch.actions), _moments(network, optimizer)
    minibatches = torch.stack(list(ppo.minibatches(size, settings.batch_size, rng, settings.epochs))).numpy()
    decisions = loops.Decisions._make(field.numpy() for field in (*batch, ppo.normalised(advantages)))
    weights = _of(network)
    grads, mean, square = (_Flat(network.outputs) for _ in range(3))
    mean.read(moment["exp_avg"] for moment in moments)
    square.read(moment["exp_avg_sq"] for moment in moments)
    losses = np.empty((len(minibatches), len(ppo.Losses._fields)), np.float32)
    flats = (weights.flat, grads.flat, mean.flat, square.flat)
    layers, back = loops.empty_layers(network.outputs), loops.empty_layers(network.outputs)
    coefficients = _coefficients(optimizer, settings, int(moments[0]["step"]))
    loops.update(weights.arrays, grads.arrays, flats, layers, back, decisions, minibatches, coefficients, losses)
    weights.write(network.parameters())
    mean.write(moment["exp_avg"] for moment in moments)
    square.write(moment["exp_avg_sq"] for moment in moments)
    for moment in moments:
        moment["step"] += len(minibatches)
    return ppo.Losses._make(losses.mean(0, dtype=np.float64).tolist())


def _moments(network: FrameNetwork, optimizer: torch.optim.Adam) -> list[dict[str, Tensor]]:
    """Adam's state of each weight, as torch keeps it; made where there is none yet."""
    for weights in network.parameters():
        if not optimizer.state[weights]:
            zeros = {name: torch.zeros_like(weights.data) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.state[weights] = {"step": torch.zeros(()), **zeros}
    return [optimizer.state[weights] for weights in network.parameters()]


def _coefficients(optimizer: torch.optim.Adam, settings: ppo.PPOSettings, steps: int) -> loops.Coefficients:
    group = optimizer.param_groups[0]
    given = settings.clip, settings.entropy_coefficient, settings.value_coefficient, settings.max_grad_norm
    adam = float(group["lr"]), *group["betas"], group["eps"], steps
    return loops.Coefficients._make((*map(np.float32, given), *adam))
