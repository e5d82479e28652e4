"""Actions are drawn with their probabilities, one number a row, and never an impossible one."""

import numpy as np
import torch
from numpy.random import default_rng

from groundlab.learning.ppo import sample_actions


def test_actions_are_drawn_with_their_probabilities():
    probabilities = torch.tensor([0.2, 0.5, 0.3])
    actions = sample_actions(probabilities.log().expand(20_000, -1), default_rng(0))
    np.testing.assert_allclose(np.bincount(actions, minlength=3) / 20_000, probabilities, atol=0.01)


def test_a_constant_added_to_the_logits_changes_no_action():
    logits = torch.randn(500, 6, generator=torch.Generator().manual_seed(0))
    assert np.array_equal(sample_actions(logits, default_rng(1)), sample_actions(logits + 3, default_rng(1)))


def test_a_row_takes_one_number_whatever_the_other_rows_are():
    logits, rng = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), default_rng(2)
    numbers = default_rng(2).random(9)
    whole = sample_actions(logits, rng)
    assert rng.random() == numbers[8]
    again = default_rng(2)
    assert [sample_actions(row[None], again)[0] for row in logits] == whole.tolist()


def test_an_impossible_action_is_never_drawn():
    class Extremes:
        """Both ends of what a generator gives."""

        def random(self, count):
            return np.resize([0.0, np.nextafter(1.0, 0.0)], count)

    logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]]).expand(4, -1)
    assert sample_actions(logits, Extremes()).tolist() == [1, 2, 1, 2]  # pyright: ignore[reportArgumentType]
