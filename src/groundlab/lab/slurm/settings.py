"""What tasks ask of a cluster: one file for all runs, with blocks for those that need a GPU, for methods, for pages.

A run asks for no more than it needs: `gpus` counts only for runs whose settings say `device: cuda`. configs/slurm.yaml
explains each key.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.schema import Strict, parse
from groundlab.core.yaml_files import read_yaml
from groundlab.lab.plan import PlannedRun
from groundlab.papers import registry

Options = dict[str, str | int | bool]


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

    @field_validator("save_seconds")
    @classmethod
    def _before_the_limit(cls, seconds: int, info: ValidationInfo) -> int:
        if seconds >= 60 * info.data.get("minutes", seconds):
            raise ValueError("must be shorter than the time limit, `minutes`")
        return seconds

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
    blocks = {"gpu_runs": settings.gpu_runs, "pages": settings.pages, **settings.methods}
    for where, block in {str(file): Block(), **{f"{file}: {name}": block for name, block in blocks.items()}}.items():
        parse(SlurmSettings, settings.merged({}, block), where)  # each block with the rest of the file
    return settings


def pack(runs: Iterable[PlannedRun], settings: SlurmSettings) -> list[tuple[SlurmSettings, list[PlannedRun]]]:
    """The tasks of some runs, the longest first, each with what it asks for.

    A run that is estimated at `pack_minutes` or more is a task of its own; shorter ones that ask for the same share
    one, up to that sum and to half the time limit.
    """
    tasks: list[tuple[SlurmSettings, list[PlannedRun]]] = []
    open_packs: dict[str, tuple[list[PlannedRun], float]] = {}
    for run in sorted(runs, key=lambda each: -each.estimate.seconds):
        asks = settings.for_run(run)
        most, key = 60 * min(settings.pack_minutes, asks.minutes / 2), asks.model_dump_json()
        others, seconds = open_packs.get(key, ([], most))
        if not others or seconds + run.estimate.seconds > most:
            others, seconds = [], 0.0
            tasks.append((asks, others))
        others.append(run)
        open_packs[key] = others, seconds + run.estimate.seconds
    return tasks
