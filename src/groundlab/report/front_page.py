"""The published results in README and docs: a row a paper, what missed, and the tables of each paper's reference.

    publish(root)     # what `groundlab figures --publish` calls

There is one judgement: `review` writes claims.json beside its page, and README and docs/claims.md are made from it.
The tables in docs/papers/<paper>-reference.md are copies of those in the results, between two markers.
Publishing reviews every version that results/reference.json names, so that all of them are judged by the same rules;
doing it twice changes nothing.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from groundlab.core import plugins, storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import Manifest, values_of
from groundlab.core.versions import Version, published_versions, read_reference
from groundlab.report.claims import KINDS, headline
from groundlab.report.exhibits import exhibits
from groundlab.report.review import review
from groundlab.report.tables import markdown
from groundlab.report.verdicts import OF_ONE, UNDECIDED, Word, count_sentence, counted, filled, statements, verdicts

_MARKERS = "<!-- {name}:begin -->", "<!-- {name}:end -->"
_CLAIMS_HEAD = """# Claims

What the papers claim and what came of it, what is contradicted and why, then the counts of each paper. Made by
`groundlab figures --publish` from the [published results](../results/reference.json); nothing here is typed by hand.
Every claim, with its numbers and its verdict, has a row in the review page of a version, which is linked below. The
rule of each verdict is in `configs/<paper>/claims.yaml`; how intervals are made is told in
[artifact.md](artifact.md#intervals). `groundlab reproduce --claim ID --scale SCALE` measures one again.

A statement of a paper about its method counts once, though several rows may test it in other rooms or by other
protocols: by the row that is nearest to the paper's setting, or, where that is not tested, the first that is. Baselines
of the papers, our own checks and what later work claims are counted apart.
"""


def publish(root: Path) -> list[Path]:
    """Copy figures to `<root>/figures`, renew README.md and docs; returns the files.

    All is of the published results, which `results/reference.json` names; each version gets its review page anew. A
    figure is drawn from those of its paper's results that decide most of its claims, where these have it.
    Raises GroundlabError for a page without its two markers.
    """
    readme, claims = root / "README.md", root / "docs" / "claims.md"
    between_markers(readme, "papers", "")  # before anything is written
    drawn = {
        version: [path for each in review(root / "results" / version).exhibits for path in each.paths]
        for version in published_versions(root / "results")
    }
    every = list(published(root / "results"))
    pages = {readme: between_markers(readme, "papers", papers_table(every)), claims: claims_page(every)}
    figures = dict[str, Path]()
    for paper, mine in by_paper(every).items():
        page = root / "docs" / "papers" / f"{paper}-reference.md"
        if page.is_file():
            pages[page] = between_markers(page, "results", results_block(mine))
        for each in (*mine, best_scale(mine)):  # the later stands for the earlier
            home = each.folder / paper / "figures"
            figures |= {path.name: path for path in drawn[each.folder.name] if path.parent == home}
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
    before, begin, rest = page.read_text(encoding="utf-8").partition(first)
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
        """The claims of a kind (claims.py)."""
        return [claim for claim in self.claims if claim["kind"] == kind]


def published(results: Path) -> Iterator[Published]:
    """Yield the versions of `<results>/reference.json` by paper, with what their claims.json holds."""
    for paper, scales in read_reference(results).items():
        for scale, version in scales.items():
            yield Published(paper, scale, results / version, tuple(verdicts(results / version, paper)))


def by_paper(every: Sequence[Published]) -> dict[str, list[Published]]:
    """Published results by their papers."""
    return {paper: [each for each in every if each.paper == paper] for paper in dict.fromkeys(x.paper for x in every)}


def papers_table(every: Sequence[Published]) -> str:
    """A row for each paper: what it claims, what came out, how many claims were tested; then the count of all."""
    rows, offered = ["| paper | it claims | here, with small models |", "|---|---|---|"], plugins.load(plugins.PAPERS)
    for paper, mine in by_paper(every).items():
        cited = re.search(r"\([^()]*\d{4}\)$", offered[paper].title)
        name = " ".join([f"**[{paper}](docs/papers/{paper}.md)**", *([cited[0]] if cited else [])])
        judged = [each["verdict"] for each in statements(latest(mine))]
        tested = len(judged) - judged.count(Word.NOT_TESTED)
        link = f" [{tested} of {len(judged)} claims tested](docs/claims.md#{paper})" if judged else ""
        rows.append(f"| {name} | {headline(paper)[0] or '–'} | {finding(mine)}{link} |")
    return "\n".join([*rows, "", f"**{count_sentence(latest(every))}** [Which, and why](docs/claims.md)."])


def finding(mine: Sequence[Published]) -> str:
    """What came out of one paper in a sentence or two, with the numbers of its published results."""
    return filled(headline(mine[0].paper)[1], {claim["id"]: claim for claim in latest(mine)}) or "–"


def latest(every: Sequence[Published]) -> list[dict[str, Any]]:
    """Each claim once, by the last of the published scales that tested it."""
    return [judged[-1][1] for judged in _by_claim(every).values()]


def best_scale(every: Sequence[Published]) -> Published:
    """Of a paper's published results those that decide most of its claims, by kinds; the last of equals."""
    undecided = (Word.NOT_TESTED, *UNDECIDED)
    told = [
        [sum(claim["verdict"] not in undecided for claim in each.of_kind(kind)) for kind in KINDS] for each in every
    ]
    return every[max(range(len(every)), key=lambda number: (told[number], number))]


def results_block(every: Sequence[Published]) -> str:
    """What the reference of one paper shows of its published results: how they were made, and its tables."""
    offered, registered = plugins.load(plugins.PAPERS), exhibits()
    parts = []
    for each in every:
        version = Version(each.folder)
        states = Counter(run["status"] for run in version.planned if run["paper"] == each.paper)
        runs = version.runs(each.paper)
        seconds = sum(run["cpu_seconds"] for run in runs)
        made = f"{states['finished']} runs ({states['failed']} failed, {states['missing']} missing), "
        made += f"{seconds:,.0f} CPU-seconds, {_machines(runs)}"
        rows = counted(each.of_kind("paper"))
        parts.append(
            f"Results `{each.folder.name}` (scale `{each.scale}`): {made}. Rows of the paper's claims: {rows}."
        )
        for name in offered[each.paper].page_tables:
            file = each.folder / each.paper / "tables" / f"{name}.md"
            if file.is_file():
                parts.append(f"**{registered[name].title}**\n\n{file.read_text(encoding='utf-8').rstrip()}")
    return "\n\n".join(parts)


def _machines(runs: Sequence[Manifest]) -> str:
    """The CPUs that made the runs, with their counts where there are several."""
    found = Counter(values_of(run, "hardware", "cpu", "CPU not named") for run in runs)
    return ", ".join(cpu if len(found) == 1 else f"{cpu} ({count})" for cpu, count in found.most_common())


def claims_page(every: Sequence[Published]) -> str:
    """docs/claims.md: a heading, the misses of all papers, and the counts of each paper with links to its rows."""
    count = f"**{count_sentence(latest(every))}**"
    parts = [f'## <a id="{paper}"></a>{paper}\n\n{counts_block(mine)}' for paper, mine in by_paper(every).items()]
    return "\n\n".join([_CLAIMS_HEAD.rstrip(), count, *misses_block(every), *parts]) + "\n"


def misses_block(every: Sequence[Published]) -> list[str]:
    """Every claim that failed at some scale, of all papers, under the reason that it shares; empty for none."""
    reasons, kinds = dict[str, list[dict[str, str]]](), Counter[str]()
    versions = {(each.paper, each.scale): each.folder.name for each in every}
    for judged in _by_claim(every).values():
        if missed := [(scale, claim) for scale, claim in judged if claim["verdict"] == Word.CONTRADICTED]:
            scale, claim = missed[-1]
            kinds[KINDS[claim["kind"]]] += 1
            why = f"{claim['why']} ([more](papers/{claim['page']}))" if claim["page"] else claim["why"]
            row = _miss(missed, f"../results/{versions[claim['paper'], scale]}/review.html#{claim['id']}")
            reasons.setdefault(why, []).append(row)
    if not reasons:
        return []
    count = ", ".join(f"{kinds[name]} of kind *{name}*" for name in KINDS.values() if kinds[name])
    parts = [part for why, rows in reasons.items() for part in (f"**Why**: {why}", markdown(pd.DataFrame(rows)))]
    return ["## Contradicted", f"Rows by kind: {count}; each with the scales that contradict it.", *parts]


def _miss(missed: "_Judged", link: str) -> dict[str, str]:
    _, claim = missed[-1]
    sentence = claim["statement"].partition(". ")[0].rstrip(".")
    return {
        "claim": f"{KINDS[claim['kind']]}: {claim['readable']['claim']}: {sentence} ([`{claim['id']}`]({link}))",
        "paper": claim["readable"]["paper"],
        "measured": _measured(missed),
    }


def counts_block(mine: Sequence[Published]) -> str:
    """How many claims of one paper came out how: a row for each kind of claims, a column for each published scale."""
    rows = [
        {"rows of kind": name} | {f"`{each.scale}`": counted(each.of_kind(kind)) for each in mine}
        for kind, name in KINDS.items()
        if any(each.of_kind(kind) for each in mine)
    ]
    pages = [f"[`{each.scale}`](../results/{each.folder.name}/review.html#{each.paper}-claims)" for each in mine]
    sentence = count_sentence(latest(mine), OF_ONE)
    return f"{sentence}\n\n{markdown(pd.DataFrame(rows))}\n\nEvery row, with its numbers: {', '.join(pages)}.".lstrip()


_Judged = list[tuple[str, dict[str, Any]]]
"""A claim by scale, as claims.json holds it: the scales that judged it, or one that did not where none did."""


def _by_claim(every: Sequence[Published]) -> dict[str, _Judged]:
    """Each claim of some results by its id, in the order of their claims."""
    found: dict[str, _Judged] = {}
    for each in every:
        for claim in each.claims:
            found.setdefault(claim["id"], []).append((each.scale, claim))
    judged = {name: [each for each in one if each[1]["verdict"] != Word.NOT_TESTED] for name, one in found.items()}
    return {name: judged[name] or found[name][:1] for name in found}


def _measured(missed: _Judged) -> str:
    """What was measured, with the scales and their numbers of seeds; what is the same at several stands once."""
    where = dict[str, list[str]]()
    for scale, each in missed:
        seeds = each["readable"]["seeds"]
        where.setdefault(each["readable"]["here"], []).append(f"{scale}, {seeds} seed{'s' * (seeds != '1')}")
    return "; ".join(f"{' and '.join(scales)}: {here}" for here, scales in where.items())
