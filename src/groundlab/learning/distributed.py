"""One agent, several processes: each reads its share of the prompts, all take the same steps.

    accelerate launch --multi_gpu --num_processes 2 --module groundlab run glam --world BabyAI-GoToObj-v0 --out DIR

Every process holds the whole model, draws the same random numbers and steps the same environments. Prompts are dealt
out; their scores and values come back to all, and so do the gradients of a minibatch (`GradientSum`), so that a step
is the one that a single process takes, up to rounding (with dropout: up to the masks). What Lamorel's servers did,
accelerate and torch's collectives do here, without a server.

Gradients are added up bucket by bucket during the backward pass. torch's DistributedDataParallel does that too, but
asks every process for as many ways back, each through all weights. Here one may read more parts than another, or none.

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
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from groundlab.core.errors import GroundlabError
from groundlab.learning.devices import send
from groundlab.learning.master_weights import leaves_of, parameters_of

_BUCKET = 2**23  # numbers that are added up at once, 32 MB: few messages, most of them within the backward pass


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


class GradientSum:
    """The gradients of all processes for one step, added up in buckets during the backward pass.

    gradients = GradientSum(group, optimizer)
    ...                                  # ways back whose gradients stay here for now
    gradients.begin()                    # before the last one: from here on a bucket leaves as soon as it is full
    losses = gradients.finish(losses)    # in every process, whether it read anything or not

    All processes send the same buckets in the same order, from the last weights to the first, which is about the order
    of a backward pass. A weight that no process reached keeps no gradient.
    """

    def __init__(self, group: Group, optimizer: torch.optim.Optimizer):
        self._group = group
        if group.size == 1:
            return
        parameters, leaves = parameters_of(optimizer), leaves_of(optimizer)
        self._buckets = list(_buckets(parameters[::-1]))
        self._missing = [set(range(len(bucket))) for bucket in self._buckets]
        places = [(number, place) for number, bucket in enumerate(self._buckets) for place in range(len(bucket))]
        self._leaves = list(zip(leaves[::-1], places, strict=True))
        self._sent: list[tuple[Tensor, Any]] = []
        self._hooks: list[RemovableHandle] = []

    def begin(self) -> None:
        """Say that the next backward pass is the last of this process."""
        if self._group.size == 1:
            return
        for leaf, (bucket, place) in self._leaves:  # after the hooks that hand a gradient over to its master
            self._hooks.append(leaf.register_post_accumulate_grad_hook(partial(self._reached, bucket, place)))

    def _reached(self, bucket: int, place: int, _: Tensor) -> None:
        if bucket < len(self._sent):
            raise GroundlabError("a weight has two gradients in one backward pass; give gradient_checkpointing=false")
        self._missing[bucket].discard(place)
        while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
            self._send()

    def finish(self, figures: Tensor) -> Tensor:
        """Wait for the sums, which become the weights' gradients, and for that of `figures` [F], which is returned."""
        if self._group.size == 1:
            return figures
        for hook in self._hooks:
            hook.remove()
        while len(self._sent) < len(self._buckets):  # those that this process did not reach all of
            self._send()
        added = _added(figures)
        with _told():
            for _, work in self._sent:
                work.wait()
        sums = [flat for flat, _ in self._sent]
        flags = torch.cat([flat[-len(bucket) :] for flat, bucket in zip(sums, self._buckets, strict=True)])
        reached = iter(flags.tolist())
        for flat, bucket in zip(sums, self._buckets, strict=True):
            parts = flat[: -len(bucket)].split([parameter.numel() for parameter in bucket])
            for parameter, part in zip(bucket, parts, strict=True):
                parameter.grad = part.view_as(parameter) if next(reached) else None
        return added

    def _send(self) -> None:
        """The next bucket on its way: gradients, then for each whether this process has one."""
        bucket = self._buckets[len(self._sent)]
        reached = torch.tensor([float(parameter.grad is not None) for parameter in bucket], dtype=bucket[0].dtype)
        own = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([*(gradient.flatten() for gradient in own), send(reached, bucket[0].device)])
        for parameter in bucket:
            parameter.grad = None  # so that nothing is there twice
        with _told():
            self._sent.append((flat, torch.distributed.all_reduce(flat, async_op=True)))


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
    bucket, size = list[nn.Parameter](), 0
    for parameter in parameters:
        size += parameter.numel()
        if bucket and (size > _BUCKET or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], parameter.numel()
        bucket.append(parameter)
    if bucket:
        yield bucket
