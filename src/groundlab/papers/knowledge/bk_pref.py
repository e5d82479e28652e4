"""BK-Pref: a transformer that learns which of two stretches of an episode a judge prefers, and why, step by step.

    network, history = train(pairs, TrainSettings(), (3, 7, 7), 7, seed)
    network.values(segments)[:, -1]          the potential: what the last step is worth, given those before

States and actions alternate as tokens; one decoder layer reads them causally; attention over the steps weighs each
step's value into the segment's score (spec background-knowledge 4.2). Labels: 0 the first is preferred, 1 the second,
0.5 a tie. Called from: `potentials.py`.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
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
from groundlab.core.hashing import digest_bytes
from groundlab.core.schema import Strict
from groundlab.core.seeding import generator
from groundlab.language import models
from groundlab.language.chat import ChatModel, Messages, Sampling, Scripted
from groundlab.language.pretraining import resolve_model
from groundlab.language.scoring import score_actions
from groundlab.learning.checkpoints import seeded_construction
from groundlab.papers.knowledge import bk_code, scripted
from groundlab.papers.knowledge.bk_code import Estimate, tokens_of
from groundlab.papers.knowledge.captions import MINIGRID_ACTIONS, trajectory
from groundlab.papers.knowledge.dataset import Dataset, Segment, sample
from groundlab.papers.knowledge.networks import FEW, HIDDEN, convolutions, few_convolutions
from groundlab.papers.knowledge.observations import CRAFTER, GRID, ObservationAdapter, adapter_for, compact

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
    pairs: Pairs, settings: TrainSettings, shape: tuple[int, int, int], actions: int, seed: int
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


def _steps_of(pairs: Pairs, settings: TrainSettings) -> int:
    return settings.epochs * math.ceil(len(pairs.labels) / settings.batch_size)


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


_ANSWERS = {bk_code.FIRST: "A > B", bk_code.SECOND: "B > A", bk_code.TIE: "A = B"}
_REPLY_TOKENS = 200  # of a reply, for estimates
_STEP = re.compile(r"Step \d+: (.*) You choose the action: (.*)\.$", re.MULTILINE)


class LabelSettings(Strict):
    """Which pairs are judged, and how replies are read."""

    pairs: int = Field(default=5000, ge=1)
    length: int = Field(default=5, ge=2)
    strict: bool = True
    """Quirk Q14: the original reads a reply that echoes the choices as "B > A"."""
    random_order: bool = True
    """Whether a coin decides which segment is shown as A; the original shows the first one."""


class Pair(NamedTuple):
    """Two segments of a dataset, by (episode, start), and whether the second one is shown first."""

    first: tuple[int, int]
    second: tuple[int, int]
    swapped: bool


@dataclass
class Judged:
    """Pairs with a label, and how many replies gave none."""

    first: list[Segment] = field(default_factory=list)
    second: list[Segment] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    """0 the first is preferred, 1 the second, 0.5 a tie."""
    places: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Episode and start of the first, episode and start of the second."""
    unread: int = 0

    def add(self, data: Dataset, place: tuple[int, int, int, int], length: int, label: float) -> None:
        """Enter a pair of segments of `length` steps."""
        self.first.append(data.segment(*place[:2], length))
        self.second.append(data.segment(*place[2:], length))
        self.places.append(place)
        self.labels.append(label)

    def pairs(self) -> Pairs:
        """As the preference transformer reads them. Raises GroundlabError when there are none."""
        if not self.labels:
            raise GroundlabError(f"no reply of {self.unread} names a preference; try another model")
        return Pairs(_segments(self.first), _segments(self.second), torch.tensor(self.labels))


def _segments(parts: list[Segment]) -> Segments:
    states = compact(np.stack([part.views for part in parts]))
    fields = (states, np.stack([part.actions for part in parts]), np.stack([part.times for part in parts]))
    return Segments._make(torch.from_numpy(field) for field in fields)


def question(first: Segment, second: Segment, senses: ObservationAdapter = GRID) -> Messages:
    """What the judge is asked about two segments, the first shown as A."""
    environment = read_text(f"prompts/knowledge/{senses.prompt}.txt")
    system = read_text("prompts/knowledge/preference-task.txt").format(environment=environment)
    told = [trajectory(part.captions, part.actions.tolist(), senses.actions) for part in (first, second)]
    user = read_text("prompts/knowledge/preference-segments.txt").format(first=told[0], second=told[1])
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def drawn(data: Dataset, settings: LabelSettings, seed: int) -> Iterator[Pair]:
    """The pairs to be judged."""
    rng = generator(seed, "preference pairs")
    for _ in range(settings.pairs):
        first, second = (sample(data.lengths, settings.length, rng) for _ in range(2))
        yield Pair(first, second, bool(rng.random() < 0.5) and settings.random_order)


def _asked(data: Dataset, pair: Pair, length: int) -> Messages:
    one, other = data.segment(*pair.first, length), data.segment(*pair.second, length)
    shown = (other, one) if pair.swapped else (one, other)
    return question(*shown, adapter_for(data.card.get("world")))


def estimate(data: Dataset, settings: LabelSettings, seed: int) -> Estimate:
    """Calls and tokens of a labelling, to be shown before it."""
    prompts = [tokens_of(_asked(data, pair, settings.length)) for pair in drawn(data, settings, seed)]
    return Estimate(len(prompts), sum(prompts), _REPLY_TOKENS * len(prompts))


def judge(
    chat: ChatModel, sampling: Callable[[int], Sampling], data: Dataset, settings: LabelSettings, seed: int
) -> Judged:
    """Judge pairs drawn from the seed. Raises what the chat model raises; replies so far are in its ledger."""
    judged = Judged()
    for number, pair in enumerate(drawn(data, settings, seed)):
        reply = chat.reply(_asked(data, pair, settings.length), sampling(number))
        label = bk_code.preference(reply, settings.strict)
        if label is None:
            judged.unread += 1
        else:
            place = (*pair.first, *pair.second)
            judged.add(data, place, settings.length, 1.0 - label if pair.swapped else label)
    return judged


def store_labels(file: Path, judged: Judged, data: Dataset, settings: LabelSettings) -> None:
    """Write labels as JSON: where the segments are in which dataset, not what is in them."""
    rows = [[*place, label] for place, label in zip(judged.places, judged.labels, strict=True)]
    facts = {"dataset": data.card["sha256"], "length": settings.length, "unread": judged.unread}
    storage.write_json(file, {**facts, "pairs": rows})


def load_labels(file: Path, data: Dataset) -> Judged:
    """The labels that `store` wrote. Raises GroundlabError when they are broken or those of another dataset."""
    stored = storage.read_json(file)
    try:
        judged, length = Judged(unread=stored["unread"]), stored["length"]
        if stored["dataset"] != data.card["sha256"]:
            raise GroundlabError(
                f"{file} labels another dataset than {data.folder}; give the one that it was made from"
            )
        for *place, label in stored["pairs"]:
            judged.add(data, tuple(place), length, label)  # pyright: ignore[reportArgumentType]
    except (KeyError, TypeError, ValueError):
        raise GroundlabError(f"{file} holds no whole labels; label again") from None
    return judged


def scripted_judge(error: float, seed: int, senses: ObservationAdapter = GRID) -> Scripted:
    """A judge by rule (`merit`), which gives the opposite answer to a share `error` of the questions, drawn by seed.

    senses: whose descriptions it reads; those of Crafter by `survival.merit`. Raises GroundlabError for a share
    outside 0 .. 1.
    """
    if not 0 <= error <= 1:
        raise GroundlabError(f"error is {error}; give a share from 0 to 1")

    worth = scripted.merit if senses is CRAFTER else merit

    def rule(text: str, sampling: Sampling) -> str:
        shown = text.split("Description of Trajectory Segment B:")
        merits = [worth(part) for part in shown]
        label = bk_code.TIE if merits[0] == merits[1] else float(merits[1] > merits[0])
        wrong = generator(seed, "judge", int(digest_bytes(text.encode())[:8], 16)).random() < error
        return f"[Thoughts]\nmerits {merits[0]} and {merits[1]}\n\n[Rank]\n{_ANSWERS[1 - label if wrong else label]}"

    return Scripted(f"scripted judge, error {error:g}, seed {seed}", rule)


def merit(caption: str) -> int:
    """What a stretch of play is worth by common sense, read from its description.

    +1 for a step forward into a free cell, -1 for one against a wall or an object, -1 for a turn that takes back the
    turn before, -1 for any other action, +2 for an object right ahead at the end.
    """
    steps, total, before = _STEP.findall(caption), 0, ""
    for seen, action in steps:
        blocked = re.search(r"(?<!and )\b1 step forward", seen) is not None
        if action == "forward":
            total += -1 if blocked else 1
        elif action in ("turn left", "turn right"):
            total -= {action, before} == {"turn left", "turn right"}
        else:
            total -= 1
        before = action
    now = caption.rpartition("Current observation: ")[2]
    return total + 2 * bool(re.search(r"You see a \w+ (?:key|ball|box) 1 step forward", now))


_QUESTION = "something {place}, \n which words bring you to face it?"
_WORDS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")  # "do nothing" has no word: 0
_SAID = dict(zip(MINIGRID_ACTIONS, _WORDS, strict=False))
_THING = re.compile(r"You see a \w+ (?:key|ball|box) ([^.]+)")
_SAME = 1e-4  # difference of plausibility below which two segments tie


def model_judge(name: str) -> Scripted:
    """A judge that answers as `judging.judge` expects. Raises GroundlabError when the model is not on this machine."""
    model, tokenizer = models.load(resolve_model(name), kind="seq2seq")

    @cache
    def likelihoods(place: str) -> dict[str, float]:
        with torch.inference_mode():
            scores = score_actions(model, tokenizer, [_QUESTION.format(place=place)], _WORDS)
        return dict(zip(_WORDS, scores.softmax(-1)[0].tolist(), strict=True))

    def plausibility(caption: str) -> float:
        steps = []
        for seen, action in _STEP.findall(caption):
            told = [likelihoods(place).get(_SAID.get(action, ""), 0.0) for place in _THING.findall(seen)]
            steps.append(max(told, default=1 / len(_WORDS)))
        return float(np.mean(steps))

    def rule(text: str, sampling: Sampling) -> str:
        first, second = (plausibility(part) for part in text.split("Description of Trajectory Segment B:"))
        rank = "A = B" if abs(first - second) < _SAME else "A > B" if first > second else "B > A"
        return f"[Thoughts]\nplausible to {first:.4f} and {second:.4f}\n\n[Rank]\n{rank}"

    return Scripted(f"{name}, scoring", rule)


def agreement(labels: Sequence[float], others: Sequence[float]) -> tuple[float, int]:
    """The share of pairs on which two judges prefer the same segment, and how many pairs both have decided."""
    decided = [(one, other) for one, other in zip(labels, others, strict=True) if 0.5 not in (one, other)]
    return float(np.mean([one == other for one, other in decided])) if decided else float("nan"), len(decided)
