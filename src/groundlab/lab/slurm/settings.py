"""What tasks ask of a cluster: one file for all runs, with blocks for those that need a GPU, for methods, for pages.

A run asks for no more than it needs: `gpus` counts only for runs whose settings say `device: cuda`. configs/slurm.yaml
explains each key.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.schema import Strict, parse
from groundlab.core.yaml_files import read_yaml
from groundlab.lab.plan import PlannedRun
from groundlab.papers import registry

Options = dict[str, str | int | bool]
_SHORT_SECONDS = 120.0  # a run of less shares a task: the start of a process would be a large part of it


class Block(Strict):
    """What some tasks ask for in place of the whole file's values; a key that is left out changes nothing."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    minutes: int = Field(default=60, ge=1)
    save_seconds: int = Field(default=90, ge=1)
    memory_gb: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    cpus: int = Field(default=1, ge=1)
    gpus: int = Field(default=1, ge=0)
    nv: bool | None = None
    sbatch: Options = Field(default={})


class SlurmSettings(Block):
    """What a task asks of the cluster; `configs/slurm.yaml` explains each."""

    gpu_runs: Block = Block()
    methods: dict[str, Block] = Field(default={})
    pages: Block = Block()
    at_once: int = Field(default=256, ge=1)
    submit_at_most: int = Field(default=300, ge=1)
    pack_minutes: float = Field(default=10, ge=0, allow_inf_nan=False)
    image: Path | None = None
    runtime: Literal["apptainer", "singularity"] = "apptainer"
    bind: list[str] = Field(default=[])
    setup: list[str] = Field(default=[])

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: dict[str, Block]) -> dict[str, Block]:
        known = {method.name for _, method in registry.methods()}
        for name in methods:
            if name not in known:
                raise ValueError(str(unknown_name("method", name, sorted(known))))
        return methods

    def for_run(self, run: PlannedRun) -> "SlurmSettings":
        """What the task of a run asks for: its method's block over that of GPU runs over the rest of the file."""
        own = self.methods.get(run.spec.method, Block())
        if run.needs_gpu:
            return SlurmSettings(**self.merged({"nv": True if self.nv is None else self.nv}, self.gpu_runs, own))
        return SlurmSettings(**self.merged({"gpus": 0, "nv": bool(self.nv)}, own))

    def for_pages(self) -> "SlurmSettings":
        """What the job asks for that makes tables, figures and pages."""
        return SlurmSettings(**self.merged({"gpus": 0, "nv": bool(self.nv)}, self.pages))

    def merged(self, first: dict[str, Any], *blocks: Block) -> dict[str, Any]:
        """All values, with those of `first` and then of each block in their place; options of sbatch add up."""
        values = {**{name: getattr(self, name) for name in SlurmSettings.model_fields}, **first}
        for block in blocks:
            given = {name: getattr(block, name) for name in block.model_fields_set}
            values |= {**given, "sbatch": {**values["sbatch"], **block.sbatch}}
        return values


def load_settings(file: Path | None) -> SlurmSettings:
    """The settings in a YAML file; without one, the cluster's own defaults.

    Raises GroundlabError for a missing or broken file, an unknown key, and an image that is not there.
    """
    if file is None:
        return SlurmSettings()
    if not file.is_file():
        raise GroundlabError(f"{file} does not exist; copy configs/slurm.yaml and fill it in")
    settings = parse(SlurmSettings, read_yaml(file) or {}, str(file))
    if settings.image and not settings.image.is_file():
        raise GroundlabError(f"{file}: image {settings.image} does not exist; build it with `nox -s container`")
    return settings


def arrays(
    runs: Iterable[PlannedRun], settings: SlurmSettings, room: int
) -> list[tuple[SlurmSettings, list[list[PlannedRun]]]]:
    """Job arrays of `room` tasks in all for the longest of some runs: what a task asks for, and the runs of each.

    A run is a task of its own, except that those under two minutes that ask for the same share one, up to
    `pack_minutes`. One that failed before stands alone, in case it takes its whole task down.
    """
    kinds: dict[str, tuple[SlurmSettings, list[list[PlannedRun]]]] = {}
    shared: dict[str, list[PlannedRun]] = {}
    for run in sorted(runs, key=lambda each: -each.estimate.seconds):
        asks = settings.for_run(run)
        key = asks.model_dump_json()
        is_short = run.estimate.seconds < _SHORT_SECONDS and run.status != "failed"
        together = [*shared.get(key, []), run]
        if is_short and key in shared and sum(each.estimate.seconds for each in together) <= 60 * asks.pack_minutes:
            shared[key].append(run)
        elif room > 0:
            room -= 1
            kinds.setdefault(key, (asks, []))[1].append([run])
            if is_short:
                shared[key] = kinds[key][1][-1]
    return list(kinds.values())
