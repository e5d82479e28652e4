"""Executed notebooks as HTML: whole, without scripts, and without the paths of the machine that ran them."""

from pathlib import Path

import nbformat
import pytest

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.report.html_pages import main, write_pages


@pytest.fixture
def results(tmp_path) -> Path:
    """A published version with one executed notebook."""
    home = tmp_path / "results"
    told = nbformat.v4.new_code_cell("folder = '/opt/secret'", metadata={"tags": ["injected-parameters"]})
    answer = nbformat.v4.new_output("execute_result", {"text/html": "<b>42 %</b>", "text/plain": "42"})
    cells = [nbformat.v4.new_markdown_cell("# A <b>page</b>\n\nText."), told]
    cells.append(nbformat.v4.new_code_cell("report.draw('x', folder)", outputs=[answer]))
    file = home / "1.0.0-quick-x" / "glam" / "executed" / "03_glam.ipynb"
    storage.make_folder(file.parent)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), file)
    storage.write_atomic(home / "1.0.0-quick-x" / "review.html", "<p>claims</p>")
    storage.write_json(home / "reference.json", {"glam": {"quick": "1.0.0-quick-x"}})
    return home


def test_a_page_holds_text_code_and_outputs_and_is_listed_beside_its_review(results, tmp_path):
    (page,) = write_pages(results, tmp_path / "site")
    text = (tmp_path / "site" / page.file).read_text()
    assert page.file == "03_glam-quick.html" and "<b>42 %</b>" in text and "Text." in text
    assert "draw" in text and "<script" not in text and "/opt/secret" not in text
    index = (tmp_path / "site" / "index.html").read_text()
    assert 'href="03_glam-quick.html"' in index and 'href="review-1.0.0-quick-x.html"' in index
    assert "A &lt;b&gt;page&lt;/b&gt;" in index
    assert (tmp_path / "site" / "review-1.0.0-quick-x.html").read_text() == "<p>claims</p>"


def test_the_index_links_the_worlds_where_their_pages_are(results, tmp_path):
    write_pages(results, tmp_path / "site")
    assert "worlds/index.html" not in (tmp_path / "site" / "index.html").read_text()
    storage.write_atomic(tmp_path / "site" / "worlds" / "index.html", "<p>worlds</p>")
    write_pages(results, tmp_path / "site")
    assert 'href="worlds/index.html"' in (tmp_path / "site" / "index.html").read_text()


def test_where_nothing_is_published_one_line_says_so(tmp_path):
    with pytest.raises(GroundlabError, match="names no published notebooks"):
        write_pages(tmp_path, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_without_a_folder_the_command_says_how_it_is_called(monkeypatch):
    monkeypatch.setattr("sys.argv", ["html_pages.py"])
    with pytest.raises(
        SystemExit, match=r"name one folder for the pages: python -m groundlab\.report\.html_pages site"
    ):
        main()
