"""A run that a launcher started as several processes: the first keeps its folder, the others only compute.

    accelerate launch --multi_gpu --num_processes 2 --module groundlab run glam --world ... --out DIR

The first process does what a lone one does (`worker.py`). The others follow: they restore the checkpoint that it
names, write nothing but what their libraries print (`log-1.txt`, ...), and stop when any process was asked to. All
must see the folder. The number of processes is no part of what a run is: another number may continue it, with the
same figures up to rounding (learning/distributed.py shares work and gradients).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.core.run import Checkpoint, Files, Run, RunSpec, load_checkpoint
from groundlab.learning import distributed
from groundlab.learning.distributed import SINGLE_PROCESS, Group
from groundlab.papers import registry


def join(spec: RunSpec) -> Group:
    """The group of processes that this one was launched in; alone where there is no launcher.

    Raises GroundlabError for a method that one process trains.
    """
    if not distributed.launched():
        return SINGLE_PROCESS
    if not getattr(registry.load(spec.method, spec.world), "DISTRIBUTED", False):
        raise GroundlabError(f"{spec.method} is trained by one process; start it without accelerate launch")
    return distributed.join(spec.settings["device"])


class PrimaryRun(Run):
    """A run as the first process of a group sees it, or a lone one."""

    def __init__(self, folder: Path, spec: RunSpec, group: Group, **options: Any):
        super().__init__(folder, spec, **options)
        self._group = group

    def restore(self) -> Checkpoint | None:
        checkpoint = super().restore()
        self._group.broadcast(checkpoint.step if checkpoint else None)
        return checkpoint


class ReplicaRun(Run):
    """A run as all processes but the first see it."""

    def __init__(self, folder: Path, spec: RunSpec, group: Group, stop: Callable[[], bool]):
        super().__init__(folder, spec, stop=stop)
        self._group = group

    def _claim_folder(self) -> None:
        """The first process has."""

    def restore(self) -> Checkpoint | None:
        step = self._group.broadcast()
        return None if step is None else load_checkpoint(self.folder / "checkpoint" / str(step))

    def say(self, line: str) -> None:
        """The first process says it."""

    def log(self, record: dict) -> None:
        """The first process does."""

    def advance(self, step: int, total: int, state: Callable[[], Files], **figures: float) -> None:
        if self._stop() and step < total:
            raise Unfinished(f"{self.spec.label} stopped at iteration {step} of {total}")

    def write_evaluation(self, evaluations: list) -> None:
        """The first process does."""


@contextmanager
def stop_together(group: Group) -> Iterator[None]:
    """After a stop, wait for the first process to save: the launcher ends all as soon as one has left."""
    try:
        yield
    except Unfinished:
        group.broadcast()
        raise
