"""The claims of a paper as a Trackio logbook: a page each with its sentence, the command, what came out and a figure.

    write(Path("out/logbooks"), ["glam"])     # out/logbooks/glam/.trackio/logbook/pages/...

Trackio (https://huggingface.co/docs/trackio/logbooks) keeps a logbook as Markdown below `.trackio/logbook/pages`: cells
of Markdown, code and figures between lines of `---`, each under a comment with its facts. Only these sources are
written; `trackio logbook sync` in a paper's folder makes the rest, and `trackio logbook open` shows it. It is the form
of the reproduction challenge of ICML 2026.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundlab.core import plugins, storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.manifests import read_reference, read_version
from groundlab.core.paths import repository_root
from groundlab.report.review import duration
from groundlab.report.style import data_uri
from groundlab.report.verdicts import MEANINGS, SIGNS
from groundlab.site import claims
from groundlab.site.evidence import Evidence, Judged, collect
from groundlab.site.pages import LAYOUTS, levels_figure


def write(out: Path, papers: Sequence[str] = ()) -> list[Path]:
    """Write a logbook for each paper, or for those named, and return their folders.

    Raises GroundlabError for an unknown paper, and for a folder that holds a logbook already.
    """
    results = repository_root() / "results"
    for paper in papers:
        if paper not in (known := read_reference(results)):
            raise unknown_name("published paper", paper, known)
    evidence = collect(results, papers)
    by_paper: dict[str, list[list[Judged]]] = {}
    for judged in evidence.claims.values():
        by_paper.setdefault(judged[0].claim.paper, []).append(judged)
    folders = [out / paper for paper in by_paper]
    for folder in folders:
        if (folder / ".trackio").exists():
            raise GroundlabError(f"{folder} holds a logbook already; name another folder, or delete {folder}/.trackio")
    for folder in folders:
        _write_paper(folder / ".trackio", by_paper[folder.name], evidence)
    return folders


def _write_paper(home: Path, every: list[list[Judged]], evidence: Evidence) -> None:
    paper = plugins.load(plugins.PAPERS)[every[0][0].claim.paper]
    created = read_version(every[0][0].folder)["created"]
    every, bar = sorted(every, key=claims.badness), "\\|"
    rows = [
        f"| {SIGNS[first.verdict]} {first.verdict} | [{first.claim.locus.replace('|', bar)}](#/{first.claim.id}) |"
        for first in map(claims.first_judged, every)
    ]
    index = [f"# {paper.title}", "", f"{paper.question} {paper.url}", "", "## Pages", "", "| Status | Page |"]
    pages = home / "logbook" / "pages"
    storage.write_atomic(pages / "index.md", "\n".join([*index, "| --- | --- |", *rows]) + "\n")
    for judged in every:
        storage.write_atomic(pages / judged[0].claim.id / "page.md", page(judged, evidence, created))
    facts = {"space_id": None, "emoji": "🎯", "created_at": created, "paper": {"title": paper.title, "url": paper.url}}
    storage.write_json(home / "metadata.json", facts)


def page(judged: list[Judged], evidence: Evidence, created: str) -> str:
    """The page of a claim: its sentence and verdict, then for each scale the command, its result and its levels."""
    first, claim = claims.first_judged(judged), judged[0].claim
    said = [
        f"> {claim.statement}",
        f"**{first.verdict.capitalize()}** at scale {first.scale}: {MEANINGS[first.verdict]}.",
    ]
    said += [f"**Why it missed**: {first.stored['why']}"] if first.stored["why"] else []
    said += [f"{claims.KINDS[claim.kind].capitalize()}, `{claim.id}` in groundlab."]
    cells = [("markdown", "Claim", "\n\n".join(said))]
    for each in judged:
        if each.runs:
            cells += [
                ("code", f"Scale {each.scale}: {each.verdict}", _result(each)),
                ("figure", f"Levels at scale {each.scale}", _levels(each, evidence)),
            ]
    image = first.folder / claim.paper / "figures" / f"{claim.exhibit}.png"
    if claim.exhibit and image.is_file():
        shown = f'<img src="{data_uri(image.read_bytes())}" alt="{claim.exhibit}" style="max-width:100%">'
        cells += [("figure", claim.exhibit, _fenced("html", shown))]
    code = [
        f"- {method}: `{file}` at {', '.join(commits)}"
        for (method, file), commits in claims.code_behind(first, evidence).items()
    ]
    cells += [("markdown", "Code", "\n".join(code) or f"Not run: {first.stored['reason']}.")]
    return f"# {claim.locus}\n" + "".join(_cell(claim.id, place, created, *cell) for place, cell in enumerate(cells))


def _cell(claim: str, place: int, created: str, kind: str, title: str, body: str) -> str:
    name = f"cell_{storage.digest_bytes(f'{claim} {place}'.encode())[:12]}"
    facts = {"type": kind, "id": name, "created_at": created, "title": title}
    return f"\n\n---\n<!-- trackio-cell\n{json.dumps(facts, ensure_ascii=False)}\n-->\n{body}\n"


def _result(judged: Judged) -> str:
    row = judged.stored["readable"]
    said = {name: row[name] for name in ("here", "paper", "original re-run") if row[name] != "–"}
    said |= {"judged by": f"{judged.stored['reason']} (class {judged.claim.tolerance})"}
    lines = [f"{name}: {text.replace('; ', f';{chr(10)}  ')}" for name, text in said.items()]
    output = "\n".join([judged.verdict, *lines, f"{len(judged.runs)} runs, {duration(judged.stored['seconds'])}"])
    return f"{_fenced('bash', f'$ {judged.claim.redo(judged.scale)}')}\n\n{_fenced('output', output)}"


def _levels(judged: Judged, evidence: Evidence) -> str:
    style = (LAYOUTS / "evidence.css").read_text()
    drawn = [
        levels_figure(claims.caption(name, sides), claims.strip(sides, evidence))
        for name, sides in judged.levels.items()
    ]
    raw: dict[str, Any] = {name: {side.name: side.by_run for side in sides} for name, sides in judged.levels.items()}
    return f"{_fenced('html', f'<style>{style}</style>' + ''.join(drawn))}\n\n{_fenced('raw', json.dumps(raw))}"


def _fenced(kind: str, text: str) -> str:
    return f"````{kind}\n{text.strip()}\n````"
