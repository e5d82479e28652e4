"""The review page in headless Chromium: filters, search, anchors, a narrow screen, text that looks like a script."""

import re
import shutil
import subprocess
from pathlib import Path

import made_up
import pytest

from groundlab.report import review

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt install chromium")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-quic")  # fmt: skip


@pytest.fixture
def browser(tmp_path):
    """What a page has become once its script has run: `dom(page, "?paper=glam")`, at a width in pixels."""

    def dom(page: Path, rest: str = "", width: int = 1200, script: str = "") -> str:
        if script:  # what a reader would do or measure, and where the test reads it: <body data-found="...">
            copy = page.with_name("tried.html")
            copy.write_text(page.read_text().replace("</body>", f"<script>{{{script}}}</script></body>"))
            page = copy
        words = (CHROMIUM, *QUIET, f"--user-data-dir={tmp_path}", f"--window-size={width},900", "--dump-dom")
        shown = subprocess.run([*words, f"file://{page}{rest}"], capture_output=True, text=True, timeout=500)
        return shown.stdout

    return dom


def _rows(dom: str) -> dict[str, dict[str, str]]:
    """The claims that are shown, with what they can be filtered by."""
    tags = re.findall(r'<tr id="([^"]+)"([^>]*)>', dom)
    return {name: dict(re.findall(r'data-(\w+)="([^"]*)"', rest)) for name, rest in tags if "hidden" not in rest}


def _found(dom: str) -> str:
    return re.findall(r'<body[^>]*data-found="([^"]*)"', dom)[0]


def test_a_filter_shows_the_claims_of_its_verdict_and_counts_them(reviewed, browser):
    everything = _rows(browser(reviewed.page))
    missed = _rows(dom := browser(reviewed.page, "?verdict=not+reproduced"))
    assert 0 < len(missed) < len(everything)
    assert missed == {name: row for name, row in everything.items() if row["verdict"] == "not reproduced"}
    assert f"{len(missed)} of {len(everything)} claims" in dom


def test_search_looks_for_the_words_as_they_are_written_whatever_their_case(reviewed, browser):
    shown = _rows(browser(reviewed.page, "?words=KEYINBOX,+always"))
    assert "mediator-table1-KeyInBox-always" in shown and "mediator-table1-KeyInBox-hard-coded" not in shown
    assert _rows(browser(reviewed.page, "?words=always+keyinbox")) == {}, "the same words in another order"


def test_typing_filters_and_a_link_to_a_hidden_claim_shows_it(reviewed, browser):
    script = """const box = document.querySelector("[type=search]"); box.value = "no such words";
    box.dispatchEvent(new Event("input", {bubbles: true}));
    const count = () => document.querySelectorAll("tr[id]:not(.hidden)").length, before = count();
    addEventListener("hashchange", () => document.body.dataset.found = `${before} ${count() > 0}`);
    location.hash = "mediator-table1-SimpleDoorKey-always";"""
    assert _found(browser(reviewed.page, script=script)) == "0 true"


def test_on_a_telephone_nothing_is_wider_than_the_screen_and_a_claim_is_followed_by_its_verdict(reviewed, browser):
    script = """const row = document.querySelector("tr[id]"), top = each => each.getBoundingClientRect().top;
    const shown = [...row.children].filter(each => each.offsetHeight).sort((a, b) => top(a) - top(b));
    const wide = document.documentElement.scrollWidth > innerWidth;
    document.body.dataset.found = `${wide} ${shown[0] === row.children[0]} ${shown[1].className}`;"""
    assert _found(browser(reviewed.page, width=500, script=script)) == "false true verdict"


def test_on_a_telephone_a_word_in_a_table_is_not_broken(reviewed, browser):
    """The table is moved sideways in its own frame instead."""
    script = """const text = document.querySelector(".scroll tbody td").firstChild, range = document.createRange();
    range.selectNodeContents(text);
    document.body.dataset.found = `${text.data} ${range.getClientRects().length}`;"""
    assert _found(browser(reviewed.page, width=500, script=script)) == "SimpleDoorKey 1"


@pytest.mark.parametrize("width", [800, 1280])
def test_a_link_to_a_claim_shows_the_heads_of_its_columns_between_the_filters_and_the_claim(width, reviewed, browser):
    script = """const box = each => document.querySelector(each).getBoundingClientRect();
    const row = document.getElementById(location.hash.slice(1)), head = row.closest("table").querySelector("th");
    const bar = box(".filters").bottom, first = head.getBoundingClientRect(), claim = row.getBoundingClientRect().top;
    document.body.dataset.found = `${scrollY > 500} ${first.top <= bar && first.bottom > bar + 10} ${
      claim >= first.bottom - 2 && claim < first.bottom + 40}`;"""
    found = browser(reviewed.page, "#mediator-table1-KeyInBox-always", width=width, script=script)
    assert _found(found) == "true true true"


def test_text_of_records_is_never_run(results, browser):
    entry = {
        "label": "<script>document.title='run'</script>",
        "status": "failed",
        "error": "<img src=x onerror=alert(1)>",
    }
    stored = made_up.seal_version(results)["runs"]
    times = {"wall_seconds": 1.0, "cpu_seconds": 1.0, "peak_memory_mib": 9.0, "folder": None, "seal": None}
    made_up.seal_version(results, runs=[*stored, {**stored[0], **entry, **times}])
    dom = browser(review(results).page)
    assert "<title>groundlab review" in dom and "&lt;script&gt;" in dom and '<img src="x"' not in dom
