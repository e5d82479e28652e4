"""The probes' figure: one panel a prompt, the mean over seeds, and nothing where nothing was logged."""

import made_up
import numpy as np
import pytest

from groundlab.papers.glam import figures
from groundlab.report.exhibits import draw
from groundlab.report.records import load
from groundlab.worlds.text_env.prompts import probe_prompts, text_actions

WORLD = "BabyAI-GoToLocal-v0"


def policy(seed: int, update: int) -> np.ndarray:
    """[11, 6]: on every probe action 2 grows from 1/6 to 1, by a fifth an update, later for seed 1."""
    share = min(1.0, max(0, update - seed) / 5)
    return np.full((11, 6), (1 - share) / 6) + share * np.eye(6)[2]


def store(folder, method, seed, updates, template):
    records = [
        {"iteration": k + 1, "frames": k, "episodes": 1, "success": 0.0}
        | ({"probe": policy(seed, k).flatten().tolist()} if template else {})
        for k in range(updates)
    ]
    settings = {"nbr_obs": 1, "probe_template": template}
    made_up.store_run(folder, "glam", method, WORLD, seed, [], records, settings)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "0.1.0-quick-20260101-abcdef1"


def test_the_curves_are_those_of_each_prompt_and_action_as_far_as_all_seeds_are(folder):
    store(folder, "glam", 0, 8, 1)
    store(folder, "glam", 1, 6, 1)
    store(folder, "npae", 0, 8, 0)
    updates, found = figures.probabilities(figures.probed_arm(load(folder)).curves)
    assert updates.tolist() == [0, 1, 2, 3, 4, 5] and found.shape == (2, 6, 11, 6)
    assert np.allclose(found, [[policy(seed, k) for k in range(6)] for seed in (0, 1)])
    figure = figures.probe_actions(load(folder))
    panels = [axis for axis in figure.axes if axis.lines]
    assert len(panels) == 11
    forward = next(line for line in panels[3].lines if line.get_label() == "go forward")
    assert forward.get_ydata() == pytest.approx([np.mean([policy(s, k)[3, 2] for s in (0, 1)]) for k in range(6)])


def test_where_nothing_was_logged_nothing_is_drawn(folder):
    store(folder, "glam", 0, 4, 0)
    assert "holds nothing of it" in draw("glam-probe-actions", folder).skipped


def test_the_panels_tell_the_probes_in_their_order():
    assert tuple(figures.ACTIONS) == text_actions(9)
    goals = [prompt.split("Goal of the agent: ")[1].split(" \n")[0] for prompt in probe_prompts(text_actions(6))]
    assert len(goals) == len(figures.PROBES)
    for goal, (told, sensible) in zip(goals, figures.PROBES, strict=True):
        words = told.partition(":")[0].split("...")
        assert all(part.strip() in goal for part in words), (goal, told)
        assert sensible in text_actions(6)
