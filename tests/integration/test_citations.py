"""Every citation in code, configs, notebooks and docs leads to a numbered place in docs/papers."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page.read_text() for page in (ROOT / "docs" / "papers").glob("*.md")}
ANCHORS = {paper: set(re.findall(r'id="([\w-]+)"', text)) for paper, text in PAGES.items()}
_CITED = re.compile(r"docs/papers/([\w-]+)\.md((?:#[\w-]+)(?:(?:,| and| to)\s+#[\w-]+)*)")


def _texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    kept = (name for name in listed if name.startswith(("src/", "tests/", "configs/", "notebooks/", "docs/", "README")))
    return {name: (ROOT / name).read_text() for name in kept if name.endswith((".py", ".yaml", ".ipynb", ".md"))}


TEXTS = _texts()


def test_cited_places_exist():
    missing, count = [], 0
    for name, text in TEXTS.items():
        for paper, anchors in _CITED.findall(text):
            for anchor in re.findall(r"#([\w-]+)", anchors):
                count += 1
                if anchor not in ANCHORS.get(paper, ()):
                    missing.append(f"{name}: docs/papers/{paper}.md#{anchor}")
    assert count > 100 and not missing


@pytest.mark.parametrize("paper", sorted(page for page in PAGES if "-" not in page))
def test_quirks_named_in_a_papers_room_are_on_its_pages(paper):
    rooms = (f"src/groundlab/papers/{paper}/", f"configs/{paper}/")
    texts = {name: text for name, text in TEXTS.items() if name.startswith(rooms)}
    anchors = ANCHORS[paper] | ANCHORS[f"{paper}-method"] | ANCHORS[f"{paper}-reference"]
    named = {(name, number) for name, text in texts.items() for number in re.findall(r"\bQ(\d+)\b", text)}
    missing = [pair for pair in named if not {f"q{pair[1]}", f"env-q{pair[1]}"} & anchors]
    assert not missing


def test_nothing_cites_a_document_that_is_not_here():
    words = r"\b[Ss]pecs? (glam|reasoning|mediator|background|lm-|anchors|section|[A-Z]?\d)|\bdesign (section )?\d"
    assert not [f"{name}: {found[0]}" for name, text in TEXTS.items() if (found := re.search(words, text))]
