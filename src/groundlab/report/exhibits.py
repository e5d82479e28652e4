"""Every table and figure by its id, and how they are drawn into a results folder.

    draw("mediator-table1", folder)      # writes <folder>/mediator/tables/mediator-table1.{csv,md}
    draw_all(folder, "mediator")         # all of a paper; what was not run is skipped, with the reason

A new paper adds a module beside mediator.py and its lines to `EXHIBITS`. In a notebook a `Drawn` shows the file that
was saved, so the page and the folder cannot differ. Called from: the command line, the notebooks, review.py.
"""

import base64
import html
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from groundlab.core.errors import unknown_name
from groundlab.report import glam, glam_doses, glam_learning, glam_probes, language, mediator, style, tables, worlds
from groundlab.report.knowledge_exhibits import KNOWLEDGE
from groundlab.report.reasoning_exhibits import REASONING
from groundlab.report.records import Records, load, without_runs
from groundlab.report.tables import Table


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: `draw` makes it from records that hold runs of all `methods` (none: of what ships)."""

    id: str
    paper: str
    title: str
    methods: tuple[str, ...]
    beside: tuple[str, ...]
    """Methods that are shown too where they were run; `reproduce --figure` runs both."""
    draw: Callable[[Records], Table | Figure | None]
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
            code = base64.b64encode(image.read_bytes()).decode()
            picture = f'<img style="max-width:100%" alt="{html.escape(self.exhibit.title)}"'
            return {"text/html": f'{picture} src="data:image/png;base64,{code}">', "text/plain": str(self)}
        return {"text/markdown": text.read_text() if text else str(self), "text/plain": str(self)}


class Gallery(list[Drawn]):
    """Drawn exhibits that a notebook shows one below the other."""

    def _repr_html_(self) -> str:
        return "".join(each._repr_mimebundle_().get("text/html") or f"<p>{html.escape(str(each))}</p>" for each in self)


_ALL = (
    Exhibit(
        "mediator-table1",
        "mediator",
        "Table 1: interactions, steps and success, measured and published",
        ("hard-coded", "always", "random"),
        ("mediator", "never", "on-change"),
        mediator.table1,
    ),
    Exhibit(
        "mediator-tradeoff",
        "mediator",
        "Success against questions asked: few questions and many open doors lie in the upper left corner",
        ("mediator", "hard-coded", "always"),
        ("random", "on-change"),
        mediator.tradeoff,
    ),
    Exhibit(
        "mediator-curves",
        "mediator",
        "Questions and success while the asking policy learns",
        ("mediator",),
        ("hard-coded", "always", "random", "on-change"),
        mediator.curves,
    ),
    Exhibit(
        "mediator-argmax",
        "mediator",
        "Sampled against argmax evaluation during training",
        ("mediator", "hard-coded"),
        (),
        mediator.argmax,
    ),
    Exhibit(
        "worlds-agents",
        "worlds",
        "What chance and a perfect planner reach on each level",
        ("random",),
        ("bot", "facts"),
        worlds.agents,
    ),
    Exhibit(
        "worlds-random",
        "worlds",
        "Success of random actions, and how the way of counting changes it",
        ("random",),
        (),
        worlds.chance,
    ),
    Exhibit(
        "glam-models",
        "glam",
        "The language models that ship, and how each was made",
        (),
        (),
        language.models,
    ),
    Exhibit(
        "glam-probes",
        "glam",
        "What each shipped language model knows: held-out questions of its corpus, answered right",
        (),
        (),
        language.probes,
    ),
    Exhibit(
        "glam-agents",
        "glam",
        "Success of every agent, and the control of a fixed mission",
        ("glam",),
        ("npae", "npe", "drrn", "symbolic", "zero-shot", "random"),
        glam.agents_table,
    ),
    Exhibit(
        "glam-curves",
        "glam",
        "Success while the agents learn",
        ("glam",),
        ("npae", "npe", "drrn", "symbolic", "zero-shot", "random"),
        glam_learning.curves,
    ),
    Exhibit(
        "glam-efficiency",
        "glam",
        "Sample efficiency, and the frames that each agent needs",
        ("glam",),
        ("npae", "npe", "drrn", "symbolic"),
        glam_learning.efficiency_table,
    ),
    Exhibit(
        "glam-dose-curves",
        "glam",
        "The dose of prior knowledge: models pretrained on less, tuned by the same PPO",
        ("glam",),
        ("npe",),
        glam_doses.doses_figure,
    ),
    Exhibit(
        "glam-doses",
        "glam",
        "What each model knew, how fast it learnt, and what was left under other words",
        ("glam",),
        (),
        glam_doses.doses_table,
    ),
    Exhibit(
        "glam-probe-actions",
        "glam",
        "The policy on fixed prompts while it learns: the probability of each action, update by update",
        ("glam",),
        (),
        glam_probes.probe_actions,
    ),
    Exhibit(
        "glam-generalization",
        "glam",
        "Other words, worlds and actions than in training",
        ("glam",),
        ("npae", "npe", "drrn", "symbolic", "zero-shot", "random"),
        glam.generalization,
    ),
    *(Exhibit(id, "reasoning", title, methods, beside, draw) for id, title, methods, beside, draw in REASONING),
    *(Exhibit(id, "knowledge", title, methods, beside, draw) for id, title, methods, beside, draw in KNOWLEDGE),
)
EXHIBITS = {exhibit.id: exhibit for exhibit in _ALL}


def draw(id: str, folder: str | Path | Records) -> Drawn:
    """Draw one exhibit into `<folder>/<paper>/{tables,figures}`. Raises GroundlabError for an unknown id."""
    if id not in EXHIBITS:
        raise unknown_name("table or figure", id, EXHIBITS)
    exhibit = EXHIBITS[id]
    records = folder if isinstance(folder, Records) else load(folder) if exhibit.methods else without_runs(folder)
    missing = [method for method in exhibit.methods if method not in records.methods(exhibit.paper)]
    if missing:
        return Drawn(exhibit, skipped=f"needs runs of {', '.join(missing)}, which {records.folder.name} does not hold")
    with style.house_style():
        result = exhibit.draw(records.of_paper(exhibit.paper))
    if result is None:
        return Drawn(exhibit, skipped=f"{records.folder.name} holds nothing of it")
    home = records.folder / exhibit.paper
    if isinstance(result, Table):
        return Drawn(exhibit, tuple(tables.save(result, home / "tables", id)))
    return Drawn(exhibit, tuple(style.save(result, home / "figures", id)))


def draw_all(folder: str | Path | Records, paper: str | None = None) -> Gallery:
    """Draw every exhibit of a paper (or of all papers that the folder holds)."""
    records = folder if isinstance(folder, Records) else load(folder)
    by_paper = {name: records.of_paper(name) for name in ([paper] if paper else records.papers)}
    return Gallery(draw(exhibit.id, by_paper[exhibit.paper]) for exhibit in _ALL if exhibit.paper in by_paper)
