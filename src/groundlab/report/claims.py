"""What the papers claim, as data: the schema of configs/<paper>/claims.yaml, and the published values in tables.

A claim names the place in the paper, the published value and the stored rows that it is about (`select`). It says how
equal is equal (`tolerance`, with the `source` of that choice), and which command measures it again. Five tolerances:

    exact        equal after rounding to the decimals that were published
    numeric      at most `within` away, or inside `range`; a metric named in neither must be exact
    interval     the published value lies inside our 95 % interval
    ordering     the interval of a difference lies on the stated side of 0 (`compare`)
    equivalence  the interval of a difference lies within a `margin`, which names its source

`kind: own` marks our own bars, controls and findings, `kind: later work` what others published of these worlds after
the paper: they are judged alike and counted apart. Of a `family`, claims that compare several arms in one exhibit, one
is `primary`; the others are judged at Bonferroni's level.

Numbers are quoted in the YAML, because their decimals count. Which metrics and policies a claim may name, and what its
sides are called, is said by its paper (`Paper.metrics`, `policies`, `short_names`).
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from groundlab.core import plugins
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import parse
from groundlab.core.yaml_files import read_yaml

Tolerance = Literal["exact", "numeric", "interval", "ordering", "equivalence"]
Scale = Literal["smoke", "quick", "full", "paper"]
Direction = Literal["lower", "higher", "not lower", "not higher"]


def _quoted(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be a quoted number, so that its decimals are kept")
    return value


Number = Annotated[Decimal, BeforeValidator(_quoted)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Selector(_Strict):
    """The stored rows of one method in one world."""

    method: str
    world: str
    policy: str = "rule"
    """How it was played: one of its paper's `policies`."""
    kind: str | None = None
    """Only the layouts of one task kind, of a mixed world."""
    settings: dict[str, Any] = {}
    when: Literal["end", "worst test", "training", "first tenth", "last tenth", "at"] = "end"
    """The final evaluation; each seed's mean of its least successful test during training; its training episodes,
    averaged over all frames (the sample efficiency of docs/papers/glam.md#env-5-2); the ends of its training; or the
    success of its last training episodes after so many `frames`."""
    frames: int | None = None

    @model_validator(mode="after")
    def _names_its_frames(self) -> "Selector":
        if (self.when == "at") != (self.frames is not None):
            raise ValueError("when: at needs frames, and frames need when: at")
        return self

    @property
    def key(self) -> str:
        """Its data as JSON: equal for equal selections, however they were written."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True)

    def short(self, names: Mapping[str, str]) -> str:
        """`always`, `ours (argmax)`: its method, or what the paper's `short_names` call it or one of its settings."""
        keys = (*(f"{key}={value}" for key, value in self.settings.items()), self.method)
        name = next((names[key] for key in keys if key in names), self.method)
        if self.when in ("training", "first tenth", "last tenth"):
            return f"{name} ({self.when})"
        if self.frames is not None:
            return f"{name} (at {self.frames:,} frames)"
        if self.when == "worst test":
            return f"{name} ({self.policy}, worst test)"
        return name if self.policy in ("rule", "sampled", self.method) else f"{name} ({self.policy})"

    def __str__(self) -> str:
        settings = "".join(f", {key} {value}" for key, value in self.settings.items())
        policy = "" if self.policy in ("rule", self.method) else f", {self.policy}"
        policy += "" if self.when == "end" else f", {self.when}"
        kind = f", {self.kind}" if self.kind else ""
        return f"{self.method} in {self.world}{kind}{policy}{settings}"


class Comparison(_Strict):
    """`of` is lower (or higher, or not lower, or not higher) in a metric than `than`; `by` so much, where set."""

    metric: str
    direction: Direction
    of: Selector
    than: Selector
    by: Number = Decimal(0)
    """What the difference itself must reach besides, in the unit of the metric."""
    measure: Literal["difference", "permutation"] = "difference"
    """How they are compared: by the interval of the difference of their means, or by an exact one-sided permutation
    test of the seeds' means (`statistics.permutation_p`)."""


class Margin(_Strict):
    """How large a difference still counts as none, in the unit of the metric."""

    points: Number
    source: str
    """Where these points come from."""


class Claim(_Strict):
    """One statement that stored results can confirm or refute."""

    id: str
    paper: str
    locus: str
    statement: str
    tolerance: Tolerance
    source: str
    """Where the tolerance comes from."""
    command: str = ""
    scales: tuple[Scale, ...] = ("quick", "full", "paper")
    kind: Literal["paper", "own", "later work"] = "paper"
    family: str = ""
    primary: bool = False
    published: dict[str, Number] = {}
    """What the paper prints, or the later work."""
    episodes: int | None = None
    """How many episodes a published success rate is of: its own noise then counts in class `interval`."""
    error_bar: dict[str, Number] = {}
    """Half the height of the error bar that the paper draws on its published value; shown, never judged by."""
    original: dict[str, Number] = {}
    """What the authors' released code gave when it was run again."""
    against: Literal["published", "original"] = "published"
    layouts: Literal["drawn", "fixed"] = "drawn"
    """fixed: the value that it is held against is of the very same test layouts, so only seeds vary."""
    within: dict[str, Number] = {}
    range: dict[str, tuple[Number, Number]] = {}
    failed_layouts: tuple[int, ...] | None = None
    """The test layouts that every seed fails on, and no others."""
    select: Selector | None = None
    compare: tuple[Comparison, ...] = ()
    margin: Margin | None = None
    not_run: str | None = None
    """Why no scale runs this."""

    @property
    def expected(self) -> dict[str, Decimal]:
        """The values that fresh ones are held against."""
        return self.published if self.against == "published" else self.original

    @property
    def selectors(self) -> list[Selector]:
        """All stored rows that it is about."""
        sides = [side for each in self.compare for side in (each.of, each.than)]
        return ([self.select] if self.select else []) + sides

    @model_validator(mode="after")
    def _in_words_of_its_paper(self) -> "Claim":
        papers = plugins.load(plugins.PAPERS)
        if self.paper not in papers:
            raise ValueError(f"{self.id} names the paper {self.paper!r}; papers are {', '.join(papers)}")
        paper = papers[self.paper]
        by_metric = (self.published, self.error_bar, self.original, self.within, self.range)
        metrics = {metric for each in by_metric for metric in each} | {each.metric for each in self.compare}
        policies = {each.policy for each in self.selectors if "policy" in each.model_fields_set}
        wrong = [each for each in metrics if each not in paper.metrics]
        if wrong:
            raise ValueError(f"{self.id} names the metric {wrong[0]!r}; it must be one of {', '.join(paper.metrics)}")
        wrong = [each for each in policies if not any(fnmatchcase(each, pattern) for pattern in paper.policies)]
        if wrong:
            raise ValueError(f"{self.id} names the policy {wrong[0]!r}; it must be one of {', '.join(paper.policies)}")
        return self

    @model_validator(mode="after")
    def _can_be_judged(self) -> "Claim":
        if self.not_run is not None:
            return self
        if not self.command:
            raise ValueError(f"{self.id} needs a command that measures it again")
        compares = self.tolerance in ("ordering", "equivalence")
        if compares and not self.compare:
            raise ValueError(f"{self.id} is an {self.tolerance} and needs compare")
        if (self.tolerance == "equivalence") != (self.margin is not None):
            raise ValueError(f"{self.id} needs a margin, and tolerance equivalence, or neither")
        if self.kind == "own" and self.published:
            raise ValueError(f"{self.id} is our own and has published values; they belong to the paper's claims")
        if self.primary and not self.family:
            raise ValueError(f"{self.id} is primary of no family; name the family")
        values = self.expected or self.range or self.failed_layouts is not None
        if not compares and not (self.select and values):
            raise ValueError(f"{self.id} needs select, and {self.against} values, a range or failed_layouts")
        return self


class _ClaimsFile(_Strict):
    claims: tuple[Claim, ...]


@cache
def load_claims(paper: str | None = None) -> tuple[Claim, ...]:
    """The claims of one paper, or of all. Raises GroundlabError naming what is wrong in which file."""
    offered = plugins.load(plugins.PAPERS)
    here = [name for name in offered if offered[name].is_here]
    files = [offered[name].config_folder / "claims.yaml" for name in ([paper] if paper else here)]
    claims = [claim for file in files if file.is_file() for claim in read_claims(file)]
    return _consistent(claims)


def _consistent(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    names = [claim.id for claim in claims]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise GroundlabError(f"claim id {repeated[0]!r} is used twice; ids name one claim each")
    primaries = [claim.family for claim in claims if claim.primary]
    for family in {claim.family for claim in claims} - {""}:
        if primaries.count(family) != 1:
            raise GroundlabError(f"{primaries.count(family)} claims of family {family!r} are primary; mark one")
    return tuple(claims)


def read_claims(path: Path) -> tuple[Claim, ...]:
    """The claims in one file. Raises GroundlabError naming what is wrong in it."""
    if not path.exists():
        raise GroundlabError(f"{path} does not exist; restore it (git checkout configs)")
    content = read_yaml(path, fix="mend that line")
    return _consistent(parse(_ClaimsFile, content, str(path)).claims)


def published_cells(paper: str, table: str) -> dict[tuple[str, str], dict[str, float]]:
    """The published values of a table by (world, method): what several claims say about one cell, merged."""
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for claim in load_claims(paper):
        if claim.select and claim.locus.startswith(f"{table},"):
            cell = cells.setdefault((claim.select.world, claim.select.method), {})
            cell.update({metric: float(value) for metric, value in claim.published.items()})
    return cells
