"""What the front page shows of the published results: a row a paper in README.md, every claim in docs/claims.md.

`publish` copies the figures of a results folder to /figures and writes both from one judgement; doing it twice changes
nothing. `groundlab figures --publish` calls it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from groundlab.core import plugins, storage
from groundlab.core.errors import GroundlabError
from groundlab.report.exhibits import draw_all
from groundlab.report.judging import Verdict, Verdicts, judge, readable_row
from groundlab.report.records import Records, load
from groundlab.report.tables import markdown

BEGIN, END = "<!-- papers:begin -->", "<!-- papers:end -->"
_CLAIMS_HEAD = """# Claims

Every claim of the papers, as judged from the [published results](../results/reference.json). Made by
`groundlab figures --publish` from stored records; nothing here is typed by hand, and a miss is shown as a miss.
The rule of each verdict is in `configs/<paper>/claims.yaml`; why a row does not reproduce is told on the paper's page.
"""


def publish(folder: str | Path, root: Path) -> list[Path]:
    """Copy the figures of `folder` to `<root>/figures`, renew README.md and docs/claims.md; returns the files.

    The claims are those of all published results, which `results/reference.json` names.
    Raises GroundlabError for smoke results, and for a README without its two markers.
    """
    records = load(folder)
    if records.scale == "smoke":
        raise GroundlabError(f"{folder} holds smoke results, which are never published; reproduce at scale quick")
    judged = list(published(root / "results"))
    readme, claims = root / "README.md", root / "docs" / "claims.md"
    pages = {readme: with_papers(_read(readme), papers_table(judged)), claims: claims_page(judged)}
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
    """A paper's published results at a scale, judged."""

    paper: str
    scale: str
    records: Records
    verdicts: Verdicts


def published(results: Path) -> Iterator[Published]:
    """What `<results>/reference.json` names, judged, paper by paper."""
    for paper, scales in storage.read_json(results / "reference.json").items():
        for scale, version in scales.items():
            records = load(results / version)
            yield Published(paper, scale, records, judge(records, paper))


def with_papers(text: str, block: str) -> str:
    """A README with the part between its markers replaced. Raises GroundlabError when a marker is missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise GroundlabError(f"README.md has lost its markers; put {BEGIN} and {END} where the papers belong")
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def papers_table(judged: Sequence[Published]) -> str:
    """One row a paper: its page, its question, the command, what the runs took, and its claims by verdict."""
    rows = ["| paper | question | command | CPU minutes | claims |", "|---|---|---|---|---|"]
    offered = plugins.load(plugins.PAPERS)
    for each in judged:
        paper = offered[each.paper]
        runs = each.records.of_paper(each.paper).runs
        command = f"`nox -s reproduce -- --only {each.paper}`" + (f" `--scale {each.scale}`" * (each.scale != "quick"))
        counts = "; ".join(f"{count} {word}" for word, count in each.verdicts.counts().items())
        cells = (
            f"[{each.paper}](docs/papers/{each.paper}.md)",
            paper.question,
            command,
            f"{runs['cpu_seconds'].sum() / 60:.0f}",
            counts,
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def claims_page(judged: Sequence[Published]) -> str:
    """docs/claims.md: a heading and a block of claims for each paper and scale."""
    parts = [f"## {each.paper}, {each.scale}\n\n{claims_block(each)}" for each in judged]
    return "\n\n".join([_CLAIMS_HEAD.rstrip(), *parts]) + "\n"


def claims_block(judged: Published) -> str:
    """The verdicts of one paper in a results folder as Markdown: counts, and a row a claim.

    Rows of the released code show what that code gave when it was run again, the others what the paper prints.
    """
    counts = ", ".join(f"{count} {word}" for word, count in judged.verdicts.counts().items())
    rows = pd.DataFrame([_row(each) for each in judged.verdicts])
    version = judged.records.manifest.get("version", judged.records.folder.name)
    return f"Results `{version}`: {counts}.\n\n{markdown(rows)}"


def _row(verdict: Verdict) -> dict[str, str]:
    full, claim = readable_row(verdict), verdict.claim
    name = full["claim"] if claim.tolerance != "ordering" else f"{full['claim']}: {_short(verdict)}"
    published = full["paper"] if claim.expected == claim.published and claim.published else full["original re-run"]
    return {"claim": name, "published": published, "measured": full["here"], "verdict": full["verdict"]}


def _short(verdict: Verdict) -> str:
    """The first sentence of a statement, up to its colon."""
    return verdict.claim.statement.partition(". ")[0].partition(":")[0].rstrip(".")
