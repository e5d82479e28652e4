"""Every table and figure by its id, and how they are drawn into a results folder.

    draw("mediator-table1", folder)      # writes <folder>/mediator/tables/mediator-table1.{csv,md}
    draw_all(folder, "mediator")         # all of a paper; what was not run is skipped, with the reason

An exhibit is a function of `Records`, decorated with `@exhibit(id, title, ...)`, in a module that its paper's `PAPER`
names; one of what ships names no methods and takes nothing. Notebooks `show` the files that a version holds.
"""

import html
import importlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from groundlab.core import plugins
from groundlab.core.errors import GroundlabError, first_line, unknown_name
from groundlab.report import style, tables
from groundlab.report.records import Records, load
from groundlab.report.tables import Table

Drawing = Callable[..., Table | Figure | None]  # of records; without methods, of what ships: of nothing
Draw = TypeVar("Draw", bound=Drawing)


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: `draw` makes it from records that hold runs of all `methods` (none: of what ships)."""

    id: str
    paper: str
    title: str
    methods: tuple[str, ...]
    beside: tuple[str, ...] | None
    """Methods that `reproduce --figure` runs besides; None: all of the paper, since what was run is shown."""
    draw: Drawing
    """None where the runs hold nothing of it."""


@dataclass(frozen=True)
class Drawn:
    """What became of an exhibit: the files written, or the reason why there are none."""

    exhibit: Exhibit
    paths: tuple[Path, ...] = ()
    skipped: str = ""

    def path(self, kind: str) -> Path | None:
        """The file with that ending ("png", "pdf", "csv", "md"), if there is one."""
        return next((path for path in self.paths if path.suffix == f".{kind}"), None)

    def __str__(self) -> str:
        return f"{self.exhibit.id}: " + (f"skipped, {self.skipped}" if self.skipped else str(self.paths[0]))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The saved file itself: the PNG at half its size, or the Markdown of a table."""
        image, text = self.path("png"), self.path("md")
        if image:
            picture = f'<img style="max-width:100%" alt="{html.escape(self.exhibit.title)}"'
            return {"text/html": f'{picture} src="{style.data_uri(image.read_bytes())}">', "text/plain": str(self)}
        return {"text/markdown": text.read_text(encoding="utf-8") if text else str(self), "text/plain": str(self)}


class Gallery(list[Drawn]):
    """Drawn exhibits that a notebook shows one below the other."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        return "".join(each._repr_mimebundle_().get("text/html") or f"<p>{html.escape(str(each))}</p>" for each in self)


_DECLARED: dict[str, list[Exhibit]] = {}  # by the module that declares them


def exhibit(
    id: str, title: str, methods: tuple[str, ...] = (), beside: tuple[str, ...] | None = None
) -> Callable[[Draw], Draw]:
    """Declare a function of records as an exhibit of the paper whose `PAPER.exhibits` names its module."""

    def declare(draw: Draw) -> Draw:
        _DECLARED.setdefault(draw.__module__, []).append(Exhibit(id, "", title, methods, beside, draw))
        return draw

    return declare


@cache
def exhibits() -> dict[str, Exhibit]:
    """Every table and figure of every paper by its id, in the order of their papers.

    Raises GroundlabError for an id that is used twice.
    """
    declared: dict[str, Exhibit] = {}
    for paper, offered in plugins.load(plugins.PAPERS).items():
        for module in offered.exhibits:
            importlib.import_module(module)
            for each in _DECLARED.get(module, []):
                if each.id in declared:
                    raise GroundlabError(f"two exhibits are called {each.id!r}; rename the one in {module}")
                declared[each.id] = replace(each, paper=paper)
    return declared


def draw(id: str, folder: str | Path | Records) -> Drawn:
    """Draw one exhibit into `<folder>/<paper>/{tables,figures}`. Raises GroundlabError for an unknown id, and
    for an exhibit whose own code fails."""
    exhibit = _find(id)
    place = folder.version.folder if isinstance(folder, Records) else Path(folder)
    home, given, corner = place / exhibit.paper, (), ""
    if exhibit.methods:
        records = folder if isinstance(folder, Records) else load(folder, exhibit.paper)
        missing = [method for method in exhibit.methods if method not in records.methods(exhibit.paper)]
        if missing:
            return Drawn(exhibit, skipped=f"needs runs of {', '.join(missing)}, which this version does not hold")
        given, corner = (records.of_paper(exhibit.paper),), f"scale {records.scale}"
    try:
        with style.house_style():
            result = exhibit.draw(*given)
    except GroundlabError:
        raise
    except Exception as error:  # a plug-in's drawing may raise anything
        place = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"expected a table or figure {id}, got {type(error).__name__}: {first_line(error)}"
        raise GroundlabError(f"{problem}; correct {place.filename}, line {place.lineno}, and repeat this") from error
    if result is None:
        return Drawn(exhibit, skipped="this version holds nothing of it")
    if isinstance(result, Table):
        return Drawn(exhibit, tuple(tables.save(result, home / "tables", id)))
    return Drawn(exhibit, tuple(style.save(result, home / "figures", id, corner)))


def show(id: str, folder: str | Path) -> Drawn | None:
    """Return an exhibit as a version holds it; None where it holds nothing of it. Raises as `draw`."""
    home, found = Path(folder) / (exhibit := _find(id)).paper, list[Path]()
    for part, kinds in (("tables", tables.KINDS), ("figures", style.KINDS)):
        found += [file for kind in kinds if (file := home / part / f"{id}.{kind}").is_file()]
    return Drawn(exhibit, tuple(found)) if found else None


def _find(id: str) -> Exhibit:
    if id not in exhibits():
        raise unknown_name("table or figure", id, exhibits())
    return exhibits()[id]


def draw_all(folder: str | Path | Records, paper: str | None = None) -> Gallery:
    """Draw every exhibit of a paper (or of all papers that the folder holds)."""
    records = folder if isinstance(folder, Records) else load(folder)
    by_paper = {name: records.of_paper(name) for name in ([paper] if paper else records.papers)}
    return Gallery(
        draw(exhibit.id, by_paper[exhibit.paper]) for exhibit in exhibits().values() if exhibit.paper in by_paper
    )
