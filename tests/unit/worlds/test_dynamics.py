"""Step for step with the public minigrid package: grid, agent, hand, view, reward, end."""

import numpy as np
import pytest
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Door, WorldObj
from minigrid.minigrid_env import MiniGridEnv

from groundlab import worlds
from groundlab.worlds.dynamics import act
from groundlab.worlds.view import remember_view

EPISODES_PER_WORLD = 60
# More forward moves, pick-ups and toggles than a uniform draw, so that keys, boxes and doors are really used.
ACTION_WEIGHTS = (0.12, 0.12, 0.38, 0.14, 0.06, 0.16, 0.02)


def thing_of(cell: np.ndarray, content: np.ndarray) -> WorldObj:
    """minigrid's object of our numbers, and what is in it."""
    thing = WorldObj.decode(*map(int, cell))
    thing.contains = WorldObj.decode(*map(int, content), 0)
    return thing


def numbers_of(thing: WorldObj | None) -> list[int]:
    """Type and colour, those of what is in it, and its mark."""
    if thing is None:
        return [0, 0, 0, 0, 0]
    return [*thing.encode()[:2], *numbers_of(thing.contains)[:2], getattr(thing, "mark", 0)]


class Reference(MiniGridEnv):
    """minigrid's own environment on a copy of one of our grids, ending when the faced door is open."""

    def __init__(self, ours: worlds.GridEnv):
        self._ours = ours
        mission = MissionSpace(mission_func=lambda: "open the door")
        super().__init__(mission, width=10, height=10, max_steps=100, agent_view_size=3, see_through_walls=False)

    def _gen_grid(self, width, height):
        grids = self._ours.grids
        self.grid = Grid(width, height)
        for x, y in np.argwhere(grids.cells[0, :, :, 0] > 1).tolist():
            self.grid.set(x, y, thing_of(grids.cells[0, x, y], grids.contents[0, x, y]))
        self.agent_pos, self.agent_dir = (*grids.agents[0, :2].tolist(),), int(grids.agents[0, 2])

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        front = self.grid.get(*self.front_pos)
        if action == self.actions.toggle and isinstance(front, Door) and front.is_open:
            return observation, self._reward(), True, False, info
        return observation, 0.0, terminated, truncated, info


@pytest.mark.parametrize("world", ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey"))
def test_every_step_is_minigrids(world):
    rng = np.random.default_rng(7)
    ours, states, opened = worlds.GridEnv(world), 0, 0
    for seed in range(EPISODES_PER_WORLD):
        ours.reset(seed=int(rng.integers(2**31)))
        reference = Reference(ours)
        reference.reset(seed=seed)
        visible, done = np.zeros((10, 10), bool), False
        while not done:
            action = int(rng.choice(7, p=ACTION_WEIGHTS))
            _, reward, terminated, truncated, _ = ours.step(action)
            _, expected_reward, expected_end, expected_limit, _ = reference.step(action)
            np.testing.assert_array_equal(ours.grids.cells[0], reference.grid.encode())
            assert (*ours.grids.agents[0],) == (*reference.agent_pos, reference.agent_dir)
            assert ours.grids.carried[0, :2].tolist() == numbers_of(reference.carrying)[:2]
            visible[:] = False
            remember_view(ours.grids.cells[0], ours.grids.agents[0], 3, visible)
            mask = reference.gen_obs_grid()[1]
            places = (reference.relative_coords(x, y) for x, y in np.ndindex(10, 10))
            assert visible.ravel().tolist() == [at is not None and bool(mask[at]) for at in places]
            assert (reward, terminated, truncated and not terminated) == (
                pytest.approx(expected_reward, abs=1e-12), expected_end, expected_limit and not expected_end,
            )  # fmt: skip
            done, states, opened = terminated or truncated, states + 1, opened + terminated
    assert states > 2000
    assert opened > 0 or world in ("KeyInBox", "RandomBoxKey", "ColoredDoorKey")


class Furnished(MiniGridEnv):
    """minigrid's environment, its cells full of things, some of them marked, and the arrays that say the same."""

    SIZE = 5, 4

    def __init__(self, rng: np.random.Generator):
        self.cells, self.contents = np.full((*self.SIZE, 3), (1, 0, 0), np.uint8), np.zeros((*self.SIZE, 2), np.uint8)
        self.tracked, self.hand = np.zeros((*self.SIZE, 1), np.uint8), np.zeros(5, np.uint8)
        self.agent = rng.integers((*self.SIZE, 4))
        for x, y in np.ndindex(self.SIZE):
            kind = int(rng.choice((1, 1, 1, 2, 3, 4, 4, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9)))
            if kind > 1 and (x, y) != (*self.agent[:2],):
                colour = {8: 1, 9: 0}.get(kind, int(rng.integers(2)))  # goals are green, lava is red
                self.cells[x, y] = kind, colour, rng.choice((0, 1, 2, 2)) if kind == 4 else 0
                self.contents[x, y] = rng.choice(((0, 0), (5, 1), (6, 0))) if kind == 7 else 0
                self.tracked[x, y] = rng.integers(4)
        super().__init__(MissionSpace(mission_func=lambda: ""), width=self.SIZE[0], height=self.SIZE[1], max_steps=100)
        self.reset()
        if rng.integers(2):
            self.hand[:2] = 5, rng.integers(2)
            self.carrying = WorldObj.decode(*map(int, self.hand[:2]), 0)

    def _gen_grid(self, width, height):
        self.grid, self.agent_pos, self.agent_dir = Grid(*self.SIZE), (*self.agent[:2],), int(self.agent[2])
        for x, y in np.argwhere(self.cells[:, :, 0] > 1).tolist():
            thing = thing_of(self.cells[x, y], self.contents[x, y])
            thing.mark = int(self.tracked[x, y, 0])
            self.grid.set(x, y, thing)

    @property
    def looks_outside(self) -> bool:
        """Whether no cell lies ahead: minigrid's own grids end at walls, and its `step` fails there."""
        return not all(0 <= number < size for number, size in zip(self.front_pos, self.SIZE, strict=True))

    def check(self):
        """The arrays say what minigrid's objects are."""
        assert (*self.agent,) == (*self.agent_pos, self.agent_dir)
        np.testing.assert_array_equal(self.cells, self.grid.encode())
        assert self.hand.tolist() == numbers_of(self.carrying)
        for x, y in np.ndindex(self.SIZE):
            assert [*self.contents[x, y], *self.tracked[x, y]] == numbers_of(self.grid.get(x, y))[2:]


def test_every_action_on_every_thing_is_minigrids():
    rng, used, unlocked = np.random.default_rng(12), set(), 0
    for _ in range(100):
        env = Furnished(rng)
        for action in rng.choice(7, 40, p=ACTION_WEIGHTS).tolist():
            before, hand = env.cells.copy(), env.hand.copy()
            act(env.cells, env.contents, env.tracked, env.agent, env.hand, action)
            if not env.looks_outside:
                env.step(action)
            elif action < 2:
                env.agent_dir = (env.agent_dir + 2 * action - 1) % 4
            env.check()
            if not np.array_equal(env.cells, before):
                used.add((action, int(max(hand[0], env.hand[0]))))
            unlocked += np.any((before[:, :, 2] == 2) & (env.cells[:, :, 2] == 0))
    keys, balls, boxes = 5, 6, 7
    assert used >= {(action, thing) for action in (3, 4) for thing in (keys, balls, boxes)} | {(5, 0)}
    assert unlocked > 5
