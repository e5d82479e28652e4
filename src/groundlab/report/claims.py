"""What the papers claim, as data: the schema of configs/<paper>/claims.yaml, and the published values in tables.

A claim names the place in the paper, the published value and the stored rows that it is about (`select`). It says how
equal is equal (`tolerance`, with the `source` of that choice). Five tolerances:

    exact        equal after rounding to the decimals that were published
    numeric      at most `within` away, or inside `range`; a metric named in neither must be exact
    interval     the published value lies inside our 95 % interval, which is at most as wide as the `margin`
    ordering     the interval of a difference lies on the stated side of 0 (`compare`)
    equivalence  the interval of a difference lies within a `margin`, which names its source

"Not lower" and "not higher" mean: by less than a `margin`. "Not significantly higher" is for a paper that says so: it
holds where no such difference is found.

`kind: baseline` marks a paper's rows of random agents and ceilings, `own` our own bars, controls and findings, `later
work` what others published of these worlds after the paper: they are judged alike and counted apart. Of a `family`,
claims that compare several arms in one exhibit, one is `primary`; the others are judged at Bonferroni's level.

Numbers are quoted in the YAML, because their decimals count. Which metrics and policies a claim may name, and what its
sides are called, is said by its paper (`Paper.metrics`, `policies`, `short_names`).
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from groundlab.core import plugins
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict, parse
from groundlab.core.versions import Scale
from groundlab.core.yaml_files import read_yaml

Tolerance = Literal["exact", "numeric", "interval", "ordering", "equivalence"]
Kind = Literal["paper", "baseline", "own", "later work"]
KINDS = {kind: kind for kind in get_args(Kind)} | {"baseline": "baseline of the paper", "own": "our check"}
"""Names of the kinds on pages; each kind is counted apart."""
Direction = Literal["lower", "higher", "not lower", "not higher", "not significantly higher"]


def _quoted(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be a quoted number, so that its decimals are kept")
    return value


Number = Annotated[Decimal, BeforeValidator(_quoted)]


def settings_fit(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether settings have the wanted values; a wanted list may be the value itself or hold it."""
    found = ((settings.get(key), value) for key, value in wanted.items())
    return all(has == value or (isinstance(value, list) and has in value) for has, value in found)


class Selector(Strict):
    """The stored rows of one method in one world."""

    method: str
    world: str
    policy: str = "rule"
    """How it was played: one of its paper's `policies`."""
    kind: str | None = None
    """Only the layouts of one task kind, of a mixed world."""
    settings: dict[str, Any] = Field(default={})
    """What must hold in the run; of a list any value does, e.g. the models of two scales."""
    when: Literal["end", "worst test", "training", "first tenth", "last tenth", "last tests", "fall", "at"] = "end"
    """The final evaluation; each seed's mean of its least successful test during training; its training episodes,
    averaged over all frames (the sample efficiency of docs/papers/glam-method.md#env-5-2); the ends of its training;
    the mean of its last five tests during training; how far its last record of a metric lies below its best; or the
    success of its last training episodes after so many `frames`."""
    frames: int | None = None
    label: str = ""
    """What a comparison calls this side, where its method does not tell it from the other."""
    published: Number | None = None
    """What the paper prints for this side of a comparison."""

    @model_validator(mode="after")
    def _names_its_frames(self) -> "Selector":
        if (self.when == "at") != (self.frames is not None):
            raise ValueError("when: at needs frames, and frames need when: at")
        return self

    @property
    def key(self) -> str:
        """Its rows as JSON: equal for equal selections, however they were written or are called."""
        rows = self.model_dump(mode="json", exclude_defaults=True, exclude={"label", "published"})
        return json.dumps(rows, sort_keys=True)

    def short(self, names: Mapping[str, str]) -> str:
        """`always`, `ours (argmax)`: its label, else its method or what the paper's `short_names` call it."""
        if self.label:
            return self.label
        keys = (*(f"{key}={value}" for key, value in self.settings.items()), self.method)
        name = next((names[key] for key in keys if key in names), self.method)
        if self.when in ("first tenth", "last tenth"):
            return f"{name}, {self.when}"
        return name if self.policy in ("rule", "sampled", self.method) else f"{name} ({self.policy})"

    def fits(self, method: str, world: str, settings: Mapping[str, Any]) -> bool:
        """Whether a run of this method in this world, with these settings, has rows of it."""
        same = (method, world) == (self.method, self.world)
        return same and settings_fit(settings, self.settings)

    def __str__(self) -> str:
        values = {key: " or ".join(map(str, v)) if isinstance(v, list) else v for key, v in self.settings.items()}
        settings = "".join(f", {key} {value}" for key, value in values.items())
        policy = "" if self.policy in ("rule", self.method) else f", {self.policy}"
        policy += "" if self.when == "end" else f", {self.when}"
        kind = f", {self.kind}" if self.kind else ""
        return f"{self.method} in {self.world}{kind}{policy}{settings}"


class Margin(Strict):
    """How large a difference still counts as none, in the unit of the metric."""

    points: Number | dict[str, Number]
    """For all metrics, or by metric."""
    source: str
    """Where these points come from."""

    def of(self, metric: str) -> Decimal | None:
        """That of a metric; None where it has none."""
        return self.points.get(metric) if isinstance(self.points, dict) else self.points


class Comparison(Strict):
    """`of` is lower (or higher, not lower, ...) in a metric than `than`; `by` so much, where set."""

    metric: str
    direction: Direction
    of: Selector
    than: Selector
    by: Number = Decimal(0)
    """What the difference itself must reach besides, in the unit of the metric."""
    margin: Margin | None = None
    """Of this comparison alone; else that of the claim counts."""
    beside: tuple[Selector, ...] = ()
    """What is shown beside the two sides, such as chance, and not judged."""
    measure: Literal["difference", "permutation"] = "difference"
    """How they are compared: by the interval of the difference of their means, or by an exact one-sided permutation
    test of the seeds' means (`statistics.permutation_p`)."""

    @property
    def sides(self) -> tuple[Selector, ...]:
        """`of`, `than`, and the sides shown next to them."""
        return (self.of, self.than, *self.beside)


class Claim(Strict):
    """One statement that stored results can confirm or refute."""

    id: str
    paper: str
    locus: str
    statement: str
    tolerance: Tolerance
    source: str
    """Where the tolerance comes from."""
    exhibit: str = ""
    """The table or figure that shows it."""
    scales: tuple[Scale, ...] = ("quick", "full", "paper")
    kind: Kind = "paper"
    family: str = ""
    primary: bool = False
    published: dict[str, Number] = Field(default={})
    """What the paper prints, or the later work; of `trials` the `mean` or the `first`."""
    trials: dict[str, tuple[Number, ...]] = Field(default={})
    """What the paper prints of each trial, of metrics that are judged by and of others."""
    episodes: int | None = None
    """How many episodes a published success rate is of: its own noise then counts in class `interval`."""
    error_bar: dict[str, Number] = Field(default={})
    """Half the height of the error bar that the paper draws on its published value; shown, never judged by."""
    original: dict[str, Number] = Field(default={})
    """What the authors' released code gave when it was run again."""
    against: Literal["published", "original"] = "published"
    layouts: Literal["drawn", "fixed"] = "drawn"
    """fixed: the value that it is held against is of the very same test layouts, so only seeds vary."""
    within: dict[str, Number] = Field(default={})
    range: dict[str, tuple[Number, Number]] = Field(default={})
    failed_layouts: tuple[int, ...] | None = None
    """The test layouts that every seed fails on, and no others."""
    select: Selector | None = None
    compare: tuple[Comparison, ...] = ()
    margin: Margin | None = None
    not_run: str | None = None
    """Why no scale runs this."""
    needs: str = ""
    """Requirements of a test that no published version has made: a model, code, hours."""
    repeats: str = ""
    """The claim with the same statement, judged in the setting that is nearest to the paper's."""
    no_support: str = ""
    """Why it is inconclusive if it holds, such as that it holds for random actions, too."""
    formerly: str = ""
    """Verdict or kind before a rule for counting changed; shown with the verdict."""
    why: str = ""
    """Of a miss: why, in a sentence."""
    page: str = ""
    """Of a miss: the section that tells more, `glam.md#anchor` in docs/papers."""

    @property
    def expected(self) -> dict[str, Decimal]:
        """The values that fresh ones are held against."""
        return self.published if self.against == "published" else self.original

    @property
    def selectors(self) -> list[Selector]:
        """All stored rows that it is about, those that are only shown included."""
        return ([self.select] if self.select else []) + [side for each in self.compare for side in each.sides]

    def where(self, comparison: Comparison) -> str:
        """` in PurpleKey-S20` for one of its comparisons, where they are of several worlds; else nothing."""
        worlds = {each.of.world for each in self.compare}
        return f" in {comparison.of.world}" if len(worlds) > 1 else ""

    def margin_of(self, comparison: Comparison) -> Margin | None:
        """The margin that a comparison is judged by."""
        return comparison.margin or self.margin

    def redo(self, scale: str) -> str:
        """The command that measures it again: at a scale, or at its first one where that does not run it."""
        if self.not_run is not None:
            return ""
        at = scale if scale in self.scales else self.scales[0]
        return f"groundlab reproduce --claim {self.id}" + (f" --scale {at}" if at != "quick" else "")

    @model_validator(mode="before")
    @classmethod
    def _published_of_trials(cls, claim: dict[str, Any]) -> dict[str, Any]:
        """The numbers that `mean` and `first` stand for; what else is wrong is left for the schema to refuse."""
        found, trials = claim.get("published"), claim.get("trials")
        if not isinstance(found, dict) or not isinstance(trials, dict):
            return claim
        try:
            numbers = {metric: list(map(Decimal, values)) for metric, values in trials.items()}
            means = {metric: str(sum(values) / len(values)) for metric, values in numbers.items()}
        except (ArithmeticError, TypeError):
            raise ValueError("trials must be lists of quoted numbers, by metric") from None
        words = {"mean": means, "first": {metric: str(values[0]) for metric, values in numbers.items()}}
        return claim | {"published": {metric: words.get(word, {}).get(metric, word) for metric, word in found.items()}}

    @model_validator(mode="after")
    def _in_words_of_its_paper(self) -> "Claim":
        papers = plugins.load(plugins.PAPERS)
        if self.paper not in papers:
            raise ValueError(f"{self.id} names the paper {self.paper!r}; papers are {', '.join(papers)}")
        paper = papers[self.paper]
        by_metric = (self.published, self.error_bar, self.original, self.within, self.range)
        metrics = {metric for each in by_metric for metric in each} | {each.metric for each in self.compare}
        policies = {each.policy for each in self.selectors if "policy" in each.model_fields_set}
        for what, names, known in (("metric", metrics, paper.metrics), ("policy", policies, paper.policies)):
            if wrong := [name for name in names if not any(fnmatchcase(name, pattern) for pattern in known)]:
                raise ValueError(f"{self.id} names the {what} {wrong[0]!r}; it must be one of {', '.join(known)}")
        for each in self.selectors:
            try:
                paper.check_names(each.method, each.world, each.settings, each.kind)
            except GroundlabError as error:
                raise ValueError(f"{self.id}: {error}") from None
        called = set[tuple[str, ...]]()
        for each in self.compare:
            sides = [side.short(paper.short_names) for side in each.sides]
            if len(set(sides)) < len(sides):
                raise ValueError(f"{self.id} calls two sides {sides[0]!r}; give each a label that tells them apart")
            called.add((each.metric, each.of.when, self.where(each), *sides[:2]))
        if len(called) < len(self.compare):
            raise ValueError(f"{self.id} calls two comparisons alike; give their sides labels that tell them apart")
        return self

    @model_validator(mode="after")
    def _can_be_judged(self) -> "Claim":
        if self.not_run is not None:
            return self
        compares = self.tolerance in ("ordering", "equivalence")
        if compares and not self.compare:
            raise ValueError(f"{self.id} is an {self.tolerance} and needs compare")
        self._check_margins()
        if self.kind == "own" and self.published:
            raise ValueError(f"{self.id} is our own and has published values; they belong to the paper's claims")
        if self.primary and not self.family:
            raise ValueError(f"{self.id} is primary of no family; name the family")
        values = self.expected or self.range or self.failed_layouts is not None
        if not compares and not (self.select and values):
            raise ValueError(f"{self.id} needs select, and {self.against} values, a range or failed_layouts")
        return self

    def _check_margins(self) -> None:
        """Raises ValueError where "no difference" or "within the interval" has no measure, or a measure no use."""
        for each in self.compare:
            if self.tolerance == "equivalence" and each.direction == "not significantly higher":
                raise ValueError(f"{self.id}: '{each.direction}' is an ordering; equivalence needs another direction")
            needs = self.tolerance == "equivalence" or each.direction in ("not lower", "not higher")
            if needs != (self.margin_of(each) is not None):
                rule = "equivalence, not lower and not higher need a margin, and nothing else has one"
                raise ValueError(f"{self.id} is {self.tolerance}, {each.direction}: {rule}")
        if self.tolerance == "interval":
            without = [metric for metric in self.expected if self.margin is None or self.margin.of(metric) is None]
            if without:
                raise ValueError(f"{self.id} is an interval and needs a margin of {', '.join(without)}")


class _ClaimsFile(Strict):
    main_claim: str = ""
    """Main claim of the paper, in one sentence."""
    headline: str = ""
    """What came out, for a table of all papers: `{claim-id:side}` stands for a number (verdicts.filled)."""
    claims: tuple[Claim, ...]


@cache
def headline(paper: str) -> tuple[str, str]:
    """(What a paper claims, what came out with its numbers still to be filled in); empty where its file has none."""
    file = plugins.load(plugins.PAPERS)[paper].config_folder / "claims.yaml"
    found = _read_file(file) if file.is_file() else _ClaimsFile(claims=())
    return found.main_claim, found.headline


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
    mains = {(claim.id, claim.paper, claim.kind) for claim in claims if not claim.repeats}
    for claim in claims:
        if claim.repeats and (claim.repeats, claim.paper, claim.kind) not in mains:
            raise GroundlabError(f"{claim.id} repeats {claim.repeats!r}; name a claim of its kind that repeats none")
    return tuple(claims)


def read_claims(path: Path) -> tuple[Claim, ...]:
    """The claims in one file. Raises GroundlabError naming what is wrong in it."""
    return _consistent(_read_file(path).claims)


def _read_file(path: Path) -> _ClaimsFile:
    if not path.exists():
        raise GroundlabError(f"{path} does not exist; restore it (git checkout configs)")
    return parse(_ClaimsFile, read_yaml(path, fix="mend that line"), str(path))


def published_cells(paper: str, table: str) -> dict[tuple[str, str], dict[str, float]]:
    """The published values of a table by (world, method): what several claims say about one cell, merged."""
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for claim in load_claims(paper):
        if claim.select and claim.locus.startswith(f"{table},"):
            cell = cells.setdefault((claim.select.world, claim.select.method), {})
            cell.update({metric: float(value) for metric, value in claim.published.items()})
    return cells
