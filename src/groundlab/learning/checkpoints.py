"""What a learner needs to continue bit for bit: weights and optimizer moments as safetensors, the rest as JSON.

    files = pack(network, optimizer, {"iteration": 12})
    facts = unpack(files, network, optimizer)

Also the one place where torch is seeded.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from safetensors.torch import load, save
from torch import nn

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files
from groundlab.core.seeding import Purpose, child_seed


@contextmanager
def seeded_construction(seed: int, *purpose: Purpose) -> Iterator[None]:
    """Build networks inside: torch's layers draw from its global generator, which is put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(child_seed(seed, *purpose))
        yield


def pack(network: nn.Module, optimizer: torch.optim.Optimizer, facts: dict[str, Any]) -> Files:
    """The files of a checkpoint: `network.safetensors`, `optimizer.safetensors`, `facts.json`."""
    weights = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    moments = {
        f"{index}.{name}": tensor.contiguous()
        for index, state in optimizer.state_dict()["state"].items()
        for name, tensor in state.items()
    }
    return {
        "network.safetensors": save(weights),
        "optimizer.safetensors": save(moments),
        "facts.json": json.dumps(facts, sort_keys=True).encode(),
    }


def unpack(files: Files, network: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, Any]:
    """Load what `pack` stored and return its facts. Raises GroundlabError when it belongs to another network.

    Without an optimizer, to play with, the value head may be missing, and the weights may be of another precision.
    """
    try:
        weights = load(files["network.safetensors"])
        if optimizer is None:
            own = network.state_dict().items()
            weights = {**{name: values for name, values in own if name.startswith("value_head.")}, **weights}
        network.load_state_dict(weights)
    except (RuntimeError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise GroundlabError(f"the checkpoint holds another network ({reason}); give one of this method") from None
    if optimizer is not None:
        state: dict[int, dict[str, Any]] = {}
        for key, tensor in load(files["optimizer.safetensors"]).items():
            index, name = key.split(".")
            state.setdefault(int(index), {})[name] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return json.loads(files["facts.json"])
