"""A Llama's forward pass in few operations, for drawing tokens on a CPU.

    quick = FastLlama(model)                      # where serves(model); of use until the weights change
    logits = quick(ids, positions, mask, layers)   # [B, V], after the last tokens; layers: a cache's

Of a pass that reads one token in each of some rows the arithmetic is a small part where the model is small: the rest
is Python, and attention made for long queries. Here queries, keys and values are one product, gates and what they let
through another; what scales norms and queries is in the weights; and attention of one query a row is two batched
products. Numbers differ from transformers' as float32 rounding does.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from groundlab.language.onednn_linear import PackedLinear


def serves(model: Any) -> bool:
    """Whether a model is a plain Llama: float32, on a CPU, no adapters, no layers replaced, nobody listening inside."""
    if type(model) is not LlamaForCausalLM:
        return False
    plain = all(type(module) is nn.Linear for module in model.modules() if isinstance(module, nn.Linear))
    watched = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    placed = all(p.dtype == torch.float32 and p.device.type == "cpu" for p in model.parameters())
    return plain and placed and not watched


class _Layer(NamedTuple):
    """The products of one layer, and what it does to gates."""

    into: PackedLinear  # normed states to queries, keys and values
    out: PackedLinear
    gates: PackedLinear  # normed states to gates and what they let through
    down: PackedLinear
    activation: Any


class FastLlama:
    """Reads as `model` does, from a copy of its weights."""

    @torch.no_grad()
    def __init__(self, model: LlamaForCausalLM):
        config, body = model.config, model.model
        self._eps: float = config.rms_norm_eps
        self._keys = config.num_key_value_heads or config.num_attention_heads
        self._embedding, self._rotary = body.embed_tokens, body.rotary_emb
        self._layers = [_joined(layer) for layer in body.layers]
        self._head = PackedLinear(model.lm_head.weight * body.norm.weight, model.lm_head.bias)

    def __call__(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Sequence[Any]) -> Tensor:
        """ids, positions: [B, N]; mask: added to scores, [B, 1, N, reach]; cache: a layer each, with `update`."""
        states = self._embedding(ids)
        cosines, sines = (part[:, :, None] for part in self._rotary(states, positions))  # [B, N, 1, D]
        half = sines.shape[-1] // 2
        sines = torch.cat([-sines[..., :half], sines[..., half:]], -1)
        for layer, held in zip(self._layers, cache, strict=True):
            made = layer.into(self._normed(states)).unflatten(-1, (-1, 2 * half))  # [B, N, heads of all three, D]
            turning, values = made[:, :, : -self._keys], made[:, :, -self._keys :]
            turned = torch.addcmul(turning * cosines, turning.roll(half, -1), sines)
            queries, keys = turned[:, :, : -self._keys], turned[:, :, -self._keys :]
            keys, values = held.update(keys.transpose(1, 2), values.transpose(1, 2))
            states = states + layer.out(_attention(queries, keys, values, mask))
            gates, through = layer.gates(self._normed(states)).chunk(2, -1)
            states = states + layer.down(layer.activation(gates) * through)
        return self._head(self._normed(states[:, -1]))

    def _normed(self, states: Tensor) -> Tensor:
        return nn.functional.rms_norm(states, states.shape[-1:], None, self._eps)


def _joined(layer: Any) -> _Layer:
    heads, mlp = layer.self_attn, layer.mlp
    parts, scales = (heads.q_proj, heads.k_proj, heads.v_proj), (heads.scaling, 1, 1)
    weight = torch.cat([part.weight * scale for part, scale in zip(parts, scales, strict=True)])
    biased = parts[0].bias is not None
    bias = torch.cat([part.bias * scale for part, scale in zip(parts, scales, strict=True)]) if biased else None
    halves = (mlp.gate_proj, mlp.up_proj)
    return _Layer(
        PackedLinear(weight * layer.input_layernorm.weight, bias),
        PackedLinear(heads.o_proj.weight, heads.o_proj.bias),
        PackedLinear(
            torch.cat([part.weight for part in halves]) * layer.post_attention_layernorm.weight,
            torch.cat([part.bias for part in halves]) if mlp.up_proj.bias is not None else None,
        ),
        PackedLinear(mlp.down_proj.weight, mlp.down_proj.bias),
        mlp.act_fn,
    )


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
