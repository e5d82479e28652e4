"""The schema of `configs/<paper>/<scale>.yaml`: which runs a paper needs at a scale.

The YAML holds values, this file holds the schema; unknown or ill-typed keys are refused with the nearest valid name.
Method settings inside it are checked later, by the method's own schema.
"""

from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from groundlab.core.bounds import MOST_SEEDS
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.paths import repository_root
from groundlab.core.schema import Strict, parse
from groundlab.core.versions import Scale
from groundlab.core.yaml_files import read_yaml
from groundlab.papers import registry
from groundlab.papers.method import Paper

SCALES: tuple[Scale, ...] = get_args(Scale)


class Estimate(Strict):
    """Cost of one run: seconds of a CPU core, or of a GPU where it asks for one."""

    seconds: float = Field(ge=0, strict=True)
    megabytes: float = Field(ge=0, strict=True)


def _once(names: list[str]) -> list[str]:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"names {twice[0]} twice; each run is made once")
    return names


class Entry(Strict):
    """One line of the grid: a method on some worlds, each repeated over `seeds` seeds from `first_seed` on.

    Without `seeds` the outcome does not depend on the seed: one run (seed 0), also under `--seeds N`.
    """

    method: str
    arm: str = Field("", pattern=r"^$|^[\w.+ -]+(/[\w.+ -]+/[\w.+ -]+)?$")
    """The arm that tables and figures count these runs to: an agent, `code`, or a variant of one, `code/quirks/late`
    (who, what is varied, its value). By default the method."""
    label: str = ""
    """The arm in words for a reader: of a variant every setting in which it differs from the agent's usual arm; of an
    agent its name, where its paper's styles have none."""
    worlds: Annotated[list[str], AfterValidator(_once)] = Field(min_length=1)
    seeds: int | None = Field(default=None, ge=1, le=MOST_SEEDS, strict=True)
    first_seed: int = Field(default=0, ge=0, strict=True)
    experiments: list[str] = Field([])
    """The paper's experiments that need these runs, by name: `reproduce --experiment E3` takes only theirs."""
    alone: bool = False
    """Runs that only `--experiment NAME` asks for: no part of the whole plan; they make a version by themselves."""
    keep: list[Annotated[str, Field(pattern="^[a-z]+$")]] = Field([])
    """What versions hold of the entry's first run beside its records: `weights`, or the names of its folders."""
    settings: dict[str, Any] = Field({})
    estimate: Estimate
    note: str = ""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if "/" in self.arm and not self.label:
            raise ValueError(f"arm {self.arm} has no label; say in words in which settings it differs")
        return self


class Experiment(Strict):
    """A paper at a scale: its runs, its pages, and what this scale leaves out."""

    paper: str
    scale: Scale
    notebooks: list[Annotated[str, Field(pattern=r"^[\w-]+\.ipynb$")]] = Field([])
    """Files in `notebooks/`, executed in this order; with none the review page is all that is made."""
    shared: dict[str, dict[str, Any]] = Field({})
    """Settings that entries take over by YAML anchors; what a plan prints once for all of them."""
    runs: list[Entry]
    estimates: str = ""
    """Where the entries' estimates come from: measured, by whom and when, or counted, from what."""
    not_run: list[str] = Field([])


def known_papers() -> list[str]:
    """The papers that have a config at any scale. Raises GroundlabError outside a clone if no package adds one."""
    offered = [paper for paper in registry.papers().values() if paper.is_here]
    if not offered:
        repository_root()
    return sorted(paper.name for paper in offered if any(_file(paper, scale).is_file() for scale in SCALES))


def _file(paper: Paper, scale: str) -> Path:
    return paper.config_folder / f"{scale}.yaml"


def check_scale(scale: str) -> Scale:
    """`scale` itself; raises GroundlabError naming the nearest scale when there is no such one."""
    if scale in SCALES:
        return scale
    raise unknown_name("scale", scale, SCALES)


def load(paper: str, scale: str) -> Experiment:
    """The experiment of one paper at one scale.

    Raises GroundlabError for unknown names and bad keys, and outside a clone for groundlab's own papers.
    """
    check_scale(scale)
    offered = registry.papers().get(paper)
    if offered is None or (offered.is_here and paper not in known_papers()):
        raise unknown_name("paper", paper, known_papers())
    file = _file(offered, scale)
    where = f"configs/{paper}/{file.name}" if offered.configs is None else str(file)  # ours by their place in a clone
    if not file.is_file():
        raise GroundlabError(f"{paper} has no runs at scale {scale}: {where} does not exist; choose another --scale")
    experiment = parse(Experiment, read_yaml(file, where), where)
    if (experiment.paper, experiment.scale) != (paper, scale):
        raise GroundlabError(f"{where} says paper {experiment.paper!r}, scale {experiment.scale!r}; correct the file")
    return experiment
