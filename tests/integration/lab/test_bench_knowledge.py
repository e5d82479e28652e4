"""The knowledge agents' benchmark counts what it says it counts."""

import pytest

from groundlab.bench import training
from groundlab.papers.knowledge.settings import PPOSettings

TINY = PPOSettings(network="small", num_envs=4, frames_per_env=8, epochs=1, minibatches=2)


@pytest.mark.parametrize("form", ["phi = 0", "BK-Code", "BK-Pref"])
def test_every_second_is_told_by_what_it_went_into(form):
    timed = training._timed(training._potential(form), TINY, 2)
    assert timed.rate > 0
    assert sum(timed.shares.values()) == pytest.approx(1)
    assert set(timed.shares) == {"worlds", "policy", "potential", "update"}


def test_the_sandboxs_server_counts_as_time_of_the_potential():
    plain, code = (
        training._timed(training._potential(form), TINY, 2).shares["potential"] for form in ("phi = 0", "BK-Code")
    )
    assert code > 0.5 > plain  # the server's start alone takes longer than 64 steps


def test_the_bound_falls_with_the_arithmetic_of_a_step(monkeypatch):
    monkeypatch.setattr(training, "_flops_a_second", lambda: 1e9)
    paper = training.product_bound(PPOSettings(epochs=4))
    small = training.product_bound(PPOSettings(epochs=4, network="small"))
    assert paper == pytest.approx(1e9 / (13 * 9_772_736))
    assert small == pytest.approx(1e9 / (13 * 142_560))
