"""How curves look: from their beginning, told apart by any eye, and labelled where they end."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from groundlab.papers.glam.arms import STYLES as GLAM
from groundlab.papers.knowledge.arms import STYLES as KNOWLEDGE
from groundlab.papers.mediator.exhibits import ARGMAX_COLOUR
from groundlab.papers.mediator.exhibits import STYLES as MEDIATOR
from groundlab.papers.reasoning.arms import STYLES as REASONING
from groundlab.report.curves import label_ends, seeds_in_words, spread
from groundlab.report.records import running_success
from groundlab.report.style import PALETTE, WIDEST, house_style, new_figure

# Machado, Oliveira and Fernandes 2009, deuteranopia, on linear RGB.
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
TOGETHER = {
    "glam": [GLAM[name].colour for name in ("glam", "npe", "npae", "drrn", "symbolic", "zero-shot", "random")],
    "knowledge": [
        KNOWLEDGE[name].colour
        for name in ("none", "code", "preference", "goals", "rnd", "curious", "ellm", "motif", "oracle", "random")
    ],
    "mediator": [*(MEDIATOR[name].colour for name in ("mediator", "hard-coded", "always", "random")), ARGMAX_COLOUR],
    "reasoning": [style.colour for style in REASONING.values()],
    "palette": list(PALETTE),
}


def seen(colour: str) -> np.ndarray:
    """A colour in CIELAB as a reader with deuteranopia sees it."""
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(DEUTERANOPIA @ linear, 0, 1) / (0.9505, 1.0, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("colours", TOGETHER.values(), ids=TOGETHER)
def test_colours_of_one_figure_stay_apart_for_readers_with_deuteranopia(colours):
    """Some 2 units are seen side by side; lines that cross need far more."""
    near = {pair: np.linalg.norm(seen(pair[0]) - seen(pair[1])) for pair in combinations(colours, 2)}
    assert min(near.values()) > 15, min(near, key=lambda pair: near[pair])


def test_a_curve_begins_before_its_window_is_full_but_not_where_only_successes_can_have_ended():
    counts, success = (10, 30, 40, 40), (100.0, 50.0, 50.0, 100.0)
    curve = pd.DataFrame({"frames": [1, 2, 3, 4], "episodes": counts, "success": success})
    assert running_success(curve)[0].tolist() == [4]
    frames, values = running_success(curve, filling=True)
    assert frames.tolist() == [2, 3, 4]
    assert values[:2].tolist() == [100 * (10 + 15) / 40, 100 * (10 + 15 + 20) / 80]
    assert values[2] == running_success(curve)[1][0]


def test_labels_stand_beside_their_lines_and_apart():
    assert spread(np.array([0.2, 0.21, 0.6]), 0.1).round(3).tolist() == [0.155, 0.255, 0.6]
    assert spread(np.array([0.0, 0.01]), 0.1).round(3).tolist() == [0.0, 0.1]
    with house_style():
        axis = new_figure(4, 3)[1][0, 0]
        axis.plot([0, 1], [0, 1], color="#D55E00", label="rises")
        axis.plot([0, 1], [1, 0], color="#0072B2", label="falls")
        axis.plot([0, 1], [1, 1])
        axis.set_ylim(0, 1)
        label_ends(axis)
    told = {text.get_text(): (text.xy[1], text.get_color()) for text in axis.texts}
    assert told == {"rises": (1.0, "#D55E00"), "falls": (0.0, "#0072B2")}


def test_no_figure_is_wider_than_its_text_can_be_read_on_a_page():
    assert new_figure(13.0, 4.0)[0].get_figwidth() == WIDEST
    assert 8 / 72 * 830 / (WIDEST) >= 10  # pixels of 8-point text on a page of 830


def test_the_number_of_seeds_is_told_in_words():
    one, three, five = (SimpleNamespace(seeds=list(range(count))) for count in (1, 3, 5))
    told = [seeds_in_words(arms) for arms in ([one], [three, three], [five, one])]  # type: ignore[list-item]
    assert told == ["one seed", "3 seeds", "1 to 5 seeds"]
