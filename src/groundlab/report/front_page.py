"""What the front page shows of the published results: a row a paper in README.md, every claim in docs/claims.md.

    publish("results/0.1.0-quick-20261122-ab12cd3", root)     # what `groundlab figures --publish` calls

There is one judgement: `review` writes claims.json beside its page, and both files here are made from claims.json.
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
from groundlab.report.exhibits import draw_all
from groundlab.report.judging import counted
from groundlab.report.records import load
from groundlab.report.review import review
from groundlab.report.tables import markdown

BEGIN, END = "<!-- papers:begin -->", "<!-- papers:end -->"
_CLAIMS_HEAD = """# Claims

Every claim of the papers, as judged from the [published results](../results/reference.json). Made by
`groundlab figures --publish` from stored records; nothing here is typed by hand, and a miss is shown as a miss.
*paper* is what is printed there, *original code* what the authors' released code gave when it was run again.
The rule of each verdict is in `configs/<paper>/claims.yaml`, how intervals are made in
[artifact.md](artifact.md#intervals); why a row does not reproduce is told on the paper's page.
"""
_OWN = "Our own bars, controls and findings"


def publish(folder: str | Path, root: Path) -> list[Path]:
    """Copy the figures of `folder` to `<root>/figures`, renew README.md and docs/claims.md; returns the files.

    The claims are those of all published results, which `results/reference.json` names; each version gets its review
    page anew. Raises GroundlabError for smoke results, and for a README without its two markers.
    """
    records = load(folder)
    if records.scale == "smoke":
        raise GroundlabError(f"{folder} holds smoke results, which are never published; reproduce at scale quick")
    readme, claims = root / "README.md", root / "docs" / "claims.md"
    with_papers(_read(readme), "")  # before anything is written
    for version in _versions(root / "results"):
        review(root / "results" / version)
    every = list(published(root / "results"))
    pages = {readme: with_papers(_read(readme), papers_table(every)), claims: claims_page(every)}
    figures = [path for drawn in draw_all(records) for path in drawn.paths if path.parent.name == "figures"]
    copies = [root / "figures" / path.name for path in figures]
    for path, copy in zip(figures, copies, strict=True):
        storage.write_atomic(copy, path.read_bytes())
    for page, text in pages.items():
        storage.write_atomic(page, text)
    return [*copies, *pages]


def _read(readme: Path) -> str:
    if not readme.is_file():
        raise GroundlabError(f"{readme} does not exist; restore it (git checkout README.md)")
    return readme.read_text()


@dataclass(frozen=True)
class Published:
    """A paper's published results at a scale: where they are, and its claims as claims.json holds them."""

    paper: str
    scale: str
    folder: Path
    claims: tuple[dict[str, Any], ...]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The paper's claims (`paper`), or our own bars and controls (`own`)."""
        return [claim for claim in self.claims if claim["kind"] == kind]

    def counts(self, kind: str) -> str:
        """`17 reproduced, 3 within interval`; a dash for none."""
        numbers = counted(claim["verdict"] for claim in self.of_kind(kind))
        return ", ".join(f"{count} {word}" for word, count in numbers.items()) or "–"


def _versions(results: Path) -> list[str]:
    """The versions that reference.json names, each once."""
    named = storage.read_json(results / "reference.json").values()
    return sorted({version for scales in named for version in scales.values()})


def published(results: Path) -> Iterator[Published]:
    """What `<results>/reference.json` names, paper by paper, with its stored claims."""
    for paper, scales in storage.read_json(results / "reference.json").items():
        for scale, version in scales.items():
            stored = storage.read_json(results / version / "claims.json")
            claims = tuple(claim for claim in stored if claim["paper"] == paper)
            yield Published(paper, scale, results / version, claims)


def with_papers(text: str, block: str) -> str:
    """A README with the part between its markers replaced. Raises GroundlabError when a marker is missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise GroundlabError(f"README.md has lost its markers; put {BEGIN} and {END} where the papers belong")
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def papers_table(every: Sequence[Published]) -> str:
    """One row a paper: its page, its question, the command, what the runs took, and its claims by verdict."""
    rows = ["| paper | question | command | CPU minutes | its claims | our own |", "|---|---|---|---|---|---|"]
    offered = plugins.load(plugins.PAPERS)
    for each in every:
        command = f"`nox -s reproduce -- --only {each.paper}`" + (f" `--scale {each.scale}`" * (each.scale != "quick"))
        minutes = load(each.folder).of_paper(each.paper).runs["cpu_seconds"].sum() / 60
        page = f"[{each.paper}](docs/papers/{each.paper}.md)"
        cells = page, offered[each.paper].question, command, f"{minutes:.0f}", each.counts("paper"), each.counts("own")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def claims_page(every: Sequence[Published]) -> str:
    """docs/claims.md: a heading and two tables of claims for each paper and scale."""
    parts = [f"## {each.paper}, {each.scale}\n\n{claims_block(each)}" for each in every]
    return "\n\n".join([_CLAIMS_HEAD.rstrip(), *parts]) + "\n"


def claims_block(each: Published) -> str:
    """The verdicts of one paper in a results folder as Markdown: the paper's claims, then our own."""
    parts = [f"Results `{each.folder.name}`: {each.counts('paper')}.", _table(each.of_kind("paper"))]
    if each.of_kind("own"):
        parts += [f"{_OWN}: {each.counts('own')}.", _table(each.of_kind("own"))]
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
    """The first sentence of a statement, up to its colon."""
    return statement.partition(". ")[0].partition(":")[0].rstrip(".")
