"""BK-Pref: a transformer that learns which of two stretches of an episode a judge prefers, and why, step by step.

    network, history = train(pairs, Settings(), (3, 7, 7), 7, seed)
    network.values(segments)[:, -1]          the potential: what the last step is worth, given those before

States and actions alternate as tokens; one decoder layer reads them causally; attention over the steps weighs each
step's value into the segment's score (spec background-knowledge 4.2). Labels: 0 the first is preferred, 1 the second,
0.5 a tie. Called from: `potentials.py`.
"""

import math
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save
from torch import Tensor, nn

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.learning.checkpoints import seeded_construction
from groundlab.methods.knowledge.networks import FEW, HIDDEN, convolutions, few_convolutions
from groundlab.methods.settings import Strict

LONGEST_EPISODE = 1000  # step numbers with an embedding of their own; later ones share the last
_SMOOTHING = 0.3
Size = Literal["paper", "small"]
_WIDTHS = {"paper": (128, 2048), "small": (32, 64)}  # of tokens, and between them


class Segments(NamedTuple):
    """N stretches of K steps."""

    states: Tensor  # float [N, K + 1, C, H, W], normalised, or pictures as bytes; the last one is not read
    actions: Tensor  # int64 [N, K]
    times: Tensor  # int64 [N, K + 1]

    def rows(self, index: Tensor) -> "Segments":
        """Some of them."""
        return Segments._make(field[index] for field in self)


class Pairs(NamedTuple):
    """N judged pairs."""

    first: Segments
    second: Segments
    labels: Tensor  # float [N]: 0, 0.5 or 1

    def rows(self, index: Tensor) -> "Pairs":
        """Some of them."""
        return Pairs(self.first.rows(index), self.second.rows(index), self.labels[index])


class Settings(Strict):
    """How the network learns; the original's values."""

    network: Size = "paper"
    """The original's, or ours with a hundredth of its arithmetic."""
    epochs: int = Field(default=5, ge=1)
    batch_size: int = Field(default=32, ge=1)
    lr: float = Field(default=3e-4, gt=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    test_share: float = Field(default=0.1, gt=0, lt=1)
    evaluate_every: int = Field(default=50, ge=1)
    """Gradient steps between two evaluations; the weights of the best one are kept."""
    scaled_attention: bool = True
    """Whether the attention over steps is scaled by the root of its width; the original's is not (quirk Q16)."""


def _small_encoder(shape: tuple[int, int, int], width: int) -> nn.Sequential:
    """Views [N, C, H, W] to [N, width], for laptops."""
    return nn.Sequential(*few_convolutions(shape, (16, 16)), nn.ReLU(), nn.Linear(FEW, width))


class PreferenceTransformer(nn.Module):
    """Segments to values of their steps and scores of the whole.

    The small one knows no step numbers: those of a long labelled episode say little about a shorter task.
    """

    def __init__(self, shape: tuple[int, int, int], actions: int, scaled_attention: bool = True, size: Size = "paper"):
        super().__init__()
        facts = {"shape": list(shape), "actions": actions, "scaled_attention": scaled_attention, "size": size}
        self.made_as, (width, between) = facts, _WIDTHS[size]
        self._width = width
        encoder = [*convolutions(shape), nn.ReLU(), nn.Linear(HIDDEN, width)] if size == "paper" else None
        self.state_encoder = nn.Sequential(*encoder) if encoder else _small_encoder(shape, width)
        self.action_embedding = nn.Embedding(actions, width)
        self.time_embedding = nn.Embedding(LONGEST_EPISODE, width) if size == "paper" else None
        self.layer = nn.TransformerDecoderLayer(width, 1, between, dropout=0.0, batch_first=True)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, 1)
        self._scale = math.sqrt(width) if scaled_attention else 1.0

    def _steps(self, segments: Segments) -> Tensor:
        """What the decoder makes of each step [N, K, width]."""
        states, actions = segments.states[:, :-1], segments.actions
        states = states.float() / 255 if states.dtype == torch.uint8 else states
        count, length = actions.shape
        clock, times = segments.times[:, :-1].clamp(max=LONGEST_EPISODE - 1), 0.0
        if self.time_embedding is not None:
            times = self.time_embedding(clock)
        seen = self.state_encoder(states.flatten(0, 1)).view(count, length, self._width) + times
        done = self.action_embedding(actions) + times
        tokens = torch.stack([seen, done], dim=2).flatten(1, 2)
        later = torch.ones(2 * length, 2 * length, dtype=torch.bool, device=tokens.device).triu(1)
        return self.layer(tokens, tokens, tgt_mask=later, memory_mask=later)[:, 1::2]

    def values(self, segments: Segments) -> Tensor:
        """What each step is worth [N, K], given the steps before it."""
        return self.value(self._steps(segments))[..., 0]

    def forward(self, segments: Segments) -> Tensor:
        """Scores [N]: the sum over steps t of the values of steps s <= t, weighed by attention."""
        steps = self._steps(segments)
        match = self.query(steps) @ self.key(steps).transpose(1, 2) / self._scale
        later = torch.ones(match.shape[1:], dtype=torch.bool, device=match.device).triu(1)
        weights = match.masked_fill(later, -torch.inf).softmax(-1)
        return (weights @ self.value(steps)).sum((1, 2))


class PreferenceLoss(NamedTuple):
    """Means over a batch; total = cross_entropy + 0.3 smoothing."""

    total: Tensor
    cross_entropy: Tensor  # over pairs that are no ties
    smoothing: Tensor  # of all pairs, both ways: it is least when the two scores are equal


def preference_loss(scores: Tensor, labels: Tensor) -> PreferenceLoss:
    """The loss of scores [N, 2] (first, second) against labels [N]."""
    log_probs = scores.log_softmax(-1)
    decided = labels != 0.5
    chosen = log_probs[decided].gather(1, labels[decided].long()[:, None])
    cross_entropy = -chosen.mean() if decided.any() else scores.new_zeros(())
    smoothing = -log_probs.mean()
    return PreferenceLoss(cross_entropy + _SMOOTHING * smoothing, cross_entropy, smoothing)


def scores_of(network: PreferenceTransformer, pairs: Pairs) -> Tensor:
    """Scores [N, 2] of both segments of each pair."""
    return torch.stack([network(pairs.first), network(pairs.second)], dim=1)


@torch.no_grad()
def accuracy(network: PreferenceTransformer, pairs: Pairs, batch_size: int = 256) -> float:
    """The share of decided pairs whose preferred segment scores higher; NaN without any."""
    decided = (pairs.labels != 0.5).nonzero()[:, 0]
    right = [
        (scores_of(network, part).argmax(1) == part.labels.long())
        for part in (pairs.rows(index) for index in decided.split(batch_size))
    ]
    return float(torch.cat(right).float().mean()) if right else math.nan


def train(
    pairs: Pairs, settings: Settings, shape: tuple[int, int, int], actions: int, seed: int
) -> tuple[PreferenceTransformer, list[dict[str, Any]]]:
    """A network that has learnt from judged pairs, with its weights of best held-out accuracy, and its records.

    Raises GroundlabError when there are too few pairs to hold any out.
    """
    order = torch.from_numpy(generator(seed, "preference split").permutation(len(pairs.labels)))
    held_out = round(len(order) * settings.test_share)
    if not 0 < held_out < len(order) or not (pairs.labels[order[:held_out]] != 0.5).any():
        raise GroundlabError(f"{len(order)} judged pairs are too few to learn from; label more, or raise test_share")
    test, learnt = pairs.rows(order[:held_out]), pairs.rows(order[held_out:])
    with seeded_construction(seed, "preference transformer"):
        network = PreferenceTransformer(shape, actions, settings.scaled_attention, settings.network)
    optimizer = torch.optim.AdamW(list(network.parameters()), lr=settings.lr)
    records, best, kept = [], -1.0, {}
    for step, losses in enumerate(_updates(network, optimizer, learnt, settings, generator(seed, "preference")), 1):
        if step % settings.evaluate_every == 0 or step == _steps_of(learnt, settings):
            records.append({"step": step, "accuracy": accuracy(network, test), **losses})
            if records[-1]["accuracy"] > best:
                best, kept = records[-1]["accuracy"], {name: x.clone() for name, x in network.state_dict().items()}
    network.load_state_dict(kept)
    return network.eval(), records


def _steps_of(pairs: Pairs, settings: Settings) -> int:
    return settings.epochs * math.ceil(len(pairs.labels) / settings.batch_size)


def _updates(network: nn.Module, optimizer: Any, pairs: Pairs, settings: Settings, rng: np.random.Generator):
    """Yields the losses of one gradient step after the other."""
    parameters = list(network.parameters())
    for _ in range(settings.epochs):
        for index in torch.from_numpy(rng.permutation(len(pairs.labels))).split(settings.batch_size):
            part = pairs.rows(index)
            losses = preference_loss(scores_of(network, part), part.labels)  # pyright: ignore[reportArgumentType]
            optimizer.zero_grad()
            losses.total.backward()
            nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
            optimizer.step()
            yield {name: float(value.detach()) for name, value in losses._asdict().items()}


def store(folder: Path, network: PreferenceTransformer) -> None:
    """Write network.safetensors and network.json, from which `load` makes it again."""
    storage.write_atomic(folder / "network.safetensors", save(network.state_dict()))
    storage.write_json(folder / "network.json", network.made_as)


def load(folder: Path) -> PreferenceTransformer:
    """The network that `store` wrote. Raises GroundlabError when it is missing or broken."""
    made_as = storage.read_json(folder / "network.json")
    try:
        network = PreferenceTransformer(**{**made_as, "shape": tuple(made_as["shape"])})
        network.load_state_dict(load_tensors((folder / "network.safetensors").read_bytes()))
    except (OSError, KeyError, TypeError, RuntimeError, SafetensorError):
        raise GroundlabError(f"{folder} holds no whole preference network; train it again") from None
    return network.eval()
