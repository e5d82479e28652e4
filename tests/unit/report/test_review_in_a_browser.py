"""The review page in headless Chromium: filters, search, anchors."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt install chromium")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-quic")  # fmt: skip


@pytest.fixture
def browser(tmp_path):
    """What a page has become once its script has run: `dom(page, "?paper=glam")`."""

    def dom(page: Path, rest: str = "", script: str = "") -> str:
        if script:  # what a reader would do or measure, and where the test reads it: <body data-found="...">
            copy = page.with_name("tried.html")
            copy.write_text(page.read_text().replace("</body>", f"<script>{{{script}}}</script></body>"))
            page = copy
        words = (CHROMIUM, *QUIET, f"--user-data-dir={tmp_path}", "--window-size=1200,900", "--dump-dom")
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
    assert missed == {name: row for name, row in everything.items() if row["verdict"] == "contradicted"}
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
