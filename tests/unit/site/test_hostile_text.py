"""Texts in pages, such as replies and links, may be anything: they stay texts, and no file is read or written."""

import subprocess
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from groundlab.core.errors import GroundlabError
from groundlab.report.front_page import Published

docutils = pytest.importorskip("sphinx.util.docutils")

from groundlab.site import build, documents  # noqa: E402

UP = "../" * 12
LINES = [
    "````",
    "`````{raw} html",
    "<script>alert()</script>",
    "`````",
    "</pre><script>alert()</script>",
    "{{ x }} $$y$$",
]


class Read(HTMLParser):
    """The text of a page, and what it holds that acts by itself."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.text, self.acts, self.tag = "", list[str](), ""
        self.feed(file.read_text())

    def handle_starttag(self, tag, attrs):
        self.tag = tag
        self.acts += [tag] * (tag in ("iframe", "object")) + [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data):
        self.text += data
        self.acts += [data] * (self.tag == "script" and "alert" in data)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A clone with a README and a notebook, and a secret outside it."""
    root = tmp_path / "clone"
    (root / "docs").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("# My secret")
    (root / "pyproject.toml").write_text("")
    (root / "README.md").write_text("# Read me")
    for part in (build.worlds, build.claims, build.runs, build.episodes):
        monkeypatch.setattr(part, "write", lambda *_: None)
    monkeypatch.setattr(build, "collect", lambda *_: None)
    contents = "# Front\n\n```{toctree}\n:glob:\n\n*\n*/*\n```\n"
    monkeypatch.setattr(build.front, "write", lambda source: (source / "index.md").write_text(contents))
    for module in (build, documents):
        monkeypatch.setattr(module, "repository_root", lambda: root)
    monkeypatch.setattr(documents, "published", lambda *_, **__: [Published("glam", "quick", root / "results", ())])
    monkeypatch.setattr(build, "LAYOUTS", tmp_path / "layouts")
    (tmp_path / "layouts").mkdir()
    (tmp_path / "layouts" / "reference.md").write_text("# Reference")
    (tmp_path / "layouts" / "site.js").write_text("")
    subprocess.run(["git", "init", "-q", root], check=True)
    write_notebook(root, [])
    return root


def write_notebook(root: Path, cells: list) -> None:
    file = root / "results" / "glam" / "executed" / "page.ipynb"
    file.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Page"), *cells]), file)


def made(root: Path, *left_out: str) -> Path:
    """The site of what git tracks there."""
    subprocess.run(["git", "-C", root, "add", ".", *(f":!{name}" for name in left_out)], check=True)
    out = root.parent / "site"
    with docutils.docutils_namespace():
        build.build(out)
    return out


def test_what_a_notebook_printed_is_text_and_writes_nothing(root, tmp_path):
    secret = f"{UP}{str(tmp_path)[1:]}/secret.md"
    lines = [*LINES, f":::{{include}} {secret}", f"```{{include}} {secret}", f"{{download}}`x <{secret}>`"]
    lines += ["", ".. autosummary::", f"   :toctree: {UP}{str(tmp_path)[1:]}/written", "", "   os"]
    printed, html = "\n".join(lines), "<b>fine</b><script>alert()</script>\n`````\n\n<i onclick='alert()'>i</i>"
    outputs = [
        new_output("stream", text=f"\x1b[31m{printed}"),
        new_output("execute_result", {"text/html": html}),
        new_output("execute_result", {"text/markdown": f"- a note\n\n{printed}"}),
        new_output("stream", text=f"last: {printed}"),  # after a list, an indented text would belong to it
        new_output("error", ename="E", evalue="e", traceback=[f"\x1b[31m{printed}"]),
    ]
    write_notebook(root, [new_code_cell(printed, outputs=outputs)])
    page = Read(made(root) / "notebooks" / "page.html")
    assert page.acts == [] and "My secret" not in page.text and "\x1b" not in page.text
    assert page.text.count("<script>alert()</script>") == 11
    assert page.text.count("\n".join(lines[:8])) == 4 and "last: ````" in page.text and "fine" in page.text
    assert not (tmp_path / "written").exists()


def test_a_link_to_elsewhere_or_to_what_git_does_not_track_is_text(root, tmp_path):
    secret = f"{UP}{str(tmp_path)[1:]}/secret.md"
    (root / "docs" / "page.md").write_text(
        f"# Page\n\n[one]({secret}) ![two]({secret}) {{download}}`three <{secret}>` [four](path:{secret})\n"
        f"[five](own.txt) [six](linked.txt) [seven](kept.txt)\n\n"
        f"```{{image}} file://{tmp_path}/secret.md\n:alt: eight\n```\n"
    )
    (root / "docs" / "own.txt").write_text("My secret")
    (root / "docs" / "kept.txt").write_text("for all")
    (root / "docs" / "linked.txt").symlink_to(tmp_path / "secret.md")
    site = made(root, "docs/own.txt")
    page = site / "docs" / "page.html"
    assert all(word in Read(page).text for word in ("one", "two", "three", "four", "five", "six", "seven", "eight"))
    assert [file.name for file in site.rglob("*") if file.is_file() and b"My secret" in file.read_bytes()] == []
    assert "kept.txt" in page.read_text() and "secret.md" not in page.read_text()


@pytest.mark.parametrize("text", ["{include} X", "{literalinclude} X", "{raw} html\n:file: X", "{csv-table}\n:file: X"])
def test_a_directive_that_reads_a_file_is_refused(root, tmp_path, text):
    secret = f"{UP}{str(tmp_path)[1:]}/secret.md"
    (root / "README.md").write_text(f"# Page\n\n```{text.replace('X', secret)}\n```\n")
    with pytest.raises(GroundlabError, match=r"Sphinx warns .*README.md:3"):
        made(root)
    assert not (root.parent / "site").exists()
