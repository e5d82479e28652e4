"""What a paper and a method are, as data: a paper's package offers one `PAPER`, which lists its methods and exhibits.

A method's module offers

    make_learner(spec, run=None) -> Learner      where it learns (training.py)
    evaluate(request) -> evaluations             where it follows a rule
    Settings                                     its pydantic schema, unless its row names another (`Method.settings`)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from groundlab.core.paths import find_root, repository_root
from groundlab.core.run import Checkpoint

GRID, DOOR_KEY, CRAFTER = "grid", "door-key", "crafter"


@dataclass(frozen=True)
class Method:
    """A method as plans know it."""

    name: str
    module: str
    """Its module, full name: imported when it is needed, so listing methods costs nothing."""
    summary: str
    learns: bool = False
    families: tuple[str, ...] = (GRID,)
    """Families of worlds that it runs on. One name may stand for two methods of different families (`random`)."""
    worlds: tuple[str, ...] = ()
    """Patterns of names: only what fits one ("Reasoning-*"), and nothing that fits one after a "!"; none: all."""
    settings: str = ""
    """Its schema, "module:Class", where that is not the module's `Settings`: plans read it without loading torch."""
    assets: tuple[str, ...] = ()
    """Text that it reads, as patterns below groundlab/assets: part of what names its runs."""
    behaviour: int = 1
    """Goes up when results of the method change, which renames its runs (docs/artifact.md)."""
    formerly: tuple[str, ...] = ()
    """Names that it had, the oldest first: still understood, and no reason to rename a run."""


@dataclass(frozen=True)
class Paper:
    """A paper: its methods, its exhibits, its pages, and where its configs and notebooks are."""

    name: str
    title: str
    question: str
    """What it asks, in some ten words."""
    methods: tuple[Method, ...]
    exhibits: tuple[str, ...] = ()
    """Modules, full names, whose `@exhibit` functions draw its tables and figures."""
    metrics: tuple[str, ...] = ("success", "steps", "return")
    """The metrics that its claims may name."""
    policies: tuple[str, ...] = ("rule", "sampled", "argmax")
    """How its agents are played, as patterns (`sampled *`): the policies that its claims may name."""
    short_names: Mapping[str, str] = field(default_factory=dict)
    """What verdicts call a side of a comparison, by its method or by `setting=value`; others by their method."""
    former_names: Mapping[str, str] = field(default_factory=dict)
    """Former names of its policies, metrics and settings, each with today's: stored records may use either."""
    page_tables: tuple[str, ...] = ()
    """The tables (ids of exhibits) that its page in docs shows, from its published results."""
    url: str = ""
    """Where the publication can be read."""
    configs: Path | None = None
    """The folder of {smoke,quick,full,paper,claims}.yaml; None: configs/<name> in the repository."""
    notebooks: Path | None = None
    """The folder of its notebooks; None: notebooks/ in the repository."""

    @property
    def is_here(self) -> bool:
        """Whether its configs can be read: those of groundlab's own papers are in a clone only."""
        return self.configs is not None or find_root() is not None

    @property
    def config_folder(self) -> Path:
        """Where its configs and claims are."""
        return self.configs or repository_root() / "configs" / self.name

    @property
    def notebook_folder(self) -> Path:
        """Where its notebooks are."""
        return self.notebooks or repository_root() / "notebooks"

    @staticmethod
    def check_names(method: str, world: str, settings: Mapping[str, Any], kind: str | None = None) -> None:
        """Raises GroundlabError for a method, world, setting or kind that does not exist (`registry.check_names`)."""
        import_module("groundlab.papers.registry").check_names(method, world, settings, kind)


@dataclass(frozen=True)
class Request:
    """An evaluation that was asked for: `settings` are resolved."""

    method: str
    world: str
    seed: int
    settings: dict[str, Any]
    checkpoint: Checkpoint | None = None
