"""The convolutional network of both learning agents (docs/papers/mediator.md#s5-2), and its input.

The input is the difference of two frames, so a still world shows nothing and news lights up. The mediator has two
outputs (43,699 parameters), the option policy five.
"""

import numpy as np
import torch
from torch import Tensor, nn

CHANNELS = 4


class FrameNetwork(nn.Module):
    """Frames float32 [N, 10, 10, C] -> (logits [N, A], values [N]); one trunk, two heads."""

    def __init__(self, outputs: int, channels: int = CHANNELS):
        super().__init__()
        self.image_conv = nn.Sequential(
            nn.Conv2d(channels, 16, 2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 2), nn.ReLU(),
            nn.Conv2d(32, 64, 2), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        self.actor = nn.Sequential(nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, outputs))
        self.critic = nn.Sequential(nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        embedding = self.image_conv(frames.permute(0, 3, 1, 2))
        return self.actor(embedding), self.critic(embedding)[:, 0]


class FrameDifference:
    """Network inputs from the frames of a batch of episodes; remembers the last frame or frames.

    "uint8" differences wrap modulo 256 and are not scaled, as in the original (Q2); "signed" ones lie in [-1, 1].
    With `frame_stack` k > 1 the input is the last k frames (k copies of the first one at the start), no difference.
    """

    def __init__(self, difference: str = "uint8", frame_stack: int = 1):
        self._difference, self._stack = difference, frame_stack
        self._frames = np.empty(0)

    def begin(self, images: np.ndarray) -> None:
        """New episodes: images uint8 [B, 10, 10, 4]."""
        self._frames = np.concatenate([images] * self._stack, axis=-1)

    def inputs(self, images: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Inputs float32 [n, 10, 10, C] of the `active` [n] episodes; call once a step."""
        now = images[active]
        if self._stack > 1:
            self._frames[active] = np.concatenate([self._frames[active][..., CHANNELS:], now], axis=-1)
            return self._frames[active].astype(np.float32)
        before = self._frames[active]
        self._frames[active] = now
        if self._difference == "uint8":
            return (now - before).astype(np.float32)
        return (now.astype(np.float32) - before.astype(np.float32)) / np.float32(255)


def act_without_gradient(network: FrameNetwork, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log-probabilities [n, A], values [n]) as NumPy arrays."""
    with torch.inference_mode():
        logits, values = network(torch.from_numpy(frames))
        return torch.log_softmax(logits, dim=-1).numpy(), values.numpy()
