"""What learners of all papers are checked by."""

import json
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def goes_on() -> Callable[..., None]:
    """Check that a new learner goes on from another's state to the last bit: goes_on(make_learner).

    tests/contract does this to a whole run of every method, with its smoke settings; here are settings under which
    more is carried from one update to the next.
    """

    def check(make_learner: Callable[[], Any], updates: int = 2) -> None:
        straight, resumed = make_learner(), make_learner()
        for number in range(1, updates + 1):
            straight.train_step(number)
        resumed.load_state(straight.state())
        records = [json.dumps(learner.train_step(updates + 1)) for learner in (resumed, straight)]
        assert records[0] == records[1]
        ours, theirs = resumed.state(), straight.state()
        assert [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)] == []

    return check
