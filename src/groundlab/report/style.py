"""The house style of figures: fonts, palette, units on every axis, files equal byte for byte.

    with house_style():
        figure = new_figure(rows=1, columns=4)
        ...
    save(figure, folder, "mediator-curves")     # PNG at 150 dpi and PDF

Colours are told apart by readers with any colour vision; markers and labels at the lines repeat the distinction.
Figures never touch pyplot, so nothing depends on a display or on what was drawn before. How a method is drawn and
called, its `PlotStyle`, belongs to its paper.
"""

import base64
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import seaborn as sns
from matplotlib import style as mpl_style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image

from groundlab.core import storage

DPI = 150
KINDS = ("png", "pdf")
_RC = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same glyphs on every machine
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,  # text stays text in a PDF
    "figure.dpi": 100,
}


@dataclass(frozen=True)
class PlotStyle:
    """How a method is drawn and called."""

    label: str
    colour: str
    marker: str


COLOURS = {
    "orange": "#D55E00",
    "blue": "#0072B2",
    "green": "#009E73",
    "pink": "#CC79A7",
    "yellow": "#E69F00",
    "sky": "#56B4E9",
    "violet": "#2E0854",
    "brown": "#774411",
    "olive": "#8C6D31",
    "plum": "#8E4585",
    "grey": "#4C4C4C",
    "silver": "#BBBBBB",
    "black": "#000000",
}
"""Okabe and Ito's colours and some darker ones, chosen by their distance as a reader with deuteranopia sees them."""
PALETTE = tuple(COLOURS[name] for name in ("orange", "blue", "green", "pink", "yellow", "sky", "violet", "olive"))
"""Colours of what has no style of its own, such as the values of one setting."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h", "<", ">", "d", "8", "H")
PUBLISHED_COLOUR = "#333333"
WIDEST = 9.0  # inches of a figure; 8-point text then has 10 pixels where a page shows it 830 pixels wide
SUCCESS = "success [%]"


def with_styles(known: Mapping[str, PlotStyle], labels: Mapping[str, str]) -> dict[str, PlotStyle]:
    """Styles of all agents in `labels`, which holds what each is called where that is said; those known come first.

    One that is not known has the next colour and marker that no other has, and is called by its label or its name.
    """
    styles = {agent: replace(style, label=labels.get(agent) or style.label) for agent, style in known.items()}
    for agent in [each for each in labels if each not in known]:
        used = [(style.colour, style.marker) for style in styles.values()]
        colours = [colour for colour in COLOURS.values() if colour not in dict(used)] or list(PALETTE)
        markers = [marker for marker in MARKERS if marker not in {each for _, each in used}] or list(MARKERS)
        free = [(colour, marker) for marker in markers for colour in colours if (colour, marker) not in used]
        styles[agent] = PlotStyle(labels[agent] or agent, *(free or used)[0])
    return styles


@contextmanager
def house_style() -> Iterator[None]:
    """Draw inside this context, whatever a user's matplotlibrc says; what the caller had set is restored afterwards."""
    with mpl_style.context(["default", {**sns.axes_style("ticks"), **_RC}]):
        yield


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options):
    """(figure, axes [rows, columns]); sizes in inches, at most `WIDEST` wide; `options` as for `Figure.subplots`."""
    figure = Figure(figsize=(min(width, WIDEST), height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend_below(figure: Figure, axes: Iterable[Axes], columns: int = 2) -> None:
    """One legend below all panels, with each label of theirs once."""
    shown = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns)


def plain_log(axes: Axes, which: str) -> None:
    """A logarithmic "x" or "y" axis labelled 1, 2, 5, 10, ... instead of powers of ten."""
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, folder: Path, name: str, corner: str = "") -> list[Path]:
    """Write `<name>.png` and `<name>.pdf`, the same bytes for the same data; returns the two paths.

    corner: what stands in the lower right corner, in a strip of its own, such as the scale.
    """
    with house_style():
        if corner:
            strip, height = 0.14, figure.get_figheight()  # inches
            if isinstance(engine := figure.get_layout_engine(), ConstrainedLayoutEngine):
                engine.set(rect=(0, strip / height, 1, 1 - strip / height))
            figure.text(0.995, 0.02 / height, corner, ha="right", va="bottom", size=6.5, color="#666666")
        return [_write(figure, folder / f"{name}.{kind}", kind) for kind in KINDS]


def _write(figure: Figure, path: Path, kind: str) -> Path:
    buffer = io.BytesIO()
    if kind == "pdf":  # dates and library versions would make equal figures differ
        figure.savefig(buffer, format="pdf", dpi=DPI, metadata=dict.fromkeys(("Creator", "Producer", "CreationDate")))
    storage.write_atomic(path, small_png(figure, DPI) if kind == "png" else buffer.getvalue())
    return path


def data_uri(png: bytes) -> str:
    """A PNG as an address that a page shows it by."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def small_png(figure: Figure, dpi: int) -> bytes:
    """A PNG with a palette of 128 colours instead of millions: a chart looks the same and takes a third of the room."""
    canvas, small = FigureCanvasAgg(figure), io.BytesIO()
    figure.savefig(io.BytesIO(), format="raw", dpi=dpi)
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    picture.quantize(128, dither=Image.Dither.NONE).save(small, "PNG", optimize=True, dpi=(dpi, dpi))
    return small.getvalue()
