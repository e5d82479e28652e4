"""Replay memory and stored sequences: what gives way, what is drawn, and what goes through a checkpoint."""

import numpy as np
import pytest

from groundlab.learning.replay import Replay, Sequences

ITEM = np.dtype([("item", "i8"), ("next", "i8")])


def items(*numbers: int) -> np.ndarray:
    return np.array([(number, -number) for number in numbers], ITEM)


def test_a_full_ring_gives_way_from_its_oldest_item():
    memory = Replay(10, ITEM)
    for number in range(12):
        memory.push(items(number))
    assert memory.rows["item"].tolist() == [10, 11, *range(2, 10)]
    rng = np.random.RandomState(20210824)  # the original's own stream
    assert memory.sample(4, rng)["item"].tolist() == [2, 3, 9, 6]
    assert memory.sample(4, rng)["item"].tolist() == [5, 9, 10, 7]


def test_many_rows_pushed_at_once_are_as_many_pushed_one_by_one():
    together, singly = Replay(3000, ITEM), Replay(3000, ITEM)
    for start in range(0, 5000, 250):
        together.push(items(*range(start, start + 250)))
    for number in range(5000):
        singly.push(items(number))
    assert np.array_equal(together.rows, singly.rows)
    assert set(together.rows["item"]) == set(range(2000, 5000))


def test_all_transitions_are_sampled_alike_and_each_at_most_once():
    rng, memory = np.random.default_rng(0), Replay(1000, ITEM)
    assert len(memory.sample(4, rng)) == 0
    memory.push(items(*range(200)))
    batches = [memory.sample(32, rng)["item"] for _ in range(100)]
    assert all(len(set(batch)) == 32 for batch in batches)
    assert (np.concatenate(batches) % 20 == 0).mean() == pytest.approx(0.05, abs=0.02)


def test_a_memory_goes_through_a_checkpoint_whole():
    memory, other = (Replay(12, ITEM) for _ in range(2))
    for number in range(20):
        memory.push(items(number))
    other.load(memory.state())
    for each in (memory, other):
        each.push(items(100, 101))
    assert np.array_equal(memory.rows, other.rows) and len(other) == 12


def test_sequences_are_stored_once_and_come_back_padded():
    sequences, other = Sequences(), Sequences()
    assert [sequences.number(ids) for ids in ([5, 6], [7], [5, 6], [1, 2, 3])] == [0, 1, 0, 2]
    other.load(sequences.state())
    ids, lengths = other.padded(np.array([2, 1, 0]))
    assert ids.tolist() == [[1, 2, 3], [7, 0, 0], [5, 6, 0]] and lengths.tolist() == [3, 1, 2]
    assert other.number([7]) == 1 and other.number([9]) == 3
