"""The benchmark of updates: what it compares with, and the peak of which it prints a share."""

import pytest

from groundlab.bench import training
from groundlab.language import t5_forward
from groundlab.papers.knowledge.settings import PPOSettings


class Used(Exception):
    """Our forward was used."""


def test_one_side_uses_our_forward_and_the_other_does_without(monkeypatch):
    def used(*_, **__):
        raise Used

    ours, theirs = (training.glam_learner(num_envs=4, frames_per_env=4, batch_size=16) for _ in range(2))
    monkeypatch.setattr(t5_forward, "prefix_states", used)  # not before: the check of a new scorer would go on without
    with pytest.raises(Used):
        ours.train_step(1)
    with training.transformers_forward():
        theirs.train_step(1)


@pytest.mark.parametrize(("network", "forward"), [("paper", 9_772_736), ("small", 142_560)])
def test_the_peak_follows_from_the_arithmetic_of_a_frame(network, forward, monkeypatch):
    monkeypatch.setattr(training, "_peak_flops", lambda: 1e9)
    assert training.peak_frames(PPOSettings(epochs=4, network=network)) == pytest.approx(1e9 / (13 * forward))
