"""Gathered rows, and what goes back to them."""

import torch

from groundlab.learning.gathering import gather


def test_rows_that_are_gathered_often_get_the_sum_of_all_gradients():
    rng = torch.Generator().manual_seed(0)
    index = torch.randint(0, 7, (40, 3), generator=rng)  # seven of nine rows: the last two get none
    for dtype in (torch.float32, torch.float64):
        values = torch.rand(9, 5, generator=rng, dtype=dtype).requires_grad_()
        weights = torch.rand(40, 3, 5, generator=rng, dtype=dtype)
        rows, expected = gather(values, index), values[index]
        assert torch.equal(rows, expected)
        ours, torchs = (torch.autograd.grad((each * weights).sum(), values)[0] for each in (rows, expected))
        torch.testing.assert_close(ours, torchs)
        assert not ours[7:].any()
