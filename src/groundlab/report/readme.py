"""What the repository's front page shows: the claims table of the reference results, and their figures.

`publish` copies the figures of a results folder to /figures and writes its verdicts between the two markers of
README.md; doing it twice changes nothing. Called from: the command line (`groundlab figures --publish`).
"""

from pathlib import Path

import pandas as pd

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.report.exhibits import draw_all
from groundlab.report.judging import Verdict, Verdicts, judge, readable_row
from groundlab.report.records import Records, load
from groundlab.report.tables import markdown

BEGIN, END = "<!-- claims:begin -->", "<!-- claims:end -->"


def publish(folder: str | Path, root: Path) -> list[Path]:
    """Copy the figures of `folder` to `<root>/figures` and renew the claims in `<root>/README.md`; returns the files.

    The claims are those of all published results, of `folder` and of those that `results/reference.json` names besides.
    Raises GroundlabError for smoke results, and for a README without its two markers.
    """
    records = load(folder)
    if records.scale == "smoke":
        raise GroundlabError(f"{folder} holds smoke results, which are never published; reproduce at scale quick")
    readme = root / "README.md"
    text = with_claims(_read(readme), claims_section(root / "results"))
    figures = [path for drawn in draw_all(records) for path in drawn.paths if path.parent.name == "figures"]
    copies = [root / "figures" / path.name for path in figures]
    for path, copy in zip(figures, copies, strict=True):
        storage.write_atomic(copy, path.read_bytes())
    storage.write_atomic(readme, text)
    return [*copies, readme]


def _read(readme: Path) -> str:
    if not readme.is_file():
        raise GroundlabError(f"{readme} does not exist; restore it (git checkout README.md)")
    return readme.read_text()


def with_claims(text: str, block: str) -> str:
    """A README with the part between its markers replaced. Raises GroundlabError when a marker is missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise GroundlabError(f"README.md has lost its markers; put {BEGIN} and {END} where the claims belong")
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def claims_section(results: Path) -> str:
    """A heading and a block of claims for each paper and scale that `<results>/reference.json` names."""
    reference = storage.read_json(results / "reference.json")
    parts = [
        f"### {paper}, {scale}\n\n{claims_block(load(results / version), paper)}"
        for paper, scales in reference.items()
        for scale, version in scales.items()
    ]
    return "\n\n".join(parts)


def claims_block(records: Records, paper: str) -> str:
    """The verdicts of one paper in a results folder as compact Markdown: counts, and folded away, a row a claim.

    Rows of the released code show what that code gave when it was run again, the others what the paper prints.
    """
    verdicts = Verdicts(each for each in judge(records) if each.claim.paper == paper)
    counts = ", ".join(f"{count} {word}" for word, count in verdicts.counts().items())
    rows = pd.DataFrame([_row(each) for each in verdicts])
    version = records.manifest.get("version", records.folder.name)
    table = f"<details><summary>The {len(rows)} claims</summary>\n\n{markdown(rows)}\n\n</details>"
    return f"Results `{version}`: {counts}.\n\n{table}"


def _row(verdict: Verdict) -> dict[str, str]:
    full, claim = readable_row(verdict), verdict.claim
    name = full["claim"] if claim.tolerance != "ordering" else f"{full['claim']}: {_short(verdict)}"
    published = full["paper"] if claim.expected == claim.published and claim.published else full["original re-run"]
    return {"claim": name, "published": published, "measured": full["here"], "verdict": full["verdict"]}


def _short(verdict: Verdict) -> str:
    """The first sentence of a statement, up to its colon."""
    return verdict.claim.statement.partition(". ")[0].partition(":")[0].rstrip(".")
