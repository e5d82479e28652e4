"""What a learner needs to continue bit for bit: weights and optimizer moments as safetensors, the rest as JSON.

    files = pack(network, optimizer, {"iteration": 12})
    facts = unpack(files, network, optimizer)

Also the one place where torch is seeded.
"""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from safetensors.torch import load
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files
from groundlab.core.seeding import Purpose, child_seed
from groundlab.core.storage import LazyFile


@contextmanager
def seeded_construction(seed: int, *purpose: Purpose) -> Iterator[None]:
    """Build networks inside: torch's layers draw from its global generator, which is put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(child_seed(seed, *purpose))
        yield


def pack(network: nn.Module, optimizer: torch.optim.Optimizer, facts: dict[str, Any]) -> Files:
    """The files of a checkpoint: `network.safetensors`, `optimizer.safetensors`, `facts.json`.

    Learning rates are not in it: a schedule sets them from the update's number, as papers/mediator/training.py does.
    """
    moments = {
        f"{index}.{name}": tensor
        for index, state in optimizer.state_dict()["state"].items()
        for name, tensor in state.items()
    }
    return {
        "network.safetensors": _file(network.state_dict()),
        "optimizer.safetensors": _file(moments),
        "facts.json": json.dumps(facts, sort_keys=True).encode(),
    }


_LARGE = 2**26  # bytes, from which a file is made while it is written


def _file(tensors: dict[str, Tensor]) -> "bytes | TensorFile":
    """The tensors as they are now; large ones are read when they are written."""
    file = TensorFile(tensors)
    return file if sum(tensor.nbytes for tensor in tensors.values()) >= _LARGE else bytes(file)


class TensorFile(LazyFile):
    """Tensors in safetensors' format, made piece by piece: one tensor at a time is copied, not all of them twice.

    A copy of `safetensors.torch.save`, held equal by `tests/devices/test_checkpoints.py`. It reads the tensors when it
    is written, so it is to be written before they change.
    """

    def __init__(self, tensors: dict[str, Tensor]):
        # The format's own order: wide numbers first, so that every tensor is aligned; then by name.
        self._tensors = dict(sorted(tensors.items(), key=lambda item: (-_DTYPES[item[1].dtype][1], item[0])))

    def parts(self) -> Iterator[bytes | memoryview]:
        header, place = {}, 0
        for name, tensor in self._tensors.items():
            kind, width = _DTYPES[tensor.dtype]
            end = place + tensor.numel() * width
            header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [place, end]}
            place = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        yield struct.pack("<Q", len(text)) + text
        for tensor in self._tensors.values():
            own = tensor.detach().cpu().contiguous()
            yield memoryview(own.reshape(-1).view(torch.uint8).numpy().data) if own.numel() else b""


_DTYPES = {
    torch.float64: ("F64", 8),
    torch.float32: ("F32", 4),
    torch.bfloat16: ("BF16", 2),
    torch.float16: ("F16", 2),
    torch.int64: ("I64", 8),
    torch.int32: ("I32", 4),
    torch.int16: ("I16", 2),
    torch.int8: ("I8", 1),
    torch.uint8: ("U8", 1),
    torch.bool: ("BOOL", 1),
}


def unpack(files: Files, network: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, Any]:
    """Load what `pack` stored and return its facts. Raises GroundlabError when it belongs to another network.

    Without an optimizer, to play with, the value head may be missing, and the weights may be of another precision.
    """
    try:
        weights = load(bytes(files["network.safetensors"]))
        if optimizer is None:
            own = network.state_dict().items()
            weights = {**{name: values for name, values in own if name.startswith("value_head.")}, **weights}
        network.load_state_dict(weights)
    except (RuntimeError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise GroundlabError(f"the checkpoint holds another network ({reason}); give one of this method") from None
    if optimizer is not None:
        state: dict[int, dict[str, Any]] = {}
        for key, tensor in load(bytes(files["optimizer.safetensors"])).items():
            index, name = key.split(".")
            state.setdefault(int(index), {})[name] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return json.loads(files["facts.json"])
