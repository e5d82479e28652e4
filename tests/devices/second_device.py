"""A fake CUDA device: tensors on "cuda" whose numbers lie on the CPU, for machines without a GPU.

    with second_device() as traffic:
        learner = make_learner(spec)        # its settings say device=cuda
        learner.train_step(1)
    traffic.waits, traffic.to_device        # times that the CPU would have waited; copies of host memory to the device

Inside, a tensor that is moved to "cuda" says that it is there, and what is made of it is there too. Everything is
computed, by the CPU, so that real updates run; and what CUDA would refuse is refused with its words: tensors of two
devices in one operation, `numpy()` of a tensor on the device, a generator of another device, a sum kept on the wrong
side. Where a storage is, and not a tensor, is remembered: views and gradients follow. Operations are watched below
autograd (TorchDispatchMode), so that the backward pass is seen as well.

What it cannot show: speed, memory, streams, kernels that CUDA lacks, rounding. Two devices are known, the CPU and
cuda:0. Not for several threads: operations of another thread are not watched.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HERE = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_FACTORIES = (
    *("tensor", "as_tensor", "arange", "linspace", "zeros", "ones", "empty", "full", "eye", "rand", "randn"),
    *("randint", "randperm", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"),
)
_METHODS = ("new_tensor", "new_zeros", "new_ones", "new_empty", "new_full")
_SIZES = {"nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave", "equal"}
"""Operations whose result's size, or the result itself, the CPU has to know: it waits for the device."""
_ACROSS = {"copy_", "_copy_from", "_to_copy", "set_", "_has_compatible_shallow_copy_type"}
_MIXED = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({})"
_device_of = torch._C.TensorBase.device.__get__  # type: ignore[attr-defined]
_PRUNED_FROM = 4096


@dataclass
class Traffic:
    """What an agent made the two sides do for each other."""

    waits: int = 0
    """The CPU had to wait for all work on the device: it read a number, a list or a tensor, or had to know a size that
    depends on data, or sent what it did not send `non_blocking`."""
    to_device: int = 0
    """Tensors and lists copied from the CPU's memory to the device."""

    def since(self, before: "Traffic") -> "Traffic":
        """What has come since a copy was taken."""
        return Traffic(self.waits - before.waits, self.to_device - before.to_device)


class _Device(TorchDispatchMode):
    """Which storages are on the device; watches every operation."""

    def __init__(self, traffic: Traffic):
        super().__init__()
        self.traffic, self._storages = traffic, dict[int, StorageWeakRef]()
        self._homeless, self._prune_at = dict[int, StorageWeakRef](), _PRUNED_FROM
        self.in_python = 0

    def owns(self, tensor: Tensor) -> bool:
        """Whether a tensor is on the device."""
        return _device_of(tensor) == _CPU and tensor.untyped_storage()._cdata in self._storages

    def take(self, tensor: Any) -> Any:
        """Note that a tensor is on the device; other things are left alone."""
        if isinstance(tensor, Tensor) and _device_of(tensor) == _CPU:
            self.take_storage(tensor.untyped_storage())
        return tensor

    def take_storage(self, storage: Any) -> None:
        # The weak reference keeps the address from being given to another storage.
        reference = StorageWeakRef(storage)
        self._storages[reference.cdata] = reference
        if len(self._storages) >= self._prune_at:
            for key in [key for key, each in self._storages.items() if each.expired()]:
                del self._storages[key]
            self._prune_at = 2 * len(self._storages) + _PRUNED_FROM

    def holds(self, storage: Any) -> bool:
        return storage._cdata in self._storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        owned = [self.owns(each) for each in tensors]
        if not tensors and not self.in_python and torch._C._current_graph_task_id() != -1:
            return self._made_below(func(*args, **kwargs))
        if not any(owned):
            return func(*args, **kwargs)
        for each in tensors:
            self._adopt(each)
        owned = [self.owns(each) for each in tensors]
        self._check(func, name, args, kwargs, tensors, owned)
        made = func(*args, **kwargs)
        if name not in _ACROSS or self.owns(args[0]):
            for each in tree_leaves(made if name != "_pack_padded_sequence" else made[0]):  # sizes stay on the CPU
                self.take(each)
        return made

    def _made_below(self, made: Any) -> Any:
        """What autograd makes of the options of a gradient, as that of a selection: it will be where that is."""
        for each in tree_leaves(made):
            if isinstance(each, Tensor) and _device_of(each) == _CPU:
                reference = StorageWeakRef(each.untyped_storage())
                self._homeless[reference.cdata] = reference
        return made

    def _adopt(self, tensor: Tensor) -> None:
        if _device_of(tensor) == _CPU and self._homeless.pop(tensor.untyped_storage()._cdata, None) is not None:
            self.take(tensor)

    def _check(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[Tensor], owned: list[bool]) -> None:
        """Raise what CUDA raises, and count what makes the CPU wait."""
        generator = kwargs.get("generator")
        if generator is not None and generator.device.type != HERE.type:
            raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{generator.device.type}'")
        masked = name in ("index", "index_put_") and any(
            each is not None and each.dtype == torch.bool and self.owns(each) for each in args[1]
        )
        self.traffic.waits += name in _SIZES or name == "_local_scalar_dense" or masked
        if name in _ACROSS:
            if not all(owned):
                self.traffic.to_device += self.owns(args[0])
                self.traffic.waits += not (self.owns(args[0]) and name == "copy_" and args[2:3] == (True,))
            return
        if name in ("index", "index_put_", "index_put", "_index_put_impl_"):  # whose indices may come from the CPU
            places = [each for each in args[1] if each is not None]
            if not all(self.owns(each) for each in (args[0], *args[2:3])):
                raise RuntimeError(_MIXED.format(name))
            here = sum(not self.owns(each) for each in places)
            self.traffic.to_device, self.traffic.waits = self.traffic.to_device + here, self.traffic.waits + here
        elif name == "_pack_padded_sequence":
            if self.owns(args[1]):
                raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor")
        else:
            strict = name in ("cat", "stack") or name.startswith("_foreach")
            lost = any(not own and (strict or each.dim()) for each, own in zip(tensors, owned, strict=True))
            if lost and not (name.startswith("_foreach") and self._lists_agree(args)):
                raise RuntimeError(_MIXED.format(name))
            self._check_written(func, name, args)

    def _lists_agree(self, args: Any) -> bool:
        """Whether the lists of an operation on many tensors are on one device each, entry by entry."""
        lists = [[self.owns(each) for each in part] for part in args if isinstance(part, list | tuple) and part]
        return all(len(set(entry)) == 1 for entry in zip(*lists, strict=False))

    def _check_written(self, func: Any, name: str, args: Any) -> None:
        """What is written in place must be on the device, when anything that is read is."""
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.is_write and isinstance(value, Tensor) and not self.owns(value):
                raise RuntimeError(_MIXED.format(name))


def _is_here(device: Any) -> bool:
    return device is not None and torch.device(device).type == HERE.type


class _Patches:
    """What tensors say of themselves, and how they are made and moved, while the device is there."""

    def __init__(self, device: _Device):
        self._device = device

    def apply(self, stack: ExitStack) -> None:
        device = self._device

        def place(tensor: Tensor) -> torch.device:
            return HERE if device.owns(tensor) else _device_of(tensor)

        members: dict[str, Any] = {
            "device": property(place),
            "is_cuda": property(device.owns),
            "is_cpu": property(lambda tensor: place(tensor) == _CPU),
            "get_device": lambda tensor: 0 if device.owns(tensor) else -1,
            "to": self._moved(torch.Tensor.to),
            "cpu": lambda tensor, *_, **__: tensor.to(_CPU),
            "cuda": lambda tensor, *_, **__: tensor.to(HERE),
            "numpy": self._numpy(torch.Tensor.numpy),
            "tolist": self._tolist(torch.Tensor.tolist),
        }
        members |= {name: self._made(getattr(torch.Tensor, name)) for name in _METHODS}
        for name, member in members.items():
            stack.enter_context(patch.object(torch.Tensor, name, member))
        for name in _FACTORIES:
            stack.enter_context(patch.object(torch, name, self._made(getattr(torch, name))))
        clone = torch.UntypedStorage.clone
        stack.enter_context(patch.object(torch.UntypedStorage, "clone", self._cloned(clone)))
        grouped = torch._C._group_tensors_by_device_and_dtype
        stack.enter_context(patch.object(torch._C, "_group_tensors_by_device_and_dtype", self._grouped(grouped)))
        stack.enter_context(patch.object(torch.cuda, "is_available", lambda: True))
        stack.enter_context(patch.object(torch.cuda, "device_count", lambda: 1))
        # what optimizers and recurrent layers ask first; a torch for GPUs would look for a driver, or take cuDNN
        stack.enter_context(patch.object(torch.cuda, "is_current_stream_capturing", lambda: False))
        stack.enter_context(patch.object(torch.backends.cudnn, "is_acceptable", lambda tensor: False))

    def _moved(self, to: Callable) -> Callable:
        @wraps(to)
        def moved(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            own, target, rest = self._device.owns(tensor), kwargs.pop("device", None), list(args)
            if rest and isinstance(rest[0], Tensor):
                target, rest[0] = rest[0].device, rest[0].dtype
            elif rest and isinstance(rest[0], str | int | torch.device):
                target = rest.pop(0)
            options = {**dict(zip(("dtype", "non_blocking", "copy"), rest, strict=False)), **kwargs}
            waits = own or not options.get("non_blocking")
            options = {name: value for name, value in options.items() if value is not None and name != "non_blocking"}
            if target is not None and "meta" in (torch.device(target).type, _device_of(tensor).type):
                return to(tensor, target, **options)
            changed = to(tensor, **options) if options else tensor
            if target is None or _is_here(target) == own:
                return changed
            self._device.traffic.to_device += not own
            self._device.traffic.waits += waits
            return _Crossing.apply(changed, self._device, own)  # pyright: ignore[reportReturnType]

        return moved

    def _made(self, make: Callable) -> Callable:
        @wraps(make)
        def made(*args: Any, **kwargs: Any) -> Any:
            given = [each for each in tree_leaves(args[:1]) if isinstance(each, Tensor)]
            wanted, name = kwargs.get("device"), make.__name__
            follows = wanted is None and bool(given) and (name.endswith("_like") or name.startswith("new_"))
            here = _is_here(wanted) or (follows and self._device.owns(given[0]))
            if here:
                kwargs["device"] = "cpu"
            generator = kwargs.get("generator")
            if here and generator is not None and generator.device.type != HERE.type:
                raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{generator.device.type}'")
            self._device.in_python += 1
            try:
                result = make(*args, **kwargs)
            finally:
                self._device.in_python -= 1
            if wanted is not None and not here and isinstance(result, Tensor) and self._device.owns(result):
                return result.to(wanted)  # as zeros_like(tensor on the device, device="cpu")
            if here:
                copied = name in ("tensor", "as_tensor", "new_tensor")
                self._device.traffic.to_device += copied
                self._device.traffic.waits += copied
                self._device.take(result)
            return result

        return made

    def _numpy(self, numpy: Callable) -> Callable:
        @wraps(numpy)
        def read(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._device.owns(tensor):
                raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
            return numpy(tensor, *args, **kwargs)

        return read

    def _tolist(self, tolist: Callable) -> Callable:
        @wraps(tolist)
        def read(tensor: Tensor) -> Any:
            self._device.traffic.waits += self._device.owns(tensor)
            return tolist(tensor)

        return read

    def _grouped(self, grouped: Callable) -> Callable:
        """As optimizers see their tensors: by the device of the first of each tuple."""

        @wraps(grouped)
        def group(lists: Any, with_indices: bool = False) -> Any:
            found = grouped(lists, with_indices)
            return {(group[0][0][0].device, dtype): group for (_, dtype), group in found.items()}

        return group

    def _cloned(self, clone: Callable) -> Callable:
        @wraps(clone)
        def cloned(storage: Any) -> Any:
            result = clone(storage)
            if self._device.holds(storage):
                self._device.take_storage(result)
            return result

        return cloned


class _Crossing(torch.autograd.Function):
    """A copy on the other device, and its gradient back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, device: _Device, own: bool) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.device, ctx.own = device, own
        return _copied(tensor, device, own)

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _copied(change, ctx.device, not ctx.own), None, None


def _copied(tensor: Tensor, device: _Device, own: bool) -> Tensor:
    """A copy in a storage of its own, unknown to the device where the tensor was its `own`."""
    with torch._C._DisableTorchDispatch():
        copy = tensor.detach().clone(memory_format=torch.preserve_format)
    return copy if own else device.take(copy)


@contextmanager
def second_device() -> Iterator[Traffic]:
    """A device "cuda" for as long as the block lasts; yields what goes between it and the CPU."""
    device = _Device(Traffic())
    # torch collects once a process what `with torch.device("meta")` redirects. Collected from in here it would miss
    # torch's own functions ever after, and transformers, which builds on "meta", would load buffers that nobody wrote.
    _device_constructors()
    with ExitStack() as stack:
        _Patches(device).apply(stack)
        stack.enter_context(device)
        yield device.traffic
