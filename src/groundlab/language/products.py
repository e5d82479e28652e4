"""Matrix products of a model on a CPU, by oneDNN instead of PyTorch's default: the same float32, other kernels.

    with quick_products(model):                # around reading and gradients
    with quick_products(model, packed):        # many short reads, of weights laid out once: packed = pack(model)

PyTorch gives float32 products to MKL, which on processors not made by Intel leaves half of the vector unit idle: 100
against 220 GFLOP/s measured on one core of an AMD EPYC, and 27 against 65 when 6 rows meet 512 x 1376 weights that are
packed. Sums are taken in another order, so results differ as float32 rounding does, no more. Models elsewhere than on
a CPU, in other precisions, or where PyTorch comes without oneDNN, are left as they are.
Called from: `tokens.py`, `generation.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_WORTHWHILE = 1_000_000  # multiplications below which oneDNN's start costs more than it gains
Packed = dict[nn.Linear, Tensor]


def _known() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left [M, K] times the transpose of right [N, K], or of right as packed."""
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    """x [M, K], weight [N, K], bias [N] or None -> [M, N]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, made: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        return (
            _product(made, weight.t()) if wanted[0] else None,
            _product(made.t(), x.t()) if wanted[1] else None,
            made.sum(0) if wanted[2] else None,
        )


def _forward(layer: nn.Linear, packed: Tensor | None, x: Tensor) -> Tensor:
    rows = x.numel() // x.shape[-1]
    if rows * layer.weight.numel() < _WORTHWHILE or x.dtype != torch.float32:
        return nn.functional.linear(x, layer.weight, layer.bias)
    flat = x.reshape(rows, -1)
    made = _Linear.apply(flat, layer.weight, layer.bias) if packed is None else _product(flat, packed, layer.bias)
    return made.view(*x.shape[:-1], -1)  # pyright: ignore[reportOptionalMemberAccess]


def pack(model: nn.Module) -> Packed:
    """The weights of all layers in oneDNN's form: a copy, of use until they change."""
    return {layer: torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach()) for layer in _layers(model)}


def _layers(model: nn.Module) -> list[nn.Linear]:
    """The plain layers that oneDNN can serve."""
    plain = [module for module in model.modules() if type(module) is nn.Linear] if _known() else []
    return [layer for layer in plain if layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32]


@contextmanager
def quick_products(model: nn.Module, packed: Packed | None = None) -> Iterator[None]:
    """Inside, the model's linear layers multiply by oneDNN. packed: of `pack`; without gradients, then."""
    changed = [layer for layer in _layers(model) if "forward" not in vars(layer)]
    for layer in changed:
        setattr(layer, "forward", partial(_forward, layer, packed[layer] if packed else None))  # noqa: B010 - of one layer, not of its class
    try:
        yield
    finally:
        for layer in changed:
            del layer.forward
