"""The first page: what came out, paper by paper, and three doors. Its numbers are those of the published results."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from groundlab.core import plugins
from groundlab.core.paths import repository_root
from groundlab.report import front_page
from groundlab.report.front_page import Published
from groundlab.report.verdicts import MISSED, NOT_RUN, SIGNS
from groundlab.site import links
from groundlab.worlds import facts

_SIDEBAR = {
    "Results": (
        "claims/index",
        "What failed, and why <docs/claims>",
        "runs/index",
        "episodes/index",
        "notebooks/index",
        "results/index",
    ),
    "Papers": (),
    "Use": ("worlds/index", "docs/adapters", "docs/commands", "docs/cluster", "docs/extend", "reference/index"),
    "More": ("Read me <readme>", "docs/artifact", "docs/faq", "docs/glossary", "docs/log/2026-11", "changelog"),
}
"""What stands under which heading; the papers are those that are published, and what was not written is left out."""
_OUTCOMES = {"✓": "hold", "~": "are seen with few seeds", "?": "cannot be told", "✗": "are not reproduced"}
_CLASSES = dict(zip(_OUTCOMES, ("good", "seen", "open", "bad"), strict=True))


def write(source: Path) -> None:
    """Write index.md with the sidebar of the whole site."""
    root = repository_root()
    every = list(front_page.published(root / "results"))
    papers = front_page.by_paper(every)
    readme = links.Links(root, source).markdown((root / "README.md").read_text(), "README.md", "index")
    title, about, commands, *_ = readme.split("\n\n")
    picture = re.search(r"^<img .*?\n\n\*.*?\*$", readme, re.MULTILINE | re.DOTALL)
    parts = [
        title,
        about,
        _doors(source, every),
        "## What came out",
        *(_paper(mine, source) for mine in papers.values()),
    ]
    parts += [picture[0] if picture else "", "## Run it", commands, "[What the commands do](readme.html)"]
    sections = _SIDEBAR | {"Papers": tuple(f"docs/papers/{paper}" for paper in papers)}
    for caption, names in sections.items():
        written = "\n".join(name for name in names if _is_there(source, name.partition("<")[2].rstrip(">") or name))
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{written}\n```")
    links.write(source, "index", "\n\n".join(parts) + "\n")


def _is_there(source: Path, name: str) -> bool:
    return (source / f"{name}.md").is_file()


def _doors(source: Path, every: Sequence[Published]) -> str:
    claims = {claim["id"]: claim for each in every for claim in each.claims}
    doors = {
        f"Check a claim: {len(claims)} of them": (
            ("all claims", "claims/index"),
            ("what was not reproduced, and why", "docs/claims"),
            ("every run", "runs/index"),
            ("notebooks", "notebooks/index"),
        ),
        f"Use the worlds: {len(facts.every())} of them": (
            ("all worlds", "worlds/index"),
            ("install, and other trainers", "docs/adapters"),
            ("watch episodes", "episodes/index"),
        ),
        "Read the code": (
            ("the house", "readme"),
            ("Python reference", "reference/index"),
            ("add a method, a world, a paper", "docs/extend"),
        ),
    }
    parts = []
    for heading, ways in doors.items():
        there = [(words, name) for words, name in ways if _is_there(source, name)]
        items = "".join(f'<li><a href="{name}.html">{words}</a></li>' for words, name in there)
        parts.append(f"<div><strong>{heading}</strong><ul>{items}</ul></div>")
    return f'<div class="doors">{"".join(parts)}</div>'


def _paper(mine: Sequence[Published], source: Path) -> str:
    """A paper's question, what came out in numbers, and how many of its claims at its best scale came out how."""
    paper, best = plugins.load(plugins.PAPERS)[mine[0].paper], front_page.best_scale(mine)
    judged = [claim for claim in best.claims if claim["verdict"] != NOT_RUN]
    counts = Counter(SIGNS[claim["verdict"]] for claim in judged)
    bar = "".join(
        f'<span class="{_CLASSES[sign]}" style="flex-grow:{counts[sign]}">{sign} {counts[sign]}</span>'
        for sign in _OUTCOMES
        if counts[sign]
    )
    words = ", ".join(f"{counts[sign]} {word}" for sign, word in _OUTCOMES.items() if counts[sign])
    name = mine[0].paper
    ways = [f"[Results](docs/papers/{name}.html)"]
    if failed := counts[SIGNS[MISSED]]:
        ways += [f"[the {failed} and why](docs/claims.html)"]
    ways += [f"[claims](claims/index.html?paper={name})"] if _is_there(source, "claims/index") else []
    ways += [f"[the paper]({paper.url})"] if paper.url else []
    return (
        f"### [{paper.title}](docs/papers/{name}.html)\n\n*{paper.question}* {front_page.finding(mine)}\n\n"
        f'<div class="bar" aria-hidden="true">{bar}</div>\n\n'
        f"Of {len(judged)} claims judged at scale `{best.scale}`: {words}. {' · '.join(ways)}"
    )
