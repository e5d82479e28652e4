"""Controls on the network's own input, and the untrained network: what they read, and what their questions buy."""

import numpy as np
import pytest

from groundlab.papers.mediator.baselines import new_object, nothing_changed
from groundlab.papers.registry import Request, evaluate, resolve_settings
from groundlab.worlds.codes import BOX, EMPTY, KEY, UNSEEN, WALL


def frames(*kinds: int) -> np.ndarray:
    """Frames [n, 10, 10, 4] that were never seen but for one cell each."""
    images = np.full((len(kinds), 10, 10, 4), UNSEEN, np.uint8)
    images[:, 3, 4, 0] = kinds
    return images


def mean(method: str, world: str, seed: int = 0, **settings) -> dict[str, float]:
    return evaluate(Request(method, world, seed, resolve_settings(method, world, settings)))[0]["mean"]


def test_a_thing_is_new_where_nothing_had_been_seen():
    before, now = frames(UNSEEN, UNSEEN, EMPTY, BOX), frames(KEY, WALL, KEY, KEY)
    assert new_object(before, now).tolist() == [True, False, False, False]


def test_nothing_changed_compares_whole_frames():
    before, now = frames(KEY, KEY), frames(KEY, KEY)
    now[1, 9, 9, 3] = 1
    assert nothing_changed(before, now).tolist() == [True, False]


@pytest.mark.parametrize("world", ["SimpleDoorKey", "KeyInBox"])
def test_asking_at_new_things_is_as_short_as_asking_always_with_a_tenth_of_the_questions(world):
    rule, always = (mean(method, world, plans="first-commit") for method in ("new-object", "always"))
    assert rule["success"] == always["success"] == 1
    assert rule["interactions"] < 0.15 * always["interactions"]
    assert rule["steps"] == pytest.approx(always["steps"], abs=0.1)


def test_an_untrained_network_asks_at_a_rate_of_its_own():
    rates = [each["asked"] / each["steps"] for each in (mean("untrained", "SimpleDoorKey", seed) for seed in range(3))]
    assert len(set(rates)) == 3 and all(0.2 < rate < 0.8 for rate in rates)
