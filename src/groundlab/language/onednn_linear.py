"""Matrix products of a model on a CPU, by oneDNN instead of PyTorch's default: the same float32, other kernels.

    with onednn_linears(model):                # around reading and gradients
    with onednn_linears(model, packed):        # many short reads, of weights laid out once: packed = pack(model)

PyTorch gives float32 products to MKL, which on processors not made by Intel leaves half of the vector unit idle: 100
against 220 GFLOP/s measured on one core of an AMD EPYC, and 27 against 65 when 6 rows meet 512 x 1376 weights that are
packed. Sums are taken in another order, so results differ as float32 rounding does, no more. Models elsewhere than on
a CPU, in other precisions, or where PyTorch comes without oneDNN, are left as they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_WORTHWHILE = 1_000_000  # multiplications below which oneDNN's start costs more than it gains
_STEP, _SMALL_STEP = 64, 8  # rows are filled up to multiples of these
_LARGE = 100_000  # weights from which a layer is packed: a few rows are too few for smaller ones
Packed = dict[nn.Linear, Tensor]


def _known() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left [M, K] times the transpose of right [N, K], or of right as packed."""
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")


def _filled(rows: Tensor) -> Tensor:
    """Rows of zeros behind rows [M, K]: oneDNN compiles a kernel for every M, which takes as long as ten products."""
    step = _STEP if len(rows) > _STEP else _SMALL_STEP
    return nn.functional.pad(rows, (0, 0, 0, -len(rows) % step)) if len(rows) % step else rows


class PackedLinear:
    """x [..., K] times weights [N, K], without gradients; large ones are kept in oneDNN's form only."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        self._large = _known() and weight.numel() >= _LARGE
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach()) if self._large else weight.detach()
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        if not self._large and (len(flat) < _STEP or not _known()):
            return nn.functional.linear(x, self._weight, self._bias)
        return _product(_filled(flat), self._weight, self._bias)[: len(flat)].view(*x.shape[:-1], -1)


class _Linear(torch.autograd.Function):
    """x [M, K], weight [N, K], bias [N] or None -> [M, N]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        return _product(_filled(x), weight, bias)[: len(x)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, made: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        wanted, change = ctx.needs_input_grad, _filled(made)
        return (
            _product(change, weight.t())[: len(made)] if wanted[0] else None,
            _product(change.t(), _filled(x).t()) if wanted[1] else None,
            made.sum(0) if wanted[2] else None,
        )


def _forward(weight: Tensor, bias: Tensor | None, packed: Tensor | None, x: Tensor) -> Tensor:
    rows = x.numel() // x.shape[-1]
    if rows * weight.numel() < _WORTHWHILE or x.dtype != torch.float32:
        return nn.functional.linear(x, weight, bias)
    flat = x.reshape(rows, -1)
    made = _Linear.apply(flat, weight, bias) if packed is None else _product(_filled(flat), packed, bias)[:rows]
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
    plain = [module for module in model.modules() if type(module) is nn.Linear] if _known() else []
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
