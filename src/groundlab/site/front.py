"""The first page: what came out, paper by paper, and the sidebar. Its numbers are those of the published results."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundlab.core import plugins
from groundlab.core.paths import repository_root
from groundlab.report import front_page
from groundlab.report.front_page import Published
from groundlab.report.verdicts import NOT_RUN, SIGNS
from groundlab.site import pages
from groundlab.worlds import facts

_PICTURE = re.compile(r"^!\[[^\]]*\]\(figures/[^)]*\)\n\n\*[^*]*\*$", re.MULTILINE)
_COMMANDS = re.compile(r"^```\n[^`]*nox -s reproduce[^`]*```$", re.MULTILINE)


def write(source: Path) -> None:
    """Write index.md: the beginning of README and its first figure, and layout index.md.j2 around them."""
    root = repository_root()
    every = list(front_page.published(root / "results", judged=True))
    readme = (root / "README.md").read_text(encoding="utf-8")
    title, about, *_ = readme.split("\n\n")
    picture, commands = _PICTURE.search(readme), _COMMANDS.search(readme)
    pages.write(
        source,
        "index",
        "index.md.j2",
        title=title,
        about=about,
        commands=commands[0] if commands else "",
        picture=picture[0] if picture else "",
        papers=[_paper(mine) for mine in front_page.by_paper(every).values()],
        claims=len({claim["id"] for each in every for claim in each.claims}),
        worlds=len(facts.every()),
    )


def _paper(mine: Sequence[Published]) -> dict[str, Any]:
    """Return the findings of a paper, and the number of its claims per sign at its best scale."""
    best = front_page.best_scale(mine)
    signs = Counter(SIGNS[claim["verdict"]] for claim in best.claims if claim["verdict"] != NOT_RUN)
    paper = plugins.load(plugins.PAPERS)[best.paper]
    return {"name": best.paper, "paper": paper, "found": front_page.finding(mine), "scale": best.scale, "signs": signs}
