"""What packages add by entry points: papers (group `groundlab.papers`) and worlds (group `groundlab.worlds`).

groundlab's own papers are entry points like those of any other package, so nothing below `papers/` names a paper.
"""

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from groundlab.core.errors import GroundlabError, first_line

PAPERS, WORLDS = "groundlab.papers", "groundlab.worlds"


def package_of(group: str, name: str) -> str:
    """Return the top-level package of an entry point."""
    return next(point.module for point in entry_points(group=group) if point.name == name).partition(".")[0]


@cache
def load(group: str) -> dict[str, Any]:
    """The objects of a group by entry-point name, groundlab's own first, then by name.

    Raises GroundlabError naming the package whose entry point cannot be loaded, or a name that two packages use.
    """
    found: dict[str, Any] = {}
    points = list(dict.fromkeys(entry_points(group=group)))
    for point in sorted(points, key=lambda each: (not each.value.startswith("groundlab."), each.name)):
        if point.name in found:
            raise GroundlabError(f"two packages offer {point.name!r} as {group}; uninstall one, or rename it")
        try:
            found[point.name] = point.load()
        except Exception as error:
            where = point.dist.name if point.dist else point.value
            line = f"{type(error).__name__}: {first_line(error)}"
            raise GroundlabError(
                f"{where} offers {point.name!r} ({point.value}), which does not load ({line})"
            ) from error
    return found
