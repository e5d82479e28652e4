"""Replies of a causal language model, drawn in batches, reading only what was not read before.

    generator = ReplyGenerator(model, writer.end_tokens, Decoding(max_new_tokens=16))
    replies = generator([writer.prompt(messages) for messages in contexts], torch.rand(len(contexts), 16))
    replies.tokens[0], replies.logprobs[0]

One cache of keys and values serves all calls: a prompt that begins like one of the last call's conversations (the
same system prompt, and earlier turns as far as the window still holds them) is read from where it differs. Rows whose
reply is over leave the batch. A reply depends on its own prompt and its own row of random numbers, not on the others.
Each token of each reply has a uniform number of its own (`draw`).
Works with every `AutoModelForCausalLM`, with peft adapters as well. Where the cache or its mask would change what an
architecture says, and beyond its sliding window, every token is a plain pass over all before it: slower, but right.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from groundlab.core.errors import GroundlabError
from groundlab.language.cpu_inference import FastLlama, Packed, onednn_linears, pack, serves, version
from groundlab.language.decoding import Decoding
from groundlab.language.models import base_of
from groundlab.language.plain_passes import Pairs, Plainness, kept_modes, plain_pass
from groundlab.language.prefix_batching import Rows, batches, padded, pass_cost
from groundlab.learning.devices import send


def draw(logits: Tensor, numbers: Tensor, decoding: Decoding) -> tuple[Tensor, Tensor, Tensor]:
    """One token a row, by the inverse of the cumulative distribution.

    logits: float [B, V]; numbers: [B] in [0, 1). Returns tokens int64 [B], their log-probabilities under the logits,
    and under the distribution drawn from.
    """
    plain = logits.log_softmax(-1)
    if decoding.temperature == 0:
        tokens = logits.argmax(-1)
        own = plain.gather(1, tokens[:, None])[:, 0]
        return tokens, own, torch.zeros_like(own)
    scaled = logits / decoding.temperature
    ids = None
    if decoding.top_k or decoding.top_p < 1:
        scaled, ids = scaled.topk(min(decoding.top_k or scaled.shape[1], scaled.shape[1]))
    shares = scaled.double().softmax(-1)
    if decoding.top_p < 1:
        shares = shares.where(shares.cumsum(-1) - shares < decoding.top_p, 0)
        shares = shares / shares.sum(-1, keepdim=True)
    reached = shares.cumsum(-1)
    whole = reached[:, -1:]
    below = whole.nextafter(torch.zeros_like(whole))  # rounding must not lead behind the last possible token
    place = torch.searchsorted(reached, (numbers[:, None] * whole).minimum(below), right=True)
    tokens = (place if ids is None else ids.gather(1, place))[:, 0]
    drawn = shares.gather(1, place)[:, 0].log().float()
    return tokens, plain.gather(1, tokens[:, None])[:, 0], drawn


_ROUND, _LESS = 64, 8  # capacities grow to multiples of 64, less 8: what lies powers of two apart shares cache lines
_LEAST = 32.0  # of `pass_cost` on a CPU
_TOKEN_BUDGET = 16_384  # of a forward pass over prompts, at most


class Replies(NamedTuple):
    """What was drawn, a list a prompt."""

    tokens: list[list[int]]
    """The end token included, where it was drawn."""
    logprobs: list[list[float]]
    """Of each token under the model itself, at temperature 1 and untruncated: what a trainer computes again."""
    drawn_logprobs: list[list[float]]
    """The same under the distribution that was drawn from; equal to `logprobs` for temperature 1, top_k 0, top_p 1."""
    ended: list[bool]
    """False where the budget was over before an end token came."""


@dataclass
class _Places:
    """Where the tokens of a forward pass stand in the cache: `rows` [B] (None: the first B), `slots` [B, N]."""

    capacity: tuple[int, int] = (0, 0)
    """Rows and slots of the buffers; the last slot takes padding and is never read."""
    rows: Tensor | None = None
    slots: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.long))
    reach: int = 0
    """How many slots are read."""
    vectors: dict[int, Tensor] = field(default_factory=dict)
    """By the number of heads: where they are written in a buffer seen as [rows x heads x slots, D]."""

    def written(self, heads: int) -> Tensor:
        """Numbers of the vectors of B rows, N tokens and the heads, int64 [B x N x heads]."""
        if heads not in self.vectors:
            device = self.slots.device
            rows = torch.arange(len(self.slots), device=device) if self.rows is None else self.rows
            first = (rows[:, None] * heads + torch.arange(heads, device=device)) * self.capacity[1]  # [B, heads]
            self.vectors[heads] = (first[:, None] + self.slots[:, :, None]).flatten()
        return self.vectors[heads]


class _Layer(CacheLayerMixin):
    """Keys and values of one layer: a row a conversation, slot = position in it."""

    is_sliding = False

    def __init__(self, places: _Places):
        super().__init__()
        self.places = places

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values = self._buffer(key_states), self._buffer(value_states)
        self.is_initialized = True

    def _buffer(self, states: Tensor) -> Tensor:
        rows, slots = self.places.capacity
        return states.new_zeros(rows, states.shape[1], slots, states.shape[3])

    def take(self, rows: Tensor, sources: Tensor, reach: int) -> None:
        """Let `rows` begin with the first `reach` slots of `sources`, both [M]; make room where there is too little."""
        if not self.is_initialized:
            return
        for name in ("keys", "values"):
            old = getattr(self, name)
            if old.shape[0] < self.places.capacity[0] or old.shape[2] < self.places.capacity[1]:
                new = self._buffer(old)
                new[: old.shape[0], :, : old.shape[2]] = old
                setattr(self, name, new)
            getattr(self, name)[rows, :, :reach] = old[sources, :, :reach]

    def swap(self, rows: Tensor, others: Tensor, reach: int) -> None:
        """Exchange the first `reach` slots of `rows` and `others`, both [M]."""
        to, source = torch.cat([rows, others]), torch.cat([others, rows])
        for buffer in (self.keys, self.values):
            assert buffer is not None
            read = buffer[:, :, :reach]
            read.index_copy_(0, to, read.index_select(0, source))

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        return self._write(self.keys, key_states), self._write(self.values, value_states)

    def _write(self, buffer: Tensor, states: Tensor) -> Tensor:
        """Put states [B, H, N, D] into their slots; returns what the pass may read, [B, H, reach, D]."""
        at = self.places
        count, heads, _, width = states.shape
        buffer.view(-1, width).index_copy_(0, at.written(heads), states.transpose(1, 2).reshape(-1, width))
        read = buffer[:, :, : at.reach]
        return read[:count] if at.rows is None else read.index_select(0, at.rows)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.places.reach, 0

    def get_seq_length(self) -> int:
        return self.places.reach - self.places.slots.shape[1]

    def get_max_length(self) -> int:
        return -1


class ReplyGenerator:
    """Draws replies from one model; keeps what it has read of the last call's conversations."""

    def __init__(
        self,
        model: Any,
        end_tokens: Sequence[int],
        decoding: Decoding,
        *,
        reuse: bool = True,
        pass_tokens: float | None = None,
    ):
        """end_tokens: a reply is over after any of them. reuse: whether the next call may read on from the last one.

        pass_tokens: as `ActionScorer`'s. Raises GroundlabError for models that this cannot serve: encoder-decoders, and
        attention that takes no mask.
        """
        if model.config.is_encoder_decoder:
            raise GroundlabError("replies are drawn from causal models; give an AutoModelForCausalLM")
        if "flash" in str(getattr(model.config, "_attn_implementation", "")):
            raise GroundlabError('flash attention takes no mask; load the model with attn_implementation="sdpa"')
        self.model, self.end_tokens, self.decoding = model, frozenset(end_tokens), decoding
        self.reuse = reuse
        self._pass_tokens = pass_cost(model, _LEAST, given=pass_tokens)
        self._last_only = "logits_to_keep" in inspect.signature(base_of(model).forward).parameters
        self._by_passes = False
        self.forget()
        self._plainness = Plainness(model, "replies", self._logits_of)
        self.forget()

    def forget(self) -> None:
        """Drop what was read, and the packed weights.

        To be called after a step of a fused optimizer; weights changed in place by other means are noticed without it.
        """
        self._places = _Places()
        layers = [_Layer(self._places) for _ in range(self.model.config.get_text_config().num_hidden_layers)]
        self._layers, self._cache = layers, Cache(layers=list(layers))
        self._held: list[list[int]] = []
        self._weights, self._packed, self._quick = -1, Packed(), None
        self.tokens_read = 0  # of prompts, by forward passes, padding not counted

    @torch.no_grad()
    def __call__(self, prompts: Rows, numbers: Tensor) -> Replies:
        """Return a reply to each prompt.

        prompts: lists of token ids, none empty. numbers: uniform in [0, 1), one a token that may be drawn,
        [B, max_new_tokens].
        """
        if not prompts:
            return Replies([], [], [], [])
        self._check(prompts, numbers)
        with kept_modes(self.model):
            self.model.eval()
            self._notice_weights()
            with onednn_linears(self.model, self._packed):
                return self._reply(self._read(prompts), numbers.double())

    def _logits_of(self, pairs: Pairs) -> Tensor:
        """Return the logits that `Plainness` compares."""
        return torch.stack([self._read([prompt + reply[:n] for prompt, reply in pairs]) for n in (0, 1)], 1)

    def _notice_weights(self) -> None:
        """Of other weights than at the last call nothing is kept, neither what was read nor their packed form."""
        weights = version(self.model)
        quick = serves(self.model)
        if weights != self._weights or quick != (self._quick is not None):
            self._weights, self._held = weights, []
            self._quick = FastLlama(self.model) if quick else None
            self._packed = Packed() if self._quick else pack(self.model)

    def _check(self, prompts: Rows, numbers: Tensor) -> None:
        if numbers.shape != (shape := (len(prompts), self.decoding.max_new_tokens)):
            raise GroundlabError(f"random numbers of shape {tuple(numbers.shape)}, but {shape} are needed")
        if min(map(len, prompts)) == 0:
            raise GroundlabError("a prompt is empty; give it at least one token")
        if self._by_passes:
            self._held = []  # nothing of it is in the cache
        self._by_passes = self._plainness.needed(max(map(len, prompts)) + self.decoding.max_new_tokens)

    def _read(self, prompts: Rows) -> Tensor:
        """Read prompts as far as they are not known; returns the logits after each, [B, V]."""
        if self._by_passes:
            self._held = list(map(list, prompts))
            self.tokens_read += sum(map(len, prompts))
            return self._passes(len(prompts))
        known = self._held if self.reuse else []
        sources, kept = _longest_beginnings(prompts, known)
        self._make_room(len(prompts), max(map(len, prompts)) + self.decoding.max_new_tokens, sources, int(kept.max()))
        self._held = []  # whatever ends this pass early leaves nothing to rely on
        fresh = [len(prompt) - int(start) for prompt, start in zip(prompts, kept, strict=True)]
        self.tokens_read += sum(fresh)
        logits: list[Tensor | None] = [None] * len(prompts)
        for rows in batches(fresh, _TOKEN_BUDGET, self._pass_tokens):
            tokens = [prompts[row][int(kept[row]) :] for row in rows]
            for row, values in zip(rows, self._forward(rows, tokens, [int(kept[row]) for row in rows]), strict=True):
                logits[row] = values
        self._held = [list(prompt) for prompt in prompts]
        return torch.stack([values for values in logits if values is not None])

    def _passes(self, rows: int) -> Tensor:
        """The logits [B, V] after all tokens of the first rows, by a plain pass for each."""
        return torch.stack([plain_pass(self.model, held, [])[1][-1] for held in self._held[:rows]])

    def _make_room(self, rows: int, slots: int, sources: np.ndarray, reach: int) -> None:
        """Buffers for this call, beginning with what is reused."""
        before = self._places.capacity
        slots = max(-(-(slots + 1 + _LESS) // _ROUND) * _ROUND - _LESS, before[1])
        self._places.capacity = (max(rows, before[0]), slots)
        moved = [row for row, source in enumerate(sources.tolist()) if source not in (-1, row)]
        to = send(torch.tensor(moved, dtype=torch.long), self.model.device)
        source = send(torch.as_tensor(sources[moved]), self.model.device)
        for layer in self._layers:
            layer.take(to, source, reach)

    def _forward(self, rows: Sequence[int], tokens: Rows, starts: Sequence[int]) -> Tensor:
        """Read tokens, left-padded, at positions from `starts` on; returns the logits after the last ones, [B, V]."""
        longest, device = max(map(len, tokens)), self.model.device
        ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in tokens])
        padding = torch.tensor([[longest - len(row)] for row in tokens])
        columns = torch.arange(longest)
        positions = (torch.tensor(starts)[:, None] + columns - padding).where(columns >= padding, 0)
        slots = positions.where(columns >= padding, self._places.capacity[1] - 1)
        reach, places = int(positions.max()) + 1, torch.tensor(rows)
        return self._pass(*(send(each, device) for each in (ids, positions, slots, places)), reach=reach)

    def _pass(self, ids: Tensor, positions: Tensor, slots: Tensor, rows: Tensor | None, reach: int) -> Tensor:
        """The logits [B, V] after tokens [B, N], all on the model's device; rows None: the first B of the cache."""
        places, device = self._places, self.model.device
        places.reach, places.slots, places.rows, places.vectors = reach, slots, rows, {}
        unread = torch.arange(places.reach, device=device) > positions[:, :, None]
        mask = torch.zeros(unread.shape, dtype=self.model.dtype, device=device)
        mask = mask.masked_fill(unread, torch.finfo(self.model.dtype).min)[:, None]
        if self._quick:
            return self._quick(ids, positions, mask, self._layers)
        options: dict[str, Any] = {"logits_to_keep": 1} if self._last_only else {}
        read = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            **options,
        )
        return read.logits[:, -1].float()

    def _reply(self, logits: Tensor, draws: Tensor) -> Replies:
        """Draw tokens until every reply is over. The living rows are always the first ones of the cache.

        Tokens and positions stay on the device. The CPU waits for it once a token, to know which replies are over.
        """
        count = len(logits)
        draws = send(draws, logits.device)
        positions = send(torch.tensor([len(held) - 1 for held in self._held[:count]]), logits.device)
        order = list(range(count))  # order[row of the cache] = number of the prompt
        replies = Replies([[] for _ in order], [[] for _ in order], [[] for _ in order], [False] * count)
        living = count
        for step in range(self.decoding.max_new_tokens):
            tokens, *log_probs = draw(logits, draws[:, step], self.decoding)
            drawn = torch.stack([tokens.double(), *(part.double() for part in log_probs)]).tolist()
            for row, (token, logprob, drawn_logprob) in enumerate(zip(*drawn, strict=True)):
                prompt, token = order[row], int(token)
                replies.tokens[prompt].append(token)
                replies.logprobs[prompt].append(logprob)
                replies.drawn_logprobs[prompt].append(drawn_logprob)
                replies.ended[prompt] = token in self.end_tokens
            before = order[:living]
            living = self._retire(order, living, replies)
            if living == 0 or step + 1 == self.decoding.max_new_tokens:
                break
            if living < len(before):
                rows = send(torch.tensor([before.index(prompt) for prompt in order[:living]]), logits.device)
                tokens, positions, draws = tokens[rows], positions[rows], draws[rows]
            positions = positions + 1
            for held, prompt in zip(self._held, order[:living], strict=False):
                held += replies.tokens[prompt][-1:]
            if self._by_passes:
                logits = self._passes(living)
            else:
                reach = max(len(held) for held in self._held[:living])
                logits = self._pass(tokens[:, None], positions[:, None], positions[:, None], None, reach)
        return replies

    def _retire(self, order: list[int], living: int, replies: Replies) -> int:
        """Move finished rows behind the living ones, which close up; returns how many live."""
        over = [row for row in range(living) if replies.ended[order[row]]]
        living -= len(over)
        gaps = [row for row in over if row < living]
        if not gaps:
            return living
        movers = [row for row in range(living, living + len(over)) if row not in over]
        rows, others = (send(torch.tensor(part), self.model.device) for part in (gaps, movers))
        for layer in [] if self._by_passes else self._layers:
            layer.swap(rows, others, max(map(len, self._held)))
        for gap, mover in zip(gaps, movers, strict=True):
            order[gap], order[mover] = order[mover], order[gap]
            self._held[gap], self._held[mover] = self._held[mover], self._held[gap]
        return living


def _longest_beginnings(prompts: Rows, known: Rows) -> tuple[np.ndarray, np.ndarray]:
    """For each prompt the known row that agrees longest from the start, and how far; a prompt's last token is left.

    Returns (rows int64 [B], -1 where none agrees; lengths int64 [B]).
    """
    if not known:
        return np.full(len(prompts), -1), np.zeros(len(prompts), dtype=np.int64)
    ours, theirs = padded(prompts, -1).numpy(), padded(known, -2).numpy()
    width = min(ours.shape[1], theirs.shape[1])
    lengths = np.cumprod(ours[:, None, :width] == theirs[None, :, :width], axis=2, dtype=np.int32).sum(2)  # [B, K]
    rows = lengths.argmax(1)
    kept = np.minimum(lengths.max(1), np.array([len(prompt) - 1 for prompt in prompts])).astype(np.int64)
    return np.where(kept > 0, rows, -1), kept
