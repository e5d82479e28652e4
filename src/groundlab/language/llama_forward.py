"""A plain Llama on a CPU, read without padding: the states of transformers' own forward, and their gradients, for less.

    if serves(model):
        states = row_states(model, rows, firsts)       # [M, d], after each row's tokens from its first on

Rows lie behind one another in one tensor [T, d], and every product is of one matrix for all tokens. Attention alone
goes through `Run`s, rows of one length, so that little is padded. A beginning that rows share is read once. The first
layer's queries, keys and values are made once for each different token, and the last layer's feed-forward block runs
only where a state is asked for. The gradient is written by hand, since autograd's would copy more than it multiplies.

Sums are taken in another order than transformers', so results differ as rounding does.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from groundlab.language import cpu_inference
from groundlab.language.cpu_inference import layer_weights, product
from groundlab.language.prefix_batching import Run, batches, best_cut, may_share, packed

_RUN = 10.0  # tokens that attention over one more run is worth
_CUT = 40.0  # tokens that must be spared before a common beginning is read by itself
_CHUNK = 4_000  # tokens that are read at once without a gradient: 1,500 and 100,000 were slower
_PRODUCTS = 7  # of a layer
_STEP = 64  # the tensor's length is a multiple: oneDNN compiles a kernel for every length
_attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_attention_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def serves(model: Any) -> bool:
    """Whether a model is a plain Llama in evaluation mode, whose heads all have keys of their own.

    None of its layers may be replaced: not by adapters either.
    """
    if not (cpu_inference.serves(model) and cpu_inference.available()) or model.training:
        return False
    config, layers = model.config, model.model.layers
    plain = config.hidden_act == "silu" and config.num_key_value_heads in (None, config.num_attention_heads)
    whole = sum(type(module) is nn.Linear for module in layers.modules()) == _PRODUCTS * len(layers)
    return plain and whole and may_share(model, 2)


class Layout(NamedTuple):
    """Where the tokens of rows lie in a stream of T."""

    ids: Tensor  # int64 [T]
    positions: Tensor  # int64 [T]
    runs: list[Run]  # the beginnings first, where there are any
    wanted: Tensor  # int64 [M], where the states lie that are asked for
    masks: dict[int, Tensor]  # by a run's length: added to its scores, float32 [length, beginning + length]


def lay_out(rows: Sequence[Sequence[int]], firsts: Sequence[int]) -> Layout:
    """The layout of rows, of which the states from token `firsts` on are asked for, row by row."""
    cut = best_cut(rows, min(firsts), _CUT) if len(rows) > 1 else 0
    number = {beginning: i for i, beginning in enumerate(dict.fromkeys(tuple(row[:cut]) for row in rows))}
    ids, positions, runs, places = list[int](), list[int](), list[Run](), [0] * len(rows)
    if cut:
        ids, positions = [token for beginning in number for token in beginning], [*range(cut)] * len(number)
        runs = [Run(0, len(number), cut)]
    for part in batches([len(row) - cut for row in rows], 1 << 40, _RUN):
        length = len(rows[part[0]]) - cut
        owners = torch.tensor([number[tuple(rows[row][:cut])] for row in part]) if cut else None
        runs.append(Run(len(ids), len(part), length, owners))
        for row in part:
            places[row] = len(ids) - cut
            ids += [*rows[row][cut:], *[0] * (length + cut - len(rows[row]))]
        positions += [*range(cut, cut + length)] * len(part)
    rest = -len(ids) % _STEP
    spans = zip(places, firsts, rows, strict=True)
    wanted = [place + token for place, first, row in spans for token in range(first, len(row))]
    masks = {run.length: _causal(run.length, cut) for run in runs[1:]} if cut else {}
    return Layout(
        torch.tensor(ids + [0] * rest), torch.tensor(positions + [0] * rest), runs, torch.tensor(wanted), masks
    )


def _causal(length: int, before: int) -> Tensor:
    return torch.full((length, before + length), -torch.inf).triu(before + 1)


def row_states(model: Any, rows: Sequence[Sequence[int]], firsts: Sequence[int]) -> Tensor:
    """The final states, as the vocabulary head reads them, at token `firsts[i]` of row i and all after: [M, d].

    They come row by row. Differentiable where gradients are on; then all rows are read at once.
    """
    weights = [each for layer in model.model.layers for each in layer_weights(layer)]
    if torch.is_grad_enabled():
        return _read(model, weights, lay_out(rows, firsts))
    order = sorted(range(len(rows)), key=lambda row: tuple(rows[row]))  # neighbours begin alike
    states: list[Tensor] = [torch.empty(0)] * len(rows)
    for places in packed([len(rows[row]) for row in order], _CHUNK):
        part = [order[place] for place in places]
        own = _read(model, weights, lay_out([rows[row] for row in part], [firsts[row] for row in part]))
        for row, values in zip(part, own.split([len(rows[row]) - firsts[row] for row in part]), strict=True):
            states[row] = values
    return torch.cat(states)


def _read(model: Any, weights: list[Any], layout: Layout) -> Tensor:
    body, config = model.model, model.config
    embedding = body.embed_tokens.weight
    with torch.no_grad():
        cosines, sines = (part[0, :, None] for part in body.rotary_emb(embedding, layout.positions[None]))  # [T, 1, D]
        half = sines.shape[-1] // 2
        sines = torch.cat([-sines[..., :half], sines[..., half:]], -1)
    heads = config.num_attention_heads
    fixed = _Fixed(layout, cosines, sines, heads, body.layers[0].self_attn.scaling, config.rms_norm_eps)
    return _Stack.apply(fixed, embedding, *weights) * body.norm.weight  # pyright: ignore[reportOptionalOperand]


class _Fixed(NamedTuple):
    """What a reading depends on besides weights."""

    layout: Layout
    cosines: Tensor
    sines: Tensor
    heads: int
    scale: float
    eps: float


class _Layer(NamedTuple):
    """What the gradient of a layer needs of its reading."""

    normed: Tensor
    norms: Tensor
    turned: Tensor  # queries and keys after rotation, and values: [T, 3, H, D]
    attended: Tensor  # [T, H, D]
    sums: list[Tensor]  # of each run: the logarithms of its softmax's sums
    read: Tensor  # what attention made, [T, H x D]; of the last layer where states are wanted
    normed_later: Tensor
    norms_later: Tensor
    gates: Tensor  # [T, 2 x hidden]
    product: Tensor  # [T, hidden]


class _Stack(torch.autograd.Function):
    """Embedding, and eight tensors a layer -> normed states [M, d], without the last norm's weight."""

    @staticmethod
    def forward(ctx: Any, fixed: _Fixed, embedding: Tensor, *weights: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        layout, layers = fixed.layout, list[_Layer]()
        different, inverse = layout.ids.unique(return_inverse=True)
        different = nn.functional.pad(different, (0, -len(different) % _STEP))
        x = embedding[layout.ids]
        count = len(weights) // 8
        learns = any(ctx.needs_input_grad)
        for number in range(count):
            first, last = number == 0, number + 1 == count
            into, into_bias, out, out_bias, gate, gate_bias, down, down_bias = weights[8 * number : 8 * number + 8]
            normed, norms = _normed(embedding[different] if first else x, fixed.eps)
            made = product(normed, into, into_bias)
            made = (made[inverse] if first else made).view(len(x), 3, fixed.heads, -1)
            made[:, :2] = _turned(made[:, :2], fixed.cosines, fixed.sines)
            attended, sums = _attend(fixed, made)
            read = attended.flatten(1)
            if last:
                x, read = (_at(part, layout.wanted) for part in (x, read))
            x = product(read, out, out_bias).add_(x)
            normed_later, norms_later = _normed(x, fixed.eps)
            gates = product(normed_later, gate, gate_bias)
            gated = nn.functional.silu(gates[:, : gates.shape[1] // 2]).mul_(gates[:, gates.shape[1] // 2 :])
            x = product(gated, down, down_bias).add_(x)
            if learns:
                later = (read, normed_later, norms_later, gates, gated)
                layers.append(_Layer(normed, norms, made, attended, sums, *later))
        x, norms = _normed(x, fixed.eps)
        if learns:
            ctx.fixed, ctx.layers, ctx.norms, ctx.inverse, ctx.different = fixed, layers, norms, inverse, different
            ctx.weights, ctx.size = weights, embedding.shape
            ctx.save_for_backward(x)
        return x[: len(layout.wanted)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        fixed, layers, weights, (states,) = ctx.fixed, ctx.layers, ctx.weights, ctx.saved_tensors
        layout, found = fixed.layout, list[Tensor | None]()
        dx = _norm_change(nn.functional.pad(change, (0, 0, 0, len(states) - len(change))), states, ctx.norms)
        for number in reversed(range(len(layers))):
            layer: _Layer = layers.pop()
            first, last = number == 0, 8 * number + 8 == len(weights)
            into, into_bias, out, out_bias, gate, gate_bias, down, down_bias = weights[8 * number : 8 * number + 8]
            own = [_weight_change(dx, layer.product), _bias_change(dx, down_bias)]
            dgates = _gate_change(layer.gates, product(dx, down.t()))
            own = [_weight_change(dgates, layer.normed_later), _bias_change(dgates, gate_bias), *own]
            dx = dx + _norm_change(product(dgates, gate.t()), layer.normed_later, layer.norms_later)
            own = [_weight_change(dx, layer.read), _bias_change(dx, out_bias), *own]
            dread = product(dx, out.t())
            if last:
                dx, dread = (_spread(part, layout.wanted, len(layout.ids)) for part in (dx, dread))
            dmade = torch.zeros_like(layer.turned)
            for run, sums in zip(layout.runs, layer.sums, strict=True):
                _attend_change(fixed, run, layer, sums, dread, dmade)
            dmade[:, :2] = _turned(dmade[:, :2], fixed.cosines, -fixed.sines)
            dmade = dmade.flatten(1)
            if first:
                dmade = dmade.new_zeros(len(layer.normed), dmade.shape[1]).index_add_(0, ctx.inverse, dmade)
            own = [_weight_change(dmade, layer.normed), _bias_change(dmade, into_bias), *own]
            dnormed = _norm_change(product(dmade, into.t()), layer.normed, layer.norms)
            found = own + found
            dx = dx if first else dx.add_(dnormed)
        dembedding = dx.new_zeros(ctx.size).index_add_(0, layout.ids, dx).index_add_(0, ctx.different, dnormed)
        return None, dembedding, *found


def _weight_change(change: Tensor, x: Tensor) -> Tensor:
    return product(change.t(), x.t())


def _bias_change(change: Tensor, bias: Tensor | None) -> Tensor | None:
    return None if bias is None else change.sum(0)


def _normed(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x [T, d] over its norms, and one over these, [T, 1]."""
    norms = x.square().mean(1, keepdim=True).add_(eps).rsqrt_()
    return x * norms, norms


def _norm_change(change: Tensor, normed: Tensor, norms: Tensor) -> Tensor:
    shares = (change * normed).mean(1, keepdim=True)
    return torch.addcmul(change, normed, shares, value=-1).mul_(norms)


def _turned(states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary positions of states [T, 2, H, D]; with the sines' signs turned, for the gradient."""
    return torch.addcmul(states * cosines[:, None], states.roll(states.shape[-1] // 2, -1), sines[:, None])


def _gate_change(gates: Tensor, change: Tensor) -> Tensor:
    half = gates.shape[1] // 2
    gate, through = gates[:, :half], gates[:, half:]
    found = torch.empty_like(gates)
    found[:, :half] = torch.ops.aten.silu_backward(change * through, gate)
    torch.mul(nn.functional.silu(gate), change, out=found[:, half:])
    return found


def _at(stream: Tensor, wanted: Tensor) -> Tensor:
    """The wanted tokens of a stream, zeros behind them up to a multiple."""
    found = stream.new_zeros(-(-len(wanted) // _STEP) * _STEP, stream.shape[1])
    found[: len(wanted)] = stream[wanted]
    return found


def _spread(states: Tensor, wanted: Tensor, size: int) -> Tensor:
    return states.new_zeros(size, states.shape[1]).index_copy_(0, wanted, states[: len(wanted)])


def _heads(fixed: _Fixed, run: Run, made: Tensor) -> list[Tensor]:
    """Queries, keys and values of a run, [count, H, length, D]; keys and values with those of its beginnings."""
    own = [part.transpose(1, 2) for part in run.of(made).unbind(2)]
    if run.owners is None:
        return own
    begun = fixed.layout.runs[0].of(made)[run.owners]
    begun_keys, begun_values = (part.transpose(1, 2) for part in begun.unbind(2)[1:])
    return [own[0], torch.cat([begun_keys, own[1]], 2), torch.cat([begun_values, own[2]], 2)]


def _attend(fixed: _Fixed, made: Tensor) -> tuple[Tensor, list[Tensor]]:
    """What attention makes of all runs, [T, H, D], and of each the logarithms of its sums."""
    attended, sums = torch.zeros_like(made[:, 0]), list[Tensor]()
    for run in fixed.layout.runs:
        mask = None if run.owners is None else fixed.layout.masks[run.length]
        own, logs = _attention(*_heads(fixed, run, made), 0.0, mask is None, attn_mask=mask, scale=fixed.scale)
        run.of(attended).copy_(own.transpose(1, 2))
        sums.append(logs)
    return attended, sums


def _attend_change(fixed: _Fixed, run: Run, layer: _Layer, sums: Tensor, change: Tensor, found: Tensor) -> None:
    """Add a run's gradient to `found` [T, 3, H, D]."""
    mask = None if run.owners is None else fixed.layout.masks[run.length]
    of_run = (run.of(stream).transpose(1, 2) for stream in (change.view(layer.attended.shape), layer.attended))
    own, attended = of_run
    heads = _heads(fixed, run, layer.turned)
    changes = _attention_backward(own, *heads, attended, sums, 0.0, mask is None, attn_mask=mask, scale=fixed.scale)
    parts = [part.transpose(1, 2) for part in changes]  # [count, length, H, D]
    if run.owners is not None:
        before = fixed.layout.runs[0]
        for place in (1, 2):
            before.of(found)[:, :, place].index_add_(0, run.owners, parts[place][:, : before.length])
            parts[place] = parts[place][:, before.length :]
    for place, part in enumerate(parts):
        run.of(found)[:, :, place] += part
