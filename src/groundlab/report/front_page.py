"""What README and docs show of the published results: a row a paper, every claim, and the tables of each paper's page.

    publish("results/0.1.0-quick-20261122-ab12cd3", root)     # what `groundlab figures --publish` calls

There is one judgement: `review` writes claims.json beside its page, and README and docs/claims.md are made from it.
The tables in docs/papers/<paper>.md are copies of those in the results, between two markers.
Publishing reviews every version that results/reference.json names, so that all of them are judged by the same rules;
doing it twice changes nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from groundlab.core import plugins, storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import read_reference
from groundlab.report.exhibits import draw_all, exhibits
from groundlab.report.judging import MISSED, counted
from groundlab.report.records import load
from groundlab.report.review import review
from groundlab.report.tables import markdown

_MARKERS = "<!-- {name}:begin -->", "<!-- {name}:end -->"
_CLAIMS_HEAD = """# Claims

Every claim of the papers, as judged from the [published results](../results/reference.json). Made by
`groundlab figures --publish` from stored records; nothing here is typed by hand, and a miss is shown as a miss.
*paper* is what is printed there, *original code* what the authors' released code gave when it was run again.
The rule of each verdict is in `configs/<paper>/claims.yaml`, how intervals are made in
[artifact.md](artifact.md#intervals); why a row does not reproduce is told on the paper's page.
"""
_APART = {"own": "Our own bars, controls and findings", "later work": "What later work published of these worlds"}
"""The kinds of claims that are counted apart from the paper's, and their headings."""


def publish(folder: str | Path, root: Path) -> list[Path]:
    """Copy figures to `<root>/figures`, renew README.md and docs; returns the files.

    Figures are those of `folder`; what it has nothing to show for is taken from the other published results.
    The claims and tables are those of all published results, which `results/reference.json` names; each version gets
    its review page anew. Raises GroundlabError for smoke results, and for a page without its two markers.
    """
    records = load(folder)
    if records.scale == "smoke":
        raise GroundlabError(f"{folder} holds smoke results, which are never published; reproduce at scale quick")
    readme, claims = root / "README.md", root / "docs" / "claims.md"
    between_markers(readme, "papers", "")  # before anything is written
    others = [each for version in _versions(root / "results") for each in review(root / "results" / version).exhibits]
    every = list(published(root / "results"))
    pages = {readme: between_markers(readme, "papers", papers_table(every)), claims: claims_page(every)}
    for paper in {each.paper for each in every}:
        page = root / "docs" / "papers" / f"{paper}.md"
        if page.is_file():
            pages[page] = between_markers(
                page, "results", results_block([each for each in every if each.paper == paper])
            )
    drawn = [*others, *draw_all(records)]  # the later stands for the earlier
    figures = {path.name: path for each in drawn for path in each.paths if path.parent.name == "figures"}
    copies = [root / "figures" / name for name in figures]
    for path, copy in zip(figures.values(), copies, strict=True):
        storage.write_atomic(copy, path.read_bytes())
    for page, text in pages.items():
        storage.write_atomic(page, text)
    return [*copies, *pages]


def between_markers(page: Path, name: str, block: str) -> str:
    """The text of a page with the part between its two markers replaced. Raises GroundlabError when one is missing."""
    if not page.is_file():
        raise GroundlabError(f"{page} does not exist; restore it (git checkout {page.name})")
    first, last = (marker.format(name=name) for marker in _MARKERS)
    before, begin, rest = page.read_text().partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise GroundlabError(f"{page.name} has lost its markers; put {first} and {last} where the {name} belong")
    return f"{before}{first}\n{block}\n{last}{after}"


@dataclass(frozen=True)
class Published:
    """A paper's published results at a scale: where they are, and its claims as claims.json holds them."""

    paper: str
    scale: str
    folder: Path
    claims: tuple[dict[str, Any], ...]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The paper's claims (`paper`), our own bars and controls (`own`), or those of `later work`."""
        return [claim for claim in self.claims if claim["kind"] == kind]

    def notebooks(self) -> str:
        """Links to its executed notebooks, by their numbers: `[01](results/.../01_language_model.ipynb)`."""
        files = sorted((self.folder / self.paper / "executed").glob("*.ipynb"))
        home = f"results/{self.folder.name}/{self.paper}/executed"
        return " ".join(f"[{file.name.partition('_')[0]}]({home}/{file.name})" for file in files) or "–"

    def counts(self, kind: str) -> str:
        """`17 reproduced, 3 within interval`; a dash for none."""
        numbers = counted(claim["verdict"] for claim in self.of_kind(kind))
        return ", ".join(f"{count} {word}" for word, count in numbers.items()) or "–"


def _versions(results: Path) -> list[str]:
    """The versions that reference.json names, each once."""
    return sorted({version for scales in read_reference(results).values() for version in scales.values()})


def published(results: Path) -> Iterator[Published]:
    """What `<results>/reference.json` names, paper by paper, with its stored claims."""
    for paper, scales in read_reference(results).items():
        for scale, version in scales.items():
            stored = storage.read_json(results / version / "claims.json")
            claims = tuple(claim for claim in stored if claim["paper"] == paper)
            yield Published(paper, scale, results / version, claims)


def papers_table(every: Sequence[Published]) -> str:
    """One row a paper: its page, its question, its executed notebooks, the command, what the runs took, and its claims.

    The column of later work is there when a paper has claims of that kind.
    """
    kinds = ["paper", "own", *(["later work"] if any(each.of_kind("later work") for each in every) else [])]
    heads = ["paper", "question", "executed", "command", "CPU minutes", "its claims", "our own", "later work"]
    heads = heads[: 5 + len(kinds)]
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    offered = plugins.load(plugins.PAPERS)
    for each in every:
        command = f"`nox -s reproduce -- --only {each.paper}`" + (f" `--scale {each.scale}`" * (each.scale != "quick"))
        minutes = load(each.folder).of_paper(each.paper).runs["cpu_seconds"].sum() / 60
        page = f"[{each.paper}](docs/papers/{each.paper}.md)"
        question = offered[each.paper].question
        cells = page, question, each.notebooks(), command, f"{minutes:.0f}", *map(each.counts, kinds)
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def results_block(every: Sequence[Published]) -> str:
    """What docs/papers/<paper>.md shows of one paper's published results: how they were made, and its tables."""
    offered, registered = plugins.load(plugins.PAPERS), exhibits()
    parts = []
    for each in every:
        records = load(each.folder)
        runs, hardware = records.of_paper(each.paper).runs, records.manifest.get("hardware", {})
        made = f"{len(runs)} runs, {runs['cpu_seconds'].sum():,.0f} CPU-seconds, {hardware.get('cpu', 'CPU not named')}"
        parts.append(f"Results `{each.folder.name}` (scale `{each.scale}`): {made}. Claims: {each.counts('paper')}.")
        for name in offered[each.paper].page_tables:
            file = each.folder / each.paper / "tables" / f"{name}.md"
            if file.is_file():
                parts.append(f"**{registered[name].title}**\n\n{file.read_text().rstrip()}")
    return "\n\n".join(parts)


def claims_page(every: Sequence[Published]) -> str:
    """docs/claims.md: a heading, the misses of all papers, and two tables of claims for each paper and scale."""
    parts = [f"## {each.paper}, {each.scale}\n\n{claims_block(each)}" for each in every]
    return "\n\n".join([_CLAIMS_HEAD.rstrip(), *misses_block(every), *parts]) + "\n"


def misses_block(every: Sequence[Published]) -> list[str]:
    """Every claim that failed, of all papers and scales, as a heading and a table; empty where none did."""
    rows = [
        {"of": f"{each.paper}, {each.scale}", "whose": "the paper's" if kind == "paper" else kind, **_row(claim)}
        for each in every
        for kind in ("paper", *_APART)
        for claim in each.of_kind(kind)
        if claim["verdict"] == MISSED
    ]
    if not rows:
        return []
    told = f"{len(rows)} verdicts. A claim that misses at two scales stands twice; its paper's page tells why."
    return ["## Not reproduced", told, markdown(pd.DataFrame(rows).drop(columns="verdict"))]


def claims_block(each: Published) -> str:
    """The verdicts of one paper in a results folder as Markdown: the paper's claims, our own, those of later work."""
    parts = [f"Results `{each.folder.name}`: {each.counts('paper')}.", _table(each.of_kind("paper"))]
    for kind, heading in _APART.items():
        if each.of_kind(kind):
            parts += [f"{heading}: {each.counts(kind)}.", _table(each.of_kind(kind))]
    return "\n\n".join(parts)


def _table(claims: list[dict[str, Any]]) -> str:
    return markdown(pd.DataFrame([_row(claim) for claim in claims]))


def _row(claim: dict[str, Any]) -> dict[str, str]:
    row = claim["readable"]
    return {
        "claim": f"{row['claim']}: {_short(claim['statement'])} (`{claim['id']}`)",
        "paper": row["paper"],
        "original code": row["original re-run"],
        "measured": row["here"],
        "seeds": row["seeds"],
        "verdict": row["verdict"],
    }


def _short(statement: str) -> str:
    """The first sentence of a statement."""
    return statement.partition(". ")[0].rstrip(".")
