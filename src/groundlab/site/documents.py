"""README, docs and executed notebooks as pages, and where their links to other files of the repository lead.

MyST resolves links between Markdown files, and offers other files for download. `relink` does the rest: a claim's row
in a review page is the claim's own page, a notebook is its page, and a link to what the site does not have is text.
What a notebook printed may be anything, such as a model's reply: it stays a text.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import bleach
from bleach.css_sanitizer import CSSSanitizer
from docutils import nodes
from markdown_it import MarkdownIt
from nbconvert import MarkdownExporter
from nbconvert.filters import strip_ansi
from sphinx import addnodes
from sphinx.application import Sphinx
from traitlets.config import Config

from groundlab.core import git, storage
from groundlab.core.paths import repository_root
from groundlab.report.front_page import best_scale, by_paper, published
from groundlab.site import pages, sample

_PARTS = ("*.md", "*.toml", "CITATION.cff", "docs/**/*", "examples/*.png", "figures/*", "requirements/*", "results/*.*")
_ANCHORS_IN_HEADING = re.compile(r'^(#+) ((?:<a id="[^"]+"></a>)+)', re.MULTILINE)
_NOTEBOOK = """{% extends "markdown/index.md.j2" %}
{% block input %}{{ cell.source | fenced("python") }}{% endblock %}
{% block output scoped %}{{ output | shown }}{% endblock %}"""
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")  # without MyST's directives
_TAGS = bleach.ALLOWED_TAGS | {"br", "del", "div", "figcaption", "figure", "img", "ins", "p", "pre", "span"}
_TAGS |= {"table", "tbody", "td", "th", "thead", "tr"}
_ATTRIBUTES = {"*": ["class", "style", "title"], "img": ["alt", "src"]}


def write(source: Path, limit: int | None) -> None:
    """Copy the repository's Markdown and the files that it links (of a clone, those that git tracks), and notebooks."""
    root = repository_root()
    is_clone = git.is_tracked(root / "pyproject.toml")

    def is_ours(file: Path) -> bool:
        place = file.resolve()
        return place.is_file() and place.is_relative_to(root) and (git.is_tracked(place) or not is_clone)

    for file in (file for part in _PARTS for file in root.glob(part) if is_ours(file)):
        copy = source / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    versions = map(best_scale, by_paper(list(published(root / "results"))).values())
    executed = [file for each in versions for file in (each.folder / each.paper / "executed").glob("*.ipynb")]
    hidden = {"enabled": True, "remove_cell_tags": ["injected-parameters"]}
    filters = {"fenced": fenced, "shown": shown}
    exporter = MarkdownExporter(config=Config(TagRemovePreprocessor=hidden), raw_template=_NOTEBOOK, filters=filters)
    for file in sample(sorted(filter(is_ours, executed), key=lambda file: file.name), limit):
        storage.write_atomic(source / "notebooks" / f"{file.stem}.md", exporter.from_filename(str(file))[0])
    pages.write_contents(source, "notebooks", "Executed notebooks")


def fenced(text: str, kind: str = "") -> str:
    """Return the Markdown of a text that stays as it is: its fence is longer than any inside."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"\n\n{fence}{kind}\n{strip_ansi(text)}\n{fence}\n\n"


def shown(output: Any) -> str:
    """Return the Markdown of an output: its text, or its HTML, where tags that do more than format are text."""
    data = output.get("data", {})
    html = data.get("text/html") or _MARKDOWN.render(data.get("text/markdown", ""))
    if not html:
        return fenced(output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", ())))
    safe = bleach.clean(html, _TAGS, _ATTRIBUTES, {"data"}, css_sanitizer=CSSSanitizer())
    return fenced(f'<div class="output">{safe}</div>', "{raw} html")


def as_text(app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    """Docstrings as Sphinx reads them: in ours, only code in backticks and indented code are markup."""
    text, code = list[str](), False
    for line in lines:
        if line.strip() and line.startswith("    ") != code:
            code = not code
            text += ["", "::", ""] if code else [""]
        escaped = re.sub(r"(`[^`]*`)|([*|\\]|_(?!\w))", lambda found: found[1] or f"\\{found[2]}", line)
        text.append(line if code else escaped)
    lines[:] = text


def read(app: Sphinx, page: str, text: list[str]) -> None:
    """Prepare the Markdown of a page (Sphinx's event source-read).

    Anchors leave their headings, of which the sidebar has copies. Below a paper's page stand its other two.
    """
    text[0] = _ANCHORS_IN_HEADING.sub(r"\2\n\n\1 ", text[0])
    if (Path(app.srcdir) / f"{page}-method.md").is_file():
        name = Path(page).name
        below = f"How it works <{name}-method>\nReference <{name}-reference>"
        text[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{below}\n```\n"


def relink(app: Sphinx, tree: nodes.document) -> None:
    """Lead links to other files of the repository to their pages (Sphinx's event doctree-read)."""
    for node in tree.findall(addnodes.pending_xref):
        target: Any = node["reftarget"]
        if node["reftype"] == "myst" and not node["refdomain"] and "/" in target:
            file, _, anchor = target.partition("#")
            page = f"notebooks/{Path(file).stem}"
            if file.endswith("review.html"):
                page = f"claims/{anchor}" if f"claims/{anchor}" in app.env.found_docs else "claims/index"
            node["refdomain"], node["reftarget"], node["reftargetid"] = "doc", page, None


def keep_inside(app: Sphinx, tree: nodes.document) -> None:
    """Make text of what links or shows a file outside the site, before Sphinx copies it (its event doctree-read)."""
    for node in [*tree.findall(nodes.image), *tree.findall(addnodes.download_reference)]:
        target = node.get("uri") or node["reftarget"]
        place = Path(app.env.relfn2path(target, app.env.docname)[1]).resolve()
        if target.startswith("file:") or not place.is_relative_to(app.srcdir):
            node.replace_self(nodes.inline("", node.astext()))
