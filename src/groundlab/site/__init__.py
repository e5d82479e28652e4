"""The site: README and docs, every claim, run and world, playing episodes and the API, as static pages.

    nox -s site                              # writes site/; open site/index.html
    python -m groundlab.site OUT --sample    # a few pages of each kind: what a test crawls

`build.py` lists the parts. A part is a module with `write(source)`: it writes MyST Markdown and files of `_static/`
into a folder, of which Sphinx makes the site. The rules of a part:

- A page that index.html's sidebar does not list begins with `orphan: true` as its front matter; one that the search is
  to leave out has `nosearch: true` there, too.
- Links in Markdown are the site's own relative addresses, `../docs/papers/glam.html#question`, and stay as they are
  written; files of the repository have the address of their path, with README as readme.html.
- Data for scripts are `.js` files of `_static/` that assign to a global, since nothing can be fetched from `file://`. A
  page loads its script by a `<script>` of its own; style sheets of `assets/site/` are on every page.
- What is written of many things of one kind is `chosen(things)`: all of them, or some for a sample.
"""

from collections.abc import Iterable
from typing import TypeVar

_Thing = TypeVar("_Thing")
_sample = False


def set_sample(wanted: bool) -> None:
    """Whether the site being written is a sample."""
    global _sample
    _sample = wanted


def chosen(things: Iterable[_Thing], few: int = 3) -> list[_Thing]:
    """All things, or of a sample so many of them, spread evenly over the list."""
    every = list(things)
    return every[:: max(1, -(-len(every) // few))] if _sample else every
