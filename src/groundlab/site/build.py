"""Makes the site: each part writes its pages as MyST Markdown into one folder, and Sphinx makes HTML of them.

Sphinx with Furo: Farama's projects have their like, and the search is a script, so that it works from `file://`.
"""

import io
import os
import posixpath
import shutil
import tempfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.search import languages

from groundlab import __version__, assets
from groundlab.core.errors import GroundlabError, clip
from groundlab.site import claims, documents, episodes, front, reference, runs, set_sample, worlds
from groundlab.site.words import Words

# In this order: a page links those that parts before it have written.
PARTS = (
    worlds.write,
    reference.write,
    claims.write,
    runs.write,
    episodes.write,
    documents.write,
    front.write,
)
ASSETS = Path(assets.__file__).parent / "site"
SETTINGS: dict[str, Any] = {
    "project": "groundlab",
    "language": "en",
    "version": __version__,
    "release": __version__,
    "extensions": ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"],
    "suppress_warnings": ["myst.header"],
    "highlight_language": "none",
    "default_role": "literal",
    # Markdown as the repository has it: links as they stand, and lines that begin with "% of the episodes"
    "myst_all_links_external": True,
    "myst_disable_syntax": ["myst_line_comment"],
    "autodoc_member_order": "bysource",
    "autodoc_inherit_docstrings": False,
    "autodoc_mock_imports": list(reference.NOT_INSTALLED),
    "autodoc_default_options": {"members": True, "no-value": True, "exclude-members": "model_config"},
    "maximum_signature_line_length": 88,
    "templates_path": [str(ASSETS / "templates")],
    "html_theme": "furo",
    "html_title": "groundlab",
    "html_static_path": ["_static"],
    "html_extra_path": ["_extra"],
    "html_css_files": sorted(file.name for file in ASSETS.glob("*.css")),
    "html_js_files": ["site.js"],
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "html_use_index": False,
    "html_domain_indices": False,
}


class _Sidebars:
    """Pages that stand in no sidebar share one with all of their folder; made for each, it is half of the work."""

    def __init__(self) -> None:
        self._of_folder: dict[str, str] = {}

    def share(self, app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
        """Sphinx's event html-page-context."""
        if "orphan" not in (context.get("meta") or {}):
            return
        folder, ask = posixpath.dirname(name), context["toctree"]
        if folder not in self._of_folder:
            self._of_folder[folder] = ask(collapse=True, titles_only=True, maxdepth=1, includehidden=True)
        context["toctree"] = lambda **_: self._of_folder[folder]


def build(out: Path, sample: bool = False) -> int:
    """Write the site into a folder, in the place of one that was there; returns how many pages it has.

    Raises GroundlabError for a folder that holds something else, and with what Sphinx warns of.
    """
    if out.exists() and any(out.iterdir()) and not (out / "searchindex.js").is_file():
        raise GroundlabError(f"{clip(str(out))} holds something else than a site; remove it, or name another folder")
    set_sample(sample)
    languages["en"] = Words
    with tempfile.TemporaryDirectory(prefix="groundlab-site-") as folder:
        source, fresh, warned = Path(folder) / "source", Path(folder) / "site", io.StringIO()
        shutil.copytree(ASSETS, source / "_static", ignore=shutil.ignore_patterns("*.j2", "templates"))
        (source / "_extra").mkdir()
        for write in PARTS:
            write(source)
        app = Sphinx(
            *(source, None, fresh, Path(folder) / "doctrees", "html"),
            confoverrides=SETTINGS,
            status=None,
            warning=warned,
            parallel=os.cpu_count() or 1,
        )
        app.connect("autodoc-process-docstring", reference.as_text)
        app.connect("html-page-context", _Sidebars().share, priority=400)  # before Furo's, which asks for it
        app.build()
        if lines := warned.getvalue().replace(f"{source}/", "").splitlines():
            raise GroundlabError(f"Sphinx warns {len(lines)} times; correct what it names, first {clip(lines[0], 400)}")
        for needless in (".buildinfo", "objects.inv", ".nojekyll"):
            (fresh / needless).unlink(missing_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(fresh, out)
    return sum(1 for _ in out.rglob("*.html"))
