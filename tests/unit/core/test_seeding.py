"""Streams are owned: named by purpose, independent of order."""

import pytest

from groundlab.core.errors import unknown_name
from groundlab.core.seeding import child_seed, generator


def test_streams_depend_on_seed_and_purpose_only():
    first = generator(7, "layouts", 3).integers(2**40, size=5).tolist()
    generator(7, "other").random(100)
    assert generator(7, "layouts", 3).integers(2**40, size=5).tolist() == first
    others = [generator(8, "layouts", 3), generator(7, "layouts", 4), generator(7, "minibatches", 3)]
    assert all(other.integers(2**40, size=5).tolist() != first for other in others)


def test_child_seeds_fit_torch():
    assert all(0 <= child_seed(seed, "network") < 2**63 for seed in range(100))


@pytest.mark.parametrize(("name", "nearest"), [("SimpleDorKey", "SimpleDoorKey"), ("simpledoorkey", "SimpleDoorKey")])
def test_the_nearest_name_is_suggested(name, nearest):
    error = unknown_name("world", name, ["KeyInBox", "SimpleDoorKey"], "groundlab worlds lists all")
    assert str(error) == f"unknown world {name!r}; did you mean {nearest!r}? (groundlab worlds lists all)"
    assert "known: KeyInBox, SimpleDoorKey" in str(unknown_name("world", "zzz", ["KeyInBox", "SimpleDoorKey"]))
