"""One pass of a language model over many prompts that all continue with the same few actions.

    branches = branch([[51, 32], [51, 42], [26]], start=0)     # token ids of the actions
    states = prefix_states(model, rows, branches)              # [P, U, d]: the final state at each distinct prefix

What an action's tokens are predicted from is its prefixes: "turn left" and "turn right" need the state after the
prompt and the state after "turn". These distinct prefixes (U of them) follow the prompt as short blocks that do not
see one another, so a prompt is read once however many actions there are, and no action's last token is read at all.

- Encoder-decoder: the blocks are one decoder sequence. Each has a start token of its own, because T5 knows distances
  only. The keys and values of cross-attention are made once a prompt.
- Causal: the blocks follow the left-padded prompt, with position ids that count on from its last token. What all
  prompts of a batch begin with is read once and shared as a key/value prefix.
"""

import copy
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from groundlab.language.models import base_of
from groundlab.language.plain_passes import is_checkpointed
from groundlab.learning.devices import send

Tokens = tuple[int, ...]
Rows = Sequence[Sequence[int]]
PAD_ID = 0  # any id that the model knows: padding is masked, never read
GPU_PASS = 8_192.0
"""Tokens: a pass costs the start of a thousand operations. On an H200 any value from 512 on cut prompts of 97 to 154
tokens alike; unlike lengths were not tried."""
_SHARED_FROM = 8  # tokens from which a common beginning is worth a pass of its own


@dataclass(frozen=True)
class ActionTree:
    """The distinct prefixes of A actions of at most T tokens, laid out as blocks of N columns."""

    tokens: Tensor  # int64 [N], what is read (causal: the first is the prompt's own last token, so it is left out)
    depths: Tensor  # int64 [N], tokens after the prompt
    sees: Tensor  # bool [N, N], which column reads which
    columns: Tensor  # int64 [U], where each distinct prefix stands
    begins: Tensor  # bool [U, U], which distinct prefix (row) begins with which, itself included
    prefixes: Tensor  # int64 [A, T], the prefix that predicts token t of action a, as an index into `columns`
    targets: Tensor  # int64 [A, T]
    real: Tensor  # bool [A, T], False where the action has ended

    def to(self, device: torch.device) -> "ActionTree":
        """The same on another device."""
        return ActionTree(**{name: value.to(device) for name, value in vars(self).items()})


def pass_cost(model: Any, least: float, weights: float = 0.0, given: float | None = None) -> float:
    """Return what a forward pass costs besides its tokens, in tokens: prompts are cut into batches by it.

    given: the cost that a user has set. Otherwise `GPU_PASS` on a GPU; on a CPU `weights` over the model's number of
    weights, but at least `least`.
    """
    if given is not None:
        return given
    base = base_of(model)
    if base.device.type != "cpu":
        return GPU_PASS
    return max(weights / base.num_parameters(exclude_embeddings=True), least) if weights else least


def branch(actions: Sequence[Sequence[int]], start: int | None) -> ActionTree:
    """Lay out the prefixes of the actions' token ids; `start` is the decoder's start token, None for causal models."""
    blocks = _blocks([tuple(action[:-1]) for action in actions], own_start=start is not None)
    layout = [(number, prefix) for number, block in enumerate(blocks) for prefix in block]
    first: dict[Tokens, int] = {}
    for column, (_, prefix) in enumerate(layout):
        first.setdefault(prefix, column)
    index = {prefix: position for position, prefix in enumerate(first)}
    longest = max(len(action) for action in actions)
    filled = [[*action, *[PAD_ID] * (longest - len(action))] for action in actions]
    known = [[index.get(tuple(row[:t]), 0) for t in range(longest)] for row in filled]
    real = [[t < len(action) for t in range(longest)] for action in actions]
    root = PAD_ID if start is None else start
    return ActionTree(
        torch.tensor([prefix[-1] if prefix else root for _, prefix in layout]),
        torch.tensor([len(prefix) for _, prefix in layout]),
        torch.tensor([[n == m and p[: len(q)] == q for m, q in layout] for n, p in layout]),
        torch.tensor(list(first.values())),
        torch.tensor([[p[: len(q)] == q for q in first] for p in first]),
        torch.tensor(known),
        torch.tensor(filled),
        torch.tensor(real),
    )


def _blocks(prefixes: list[Tokens], own_start: bool) -> list[list[Tokens]]:
    """One block for each prefix that no other one continues; the empty prefix opens every block, or stands alone."""
    unique = dict.fromkeys(prefixes)
    longest = [p for p in unique if not any(q != p and q[: len(p)] == p for q in unique)]
    if own_start:
        return [[path[:t] for t in range(len(path) + 1)] for path in longest]
    return [[()], *[[path[:t] for t in range(1, len(path) + 1)] for path in longest if path]]


def batches(lengths: Sequence[int], token_budget: int, overhead: float = 0.0) -> list[list[int]]:
    """Rows sorted by length and cut into batches of at most `token_budget` padded tokens (or one row) at least cost.

    The cost is the padded tokens of all batches plus `overhead` tokens a batch.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    starts = [i for i, row in enumerate(order) if i == 0 or lengths[row] != lengths[order[i - 1]]]
    ends = [*starts, len(order)]
    cheapest: list[tuple[float, int]] = [(0.0, 0)] * len(ends)  # of all rows from here on, and where the next cut is
    for i in reversed(range(len(starts))):
        longest = lengths[order[starts[i]]]
        sizes = [(ends[j] - starts[i]) * longest for j in range(i + 1, len(ends))]
        costs = [size + math.ceil(size / token_budget) * overhead for size in sizes]
        cheapest[i] = min((cost + cheapest[j][0], j) for j, cost in enumerate(costs, start=i + 1))
    found, i = [], 0
    while i < len(starts):
        j = cheapest[i][1]
        rows, most = order[starts[i] : ends[j]], max(1, token_budget // max(1, lengths[order[starts[i]]]))
        found += [rows[start : start + most] for start in range(0, len(rows), most)]
        i = j
    return found


class Run(NamedTuple):
    """Rows of one length that lie behind one another in a stream of tokens."""

    start: int  # the first one's first token
    count: int
    length: int
    owners: Tensor | None = None  # [count], the beginnings that they continue; None: rows from their start on

    def of(self, stream: Tensor) -> Tensor:
        """This run's part of a stream [T, ...], as [count, length, ...]."""
        tokens = stream[self.start : self.start + self.count * self.length]
        return tokens.unflatten(0, (self.count, self.length))


def packed(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Rows as they come, cut into batches of at most `token_budget` tokens (or one row)."""
    found, size = [[]], 0
    for row, length in enumerate(lengths):
        if size and size + length > token_budget:
            found.append([])
            size = 0
        found[-1].append(row)
        size += length
    return found


def packed_batches(rows: Sequence[Tokens], token_budget: int) -> list[list[int]]:
    """The same of rows among which equal ones are together and counted once."""
    places: dict[Tokens, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row, []).append(place)
    own = list(places.values())
    return [[place for row in part for place in own[row]] for part in packed(list(map(len, places)), token_budget)]


def prefix_states(model: PreTrainedModel, rows: Rows, branches: ActionTree) -> Tensor:
    """The final hidden state at each distinct prefix after each prompt, as the vocabulary head reads it: [P, U, d].

    rows: token ids of P prompts, none empty; prefix 0 is the empty one, i.e. the state that predicts the first token.
    """
    read = _read_encoder_decoder if model.config.is_encoder_decoder else _read_causal
    return read(model, rows, branches)[:, branches.columns]


def _read_encoder_decoder(model: PreTrainedModel, rows: Rows, branches: ActionTree) -> Tensor:
    device = branches.tokens.device
    ids, mask = (send(part, device) for part in _with_mask(rows))
    mask = _additive(mask.bool()[:, None, None], model.dtype)  # of a plain one transformers asks whether all are 1
    encoded = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
    decoded = model.get_decoder()(
        input_ids=branches.tokens.expand(len(rows), -1),
        attention_mask=_additive(branches.sees, encoded.dtype)[None, None],
        encoder_hidden_states=encoded,
        encoder_attention_mask=mask,
        use_cache=False,
    )
    return decoded.last_hidden_state


def _read_causal(model: PreTrainedModel, rows: Rows, branches: ActionTree) -> Tensor:
    device, body = branches.tokens.device, model.get_decoder()
    shared = _common_beginning(rows) if may_share(model, len(rows)) else 0
    cache = None
    if shared:
        beginning = send(torch.tensor([rows[0][:shared]]), device)
        cache = body(input_ids=beginning, use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(rows))
    ids, mask = (send(part, device).flip(1) for part in _with_mask([row[shared:][::-1] for row in rows]))
    given = {"input_ids": torch.cat([ids, branches.tokens[1:].expand(len(rows), -1)], 1), "past_key_values": cache}
    states = read_tree(body, mask, branches, shared, **given, use_cache=cache is not None)
    return states[:, ids.shape[1] - 1 :]


def read_tree(body: Any, mask: Tensor, branches: ActionTree, shared: int = 0, **given: Any) -> Tensor:
    """The final states of a causal decoder at left-padded prompts (mask: int64 [P, S]) and at the actions after them.

    shared: tokens before these prompts, in a cache; given: what else the decoder is called with.
    """
    lengths = shared + mask.sum(1)
    positions = shared + (mask.cumsum(1) - 1).clamp(min=0)
    return body(
        attention_mask=_additive(_tree_mask(mask.bool(), branches.sees, shared), body.dtype),
        position_ids=torch.cat([positions, lengths[:, None] - 1 + branches.depths[None, 1:]], 1),
        **given,
    ).last_hidden_state


def may_share(model: Any, count: int) -> bool:
    """Checkpointed layers cannot read a cache, and a single prompt has nothing to share."""
    return count > 1 and not any(map(is_checkpointed, model.modules()))


def _common_beginning(rows: Rows) -> int:
    """How many tokens all rows begin with, leaving each row at least one of its own; 0 where it is not worth it."""
    shared = 0
    for column in zip(*[row[:-1] for row in rows], strict=False):
        if len(set(column)) > 1:
            break
        shared += 1
    return shared if shared >= _SHARED_FROM else 0


def row_states(model: Any, rows: Rows, firsts: Sequence[int], overhead: float = 0.0) -> Tensor:
    """The final hidden states of a causal model at token `firsts[i]` of row i and all after, row by row: [M, d].

    Beginnings that rows have in common, before all of these tokens, are read once. What is left of the rows is read in
    batches of like length, padded on the right, where nobody reads padding; attention is plainly causal and needs no
    mask. overhead: tokens that a forward pass is worth.
    """
    body, device = model.get_decoder(), model.device
    plain = set(getattr(model.config, "layer_types", None) or ()) <= {"full_attention", "sliding_attention"}
    cut = best_cut(rows, min(firsts), overhead) if plain and may_share(model, len(rows)) else 0
    beginnings = list(dict.fromkeys(tuple(row[:cut]) for row in rows))
    cache = body(input_ids=send(torch.tensor(beginnings), device), use_cache=True).past_key_values if cut else None
    states, places, read = [], [0] * len(rows), 0
    for part in batches([len(row) - cut for row in rows], sys.maxsize, overhead):
        ids = send(padded([rows[row][cut:] for row in part]), device)
        owners = send(torch.tensor([beginnings.index(tuple(rows[row][:cut])) for row in part]), device)
        own = _selected(cache, owners) if cache else None
        states.append(body(input_ids=ids, past_key_values=own, use_cache=bool(cut)).last_hidden_state.flatten(0, 1))
        for number, row in enumerate(part):
            places[row] = read + number * ids.shape[1] - cut
        read += ids.numel()
    spans = zip(places, firsts, rows, strict=True)
    wanted = [place + token for place, first, row in spans for token in range(first, len(row))]
    return torch.cat(states)[send(torch.tensor(wanted), device)]


def best_cut(rows: Rows, most: int, overhead: float) -> int:
    """After how many tokens to cut all rows, so that their distinct beginnings save most; 0 where it does not pay."""
    if most < 1:
        return 0
    table = np.array([row[:most] for row in rows])
    table = table[np.lexsort(table.T[::-1])]
    differ = table[1:] != table[:-1]
    alike = np.where(differ.any(1), differ.argmax(1), most)  # tokens that neighbours in order begin with
    cuts = np.arange(most + 1)
    saved = cuts * (alike[:, None] >= cuts).sum(0)
    best = int(saved.argmax())
    return best if saved[best] > overhead else 0


def _selected(cache: Any, rows: Tensor) -> Any:
    """Keys and values of these rows, as a cache of their own; differentiable."""
    own = copy.copy(cache)
    own.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in own.layers:
        layer.keys, layer.values = layer.keys.index_select(0, rows), layer.values.index_select(0, rows)
    return own


def padded(rows: Rows, filler: int = PAD_ID) -> Tensor:
    """Rows filled up on the right, int64 [P, L]."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])


def _with_mask(rows: Rows) -> tuple[Tensor, Tensor]:
    return padded(rows), padded([[1] * len(row) for row in rows], 0)


def _tree_mask(mask: Tensor, sees: Tensor, shared: int) -> Tensor:
    """Who reads whom, bool [P, 1, S+N-1, shared+S+N-1]: prompts are causal, blocks read their prompt and themselves."""
    count, size, nodes = *mask.shape, len(sees) - 1
    total = size + nodes
    allowed = torch.ones(count, total, shared + total, dtype=torch.bool, device=mask.device)
    own = allowed[:, :, shared:]
    own[:, :size, :size] = mask[:, None].expand(-1, size, -1).tril()
    own[:, :size, size:] = False
    own[:, size:, :size] = mask[:, None]
    own[:, size:, size:] = sees[1:, 1:]
    own |= torch.eye(total, dtype=torch.bool, device=mask.device)  # padding reads itself, so that no row is empty
    return allowed[:, None]


def _additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where allowed and the lowest number elsewhere: the form that every attention implementation adds."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, torch.finfo(dtype).min)
