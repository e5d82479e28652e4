"""One agent, several processes: each reads its share of the prompts, all take the same steps.

    accelerate launch --multi_gpu --num_processes 2 --module groundlab run glam --world BabyAI-GoToObj-v0 --out DIR

Every process holds the whole model, draws the same random numbers and steps the same environments. Prompts are dealt
out; their scores and values come back to all (`Group.read`), and so do the gradients of a minibatch
(`Group.add_gradients`), so that a step is the one that a single process takes, up to rounding (with dropout: up to the
masks). What Lamorel's servers did, accelerate and torch's collectives do here, without a server.

`--multi_gpu` is how accelerate spells "more than one process on this machine": with device=cpu, the default, they talk
by gloo and need no GPU; with device=cuda each takes a GPU of its own (not tried: no such machine was at hand).
A model must fit on one device. Sharded weights (FSDP) are not offered: they are gathered layer by layer, by all
processes at the same moments, but here each reads batches of its own number and sizes, by calls of encoder and
decoder that bypass the wrapper. For large models: `lora_rank`, `quantization`, `gradient_checkpointing`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError

_BUCKET = 2**24  # numbers that are added up at once: few messages, and little memory besides the gradients


@dataclass(frozen=True)
class Group:
    """This process among those that train the same agent; alone, everything is its own and nothing is sent."""

    rank: int = 0
    size: int = 1

    def share(self, prompts: Sequence[str]) -> list[int]:
        """The places of the prompts that this process reads: equal ones together, long and short ones dealt evenly."""
        if self.size == 1:
            return list(range(len(prompts)))
        dealt = sorted(set(prompts), key=lambda prompt: (len(prompt), prompt))
        mine = set(dealt[self.rank :: self.size])
        return [place for place, prompt in enumerate(prompts) if prompt in mine]

    def add(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes."""
        return tensor if self.size == 1 else _added(tensor)

    def add_gradients(self, parameters: Sequence[nn.Parameter], figures: Tensor) -> Tensor:
        """Add up the gradients of all processes, in place, and `figures` [F], which are returned.

        A parameter that no process reached keeps no gradient.
        """
        if self.size == 1:
            return figures
        reached = torch.tensor([p.grad is not None for p in parameters], dtype=figures.dtype, device=figures.device)
        added, times = _added(torch.cat([figures, reached])).split([len(figures), len(reached)])
        for bucket in _buckets([p for p, count in zip(parameters, times.tolist(), strict=True) if count]):
            own = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
            parts = _added(torch.cat([grad.flatten() for grad in own])).split([p.numel() for p in bucket])
            for parameter, grad, part in zip(bucket, own, parts, strict=True):
                parameter.grad = grad.copy_(part.view_as(grad))
        return added

    def broadcast(self, word: Any = None) -> Any:
        """What the first process gives, in all; others give nothing. All wait here for it."""
        if self.size == 1:
            return word
        from accelerate.utils import broadcast_object_list

        with _told():
            return broadcast_object_list([word])[0]

    def any(self, flag: bool) -> bool:
        """Whether it is so in any process."""
        if self.size == 1:
            return flag
        from accelerate import PartialState

        return bool(_added(torch.tensor([float(flag)], device=PartialState().device)).item())


SINGLE_PROCESS = Group()


def launched() -> bool:
    """Whether this process is one of several that a launcher started.

    Raises GroundlabError where accelerate was asked for several and starts one, as `--cpu` does.
    """
    many = {"LOCAL_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"} & os.environ.keys()
    if not many and os.environ.get("ACCELERATE_USE_CPU") == "True" and "MASTER_PORT" in os.environ:
        raise GroundlabError(
            "accelerate launch --cpu starts one process; write --multi_gpu in its place (device=cpu needs no GPU)"
        )
    return "LOCAL_RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def join(device: str) -> Group:
    """Meet the processes that were launched with this one: over gloo for device "cpu", else over NCCL, a GPU each."""
    from accelerate import PartialState

    PartialState(cpu=device == "cpu")
    group = joined()
    if group.size == 1:
        raise GroundlabError(f"several processes, and none finds a GPU for device {device}; use device=cpu")
    return group


def joined() -> Group:
    """The group that this process has joined; alone where it has not."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return SINGLE_PROCESS
    return Group(torch.distributed.get_rank(), torch.distributed.get_world_size())


def _added(tensor: Tensor) -> Tensor:
    from accelerate.utils import reduce

    with _told():
        return reduce(tensor, "sum")  # type: ignore[return-value]


@contextmanager
def _told() -> Iterator[None]:
    """A process that ends breaks the others' connections; only its own line says why."""
    try:
        yield
    except RuntimeError as error:
        raise GroundlabError("another process of this run has ended; its own line says why") from error


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Parameters of one type, in order, at most `_BUCKET` numbers at a time (or one parameter)."""
    bucket: list[nn.Parameter] = []
    for parameter in parameters:
        if bucket and (sum(p.numel() for p in [*bucket, parameter]) > _BUCKET or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket
