"""Which package to blame when a command fails: every entry point that another package adds is loaded by itself.

Called after something unexpected only, so a command that works does not wait for it.
"""

from importlib.metadata import entry_points
from typing import Any

from groundlab.core import plugins
from groundlab.core.errors import clip, first_line
from groundlab.papers.method import Method, Paper
from groundlab.worlds.family import WorldFamily
from groundlab.worlds.registry import World

_SMALLEST = 3  # cells: walls around one
_FIELDS = ("name", "mission", "summary", "width", "height", "max_steps")


def faulty() -> str | None:
    """The line about the first entry point of another package that is not what its group wants; None where all are."""
    for group, check in ((plugins.PAPERS, _paper), (plugins.WORLDS, _worlds)):
        for point in entry_points(group=group):
            if point.value.startswith("groundlab."):
                continue
            try:
                problem = check(point.load())
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # sys.exit and whatever else a foreign package may raise
                problem = f"raises {type(error).__name__} ({clip(first_line(error), 120)})"
            if problem:
                package = point.dist.name if point.dist else point.value
                offer = f"the package {package} offers {point.name!r} ({point.value}) as {group}, which {problem}"
                return f"{offer}; mend that package, or uninstall it"
    return None


def _paper(offer: Any) -> str | None:
    if not isinstance(offer, Paper):
        return f"is {type(offer).__name__}, no groundlab.papers.method.Paper"
    right = isinstance(offer.methods, tuple) and all(isinstance(each, Method) for each in offer.methods)
    return None if right else "has methods that are no tuple of groundlab.papers.method.Method"


def _worlds(offer: Any) -> str | None:
    rows = list(offer.worlds.values()) if isinstance(offer, WorldFamily) else offer
    for row in rows:
        if isinstance(row, World) and not row.levels:
            return f"has a world {row.name!r} without a level"
        missing = [name for name in _FIELDS if not hasattr(row, name)]
        if missing:
            return f"has a row {clip(repr(row))} without {missing[0]}"
        if min(row.width, row.height) < _SMALLEST:
            return f"has a world {row.name!r} of {row.width} x {row.height} cells"
    return None
