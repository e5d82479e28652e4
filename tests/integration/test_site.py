"""The site: a sample of it is made by the command of `nox -s site`, and each of its links is followed.

`GROUNDLAB_SITE=site pytest tests/integration/test_site.py` tries a whole site that is there.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.site import links
from groundlab.site.build import build
from groundlab.site.words import Words
from groundlab.worlds import facts

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HEAVIEST = 300_000  # bytes of a page without its pictures
ALONE = "review.html"  # the page of a version, one file that works without a site


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
            anchor = "" if "=" in parts.fragment else unquote(parts.fragment)  # a filter of the board is no anchor
            lost = not target.is_file() or (anchor and anchor not in page(target).anchors)
            if outside or lost:
                found.append(f"{file.relative_to(home)}: {address}")
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    if named := os.environ.get("GROUNDLAB_SITE"):
        return Path(named).resolve()
    home = tmp_path_factory.mktemp("site") / "under" / "a" / "path"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "groundlab.site", str(home), "--sample"], check=True, timeout=500)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f} CPU-seconds")
    return home


def test_no_link_is_dead_and_none_leaves_the_site_but_to_other_places(site):
    assert dead(site) == []


def test_no_page_is_heavy_and_none_has_the_path_of_this_machine(site):
    pages = {file: re.sub(r"data:image[^\"]*", "", file.read_text()) for file in site.rglob("*.html")}
    sizes = {str(file.relative_to(site)): len(text.encode()) for file, text in pages.items() if file.name != ALONE}
    assert {name: size for name, size in sizes.items() if size > HEAVIEST} == {}
    assert [file for file, text in pages.items() if str(links.__file__).partition("/src/")[0] in text] == []
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < 60e6


def test_the_front_has_three_doors_and_what_came_out_of_each_paper(site):
    text = (site / "index.html").read_text()
    assert all(f"{door} " in text for door in ("Check a claim:", "Use the worlds:", "Read the")) and "78.8 %" in text
    assert text.count('class="bar"') == 5


def test_the_front_opens_the_board_with_the_claims_of_each_paper_alone(site):
    asked = [urlsplit(each).query for each in page(site / "index.html").links if each.startswith("claims/index.html?")]
    (papers,) = re.findall('<select name="paper">(.*?)</select>', (site / "claims" / "index.html").read_text())
    known = {f"paper={each}" for each in re.findall("<option>(.*?)</option>", papers)}  # of a sample, some
    assert len(set(asked)) == len(asked) == 5 and known and known <= set(asked)


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


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt install chromium")
@pytest.mark.parametrize(("asked", "found"), [("on-change", "mediator"), ("Fig. 4", "glam"), ("arm", "glossary")])
def test_the_search_works_from_files(site, tmp_path, asked, found):
    words = (CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom")
    address = f"{(site / 'search.html').as_uri()}?q={asked.replace(' ', '+')}"
    shown = subprocess.run([*words, "--virtual-time-budget=9000", address], capture_output=True, text=True, timeout=500)
    results = re.findall(r'<li[^>]*class="kind-[^"]*"[^>]*><a href="([^"]*)"', shown.stdout)
    assert any(found in each for each in results)


def test_a_word_of_the_search_is_whole_and_in_its_parts():
    words = Words({}).split("It asks on-change, as in Fig. 4 and Table 1.")
    assert {"on-change", "on", "change", "fig4", "table1", "fig", "asks"} <= set(words)


def test_a_link_to_what_the_site_does_not_have_is_text_and_code_stays(tmp_path):
    root, source = tmp_path / "root", tmp_path / "source"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "a.py").write_text("x = 1\n")
    links.write(source, "docs/b", "")
    text = '## <a id="x"></a>A\n\n[b](b.md#x) [`c`](c.md) [a](a.py) `[i](j)` <!-- x -->[w](https://w.org)'
    made = links.Links(root, source).markdown(text, "docs/f.md", "docs/f")
    assert '<div id="x"></div>\n\n## A' in made
    assert "[b](b.html#x) `c` [a](../source/docs/a.py.html) `[i](j)`[w](https://w.org)" in made
    assert "x = 1" in (source / "source" / "docs" / "a.py.md").read_text()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(GroundlabError, match="holds something else than a site"):
        build(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
