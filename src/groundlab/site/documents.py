"""The pages of README and docs, the log by days, and the review pages of the published versions."""

import html
import re
import shutil
from pathlib import Path

from groundlab.core import plugins
from groundlab.core.manifests import published_versions
from groundlab.core.paths import repository_root
from groundlab.site import chosen, links, notebooks

OTHERS = ("README.md", "CHANGELOG.md", "results/README.md", "src/groundlab/assets/balrog/README.md")
LOG = "docs/log"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def write(source: Path) -> None:
    """Write them all; notebooks and reviews first, because the others link them."""
    root = repository_root()
    site = links.Links(root, source)
    files = [file for file in OTHERS if (root / file).is_file()]
    files += [str(file.relative_to(root)) for file in sorted((root / "docs").rglob("*.md"))]
    names = {file: links.PAGES.get(file, file.removesuffix(".md")) for file in files}
    for name in names.values():  # a page links those that come after it, too
        links.write(source, name, "")
    for version in chosen(published_versions(root / "results"), 1):
        page = f"results/{version}/review.html"
        (source / "_extra" / page).parent.mkdir(parents=True)
        shutil.copyfile(root / page, source / "_extra" / page)
    notebooks.write(site)
    for file, name in names.items():
        text = site.markdown((root / file).read_text(), file, name)
        if file.startswith(LOG):
            text = _by_days(source, name, text)
        paper = name.removeprefix("docs/papers/")
        if paper in plugins.load(plugins.PAPERS):  # what the sidebar shows below the first of a paper's three pages
            below = f"How it works <{paper}-method>\nReference <{paper}-reference>"
            text += f"\n\n```{{toctree}}\n:hidden:\n\n{below}\n```\n"
        links.write(source, name, text, orphan=file.startswith("src"))
    for page in (source / "_extra").rglob("review.html"):
        _relink(site, page)


def _by_days(source: Path, name: str, text: str) -> str:
    """A month of the log as a list of its days, each with a page of its own."""
    head, *entries = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    days = dict[str, list[str]]()
    for entry in entries:
        found = _DAY.search(entry.partition("\n")[0])
        days.setdefault(found[0] if found else "", []).append(entry)
    rows = []
    for day in sorted(days, reverse=True):
        page = f"{Path(name).parent}/{day}"
        links.write(source, page, f"# Log of {day}\n\n" + "\n".join(days[day]), orphan=True)
        titles = [entry.partition("\n")[0].removeprefix("## ") for entry in days[day]]
        rows.append(f"## [{day}]({day}.html)\n\n" + "\n".join(f"- {title}" for title in titles))
    return head + "\n\n".join(rows)


def _relink(site: links.Links, page: Path) -> None:
    """A review page with its links to pages of the site; what the site does not have is plain text there."""
    name = str(page.relative_to(site.source / "_extra"))

    def linked(match: re.Match[str]) -> str:
        target = html.unescape(match[1])
        if target.startswith(("#", "http", "data:")):
            return match[0]
        address = site.address(target.rstrip("/"), name, name)
        return f'href="{html.escape(address)}"' if address else ""

    text = re.sub(r'href="([^"]*)"', linked, page.read_text())
    page.write_text(notebooks.pictures_as_files(text, site.source / "_static", "../../_static"))
