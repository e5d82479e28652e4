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
from groundlab.report.verdicts import Word, count_sentence, statements
from groundlab.site import pages
from groundlab.worlds import facts

_PICTURE = re.compile(r"^!\[[^\]]*\]\(figures/[^)]*\)\n\n\*[^*]*\*$", re.MULTILINE)
_COMMANDS = re.compile(r"^```\n[^`]*nox -s reproduce[^`]*```$", re.MULTILINE)


def write(source: Path) -> None:
    """Write index.md: the beginning of README and its first figure, and layout index.md.j2 around them."""
    root = repository_root()
    every = list(front_page.published(root / "results"))
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
        count=count_sentence(front_page.latest(every)),
        worlds=len(facts.every()),
    )


def _paper(mine: Sequence[Published]) -> dict[str, Any]:
    """Return the findings of a paper, the count of its claims about its method, and that count by signs."""
    name, claims = mine[0].paper, front_page.latest(mine)
    signs = Counter(Word(each["verdict"]).sign for each in statements(claims) if each["verdict"] != Word.NOT_TESTED)
    paper = plugins.load(plugins.PAPERS)[name]
    count = count_sentence(claims, "the paper makes about its method")
    return {"name": name, "paper": paper, "found": front_page.finding(mine), "count": count, "signs": signs}
