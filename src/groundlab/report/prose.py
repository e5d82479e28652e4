"""The numbers in prose: each paragraph of results names what they come from, and is held against it.

A paragraph ends with a comment that no reader of the page sees:

    More actions cost GLAM 1.8 points [-0.1, 3.7], from 3 to 9.
    <!-- from: full/glam-room-actions-glam = not told apart; full/glam-sizes[npae]; given 3, 9 -->

Its items name, at a published scale or in a version that is no reference, a claim (with the verdict that the words
rest on, where they do), or a table, in brackets the words that a row of it must hold. `given` lists the numbers that
are no measurement: settings, counts of seeds, what a paper prints. Every number of the paragraph must then be one of
these, rounded as it is written there. Code, links and headings are no prose, and a table is none unless such a comment
ends it. `groundlab figures --publish` lists the sentences that no longer hold.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import read_reference

_NUMBER = re.compile(r"(?<![\w#§.,/-])[-−+]?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w/]|-\w|[.,]\d)")
_NAMED = r"[Ff]ig\.|[Tt]ables?|[Ss]ections?|§|[Qq]uirks?|[Ee]q\.|[Pp]ages?|family|model|Python|version|layouts?|seeds?"
_NOT_PROSE = re.compile(
    rf"95 % (?:t )?intervals?|`[^`]*`|"
    rf"\[[\d.]+\]\([^)]*\)|\]\([^)]*\)|<[^>]+>|\d{{4}}-\d\d-\d\d|(?:\b(?:{_NAMED})) ?\d[\d.]*(?:[-–]\d+)?"
)
_FROM = re.compile(r"<!-- from: (.*?) -->", re.DOTALL)
_UNIT = re.compile(r"\s*(?:%|points?\b)")
_ITEM = re.compile(r"([\w.-]+)/([\w.-]+)(?:\[([^\]]*)\])?(?: = (.+))?")


_RESULTS_END = "<!-- results:end -->"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a page, from its first line on; `sources` is what its comment holds, None without one."""

    page: Path
    line: int
    text: str
    sources: str | None


def paragraphs(page: Path, after: str = "") -> Iterator[Paragraph]:
    """The paragraphs of a page, of the part below the line `after` where that is given; code and
    tables without sources are left out."""
    text = page.read_text()
    begin = text.index(after) if after else 0
    line, code = text[:begin].count("\n") + 1, False
    for block in re.split(r"(\n\s*\n)", text[begin:]):
        fences = block.count("```")
        left_out = ("#", "!", "---") if _FROM.search(block) else ("|", "#", "!", "---")
        prose = "\n".join(each for each in block.splitlines() if not each.startswith(left_out))
        if prose.strip() and not code and not fences:
            for offset, part in _items(prose):
                found = _FROM.search(part)
                yield Paragraph(page, line + offset, _FROM.sub("", part), found[1] if found else None)
        code ^= fences % 2 == 1
        line += block.count("\n")


def _items(block: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each item of a list, or of the whole block."""
    starts = [match.start() for match in re.finditer(r"^(?:- |\d+\. )", block, re.MULTILINE)] or [0]
    for begin, end in zip([0, *starts[1:]], [*starts[1:], len(block)], strict=True):
        yield block[:begin].count("\n"), block[begin:end]


def numbers(text: str) -> list[str]:
    """The numbers of a paragraph, as they are written."""
    return [match.group().lstrip("+") for match in _NUMBER.finditer(_NOT_PROSE.sub(" ", text))]


def pages_of_results(root: Path) -> Iterator[tuple[Path, str]]:
    """(page, the line below which its paragraphs must name their sources, empty for all) of README and docs.

    Of a paper's three pages the first is results throughout, and the reference from the end of its tables on.
    """
    yield root / "README.md", ""
    yield root / "docs" / "artifact.md", ""
    for page in _pages_of_papers(root):
        if not page.stem.endswith("-method"):
            yield page, _RESULTS_END if page.stem.endswith("-reference") else ""


def _pages_of_papers(root: Path) -> list[Path]:
    return sorted((root / "docs" / "papers").glob("*.md"))


def stale(root: Path) -> list[str]:
    """What does not hold in the prose of README and docs, by the results that are published there."""
    pages = dict.fromkeys([*(page for page, _ in pages_of_results(root)), *_pages_of_papers(root)])
    return [line for page in pages for each in paragraphs(page) for line in problems(each, root / "results")]


def unsourced(root: Path) -> list[str]:
    """The paragraphs of results that hold a percentage, points or decimals and name no sources, each in a line."""
    return [
        f"{page.name}:{each.line}: no comment says where {', '.join(measured)} is from"
        for page, after in pages_of_results(root)
        for each in paragraphs(page, after)
        if each.sources is None and (measured := list(_measured(each.text)))
    ]


def _measured(text: str) -> Iterator[str]:
    """The numbers of a text that look like measurements: with decimals, or of percent or points."""
    prose = _NOT_PROSE.sub(" ", text)
    for match in _NUMBER.finditer(prose):
        if match[2] or _UNIT.match(prose, match.end()):
            yield match.group()


def problems(paragraph: Paragraph, results: Path) -> list[str]:
    """What does not hold of a paragraph, each in a line; empty where all of it does, or where it names no sources."""
    if paragraph.sources is None:
        return []
    where, known, found = f"{paragraph.page.name}:{paragraph.line}", list[float](), list[str]()
    for item in (each.strip() for each in paragraph.sources.split(";")):
        if item.startswith("given "):
            known += [float(each.replace(",", "")) for each in item.removeprefix("given ").split(", ")]
            continue
        match = _ITEM.fullmatch(item)
        source = match and _source(results, *match.group(1, 2, 3))
        if match is None or source is None:
            raise GroundlabError(
                f"{where}: {item!r} is neither a claim nor a table of the published results; "
                "write SCALE/CLAIM, SCALE/TABLE[words of its row], or `given` and the numbers that are no measurement"
            )
        values, verdict = source
        known += values
        if match[4] and match[4] != verdict:
            found.append(f"{match[2]} is {verdict!r}, not {match[4]!r}")
    found += [f"{each} is in none of its sources" for each in numbers(paragraph.text) if not _among(each, known)]
    return [f"{where}: {each}" for each in found]


def _among(written: str, known: list[float]) -> bool:
    """Whether a number, signs apart, is one of those known, rounded as it is written."""
    value, decimals = abs(float(written.replace(",", "").replace("−", "-"))), len(written.partition(".")[2])
    return any(abs(abs(each) - value) <= 0.5 * 10**-decimals + 1e-9 for each in known)


def _source(results: Path, scale: str, name: str, row: str | None) -> tuple[list[float], str] | None:
    """(its numbers, its verdict) of a claim or a table that is published at a scale, or is in a version; or None."""
    for paper, scales in read_reference(results).items():
        folder = results / scales.get(scale, scale)
        file = folder / "claims.json"
        claims = {claim["id"]: claim for claim in storage.read_json(file)} if file.is_file() else {}
        if name in claims:
            return list(_numbers_in(claims[name])), claims[name]["verdict"]
        table = folder / paper / "tables" / f"{name}.md"
        if table.is_file():
            lines = [line for line in table.read_text().splitlines() if line.startswith("|")]
            rows = [line for line in lines if all(word in line for word in (row or "").split())]
            return [float(each) for line in rows for each in re.findall(r"\d+(?:\.\d+)?", line.replace(",", ""))], ""
    return None


def _numbers_in(value: Any) -> Iterator[float]:
    """Every number in the record of a claim, those that it prints as text included."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _numbers_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _numbers_in(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value) if math.isfinite(value) else 0.0
    elif isinstance(value, str):
        yield from (float(each.replace(",", "")) for each in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", value))
