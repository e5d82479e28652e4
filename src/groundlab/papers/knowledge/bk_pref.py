"""BK-Pref: a judge compares stretches of play, a transformer learns the judge's preferences (phi = its latest value).

    labels = judge(chat, chat_settings.sampling, dataset, LabelSettings(), seed)
    network, records = train(labels.pairs(), TrainSettings(), (3, 7, 7), 7, seed)
    phi = PreferencePotential(network)(windows)

States and actions alternate as tokens; one decoder layer reads them causally; attention over the steps weighs each
step's value into the segment's score (docs/papers/knowledge-method.md#s4-2). Labels: 0 the first segment is preferred,
1 the second, 0.5 a tie. Judges that follow a rule are in `scripted.py`. `MotifBonus` pays the same preferences as a
reward.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save
from torch import Tensor, nn

from groundlab.assets import read_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict
from groundlab.core.seeding import generator
from groundlab.language.chat import ChatModel, Messages, Sampling, without_thoughts
from groundlab.learning.checkpoints import seeded_construction
from groundlab.papers.knowledge.bk_code import Estimate, tokens_of
from groundlab.papers.knowledge.captions import readable, trajectory
from groundlab.papers.knowledge.dataset import Dataset, Segment, sample, windows_of
from groundlab.papers.knowledge.networks import FEW, HIDDEN, convolutions, few_convolutions
from groundlab.papers.knowledge.observations import GRID, ObservationAdapter, Windows, compact, distinct
from groundlab.papers.knowledge.potentials import Bonus, Potential

FIRST, SECOND, TIE = 0.0, 1.0, 0.5  # labels of a pair
_REPLY_TOKENS = 200  # of a reply, for estimates


# --- Labels


class LabelSettings(Strict):
    """Which pairs are judged, and how replies are read."""

    pairs: int = Field(default=5000, ge=1)
    length: int = Field(default=5, ge=2)
    strict: bool = True
    """Quirk Q14: the original reads a reply that echoes the choices as "B > A"."""
    random_order: bool | Literal["both"] = True
    """Whether a coin decides which segment is shown as A; the original shows the first one. "both": each pair is asked
    about in both orders; it is a tie where the answers weigh the same, and left out where one says nothing."""


class Pair(NamedTuple):
    """Two segments of a dataset, by (episode, start), and whether the second one is shown first."""

    first: tuple[int, int]
    second: tuple[int, int]
    swapped: bool


def sample_pairs(data: Dataset, settings: LabelSettings, seed: int) -> Iterator[Pair]:
    """The pairs to be judged."""
    rng = generator(seed, "preference pairs")
    for _ in range(settings.pairs):
        first, second = (sample(data.lengths, settings.length, rng) for _ in range(2))
        yield Pair(first, second, bool(rng.random() < 0.5) and bool(settings.random_order))


def question(first: Segment, second: Segment, adapter: ObservationAdapter = GRID) -> Messages:
    """The messages to a judge about two segments, the first shown as A."""
    environment = read_text(f"prompts/knowledge/{adapter.prompt}.txt")
    system = read_text("prompts/knowledge/preference-task.txt").format(environment=environment)
    texts = [trajectory(part.captions, part.actions.tolist(), adapter.actions) for part in (first, second)]
    user = read_text("prompts/knowledge/preference-segments.txt").format(first=texts[0], second=texts[1])
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _question_of(data: Dataset, pair: Pair, length: int) -> Messages:
    first, second = data.segment(*pair.first, length), data.segment(*pair.second, length)
    return question(*((second, first) if pair.swapped else (first, second)), data.adapter)


_RANKS = {"A>B": FIRST, "B>A": SECOND, "A=B": TIE, "B<A": FIRST, "A<B": SECOND, "B=A": TIE}
_RANK = re.compile(r"\b[AB]\s*[<>=]\s*[AB]\b")


def parse_preference(reply: str, strict: bool = True) -> float | None:
    """Which of two segments a reply ranks first: 0.0 (A), 1.0 (B), 0.5 (a tie), or None.

    strict: after the last "[Rank]" exactly one ranking stands, however often; spaces and "<" are no matter. Otherwise,
    after the first "[Rank]", "B > A" counts before "A > B" before "A = B", letter by letter.
    """
    reply = without_thoughts(reply)
    if strict:
        _, mark, rest = reply.rpartition("[Rank]")
        labels = {_RANKS.get(re.sub(r"\s", "", rank)) for rank in _RANK.findall(rest)}
        return labels.pop() if mark and len(labels) == 1 else None
    parts = reply.split("[Rank]")
    if len(parts) < 2:
        return None
    order = {"B > A": SECOND, "A > B": FIRST, "A = B": TIE}
    return next((label for words, label in order.items() if words in parts[1]), None)


_ODDS = re.compile(r"\[Odds\]\s*([-+]?\d+\.\d+)")


def margin_of(reply: str, strict: bool = True) -> float | None:
    """Return by how much a reply prefers A: the odds that it states (`LikelierRank`), or 1, 0, -1 by its rank."""
    rank, odds = parse_preference(reply, strict), _ODDS.search(reply)
    return None if rank is None else float(odds[1]) if odds else 1.0 - 2.0 * rank


def estimate(data: Dataset, settings: LabelSettings, seed: int) -> Estimate:
    """Calls and tokens of a labelling, to be shown before it."""
    prompts = [tokens_of(_question_of(data, pair, settings.length)) for pair in sample_pairs(data, settings, seed)]
    prompts *= 2 if settings.random_order == "both" else 1
    return Estimate(len(prompts), sum(prompts), _REPLY_TOKENS * len(prompts))


class Segments(NamedTuple):
    """N stretches of K steps."""

    states: Tensor  # float [N, K + 1, C, H, W], normalised, or pictures as bytes; the last one is not read
    actions: Tensor  # int64 [N, K]
    times: Tensor  # int64 [N, K + 1]

    def rows(self, index: Tensor) -> "Segments":
        return Segments._make(field[index] for field in self)


class Pairs(NamedTuple):
    """N judged pairs."""

    first: Segments
    second: Segments
    labels: Tensor  # float [N]: 0, 0.5 or 1

    def rows(self, index: Tensor) -> "Pairs":
        return Pairs(self.first.rows(index), self.second.rows(index), self.labels[index])


@dataclass
class Labels:
    """Pairs with a label, and how many replies gave none."""

    first: list[Segment] = field(default_factory=list)
    second: list[Segment] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    """0 the first is preferred, 1 the second, 0.5 a tie."""
    positions: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Episode and start of the first, episode and start of the second."""
    unreadable: int = 0
    orders: list[list[float]] = field(default_factory=list)
    """Preference of each reply about a pair for the segment shown as A, in the order of asking."""

    def add(self, data: Dataset, position: tuple[int, int, int, int], length: int, label: float) -> None:
        """Enter a pair of segments of `length` steps."""
        self.first.append(data.segment(*position[:2], length))
        self.second.append(data.segment(*position[2:], length))
        self.positions.append(position)
        self.labels.append(label)

    def pairs(self) -> Pairs:
        """As the preference transformer reads them. Raises GroundlabError when there are none."""
        if not self.labels:
            raise GroundlabError(f"no reply of {self.unreadable} names a preference; try another model")
        return Pairs(segments_of(self.first), segments_of(self.second), torch.tensor(self.labels))


def segments_of(parts: list[Segment]) -> Segments:
    """Segments of a dataset as the preference transformer reads them."""
    views, actions, times = windows_of(parts)
    return Segments._make(torch.from_numpy(field) for field in (compact(views), actions, times))


def judge(
    chat: ChatModel, sampling: Callable[[int], Sampling], data: Dataset, settings: LabelSettings, seed: int
) -> Labels:
    """Judge pairs drawn from the seed. Raises what the chat model raises; replies so far are in its ledger."""
    labels = Labels()
    for number, pair in enumerate(sample_pairs(data, settings, seed)):
        asked = [pair, pair._replace(swapped=not pair.swapped)] if settings.random_order == "both" else [pair]
        replies = (chat.reply(_question_of(data, each, settings.length), sampling(number)) for each in asked)
        margins = [margin_of(reply, settings.strict) for reply in replies]
        read = [margin for margin in margins if margin is not None]
        labels.unreadable += len(asked) - len(read)
        if len(read) == len(asked):
            lead = sum(-margin if each.swapped else margin for each, margin in zip(asked, read, strict=True))
            labels.add(data, (*pair.first, *pair.second), settings.length, float(0.5 - 0.5 * np.sign(lead)))
            labels.orders.append(read)
    return labels


def store_labels(file: Path, labels: Labels, data: Dataset, settings: LabelSettings) -> None:
    """Write labels as JSON: where the segments are in which dataset, not what is in them."""
    rows = [[*position, label] for position, label in zip(labels.positions, labels.labels, strict=True)]
    facts = {"dataset": data.card["sha256"], "length": settings.length, "unread": labels.unreadable}
    storage.write_json(file, {**facts, "pairs": rows})


def load_labels(file: Path, data: Dataset) -> Labels:
    """The labels that `store_labels` wrote. Raises GroundlabError when they are broken or of another dataset."""
    stored = storage.read_json(file)
    try:
        labels, length = Labels(unreadable=stored["unread"]), stored["length"]
        if stored["dataset"] != data.card["sha256"]:
            raise GroundlabError(
                f"{file} labels another dataset than {data.folder}; give the one that it was made from"
            )
        for *position, label in stored["pairs"]:
            labels.add(data, tuple(position), length, label)  # pyright: ignore[reportArgumentType]
    except (KeyError, TypeError, ValueError):
        raise GroundlabError(f"{file} holds no whole labels; label again") from None
    return labels


# --- The preference transformer

LONGEST_EPISODE = 1000  # step numbers with an embedding of their own; later ones share the last
_SMOOTHING = 0.3
Size = Literal["paper", "small"]
_WIDTHS = {"paper": (128, 2048), "small": (32, 64)}  # of tokens, and between them


class TrainSettings(Strict):
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


class PreferenceTransformer(nn.Module):
    """Segments to values of their steps and scores of the whole.

    The small one knows no step numbers: those of a long labelled episode say little about a shorter task.
    """

    def __init__(self, shape: tuple[int, int, int], actions: int, scaled_attention: bool = True, size: Size = "paper"):
        super().__init__()
        self.config = {"shape": list(shape), "actions": actions, "scaled_attention": scaled_attention, "size": size}
        width, between = _WIDTHS[size]
        self._width = width
        if size == "paper":
            self.state_encoder = nn.Sequential(*convolutions(shape), nn.ReLU(), nn.Linear(HIDDEN, width))
        else:
            self.state_encoder = nn.Sequential(*few_convolutions(shape, (16, 16)), nn.ReLU(), nn.Linear(FEW, width))
        self.action_embedding = nn.Embedding(actions, width)
        self.time_embedding = nn.Embedding(LONGEST_EPISODE, width) if size == "paper" else None
        self.layer = nn.TransformerDecoderLayer(width, 1, between, dropout=0.0, batch_first=True)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, 1)
        self._scale = math.sqrt(width) if scaled_attention else 1.0

    def encode(self, states: Tensor) -> Tensor:
        """Features [N, width] of states [N, C, H, W], normalised, or pictures as bytes."""
        return self.state_encoder(states.float() / 255 if states.dtype == torch.uint8 else states)

    def _tokens(self, encoded: Tensor, actions: Tensor, times: Tensor) -> Tensor:
        """Encoded states [N, K, width] and actions [N, K] in turn [N, 2 K, width]."""
        clock: Tensor | float = 0.0
        if self.time_embedding is not None:
            clock = self.time_embedding(times[:, :-1].clamp(max=LONGEST_EPISODE - 1))
        return torch.stack([encoded + clock, self.action_embedding(actions) + clock], dim=2).flatten(1, 2)

    def _steps(self, segments: Segments) -> Tensor:
        """Features of each step [N, K, width], from the decoder."""
        count, length = segments.actions.shape
        encoded = self.encode(segments.states[:, :-1].flatten(0, 1)).view(count, length, self._width)
        tokens = self._tokens(encoded, segments.actions, segments.times)
        later = torch.ones(2 * length, 2 * length, dtype=torch.bool, device=tokens.device).triu(1)
        return self.layer(tokens, tokens, tgt_mask=later, memory_mask=later)[:, 1::2]

    def latest_values(self, encoded: Tensor, actions: Tensor, times: Tensor) -> Tensor:
        """The last column of `values` [N], of states that are encoded already [N, K, width].

        The last token sees all tokens and no mask, so the decoder's layer asks nothing of those before it.
        """
        tokens, layer = self._tokens(encoded, actions, times), self.layer
        latest = tokens[:, -1:]
        latest = layer.norm1(latest + layer.self_attn(latest, tokens, tokens, need_weights=False)[0])
        latest = layer.norm2(latest + layer.multihead_attn(latest, tokens, tokens, need_weights=False)[0])
        latest = layer.norm3(latest + layer.linear2(layer.linear1(latest).relu()))
        return self.value(latest)[:, 0, 0]

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
    both = Segments._make(torch.cat(fields) for fields in zip(pairs.first, pairs.second, strict=True))
    return network(both).view(2, -1).T


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
    pairs: Pairs, settings: TrainSettings, shape: tuple[int, int, int], actions: int, seed: int
) -> tuple[PreferenceTransformer, list[dict[str, Any]]]:
    """A network that has learnt from judged pairs, with its weights of best held-out accuracy, and its records.

    Raises GroundlabError when there are too few pairs to hold any out.
    """
    order = torch.from_numpy(generator(seed, "preference split").permutation(len(pairs.labels)))
    held_out = round(len(order) * settings.test_share)
    if not 0 < held_out < len(order) or not (pairs.labels[order[:held_out]] != 0.5).any():
        raise GroundlabError(f"{len(order)} judged pairs are too few to learn from; label more, or raise test_share")
    test, training = pairs.rows(order[:held_out]), pairs.rows(order[held_out:])
    with seeded_construction(seed, "preference transformer"):
        network = PreferenceTransformer(shape, actions, settings.scaled_attention, settings.network)
    optimizer = torch.optim.AdamW(list(network.parameters()), lr=settings.lr, fused=True)
    records, best, weights = [], -1.0, {}
    steps = settings.epochs * math.ceil(len(training.labels) / settings.batch_size)
    for step, losses in enumerate(_updates(network, optimizer, training, settings, generator(seed, "preference")), 1):
        if step % settings.evaluate_every == 0 or step == steps:
            records.append({"step": step, "accuracy": accuracy(network, test), **losses})
            if records[-1]["accuracy"] > best:
                best, weights = records[-1]["accuracy"], {name: x.clone() for name, x in network.state_dict().items()}
    network.load_state_dict(weights)
    return network.eval(), records


def _updates(network: nn.Module, optimizer: Any, pairs: Pairs, settings: TrainSettings, rng: np.random.Generator):
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
    storage.write_json(folder / "network.json", network.config)


def load(folder: Path) -> PreferenceTransformer:
    """The network that `store` wrote. Raises GroundlabError when it is missing or broken."""
    config = storage.read_json(folder / "network.json")
    try:
        network = PreferenceTransformer(**{**config, "shape": tuple(config["shape"])})
        network.load_state_dict(load_tensors((folder / "network.safetensors").read_bytes()))
    except (OSError, KeyError, TypeError, RuntimeError, SafetensorError):
        raise GroundlabError(f"{folder} holds no whole preference network; train it again") from None
    return network.eval()


# --- As a potential, and as a reward

_BATCH = 256  # windows


class PreferencePotential(Potential):
    """The value of the latest step: of the state and the action before the present view, given those before."""

    horizon = 5

    def __init__(self, network: PreferenceTransformer, device: str = "cpu"):
        self._network, self._device = network.eval().to(device), device

    @torch.inference_mode()
    def __call__(self, windows: Windows) -> np.ndarray:
        """phi [N] of windows of views uint8 [N, 6, 7, 7, 3], or of Crafter's [N, 6, bytes]; each is encoded once."""
        if not len(windows.actions):
            return np.zeros(0)
        views = windows.views[:, :-1]
        flat = views.reshape(-1, *views.shape[2:])
        first, which = distinct(flat)
        parts = (torch.from_numpy(compact(flat[rows])) for rows in np.array_split(first, -(-len(first) // _BATCH)))
        encoded = torch.cat([self._network.encode(part.to(self._device)) for part in parts])
        rows = torch.from_numpy(which.reshape(views.shape[:2])).to(self._device).split(_BATCH)
        fields = (torch.from_numpy(field).to(self._device).split(_BATCH) for field in (windows.actions, windows.times))
        values = [self._network.latest_values(encoded[row], *steps) for row, *steps in zip(rows, *fields, strict=True)]
        return torch.cat(values).double().cpu().numpy()


RARER = 3.0  # the power of visits that Motif divides by
UPPER_SHARE = 0.5  # of scores that count (Motif's threshold is a quantile too)


class MotifBonus(Bonus):
    """A step's score in deviations from its mean on known play, where it is among the upper half; divided by how often
    the present view has been reached in this episode, to the third power.

    Visits are counted by what captions are read from, where Motif counts captions.
    """

    def __init__(self, score: Potential, windows: Windows):
        """score: that of the preference network; windows: of the labelled dataset, to measure it on."""
        self._score, self.horizon = score, score.horizon
        scores = score(windows)
        self._mean, self._deviation = float(scores.mean()), float(scores.std()) or 1.0
        self._least = float(np.quantile(self._standardise(scores), 1 - UPPER_SHARE))
        self._visits: list[Counter[str]] = []

    def _standardise(self, scores: np.ndarray) -> np.ndarray:
        return (scores - self._mean) / self._deviation

    def __call__(self, windows: Windows, ends: np.ndarray) -> np.ndarray:
        scores = self._standardise(self._score(windows)).reshape(ends.shape)
        views = np.ascontiguousarray(readable(windows.views[:, -1])).reshape(ends.size, -1)
        names = np.array([blake2b(view.tobytes(), digest_size=8).hexdigest() for view in views]).reshape(ends.shape)
        self._visits = self._visits or [Counter() for _ in range(ends.shape[1])]
        times = np.array([self._count(*row) for row in zip(names, ends, strict=True)])
        return np.where(scores >= self._least, scores, 0.0) / times**RARER

    def _count(self, names: np.ndarray, ended: np.ndarray) -> list[int]:
        """How often each environment's view [B] was reached in its episode, this time included."""
        times = []
        for env, name in enumerate(names.tolist()):
            self._visits[env][name] += 1
            times.append(self._visits[env][name])
            if ended[env]:
                self._visits[env].clear()
        return times

    def state(self) -> list[dict[str, int]]:
        return [dict(visits) for visits in self._visits]

    def load_state(self, state: list[dict[str, int]]) -> None:
        self._visits = [Counter(visits) for visits in state]
