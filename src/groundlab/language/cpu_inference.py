"""Matrix products of a model on a CPU, by oneDNN instead of PyTorch's default: the same float32, other kernels.

    with onednn_linears(model):                # around reading and gradients
    with onednn_linears(model, packed):        # many short reads, of weights laid out once: packed = pack(model)

PyTorch gives float32 products to MKL, which on processors not made by Intel leaves half of the vector unit idle: 100
against 220 GFLOP/s measured on one core of an AMD EPYC, and 27 against 65 when 6 rows meet 512 x 1376 weights that are
packed. Sums are taken in another order, so results differ as float32 rounding does, no more. Models elsewhere than on
a CPU, in other precisions, or where PyTorch comes without oneDNN, are left as they are.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import LlamaForCausalLM

_WORTHWHILE = 1_000_000  # multiplications below which oneDNN's start costs more than it gains
_STEP, _SMALL_STEP = 64, 8  # rows are filled up to multiples of these
_LARGE = 100_000  # weights from which a layer is packed: a few rows are too few for smaller ones
Packed = dict[nn.Linear, Tensor]


def available() -> bool:
    """Whether this PyTorch has oneDNN's products."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left [M, K] times the transpose of right [N, K], or of right as packed: [M, N]."""
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")


def _filled(rows: Tensor) -> Tensor:
    """Rows of zeros behind rows [M, K]: oneDNN compiles a kernel for every M, which takes as long as ten products."""
    step = _STEP if len(rows) > _STEP else _SMALL_STEP
    return nn.functional.pad(rows, (0, 0, 0, -len(rows) % step)) if len(rows) % step else rows


class PackedLinear:
    """x [..., K] times weights [N, K], without gradients; large ones are kept in oneDNN's form only."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        self._large = available() and weight.numel() >= _LARGE
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach()) if self._large else weight.detach()
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        if not self._large and (len(flat) < _STEP or not available()):
            return nn.functional.linear(x, self._weight, self._bias)
        return product(_filled(flat), self._weight, self._bias)[: len(flat)].view(*x.shape[:-1], -1)


class _Linear(torch.autograd.Function):
    """x [M, K], weight [N, K], bias [N] or None -> [M, N]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        return product(_filled(x), weight, bias)[: len(x)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, made: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        wanted, change = ctx.needs_input_grad, _filled(made)
        return (
            product(change, weight.t())[: len(made)] if wanted[0] else None,
            product(change.t(), _filled(x).t()) if wanted[1] else None,
            made.sum(0) if wanted[2] else None,
        )


def _forward(weight: Tensor, bias: Tensor | None, packed: Tensor | None, x: Tensor) -> Tensor:
    rows = x.numel() // x.shape[-1]
    if rows * weight.numel() < _WORTHWHILE or x.dtype != torch.float32:
        return nn.functional.linear(x, weight, bias)
    flat = x.reshape(rows, -1)
    made = _Linear.apply(flat, weight, bias) if packed is None else product(_filled(flat), packed, bias)[:rows]
    return made.view(*x.shape[:-1], -1)  # pyright: ignore[reportOptionalMemberAccess]


def version(model: nn.Module) -> int:
    """Another number after weights were changed in place; but a fused optimizer's step leaves it as it was."""
    return sum(parameter._version for parameter in model.parameters())


def pack(model: nn.Module) -> Packed:
    """The weights of all large layers in oneDNN's form: a copy, of use until they change."""
    large = [layer for layer in _layers(model) if layer.weight.numel() >= _LARGE]
    return {layer: torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach()) for layer in large}


def _layers(model: nn.Module) -> list[nn.Linear]:
    """The plain layers that oneDNN can serve."""
    plain = [module for module in model.modules() if type(module) is nn.Linear] if available() else []
    return [layer for layer in plain if layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32]


@contextmanager
def onednn_linears(model: nn.Module, packed: Packed | None = None) -> Iterator[None]:
    """Inside, the model's linear layers multiply by oneDNN. packed: of `pack`; only those, then, and without gradients.

    Not to be nested.
    """
    changed = _layers(model) if packed is None else list(packed)
    for layer in changed:
        own = None if packed is None else packed[layer]
        setattr(layer, "forward", partial(_forward, layer.weight, layer.bias, own))  # noqa: B010 - of this layer only
    try:
        yield
    finally:
        for layer in changed:
            del layer.forward


def serves(model: Any) -> bool:
    """Whether a model is a plain Llama: float32, on a CPU, no adapters, no layers replaced, nobody listening inside."""
    if type(model) is not LlamaForCausalLM:
        return False
    plain = all(type(module) is nn.Linear for module in model.modules() if isinstance(module, nn.Linear))
    watched = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    placed = all(p.dtype == torch.float32 and p.device.type == "cpu" for p in model.parameters())
    return plain and placed and not watched


def layer_weights(layer: Any, scale: float = 1.0) -> list[Any]:
    """Weight and bias of a Llama layer's four products, the norms before them multiplied in; scale: of queries.

    Normed states to queries, keys and values; what was read; normed states to gates and what they let through; down.
    """
    heads, mlp = layer.self_attn, layer.mlp
    return [
        *_joined([heads.q_proj, heads.k_proj, heads.v_proj], layer.input_layernorm.weight, scale),
        *(heads.o_proj.weight, heads.o_proj.bias),
        *_joined([mlp.gate_proj, mlp.up_proj], layer.post_attention_layernorm.weight),
        *(mlp.down_proj.weight, mlp.down_proj.bias),
    ]


def _joined(parts: Sequence[nn.Linear], norm: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor | None]:
    weights, biases = ([getattr(part, name) for part in parts] for name in ("weight", "bias"))
    weight = torch.cat([weights[0] * scale, *weights[1:]]) * norm
    return weight, None if biases[0] is None else torch.cat([biases[0] * scale, *biases[1:]])


class FastLlama:
    """Reads as `model` does, from a copy of its weights.

    A copy of transformers' Llama, held equal by `test_replies_are_those_of_transformers_own_layers_in_every_turn`:
    drawing takes 1.2 to 1.3 times as long without.
    """

    @torch.no_grad()
    def __init__(self, model: LlamaForCausalLM):
        config, body = model.config, model.model
        layers: Any = body.layers
        self._eps: float = config.rms_norm_eps
        self._keys = config.num_key_value_heads or config.num_attention_heads
        self._embedding, self._rotary = body.embed_tokens, body.rotary_emb
        self._activation: Any = layers[0].mlp.act_fn
        weights = [layer_weights(layer, layer.self_attn.scaling) for layer in layers]
        self._layers = [list(map(PackedLinear, each[::2], each[1::2])) for each in weights]
        self._head = PackedLinear(model.lm_head.weight * body.norm.weight, model.lm_head.bias)

    def __call__(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Sequence[Any]) -> Tensor:
        """ids, positions: [B, N]; mask: added to scores, [B, 1, N, reach]; cache: a layer each, with `update`."""
        states = self._embedding(ids)
        cosines, sines = (part[:, :, None] for part in self._rotary(states, positions))  # [B, N, 1, D]
        half = sines.shape[-1] // 2
        sines = torch.cat([-sines[..., :half], sines[..., half:]], -1)
        for (into, out, gate, down), held in zip(self._layers, cache, strict=True):
            made = into(self._normed(states)).unflatten(-1, (-1, 2 * half))  # [B, N, heads of all three, D]
            turning, values = made[:, :, : -self._keys], made[:, :, -self._keys :]
            turned = torch.addcmul(turning * cosines, turning.roll(half, -1), sines)
            queries, keys = turned[:, :, : -self._keys], turned[:, :, -self._keys :]
            keys, values = held.update(keys.transpose(1, 2), values.transpose(1, 2))
            states = states + out(_attention(queries, keys, values, mask))
            gates, through = gate(self._normed(states)).chunk(2, -1)
            states = states + down(self._activation(gates) * through)
        return self._head(self._normed(states[:, -1]))

    def _normed(self, states: Tensor) -> Tensor:
        return nn.functional.rms_norm(states, states.shape[-1:], None, self._eps)


def _attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Scaled queries [B, N, H, D] read keys and values [B, K, reach, D]; returns [B, N, H x D]."""
    count, size, heads, width = queries.shape
    if size > 1:
        grouped = heads != keys.shape[1]
        read = nn.functional.scaled_dot_product_attention(
            queries.transpose(1, 2), keys, values, attn_mask=mask, scale=1.0, enable_gqa=grouped
        )
        return read.transpose(1, 2).flatten(2)
    groups = keys.shape[1]  # heads that share keys are the queries of one product
    own, keys, values = (part.reshape(count * groups, -1, width) for part in (queries, keys, values))
    scores = torch.bmm(own, keys.transpose(1, 2)).view(count, heads, 1, -1) + mask
    shares = scores.softmax(-1).view(count * groups, -1, keys.shape[1])
    return torch.bmm(shares, values).view(count, 1, heads * width)
