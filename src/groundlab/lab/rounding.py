"""Rounding of this machine: a digest of the results of fixed operations on inputs that are the same everywhere.

Two machines with the same digest are expected to train the same agents, bit for bit. Each run's manifest holds it, so
that a comparison can distinguish rounding from a fault. Never change the list: published manifests hold its digest.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from groundlab.lab import machine

_PRODUCTS = ((1, 64, 64), (32, 64, 6), (128, 147, 64), (64, 1000, 33), (384, 128, 512))
"""Shapes of products, [m, k] by [k, n], for which libraries choose several kernels."""


@cache
def rounding() -> str:
    """One digest over `operations()`, 16 hexadecimal digits; a tenth of a second."""
    return _digest("".join(f"{name}={digest}" for name, digest in operations().items()).encode())


def operations() -> dict[str, str]:
    """The digest of each operation's result, by name; computed by one thread, as in a worker."""
    import torch

    with machine.one_thread(), threadpool_limits(1, "blas"), torch.random.fork_rng(devices=[]):
        return {name: _digest(*(np.ascontiguousarray(part) for part in parts)) for name, *parts in _results()}


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


def _normal(seed: int, *shape: int) -> np.ndarray:
    """Normal numbers float32 of a shape; 12 bits of mantissa, so that no library's last bit enters."""
    raw = np.random.Generator(np.random.PCG64(seed)).standard_normal(shape).astype(np.float32)
    return (raw.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)


def _results() -> Iterator[tuple[Any, ...]]:
    """(name, result, ...) of products, attention, activations, norms, layers, gradients and compiled loops."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def tensor(seed: int, *shape: int) -> torch.Tensor:
        return torch.from_numpy(_normal(seed, *shape))

    def filled(network: nn.Module) -> nn.Module:
        for index, weights in enumerate(network.parameters()):
            weights.data.copy_(tensor(20 + index, *weights.shape) * 0.125)
        return network

    for m, k, n in _PRODUCTS:
        a, b = tensor(1, m, k), tensor(2, k, n)
        yield f"product {m} x {k} x {n}", torch.mm(a, b)
        yield f"linear {m} x {k} x {n}", F.linear(a, b.T.contiguous(), tensor(3, n))
        yield f"numpy product {m} x {k} x {n}", a.numpy() @ b.numpy()
    heads = tensor(4, 16, 8, 40, 16)
    yield "batched product", torch.matmul(heads, heads.transpose(-1, -2))
    yield "attention", F.scaled_dot_product_attention(heads, heads, heads)
    yield "convolution", F.conv2d(tensor(5, 16, 4, 10, 10), tensor(6, 16, 4, 3, 3))
    rows = tensor(7, 256, 130)
    for function in (torch.exp, torch.tanh, torch.sigmoid, torch.erf, F.gelu, F.silu, torch.sum, torch.norm):
        yield function.__name__, function(rows)
    for function in (torch.log1p, torch.rsqrt, torch.sqrt):
        yield function.__name__, function(rows.abs() + 1e-3)
    for function in (torch.softmax, torch.log_softmax, torch.logsumexp, torch.mean, torch.var, torch.cumsum):
        yield f"{function.__name__} of rows", function(rows, -1)
    yield "softmax of rows, double", rows.double().softmax(-1)
    yield "layer norm", F.layer_norm(rows, (130,))
    for function in (np.exp, np.log1p, np.tanh, np.sum, np.std):
        yield f"numpy {function.__name__}", function(np.abs(rows.numpy()))
    for layer in (nn.LSTM, nn.GRU):
        yield layer.__name__, filled(layer(32, 64, batch_first=True))(tensor(8, 16, 20, 32))[0].detach()
    table = filled(nn.Sequential(nn.Embedding(300, 64), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 7)))
    tokens = torch.arange(1024) * 7 % 300
    loss = F.cross_entropy(table(tokens), tokens % 7)
    yield "gradients of a network", *torch.autograd.grad(loss, list(table.parameters()))
    yield "compiled sums", _compiled_sums(_normal(9, 64, 500), _normal(10, 500))
    yield "addcdiv", torch.addcdiv(rows, rows, rows.square().sqrt() + 1e-8, value=-1e-3)


def _compiled_sums(rows: np.ndarray, terms: np.ndarray) -> np.ndarray:
    from groundlab.core import compiled  # numba takes half a second, which commands that compile nothing are spared

    @compiled.compiled_sums
    def sums(rows, terms):
        totals = np.zeros(len(rows), np.float32)
        for row in range(len(rows)):
            total = np.float32(0)
            for i in range(len(terms)):
                total += rows[row, i] * terms[i]
            totals[row] = total
        return totals

    return sums(rows, terms)
