"""Numbers in prose: those of a paragraph's sources pass, any other is named; code, links and tables are no prose."""

import json
from pathlib import Path

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.report import prose


@pytest.fixture
def root(tmp_path) -> Path:
    """A repository with one published version: a claim and a table."""
    version = tmp_path / "results" / "1.0.0-full"
    (version / "glam" / "tables").mkdir(parents=True)
    gap = {"value": -1.81, "low": -3.75, "high": 0.13}
    claim = {
        "id": "a-claim",
        "verdict": "not told apart",
        "fresh": {"success: a - b": gap},
        "published": {"success": "89"},
    }
    (version / "claims.json").write_text(json.dumps([claim]))
    table = "| agent | success |\n|---|---|\n| NPAE | 57.8 % [41, 70] |\n| GLAM | 12,288 |\n"
    (version / "glam" / "tables" / "sizes.md").write_text(table)
    (tmp_path / "results" / "reference.json").write_text(json.dumps({"glam": {"full": version.name}}))
    return tmp_path


def told(root: Path, text: str) -> list[str]:
    page = root / "page.md"
    page.write_text(text)
    return [line for each in prose.paragraphs(page) for line in prose.problems(each, root / "results")]


@pytest.mark.parametrize(
    ("sentence", "sources", "wrong"),
    [
        ("It loses 1.8 points [-3.6, 0.1], from 3 to 9.", "full/a-claim; given 3, 9", ["-3.6"]),
        ("It loses 1.8 points [-3.8, 0.1], from 3 to 9.", "full/a-claim; given 3, 9", []),
        ("It loses 2 points (in the paper 89 %).", "full/a-claim = not told apart", []),
        ("It loses 1.9 points.", "full/a-claim", ["1.9"]),
        ("It loses 1.8 points.", "full/a-claim = ordering holds", ["not 'ordering holds'"]),
        ("NPAE reaches 57.8 % [41, 70].", "full/sizes[NPAE]", []),
        ("NPAE reaches 12,288.", "full/sizes[NPAE]", ["12,288"]),
        ("After 12,288 frames, 12288 in short.", "full/sizes", []),
        ("See [there](a-7.md), `9 %`, Fig. 3, quirk Q4, Table 12 of 2026-11-23 and E4.", "full/a-claim", []),
    ],
)
def test_every_number_of_a_paragraph_is_one_of_its_sources(sentence, sources, wrong, root):
    found = told(root, f"# A page of 77 %\n\n{sentence}\n<!-- from: {sources} -->\n\n| 99 % |\n")
    assert len(found) == len(wrong) and all(word in line for word, line in zip(wrong, found, strict=True))
    assert all(line.startswith("page.md:3: ") for line in found)


def test_each_item_of_a_list_has_sources_of_its_own_and_code_has_none(root):
    items = "".join(f"- 1.8 points\n  <!-- from: full/{name} -->\n" for name in ("a-claim", "sizes"))
    text = f"{items}\n```\n3 %\n\n4 %\n```\n"
    assert told(root, text) == ["page.md:3: 1.8 is in none of its sources"]
    (root / "page.md").write_text(text)
    assert [each.line for each in prose.paragraphs(root / "page.md")] == [1, 3]


def test_a_table_that_names_its_sources_is_held_against_them(root):
    table = "| agent | success |\n|---|---|\n| GLAM | 1.8 |\n| NPAE | 9.9 |\n"
    assert told(root, f"{table}<!-- from: full/a-claim -->\n") == ["page.md:1: 9.9 is in none of its sources"]
    assert told(root, table) == []


@pytest.mark.parametrize("sources", ["full/nothing", "quick/a-claim", "whatever"])
def test_a_source_that_is_none_is_refused(sources, root):
    with pytest.raises(GroundlabError, match=rf"page.md:1: '{sources}' is neither a claim nor a table .*; write "):
        told(root, f"1.8 points\n<!-- from: {sources} -->\n")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("It loses 1.8 points.", "1.8"),
        ("Of its missions 97 % succeed, in 100 layouts.", "97"),
        ("It is 4 points ahead.", "4"),
        ("Ten seeds, 100 layouts, rate 1.5e-4, GPT-3.5, `1.5`, Fig. 3 and [4.5](a-4.5.md).", None),
        ("It loses 1.8 points.\n<!-- from: full/a-claim -->", None),
    ],
)
def test_a_measured_number_below_the_tables_needs_sources_and_any_other_does_not(text, missing, root):
    page = root / "docs" / "papers" / "glam-reference.md"
    page.parent.mkdir(parents=True)
    for each in (root / "README.md", root / "docs" / "artifact.md"):
        each.write_text("")
    page.write_text(f"Above 3.3 %.\n\n<!-- results:end -->\n\n{text}\n")
    expected = [f"glam-reference.md:5: no comment says where {missing} is from"] if missing else []
    assert prose.unsourced(root) == expected


def test_the_first_page_of_a_paper_needs_sources_throughout_its_method_none_and_stale_ones_are_found_in_all(root):
    (root / "docs" / "papers").mkdir(parents=True)
    for each in ("README.md", "docs/artifact.md"):
        (root / each).write_text("")
    for name in ("glam", "glam-method"):
        (root / "docs" / "papers" / f"{name}.md").write_text(
            "Of all 3.3 %.\n\nHalf of it, 4.4 %.\n<!-- from: full/a-claim -->\n"
        )
    (root / "docs" / "papers" / "glam-reference.md").write_text("<!-- results:end -->\n")
    assert prose.unsourced(root) == ["glam.md:1: no comment says where 3.3 is from"]
    assert prose.stale(root) == [f"{name}.md:3: 4.4 is in none of its sources" for name in ("glam", "glam-method")]
