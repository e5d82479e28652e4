"""The site: README and docs, every claim, run and world, episodes that play and the API, as static pages.

    nox -s site                              # writes site/; open site/index.html
    python -m groundlab.site OUT --limit 3   # at most three of each kind of page: what a test builds

`build.py` lists the parts. Each writes MyST Markdown (`<page>.md`) and files for scripts (`_static/`) into
one folder, from which Sphinx makes the site. Pages that the sidebar does not list have `orphan: true` as front matter.
Data for scripts are `.js` files that assign to a global, because a page opened from `file://` cannot fetch.
"""

from collections.abc import Iterable
from typing import TypeVar

_Thing = TypeVar("_Thing")


def sample(things: Iterable[_Thing], limit: int | None) -> list[_Thing]:
    """Return all things, or at most `limit` of them, spread evenly over the list."""
    every = list(things)
    return every if limit is None else every[:: max(1, -(-len(every) // limit))]
