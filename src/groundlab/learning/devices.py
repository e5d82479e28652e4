"""Which device this process may use, and how it multiplies there.

    check_device("cuda:1")                      # one line where there is none
    numbers = send(torch.tensor([3, 1, 4]), device)
    with arithmetic(tf32=True, deterministic=False): ...

Nothing else asks torch for GPUs, so a stand-in needs to replace one function.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from groundlab.core.errors import GroundlabError, clip


def count_gpus() -> int:
    """The GPUs that torch can use here."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_device(device: str) -> None:
    """Raises GroundlabError for what is no name of a device, and for a GPU that this machine does not have."""
    try:
        kind, number = torch.device(device).type, torch.device(device).index or 0
    except RuntimeError:
        reason = "no such device: there are cpu, cuda and cuda:N"
    else:
        found = count_gpus() if kind == "cuda" else number + 1
        if number < found:
            return
        reason = f"torch finds {found} GPUs here, cuda:0 to cuda:{found - 1}" if found else "torch finds no GPU here"
    raise GroundlabError(f"cannot use the device {clip(device)!r} ({reason}); give device=cpu")


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """A tensor on another device (the same one, if it is there), for which nobody waits.

    A plain `.to`, and a list given to `torch.tensor(..., device=...)`, have the CPU wait for all work on the device.
    """
    return tensor.to(device, non_blocking=tensor.device.type == "cpu")  # a copy to the host has to be waited for


@contextmanager
def arithmetic(tf32: bool = False, deterministic: bool = False) -> Iterator[None]:
    """Inside, float32 products on a GPU round their factors to TF32 (10 bits), or not; and sums have one order, or not.

    On a CPU the first changes nothing. `deterministic` makes torch raise where an operation has no such form.
    """
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, torch.are_deterministic_algorithms_enabled(), cudnn.benchmark
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # read when cuBLAS is first used
    matmul.allow_tf32 = cudnn.allow_tf32 = tf32
    torch.use_deterministic_algorithms(deterministic or before[2])
    cudnn.benchmark = before[3] and not deterministic
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, _, cudnn.benchmark = before
        torch.use_deterministic_algorithms(before[2])
