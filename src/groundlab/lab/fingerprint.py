"""How this machine rounds: a digest of what each numeric operation gives for inputs that are the same everywhere.

Two machines with the same digests are expected to train the same agents, bit for bit. Each run's manifest holds one
digest over all operations, so that a comparison can tell rounding from a fault; `groundlab fingerprint` prints this
machine's. Golden records (tests/golden/) hold the results of whole runs for each kind of CPU.
"""

import hashlib
from collections.abc import Callable, Iterator
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
    """The digest of each operation's result, by name: products, attention, activations, norms, layers, gradients.

    By one thread, as in a worker: numpy's products, too, come out otherwise by two.
    """
    import torch

    with machine.one_thread(), threadpool_limits(1, "blas"), torch.random.fork_rng(devices=[]):
        return {name: _digest(*(np.ascontiguousarray(part) for part in operation())) for name, operation in _all()}


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


def _drawn(seed: int, *shape: int) -> np.ndarray:
    """Normal numbers float32 of a shape; 12 bits of mantissa, so that no library's last bit enters."""
    raw = np.random.Generator(np.random.PCG64(seed)).standard_normal(shape).astype(np.float32)
    return (raw.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)


def _all() -> Iterator[tuple[str, Callable[[], tuple[np.ndarray, ...]]]]:
    """(name, operation) of every operation."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def tensor(seed: int, *shape: int) -> torch.Tensor:
        return torch.from_numpy(_drawn(seed, *shape))

    def of_tensors(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Callable[[], tuple[np.ndarray]]:
        return lambda: (function(*inputs).detach().numpy(),)

    for m, k, n in _PRODUCTS:
        a, b = tensor(1, m, k), tensor(2, k, n)
        yield f"product {m} x {k} x {n}", of_tensors(torch.mm, a, b)
        yield f"linear {m} x {k} x {n}", of_tensors(F.linear, a, b.T.contiguous(), tensor(3, n))
        yield f"numpy product {m} x {k} x {n}", lambda a=a, b=b: (a.numpy() @ b.numpy(),)
    heads = tensor(4, 16, 8, 40, 16)
    yield "batched product", of_tensors(torch.matmul, heads, heads.transpose(-1, -2))
    yield "attention", of_tensors(F.scaled_dot_product_attention, heads, heads, heads)
    yield "convolution", of_tensors(F.conv2d, tensor(5, 16, 4, 10, 10), tensor(6, 16, 4, 3, 3))
    rows = tensor(7, 256, 130)
    for function in (torch.exp, torch.tanh, torch.sigmoid, torch.erf, F.gelu, F.silu, torch.sum, torch.norm):
        yield function.__name__, of_tensors(function, rows)
    for function in (torch.log1p, torch.rsqrt, torch.sqrt):
        yield function.__name__, of_tensors(function, rows.abs() + 1e-3)
    for function in (torch.softmax, torch.log_softmax, torch.logsumexp, torch.mean, torch.var, torch.cumsum):
        yield f"{function.__name__} of rows", of_tensors(lambda x, function=function: function(x, -1), rows)
    yield "softmax of rows, double", of_tensors(lambda x: x.double().softmax(-1), rows)
    yield "layer norm", of_tensors(lambda x: F.layer_norm(x, (130,)), rows)
    for function in (np.exp, np.log1p, np.tanh, np.sum, np.std):
        yield (
            f"numpy {function.__name__}",
            lambda function=function: (np.asarray(function(np.abs(_drawn(7, 256, 130)))),),
        )
    for layer in (nn.LSTM, nn.GRU):
        yield layer.__name__, lambda layer=layer: _forward(layer(32, 64, batch_first=True), tensor(8, 16, 20, 32))
    table = nn.Sequential(nn.Embedding(300, 64), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 7))
    yield "gradients of a network", lambda: _gradients(table)
    many, terms = _drawn(9, 64, 500), _drawn(10, 500)
    yield "compiled sums", lambda: _compiled_sums(many, terms)
    yield "addcdiv", of_tensors(lambda x: torch.addcdiv(x, x, x.square().sqrt() + 1e-8, value=-1e-3), rows)


def _fill(network: Any) -> None:
    import torch

    with torch.no_grad():
        for index, weights in enumerate(network.parameters()):
            weights.copy_(torch.from_numpy(_drawn(20 + index, *weights.shape)) * 0.125)


def _forward(network: Any, inputs: Any) -> tuple[np.ndarray, ...]:
    _fill(network)
    return (network(inputs)[0].detach().numpy(),)


def _gradients(network: Any) -> tuple[np.ndarray, ...]:
    import torch

    _fill(network)
    tokens = torch.arange(1024) * 7 % 300
    loss = torch.nn.functional.cross_entropy(network(tokens), tokens % 7)
    return tuple(each.numpy() for each in torch.autograd.grad(loss, list(network.parameters())))


def _compiled_sums(rows: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray]:
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

    return (sums(rows, terms),)
