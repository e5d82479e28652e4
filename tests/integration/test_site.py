"""The site: some pages of each kind are made by the command of `nox -s site`, and each of their links is followed.

`GROUNDLAB_SITE=site pytest tests/integration/test_site.py` tries a whole site that is there.
"""

import os
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx")

from groundlab.core.errors import GroundlabError
from groundlab.core.paths import repository_root
from groundlab.site.build import build
from groundlab.worlds import facts


class Page(HTMLParser):
    """What a page links and embeds, and the anchors that it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links, self.embedded, self.anchors = list[str](), list[str](), {"top"}
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if "href" in values:
            (self.links if tag == "a" else self.embedded).append(values["href"])
        if "src" in values and tag != "a":
            self.embedded.append(values["src"])


page = cache(Page)


def dead(home: Path) -> list[str]:
    """What a site links and does not have, and what it links by more than a relative address."""
    found = []
    for file in sorted(home.rglob("*.html")):
        addresses = [(each, True) for each in page(file).links] + [(each, False) for each in page(file).embedded]
        for address, may_leave in addresses:
            parts = urlsplit(address)
            if (parts.scheme in ("http", "https", "mailto") and may_leave) or parts.scheme == "data":
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
            outside = parts.scheme or parts.netloc or not target.is_relative_to(home.resolve())
            anchor = "" if "=" in parts.fragment else unquote(parts.fragment)  # an episode is not an anchor
            lost = not target.is_file() or (anchor and anchor not in page(target).anchors)
            if outside or lost:
                found.append(f"{file.relative_to(home)}: {address}")
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    if named := os.environ.get("GROUNDLAB_SITE"):
        return Path(named).resolve()
    home = tmp_path_factory.mktemp("site") / "under" / "a" / "path"
    subprocess.run([sys.executable, "-m", "groundlab.site", str(home), "--limit", "3"], check=True, timeout=500)
    return home


def test_no_link_is_dead_and_none_leaves_the_site_but_to_other_places(site):
    assert dead(site) == []


def test_no_page_has_the_path_of_this_machine(site):
    root = str(repository_root())
    assert [file for file in site.rglob("*.html") if root in file.read_text()] == []


def test_the_front_says_what_came_out_of_each_paper_and_leads_to_its_claims(site):
    front = page(site / "index.html")
    for paper in ("glam", "reasoning", "mediator", "knowledge", "worlds"):
        assert {f"docs/papers/{paper}.html", f"claims/index.html#{paper}"} <= set(front.links)
    assert (site / "index.html").read_text().count('class="bar"') == 5 and "docs/adapters.html" in front.links


def test_links_of_docs_lead_to_the_pages_of_claims_and_notebooks(site):
    docs = {link for name in ("README", "docs/claims") for link in page(site / f"{name}.html").links}
    assert any(link.startswith("notebooks/0") for link in docs)
    assert not any("review.html" in link or link.endswith(".ipynb") for link in docs)


def test_the_page_of_a_world_shows_it_and_says_what_was_measured(site):
    pages = {file.stem: file.read_text() for file in (site / "worlds").glob("*.html") if file.stem != "index"}
    index = (site / "worlds" / "index.html").read_text()
    assert pages and index.count('class="world g') == len(pages)
    for name, text in pages.items():
        known = next(each for each in facts.every() if each.name.replace("/", "-") == name)
        assert f"{known.chance.success:.1f} %" in text and f"{name}.html" in index
        assert known.name in text and (site / "_static" / "worlds" / f"{name}.png").stat().st_size > 300


def test_a_notebook_shows_its_outputs_and_not_the_cell_of_the_laboratory(site):
    text = next((site / "notebooks").glob("0*.html")).read_text()
    assert 'class="output"' in text and "# Parameters" not in text


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(GroundlabError, match="holds something else than a site"):
        build(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
