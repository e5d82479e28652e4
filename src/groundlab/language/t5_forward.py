"""A plain T5 on a CPU, read without padding: the states of transformers' own forward, and their gradients, for less.

    if serves(model):
        states = prefix_states(model, rows, tree)       # [P, U, d], as `prefix_batching.prefix_states` gives them

Prompts lie behind one another in one tensor [T, d], sorted by length. Every product is of one matrix for all tokens;
attention alone goes through `Run`s, prompts of one length, so that nothing is padded and nothing is masked. What is
equal is computed once: the first layer's queries, keys and values for each different token (T5 adds no positions to
them), and the decoder's first self-attention for each different prefix. Cross-attention multiplies its queries, which
are few, by the key weights and reads the encoder's states as they are; keys and values of prompts are never made.

Softmax is the plain one: no row is empty here. Sums are taken in another order, so results differ as rounding does.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import T5ForConditionalGeneration
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.t5 import modeling_t5 as t5

from groundlab.language.prefix_batching import ActionTree, Run, packed

_CHUNK = 1_500  # tokens that the encoder reads at once: 400 and 8,000 were slower
_PLAIN = (
    *(t5.T5ForConditionalGeneration, t5.T5Stack, t5.T5Block, t5.T5LayerSelfAttention, t5.T5LayerCrossAttention),
    *(t5.T5LayerFF, t5.T5DenseActDense, t5.T5DenseGatedActDense, t5.T5Attention, t5.T5LayerNorm),
    *(nn.Linear, nn.Embedding, nn.Dropout, nn.ModuleList),
)


def serves(model: Any) -> bool:
    """Whether a model is a plain T5 whose own forward would do what is done here, and nothing else.

    It is of class T5ForConditionalGeneration, float32 or float64, on a CPU; no module was replaced (adapters, 4 bits),
    listened to, given another forward or checkpointed, nothing is dropped, and autocast is off.
    """
    if type(model) is not T5ForConditionalGeneration or torch.is_autocast_enabled("cpu"):
        return False
    modules = list(model.modules())  # once: walking through them takes longer than looking at them
    placed = {(p.device.type, p.dtype) for module in modules for p in module._parameters.values() if p is not None}
    if placed not in ({("cpu", torch.float32)}, {("cpu", torch.float64)}):
        return False
    return all(map(_is_plain, modules))


def _is_plain(module: nn.Module) -> bool:
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or "forward" in vars(module):
        return False
    if isinstance(module, GradientCheckpointingLayer) and module.gradient_checkpointing:
        return False
    dropped = module.p if isinstance(module, nn.Dropout) else getattr(module, "dropout", 0.0)
    if module.training and isinstance(dropped, float) and dropped:
        return False
    return type(module) in _PLAIN or next(module.parameters(), None) is None  # activations have no weights


def _runs(lengths: Sequence[int], most: int) -> list[Run]:
    """The runs of sorted prompts, each of at most `most` tokens (or one prompt)."""
    runs, start = [], 0
    for length, alike in groupby(lengths):
        left = len(list(alike))
        while left:
            count = min(left, max(1, most // length))
            runs.append(Run(start, count, length))
            start, left = start + count * length, left - count
    return runs


def prefix_states(model: Any, rows: Sequence[Sequence[int]], tree: ActionTree) -> Tensor:
    """The final hidden state at each distinct prefix after each prompt, as the vocabulary head reads it: [P, U, d].

    rows: token ids of P prompts, none empty. Differentiable; a prompt's states do not depend on the others.
    """
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    lengths = [len(rows[row]) for row in order]
    ids = torch.tensor([token for row in order for token in rows[row]])
    states = _decoded(model.decoder, tree, _encoded(model.encoder, ids, lengths), _runs(lengths, _CHUNK))
    places = torch.empty(len(rows), dtype=torch.long)
    places[torch.tensor(order)] = torch.arange(len(rows))
    return states.index_select(0, places)


# The encoder.


def _encoded(stack: Any, ids: Tensor, lengths: Sequence[int]) -> Tensor:
    """States [T, d] of the token ids [T] of prompts that are sorted by length."""
    bias = _encoder_bias(stack.block[0].layer[0].SelfAttention, lengths[-1])
    joined = [_joined_weights(block.layer[0].SelfAttention) for block in stack.block]
    chunks = [[lengths[prompt] for prompt in part] for part in packed(lengths, _CHUNK)]
    parts = zip(ids.split(list(map(sum, chunks))), chunks, strict=True)
    return torch.cat([_encoded_chunk(stack, part, _runs(chunk, _CHUNK), bias, joined) for part, chunk in parts])


def _encoded_chunk(stack: Any, ids: Tensor, runs: list[Run], bias: Tensor, joined: list[Tensor]) -> Tensor:
    different, which = ids.unique(return_inverse=True)
    table = stack.embed_tokens(different)  # a T5's tokens have no positions: equal ones are equal up to attention
    states = table.index_select(0, which)
    for block, weights in zip(stack.block, joined, strict=True):
        attention, norm = block.layer[0].SelfAttention, block.layer[0].layer_norm
        if block is stack.block[0]:
            made = nn.functional.linear(_normed(norm, table), weights).index_select(0, which)
        else:
            made = nn.functional.linear(_normed(norm, states), weights)
        states = _added(states, _SelfAttention.apply(made, bias, runs), attention.o)
        states = _fed_forward(states, block.layer[-1])
    return _normed(stack.final_layer_norm, states)


def _joined_weights(attention: Any) -> Tensor:
    """[3 x H x D, d]: what makes queries, keys and values in one product."""
    return torch.cat([attention.q.weight, attention.k.weight, attention.v.weight])


def _encoder_bias(attention: Any, longest: int) -> Tensor:
    """What is added to scores [H, L, L], by the distance of key and query."""
    distances = torch.arange(1 - longest, longest)
    by_distance = attention.relative_attention_bias(buckets_of(attention, distances, bidirectional=True))  # [2L-1, H]
    return by_distance.T.unfold(1, longest, 1).flip(1)  # row i begins at distance -i


def buckets_of(attention: Any, distances: Tensor, bidirectional: bool) -> Tensor:
    """The rows of T5's table of relative biases that serve distances, key minus query."""
    buckets, farthest = attention.relative_attention_num_buckets, attention.relative_attention_max_distance
    return attention._relative_position_bucket(distances, bidirectional, buckets, farthest)


class _SelfAttention(torch.autograd.Function):
    """Queries, keys and values [T, 3 x H x D] and a bias [H, L, L] -> what each token reads [T, H x D]."""

    @staticmethod
    def forward(ctx: Any, made: Tensor, bias: Tensor, runs: list[Run]) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        heads, kept = len(bias), []
        read = made.new_empty(len(made), made.shape[1] // 3)
        for run in runs:
            queries, keys, values = _by_head(made, run, 3, heads)
            scores = torch.bmm(queries, keys.transpose(1, 2)).unflatten(0, (run.count, heads))
            scores += bias[:, : run.length, : run.length]
            shares = scores.flatten(0, 1).softmax(-1)
            _place(read, run, 0, 1, heads).copy_(torch.bmm(shares, values).unflatten(0, (run.count, heads)))
            kept += [queries, keys, values, shares] if any(ctx.needs_input_grad) else []
        ctx.runs = runs
        ctx.save_for_backward(bias, *kept)
        return read

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor, Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        bias, *kept = ctx.saved_tensors
        heads, change, of_bias = len(bias), change.contiguous(), torch.zeros_like(bias)
        of_made = change.new_empty(len(change), 3 * change.shape[1])
        for run, queries, keys, values, shares in zip(ctx.runs, *(kept[part::4] for part in range(4)), strict=True):
            (own,) = _by_head(change, run, 1, heads)
            of_shares = torch.bmm(own, values.transpose(1, 2))
            of_scores = torch._softmax_backward_data(of_shares, shares, -1, shares.dtype)  # pyright: ignore[reportPrivateImportUsage]
            of_bias[:, : run.length, : run.length] += of_scores.unflatten(0, (run.count, heads)).sum(0)
            parts = ((of_scores, keys), (of_scores.transpose(1, 2), queries), (shares.transpose(1, 2), own))
            for part, factors in enumerate(parts):
                of_part = torch.bmm(*factors).unflatten(0, (run.count, heads))
                _place(of_made, run, part, 3, heads).copy_(of_part)
        return of_made, of_bias, None


def _place(states: Tensor, run: Run, part: int, parts: int, heads: int) -> Tensor:
    """Where part number `part` of a run lies in states [T, parts x H x D]: [prompts, H, length, D]."""
    width = states.shape[1] // parts
    own = run.of(states[:, part * width : (part + 1) * width])
    return own.unflatten(-1, (heads, -1)).transpose(1, 2)


def _by_head(states: Tensor, run: Run, parts: int, heads: int) -> tuple[Tensor, ...]:
    """A run's parts, each [prompts x H, length, D]; views where it is one prompt."""
    return tuple(_place(states, run, part, parts, heads).flatten(0, 1) for part in range(parts))


# The decoder.


def _decoded(stack: Any, tree: ActionTree, encoded: Tensor, runs: list[Run]) -> Tensor:
    """Final states [P, U, d] of the tree's prefixes after each prompt, whose states are [T, d]."""
    states = stack.embed_tokens(tree.tokens[tree.columns])[None]  # [1, U, d] until prompts are read
    bias = _tree_bias(stack.block[0].layer[0].SelfAttention, tree)
    prompts = sum(run.count for run in runs)
    for block in stack.block:
        own, cross = block.layer[0], block.layer[1]
        states = states + _tree_attention(own.SelfAttention, _normed(own.layer_norm, states), bias)
        queries = _normed(cross.layer_norm, states)
        states = states + _prompt_attention(cross.EncDecAttention, queries, encoded, runs, prompts)
        states = _fed_forward(states.flatten(0, 1), block.layer[-1]).view_as(states)
    return _normed(stack.final_layer_norm, states)


def _tree_bias(attention: Any, tree: ActionTree) -> Tensor:
    """What is added to scores [H, U, U]: T5's bias by distance where a prefix begins another, elsewhere -inf."""
    depths = tree.depths[tree.columns]
    buckets = buckets_of(attention, depths[None] - depths[:, None], bidirectional=False)
    bias = attention.relative_attention_bias(buckets).permute(2, 0, 1)
    return bias.masked_fill(~tree.begins, -torch.inf)


def _tree_attention(attention: Any, states: Tensor, bias: Tensor) -> Tensor:
    """[B, U, d] -> [B, U, d]: each prefix reads those that it begins with."""
    made = nn.functional.linear(states, _joined_weights(attention))
    queries, keys, values = made.unflatten(-1, (3, len(bias), -1)).permute(2, 0, 3, 1, 4)  # [B, H, U, D]
    shares = (queries @ keys.transpose(2, 3) + bias).softmax(-1)
    return nn.functional.linear((shares @ values).transpose(1, 2).flatten(2), attention.o.weight)


def _prompt_attention(attention: Any, states: Tensor, encoded: Tensor, runs: list[Run], prompts: int) -> Tensor:
    """Prefixes [1 or P, U, d] read the prompts' states [T, d]; returns [P, U, d]."""
    heads, (count, size, _) = attention.n_heads, states.shape
    queries = nn.functional.linear(states.flatten(0, 1), attention.q.weight).unflatten(-1, (heads, -1)).transpose(0, 1)
    keyed = torch.bmm(queries, attention.k.weight.unflatten(0, (heads, -1)))  # [H, B x U, d]
    keyed = keyed.unflatten(1, (count, size)).transpose(0, 1).flatten(1, 2)  # [B, H x U, d]
    read = _Reading.apply(keyed.expand(prompts, -1, -1), encoded, runs)  # [P, H x U, d]
    by_head = read.unflatten(1, (heads, size)).transpose(0, 1).flatten(1, 2)  # [H, P x U, d]
    values = torch.bmm(by_head, attention.v.weight.unflatten(0, (heads, -1)).transpose(1, 2))  # [H, P x U, D]
    made = nn.functional.linear(values.transpose(0, 1).flatten(1), attention.o.weight)
    return made.view(prompts, size, -1)


class _Reading(torch.autograd.Function):
    """Queries [P, N, d] of prompts read these prompts' states [T, d], which are keys and values: [P, N, d]."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, states: Tensor, runs: list[Run]) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        read, kept, first = torch.empty_like(queries, memory_format=torch.contiguous_format), [], 0
        for run in runs:
            own, keys = queries[first : first + run.count], run.of(states)
            shares = torch.bmm(own, keys.transpose(1, 2)).softmax(-1)
            torch.bmm(shares, keys, out=read[first : first + run.count])
            kept.append(shares)
            first += run.count
        ctx.runs = runs
        ctx.save_for_backward(queries, states, *(kept if any(ctx.needs_input_grad) else []))
        return read

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor, Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        queries, states, *kept = ctx.saved_tensors
        of_queries, of_states, first = torch.empty_like(change), torch.empty_like(states), 0
        for run, shares in zip(ctx.runs, kept, strict=True):
            mine = slice(first, first + run.count)
            keys = run.of(states)
            of_shares = torch.bmm(change[mine], keys.transpose(1, 2))
            of_scores = torch._softmax_backward_data(of_shares, shares, -1, shares.dtype)  # pyright: ignore[reportPrivateImportUsage]
            torch.bmm(of_scores, keys, out=of_queries[mine])
            of_keys = torch.bmm(shares.transpose(1, 2), change[mine], out=run.of(of_states))
            of_keys.baddbmm_(of_scores.transpose(1, 2), queries[mine])
            first += run.count
        return of_queries, of_states, None


# What both have.


class _Norm(torch.autograd.Function):
    """States [..., d] of mean square 1, times weights [d]: T5's layer norm."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, eps: float) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        scale = (states * states).mean(-1, keepdim=True).add_(eps).rsqrt_()
        normed = states * scale
        ctx.save_for_backward(normed, scale, weight)
        return normed * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor, Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        normed, scale, weight = ctx.saved_tensors
        along = change * normed
        of_weight = along.sum(tuple(range(along.dim() - 1)))
        mean = (along @ weight).unsqueeze(-1) / along.shape[-1]
        return torch.addcmul(change * weight, normed, mean, value=-1).mul_(scale), of_weight, None


def _normed(norm: Any, states: Tensor) -> Tensor:
    return _Norm.apply(states, norm.weight, norm.variance_epsilon)  # pyright: ignore[reportReturnType]


def _added(states: Tensor, made: Tensor, layer: nn.Linear) -> Tensor:
    """[T, d]: states and what a layer makes of [T, K]."""
    return torch.addmm(states, made, layer.weight.t())


def _fed_forward(states: Tensor, layer: Any) -> Tensor:
    """A feed-forward block on [T, d], plain or gated."""
    network, normed = layer.DenseReluDense, _normed(layer.layer_norm, states)
    if isinstance(network, t5.T5DenseGatedActDense):
        inner = network.act(nn.functional.linear(normed, network.wi_0.weight))
        inner = inner * nn.functional.linear(normed, network.wi_1.weight)
    else:
        inner = network.act(nn.functional.linear(normed, network.wi.weight))
    return _added(states, inner, network.wo)
