"""Pages from their layouts in assets/site."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from groundlab import assets
from groundlab.core import storage
from groundlab.report.review import WORDING, duration, linked
from groundlab.report.tables import number, written

LAYOUTS = Path(assets.__file__).parent / "site"
PAPERS = "../docs/papers"
"""Where the pages of papers lie from those of claims and runs."""


@cache
def _home() -> Environment:
    options = {"undefined": StrictUndefined, "autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    home = Environment(loader=FileSystemLoader(LAYOUTS), **options)
    home.filters |= {"duration": duration, "number": number, "written": written}
    home.filters["linked"] = lambda text: linked(text, PAPERS, "html")
    home.globals |= {"papers_at": PAPERS, **WORDING}
    return home


def write(source: Path, page: str, layout: str, /, **values: Any) -> None:
    """Write the page `claims/index` by a layout and its values."""
    storage.write_atomic(source / f"{page}.md", _home().get_template(layout).render(**values))


def write_contents(source: Path, folder: str, title: str) -> None:
    """Write the index of a folder: its pages in the order of their names."""
    contents = "```{toctree}\n:glob:\n:titlesonly:\n\n*\n```"
    storage.write_atomic(source / folder / "index.md", f"# {title}\n\n{contents}\n")
