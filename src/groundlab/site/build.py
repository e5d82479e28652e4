"""Makes the site: each part writes its pages as MyST Markdown into one folder, and Sphinx makes HTML of them.

Sphinx with Furo: Farama's projects use them, and the search is a script, so that it works from `file://`.
"""

import io
import os
import posixpath
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from groundlab.core.errors import GroundlabError, clip
from groundlab.core.paths import repository_root
from groundlab.site import claims, documents, episodes, front, runs, worlds
from groundlab.site.evidence import collect
from groundlab.site.pages import LAYOUTS

SETTINGS: dict[str, Any] = {
    "project": "groundlab",
    "extensions": ["myst_parser", "sphinx.ext.autosummary", "sphinx.ext.viewcode"],
    # anchors are HTML, which MyST does not see: tests/integration/test_site.py follows every link
    "suppress_warnings": ["myst.header", "myst.xref_missing", "misc.highlighting_failure"],
    "myst_heading_anchors": 4,
    "myst_disable_syntax": ["myst_line_comment"],  # lines that begin with "% of the episodes"
    "autosummary_generate": ["reference.md"],  # elsewhere its directive is a text that somebody printed
    "highlight_language": "none",
    "default_role": "literal",
    "autodoc_member_order": "bysource",
    "autodoc_inherit_docstrings": False,
    "autodoc_mock_imports": ["openenv", "trl", "verifiers"],
    "autodoc_default_options": {"members": True, "no-value": True, "exclude-members": "model_config"},
    "maximum_signature_line_length": 88,
    "templates_path": [str(LAYOUTS / "templates")],
    "html_theme": "furo",
    "html_title": "groundlab",
    "html_static_path": ["_static"],
    "html_css_files": sorted(file.name for file in LAYOUTS.glob("*.css")),
    "html_js_files": ["site.js"],
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
}


def share_sidebar(
    made: dict[str, str], app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """Give the orphans of a folder one sidebar (event html-page-context): made for each, it is half of the work."""
    if "orphan" in (context.get("meta") or {}):
        folder, toctree = posixpath.dirname(page), context["toctree"]
        if folder not in made:
            made[folder] = toctree(collapse=True, titles_only=True, maxdepth=1, includehidden=True)
        context["toctree"] = lambda **_: made[folder]


def build(out: Path, limit: int | None = None) -> int:
    """Write the site into a folder, in the place of one that was there; returns how many pages it has.

    Raises GroundlabError for a folder that holds something else, and with what Sphinx warns of.
    """
    if out.exists() and any(out.iterdir()) and not (out / "searchindex.js").is_file():
        raise GroundlabError(f"{clip(str(out))} holds something else than a site; remove it, or name another folder")
    with tempfile.TemporaryDirectory(prefix="groundlab-site-") as folder:
        source, fresh, warned = Path(folder) / "source", Path(folder) / "site", io.StringIO()
        shutil.copytree(LAYOUTS, source / "_static", ignore=shutil.ignore_patterns("*.j2", "*.md", "templates"))
        shutil.copy(LAYOUTS / "reference.md", source)
        documents.write(source, limit)
        worlds.write(source, limit)
        evidence = collect(repository_root() / "results", limit)
        claims.write(source, evidence)
        runs.write(source, evidence)
        episodes.write(source, limit)
        front.write(source)
        app = Sphinx(
            *(source, None, fresh, Path(folder) / "doctrees", "html"),
            confoverrides=SETTINGS,
            status=None,
            warning=warned,
            parallel=os.cpu_count() or 1,
        )
        app.env.settings["file_insertion_enabled"] = False  # no directive may read a file
        app.connect("source-read", documents.read)
        app.connect("doctree-read", documents.keep_inside, priority=400)  # before Sphinx's own, which copy files
        app.connect("doctree-read", documents.relink)
        app.connect("html-page-context", partial(share_sidebar, {}), priority=400)  # before Furo's, which asks for it
        app.connect("autodoc-process-docstring", documents.as_text)
        app.build()
        if lines := warned.getvalue().replace(f"{source}/", "").splitlines():
            raise GroundlabError(f"Sphinx warns {len(lines)} times; correct what it names, first {clip(lines[0], 400)}")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(fresh, out)
    return sum(1 for _ in out.rglob("*.html"))
