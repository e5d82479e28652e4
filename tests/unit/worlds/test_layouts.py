"""The same seed gives the original's layout, and our PCG64 is NumPy's."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from groundlab import worlds
from groundlab.worlds.codes import BALL, COLOURS, TYPES, WALL
from groundlab.worlds.pcg64 import integers, seed_row


def test_layouts_are_the_originals(mediator_golden):
    for episode in mediator_golden["episodes"]:
        env = worlds.GridEnv(episode["task"])
        env.reset(seed=episode["seed"])
        cells, contents, found = env.grids.cells[0], env.grids.contents[0], []
        for x, y in np.argwhere((cells[:, :, 0] > 1) & (cells[:, :, 0] != WALL)).tolist():
            kind, colour = contents[x, y]
            inside = f"{TYPES[kind]} {COLOURS[colour]}" if kind else None
            found.append(([x, y], TYPES[cells[x, y, 0]], COLOURS[cells[x, y, 1]], inside))
        told = [[thing[name] for name in ("pos", "type", "color", "contains")] for thing in episode["objects"]]
        assert sorted(map(list, found), key=str) == sorted(told, key=str)
        assert env.grids.agents[0].tolist() == [*episode["agent_pos"], episode["agent_dir"]]
        walls = np.argwhere(env.grids.cells[0, :, :, 0] == WALL)
        assert (walls.max(0) + 1).tolist() == episode["room_size_xy"]


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**64),
    ranges=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 2**31)), min_size=1, max_size=50),
)
def test_bounded_draws_are_numpys(seed, ranges):
    reference, row = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))), seed_row(seed)
    for low, size in ranges:
        assert integers(row, low, low + size) == reference.integers(low, low + size)


def test_a_moving_obstacle_world_has_two_balls_that_wander_and_end_nothing():
    env = worlds.GridEnv("MovingObstacle")
    moved = 0
    for seed in range(20):
        env.reset(seed=seed)
        before = np.argwhere(env.grids.cells[0, :, :, 0] == BALL)
        _, _, terminated, truncated, _ = env.step(0)
        after = np.argwhere(env.grids.cells[0, :, :, 0] == BALL)
        assert len(before) == len(after) == 2
        assert not terminated and not truncated
        moved += not np.array_equal(before, after)
    assert moved >= 15
