"""Every citation in code, configs, notebooks and docs leads to a numbered place in docs/papers.

The reviewer's page names claims, files and variables that exist; its commands: test_documented_commands.py.
"""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from groundlab.lab import config
from groundlab.language.chat import connection
from groundlab.report.claims import load_claims

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page.read_text() for page in (ROOT / "docs" / "papers").glob("*.md")}
ANCHORS = {paper: set(re.findall(r'id="([\w-]+)"', text)) for paper, text in PAGES.items()}
_CITED = re.compile(r"docs/papers/([\w-]+)\.md((?:#[\w-]+)(?:(?:,| and| to)\s+#[\w-]+)*)")


def _texts() -> dict[str, str]:
    folders = ("src", "tests", "configs", "notebooks", "docs")
    files = [ROOT / "README.md", *(file for name in folders for file in (ROOT / name).rglob("*.*"))]
    kept = [file for file in files if file.suffix in (".py", ".yaml", ".ipynb", ".md")]
    return {file.relative_to(ROOT).as_posix(): file.read_text() for file in kept}


TEXTS = _texts()


def test_cited_places_exist():
    cited = {
        (name, paper, anchor)
        for name, text in TEXTS.items()
        for paper, anchors in _CITED.findall(text)
        for anchor in re.findall(r"#([\w-]+)", anchors)
    }
    assert cited
    assert not [(name, f"{paper}.md#{anchor}") for name, paper, anchor in cited if anchor not in ANCHORS.get(paper, ())]


@pytest.mark.parametrize("paper", sorted(page for page in PAGES if "-" not in page))
def test_quirks_named_in_a_papers_room_are_on_its_pages(paper):
    rooms = (f"src/groundlab/papers/{paper}/", f"configs/{paper}/")
    texts = {name: text for name, text in TEXTS.items() if name.startswith(rooms)}
    anchors = ANCHORS[paper] | ANCHORS[f"{paper}-method"] | ANCHORS[f"{paper}-reference"]
    named = {(name, number) for name, text in texts.items() for number in re.findall(r"\bQ(\d+)\b", text)}
    missing = [pair for pair in named if not {f"q{pair[1]}", f"env-q{pair[1]}"} & anchors]
    assert not missing


PAGE = (ROOT / "docs" / "artifact.md").read_text()
CLAIMS = [claim.id for claim in load_claims()]
QUOTED = re.findall(r"`([^`\n]+)`", re.sub(r"^```\n.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL))


def test_every_claim_that_is_named_is_in_the_claims_and_none_is_forgotten():
    papers = tuple(f"{paper}-" for paper in config.known_papers())
    named = [word for word in QUOTED if word.startswith(papers)]
    assert [pattern for pattern in named if not any(fnmatch(claim, pattern) for claim in CLAIMS)] == []
    assert [claim for claim in CLAIMS if not any(fnmatch(claim, pattern) for pattern in named)] == []


def test_every_file_and_variable_that_is_named_exists():
    files = [word for word in QUOTED if re.fullmatch(r"[\w./-]+\.(yaml|def|cff|lock|toml|md)", word)]
    assert files and [name for name in files if not (ROOT / name).exists()] == []
    variables = {word for word in QUOTED if re.fullmatch(r"(OPENAI|GROUNDLAB_LLM)_\w+", word)}
    assert variables == {connection.KEY, connection.ATTEMPTS, connection.TIMEOUT}
