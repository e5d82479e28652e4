"""The process of a rehearsed run: the worker's `execute_run`, counted and killed in one update, or left to its end.

It is started as a worker is (lab/executor.py). Killed means SIGKILL, between an update's record and its checkpoint.
"""

import os
import signal
import time
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Progress, RunSpec, load_checkpoint
from groundlab.lab import hub
from groundlab.lab.worker import execute_run
from groundlab.papers import registry
from groundlab.papers.reasoning.ppo import MODEL

COUNTS = "counts.json"
MARK = {"rehearsal": True}
"""What the manifest of every rehearsed run holds; nothing that collects runs accepts it (lab/run_copy.py)."""
_aten = torch.ops.aten


class Counter(TorchDispatchMode):
    """Floating-point operations of products, and tokens that a language model reads, both ways and all."""

    def __init__(self) -> None:
        super().__init__()
        self.flop, self.tokens = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = func._overloadpacket
        if kind in flop_registry:
            self.flop += flop_registry[kind](*args, **(kwargs or {}), out_val=result)
        elif kind.__name__ == "_linear_pointwise":  # oneDNN's form of a layer
            self.flop += 2 * args[0].numel() * args[1].shape[0]
        elif kind.__name__ == "_scaled_dot_product_flash_attention_for_cpu":
            self.flop += flop_registry[_aten._scaled_dot_product_flash_attention](*args, out_val=result)
        elif kind is _aten._unique2:  # our own forwards read each different token once
            self.tokens += args[0].numel()
        elif kind is _aten.embedding and args[0].shape[0] >= 1000:
            self.tokens += args[1].numel()
        return result


def serve(descriptor: int) -> None:
    """Take one run from the pipe, `(spec as a dict, folder, update to be killed in or 0)`, run it, and say the end.

    Out: ("step", number, of how many, seconds of the checkpoint before it, its own seconds) at each update, and ("end",
    "" or the error's line). A killed process says no end.
    """
    with Connection(descriptor) as pipe, suppress(OSError):  # who started this may be gone
        spec, folder, last = pipe.recv()
        line = ""
        try:
            _rehearse(RunSpec(**spec), Path(folder), last, pipe)
        except GroundlabError as error:
            line = str(error)
        pipe.send(("end", line))


def _rehearse(spec: RunSpec, folder: Path, last: int, pipe: Connection) -> None:
    """The run; in its update `last` it writes down what that took, and ends the process."""
    counter, before, reported = Counter() if last else None, (0, 0), time.time()

    def report(news: Progress) -> None:
        nonlocal before, reported
        saved = max((file.stat().st_mtime for file in folder.glob("**/checkpoint.json")), default=0.0)
        ended, reported = reported, time.time()
        began = max(ended, saved)  # a checkpoint is written between two updates
        try:
            pipe.send(("step", news.step, news.total, began - ended, reported - began))
        except OSError:
            os._exit(1)  # who started this is gone
        if counter and news.step == last:
            counts = {"flop": counter.flop - before[0], "tokens": counter.tokens - before[1]}
            storage.write_json(folder / COUNTS, counts)
            os.kill(os.getpid(), signal.SIGKILL)
        if counter:
            before = (counter.flop, counter.tokens)

    with counter or nullcontext():
        execute_run(spec, folder, named=MARK, report=report)
    if registry.get(spec.method, spec.world).learns:
        load_checkpoint(folder)
        if (folder / MODEL).is_dir():
            hub.card(folder)
            hub.model_files(folder)
