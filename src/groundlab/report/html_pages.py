"""The executed notebooks of the published results as HTML, without training and without a network.

    python -m groundlab.report.html_pages site        # what `nox -s pages` calls; site/index.html lists them

A page is the notebook as it ran, in one file without scripts. The cell in which the laboratory told it its folder is
left out. Beside the pages lie the review pages of the versions that they belong to.
"""

import html
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import read_reference
from groundlab.core.paths import repository_root

_STYLE = """
body { font-family: system-ui, sans-serif; line-height: 1.45; max-width: 60rem; margin: 1rem auto; padding: 0 1rem }
img { max-width: 100% } table { border-collapse: collapse; font-size: 90% } pre { overflow-x: auto; font-size: 85% }
td, th { padding: 0.15rem 0.6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
.jp-InputArea, div.input, .highlight { background: #f6f6f6; padding: 0.1rem 0.5rem }
.table, div.output, .jp-OutputArea { overflow-x: auto } .anchor-link { display: none }
"""


class HtmlPage(NamedTuple):
    """One page: its paper and scale, the version it belongs to, its title and its file beside the index."""

    paper: str
    scale: str
    version: str
    title: str
    file: str


def write_pages(results: Path, out: Path) -> list[HtmlPage]:
    """Write a page for each executed notebook that `<results>/reference.json` names, and an index of them, to `out`.

    Raises GroundlabError where nothing is published.
    """
    pages = []
    for paper, scales in read_reference(results).items():
        for scale, version in scales.items():
            for notebook in sorted((results / version / paper / "executed").glob("*.ipynb")):
                name = f"{notebook.stem}-{scale}.html"
                title, body = _converted(notebook)
                storage.write_atomic(
                    out / name, document(title, f'<p><a href="index.html">all pages</a></p>{body}', _code_style())
                )
                pages.append(HtmlPage(paper, scale, version, title, name))
    if not pages:
        raise GroundlabError(f"{results} names no published notebooks; publish a version: groundlab figures --publish")
    for version in {page.version for page in pages}:
        if (results / version / "review.html").is_file():
            shutil.copyfile(results / version / "review.html", out / f"review-{version}.html")
    storage.write_atomic(out / "index.html", document("Executed notebooks", _index(pages, out)))
    return pages


def _converted(notebook: Path) -> tuple[str, str]:
    """(title, HTML of the cells) of an executed notebook."""
    import nbformat  # imports half of Jupyter
    from nbconvert import HTMLExporter

    content = nbformat.read(notebook, as_version=4)
    content.cells = [
        cell for cell in content.cells if "injected-parameters" not in cell.get("metadata", {}).get("tags", [])
    ]
    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True)
    body, _ = exporter.from_notebook_node(content)
    headings = [line[2:] for cell in content.cells for line in cell.source.splitlines()[:1] if line.startswith("# ")]
    return (headings or [notebook.stem])[0], body


def _code_style() -> str:
    from pygments.formatters import HtmlFormatter

    return HtmlFormatter().get_style_defs(".highlight")


def document(title: str, body: str, style: str = "") -> str:
    """An HTML page in one file; `style` is CSS besides that of all pages."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>{html.escape(title)}</title>'
        f"<style>{_STYLE}{style}</style></head><body>{body}</body></html>\n"
    )


def _index(pages: list[HtmlPage], out: Path) -> str:
    rows = []
    for page in pages:
        review = f"review-{page.version}.html"
        judged = f'<a href="{review}">claims</a>' if (out / review).is_file() else ""
        link = f'<a href="{page.file}">{html.escape(page.title)}</a>'
        rows.append(f"<tr><td>{page.paper}</td><td>{link}</td><td>{page.scale}</td><td>{judged}</td></tr>")
    head = "<tr><th>paper</th><th>page</th><th>scale</th><th>judged</th></tr>"
    worlds = '<p><a href="worlds/index.html">The worlds</a></p>' if (out / "worlds" / "index.html").is_file() else ""
    return f"<h1>Executed notebooks of the published results</h1>{worlds}<table>{head}{''.join(rows)}</table>"


def main() -> None:
    """The command of the docstring above; what a person can mend is one line."""
    if len(sys.argv) != 2:
        sys.exit("name one folder for the pages: python -m groundlab.report.html_pages site")
    out = Path(sys.argv[1])
    try:
        print(f"{len(write_pages(repository_root() / 'results', out))} pages: {out / 'index.html'}")
    except GroundlabError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
