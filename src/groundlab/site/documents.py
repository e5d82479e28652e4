"""README, docs and executed notebooks as pages, and where their links to other files of the repository lead.

MyST resolves links between Markdown files, and offers other files for download. `relink` does the rest: a claim's row
in a review page is the claim's own page, a notebook is its page, and a link to what the site does not have is text.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from nbconvert import MarkdownExporter
from sphinx import addnodes
from sphinx.application import Sphinx
from traitlets.config import Config

from groundlab.core import storage
from groundlab.core.paths import repository_root
from groundlab.report.front_page import best_scale, by_paper, published
from groundlab.site import pages, sample

_PARTS = ("*.md", "*.toml", "CITATION.cff", "docs/**/*", "examples/*.png", "figures/*", "requirements/*", "results/*.*")
_ANCHORS_IN_HEADING = re.compile(r'^(#+) ((?:<a id="[^"]+"></a>)+)', re.MULTILINE)
_NOTEBOOK = """{% extends "markdown/index.md.j2" %}
{% block data_html %}
`````{raw} html
<div class="output">{{ output.data["text/html"] }}</div>
`````
{% endblock %}"""


def write(source: Path, limit: int | None) -> None:
    """Copy the Markdown of the repository and the files that it links, and write the pages of the notebooks."""
    root = repository_root()
    for file in (file for part in _PARTS for file in root.glob(part) if file.is_file()):
        copy = source / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    versions = map(best_scale, by_paper(list(published(root / "results"))).values())
    executed = [file for each in versions for file in (each.folder / each.paper / "executed").glob("*.ipynb")]
    hidden = {"enabled": True, "remove_cell_tags": ["injected-parameters"]}
    exporter = MarkdownExporter(config=Config(TagRemovePreprocessor=hidden), raw_template=_NOTEBOOK)
    for file in sample(sorted(executed, key=lambda file: file.name), limit):
        storage.write_atomic(source / "notebooks" / f"{file.stem}.md", exporter.from_filename(str(file))[0])
    pages.write_contents(source, "notebooks", "Executed notebooks")


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
