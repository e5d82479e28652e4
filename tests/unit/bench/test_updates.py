"""The benchmark of updates: each side really does, or does without, what its row says."""

import time
from contextlib import nullcontext

import pytest

from groundlab.bench import updates
from groundlab.language import t5_forward
from groundlab.papers.knowledge import networks
from groundlab.papers.mediator import loops

PARTS = {
    "bench_glam": (t5_forward, "prefix_states"),
    "bench_mediator": (loops, "act"),
    "bench_knowledge": (networks.Pieces, "of"),
}


class Taken(Exception):
    """Our part was used."""


@pytest.mark.parametrize("name", PARTS)
def test_one_side_uses_our_part_and_the_other_does_without(name, monkeypatch):
    asked = {}
    monkeypatch.setattr(updates, "compared", lambda *given, turns=0: asked.update(make=given[2], plain=given[3]))
    monkeypatch.setattr(updates, "_GLAM", {**updates._GLAM, "num_envs": 4, "frames_per_env": 4, "batch_size": 16})
    monkeypatch.setattr(updates, "_KNOWLEDGE", {**updates._KNOWLEDGE, "num_envs": 4, "frames_per_env": 16})
    getattr(updates, name)()

    def taken(*_, **__):
        raise Taken

    monkeypatch.setattr(*PARTS[name], taken)
    learner = asked["make"]()
    with pytest.raises(Taken):
        learner.train_step(1)
    learner = asked["make"]()
    with asked["plain"](learner):
        learner.train_step(1)


def test_the_ratio_is_of_medians_after_a_turn_that_warms_up(monkeypatch):
    clock = iter([0, 9, 0, 9, 0, 1, 0, 4, 0, 2, 0, 6, 0, 3, 0, 8])
    monkeypatch.setattr(time, "process_time", lambda: next(clock))

    class Learner:
        def train_step(self, number): ...

    made = updates.compared("x", "y", Learner, lambda _: nullcontext(), turns=3)
    assert [each.value for each in made] == [2, 6, 3] and made[2].unit == "x"
