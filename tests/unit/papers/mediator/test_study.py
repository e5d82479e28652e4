"""What the study of the asking policy varies: heads by option, a falling entropy bonus, and a network taught a rule."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from groundlab.core.errors import GroundlabError
from groundlab.papers import registry
from groundlab.papers.mediator.agent import OPTIONS, build_network, with_options
from groundlab.papers.mediator.rule_cloning import make_learner
from groundlab.papers.mediator.settings import AskingSettings, TrainingSettings
from groundlab.papers.mediator.training import with_entropy


def _inputs(frames: np.ndarray, *actions: int | None) -> torch.Tensor:
    """Of episodes that carry out an option each, or none."""
    names = (None if action is None else SimpleNamespace(action=action) for action in actions)
    episodes: Any = [SimpleNamespace(skill_name=name) for name in names]
    return torch.from_numpy(with_options(frames, episodes))


def test_each_option_has_logits_of_its_own_and_shares_what_was_seen():
    network = build_network(AskingSettings(heads="by-option"), 0)
    frames = np.random.default_rng(0).integers(0, 10, (1, 10, 10, 4)).astype(np.float32)
    logits, values = network(_inputs(np.repeat(frames, 3, axis=0), None, 0, 6))
    assert len(torch.unique(logits[:, 0].round(decimals=4))) == 3
    torch.testing.assert_close(values, values[:1].expand(3), msg="the critic reads the option")
    logits[1].sum().backward()
    rows = network.actor[2].weight.grad.view(OPTIONS, 2, -1).abs().sum((1, 2))
    assert (rows > 0).tolist() == [False, True] + [False] * (OPTIONS - 2)


def test_the_entropy_bonus_falls_to_its_last_part_and_stays_by_default():
    falling = TrainingSettings(iterations=100, entropy_anneal_from=0.75)
    bonuses = [with_entropy(falling, number).entropy_coefficient for number in (1, 75, 76, 88, 100)]
    assert bonuses == pytest.approx([0.01, 0.01, 0.01, 0.01 * 13 / 25, 0.01 / 25])
    assert with_entropy(TrainingSettings(), 1000).entropy_coefficient == 0.01


def test_a_network_taught_a_rule_on_signed_differences_comes_to_decide_as_it_does():
    settings = {"layouts": "0-1", "fidelity": {"frame_difference": "signed"}, "iterations": 40}
    learner = make_learner(registry.resolve("rule-cloning", "SimpleDoorKey", 0, settings))
    agreement = [learner.train_step(number)["agreement"] for number in range(1, 41)]
    assert np.mean(agreement[-5:]) > 0.97 > 0.95 > np.mean(agreement[:5]), agreement


def test_a_taught_network_has_one_pair_of_logits():
    with pytest.raises(GroundlabError, match="heads"):
        registry.resolve("rule-cloning", "SimpleDoorKey", 0, {"heads": "by-option"})
