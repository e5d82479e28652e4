"""Levels of several rooms and missions of several parts: minigrid's, step for step, and what its planner makes of them.

The full comparison, marked slow, holds each level to `STATES_A_LEVEL` states; every run of the tests holds each to a
few.
"""

import numpy as np
import pytest
from parity import compare_level
from reference import reference

from groundlab import worlds
from groundlab.worlds import codes
from groundlab.worlds.missions import PARTS
from groundlab.worlds.pcg64 import double, seed_row
from groundlab.worlds.room_grid import blueprint as steps
from groundlab.worlds.room_grid.catalogue import CATALOGUE
from groundlab.worlds.rules import ANY, GO_TO, ROOM_GRID, Rules

LEVELS = [entry.name for entry in CATALOGUE]
STATES, STATES_A_LEVEL = 40, 1300


def test_the_first_states_of_every_level_are_minigrids():
    for name in LEVELS:
        compare_level(name, {}, STATES)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEVELS)
def test_every_episode_is_minigrids(name):
    compare_level(name, {}, STATES_A_LEVEL)


class Pair:
    """One level in the engine and in minigrid, whose agents can be put anywhere; each step must be the same."""

    def __init__(self, name: str, seed: int):
        self.ours, self._theirs = worlds.GridEnv(name), reference(name)
        self.ours.reset(seed=seed), self._theirs.reset(seed=seed)

    def at(self, kind: int, action: int, colour: int | None = None) -> tuple[float, bool]:
        """Do an action before the first thing of a kind; (reward, whether the episode ended)."""
        cells = self.ours.grids.cells[0]
        (x, y) = np.argwhere((cells[:, :, 0] == kind) & ((cells[:, :, 1] == colour) | (colour is None))).tolist()[0]
        steps_to = ((1, 0), (0, 1), (-1, 0), (0, -1))
        heading, (dx, dy) = next((k, s) for k, s in enumerate(steps_to) if cells[x - s[0], y - s[1], 0] == codes.EMPTY)
        self.stand(x - dx, y - dy, heading)
        return self.do(action)

    def stand(self, x: int, y: int, heading: int) -> None:
        self.ours.grids.agents[0] = (x, y, heading)
        self._theirs.agent_pos, self._theirs.agent_dir = np.array((x, y)), heading

    def do(self, action: int) -> tuple[float, bool]:
        mine, yours = self.ours.step(action), self._theirs.step(action)
        assert mine[1:4] == yours[1:4] and np.array_equal(mine[0]["image"], yours[0]["image"])
        np.testing.assert_array_equal(self.ours.grids.cells[0], self._theirs.grid.encode())
        return mine[1], mine[2]


@pytest.mark.parametrize("seed", range(5))
def test_what_was_put_down_is_still_what_the_mission_means(seed):
    pair = Pair("BabyAI-PutNextS7N4-v0", seed)
    kind, colour, *_, other_kind, other_colour = pair.ours.grids.missions[0, 4:10].tolist()
    assert pair.at(kind, codes.PICKUP, colour) == (0, False)
    assert pair.do(codes.DROP) == (0, False)  # where it lay
    assert pair.at(kind, codes.PICKUP, colour) == (0, False)
    cells = pair.ours.grids.cells[0]
    ((x, y),) = np.argwhere((cells[:, :, 0] == other_kind) & (cells[:, :, 1] == other_colour)).tolist()
    beside = ((x + dx, y + dy, dx, dy) for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)))
    far = [
        (a, b, dx, dy)
        for a, b, dx, dy in beside
        if cells[a, b, 0] == codes.EMPTY and cells[a + dx, b + dy, 0] == codes.EMPTY
    ]
    a, b, dx, dy = far[0]
    pair.stand(a + dx, b + dy, ((1, 0), (0, 1), (-1, 0), (0, -1)).index((-dx, -dy)))
    reward, ended = pair.do(codes.DROP)
    assert reward > 0.9 and ended


def test_the_step_that_does_the_first_task_may_do_the_second():
    """A sequence of two tasks alike, of which some two thousand levels have a few."""
    missions = worlds.make("BabyAI-GoToSeqS5R2-v0", 2000, seed=0).reset()[0]["mission"]
    halves = [mission.replace(" after you ", ", then ").split(", then ") for mission in missions]
    alike = [k for k, parts in enumerate(halves) if len(set(parts)) < len(parts) and " and " not in parts[0]]
    assert alike
    for seed in alike[:5]:
        pair = Pair("BabyAI-GoToSeqS5R2-v0", seed)
        kind, colour = pair.ours.grids.missions[0, 4:6].tolist()
        reward, ended = pair.at(kind, codes.DONE, None if colour == ANY else colour)
        assert reward > 0.9 and ended


@pytest.mark.parametrize("seed", range(5))
def test_a_key_in_a_box_opens_its_door_once_the_box_is_open(seed):
    pair = Pair("BabyAI-KeyInBox-v0", seed)
    for kind, action in ((codes.DOOR, codes.TOGGLE), (codes.BOX, codes.TOGGLE), (codes.KEY, codes.PICKUP)):
        assert pair.at(kind, action) == (0, False)
    reward, ended = pair.at(codes.DOOR, codes.TOGGLE)
    assert reward > 0.9 and ended


@pytest.mark.parametrize("seed", range(5))
def test_the_blue_ball_ends_an_obstructed_maze_and_the_green_one_does_not(seed):
    """The agent may stand beyond the door here, which no step of its own would allow."""
    pair = Pair("MiniGrid-ObstructedMaze-1Dlhb-v0", seed)
    assert pair.at(codes.BALL, codes.PICKUP, codes.GREEN) == (0, False)
    assert pair.do(codes.DROP) == (0, False)
    assert pair.at(codes.BOX, codes.PICKUP) == (0, False) and pair.do(codes.DROP) == (0, False)
    assert pair.at(codes.BOX, codes.TOGGLE) == (0, False)  # a box that was carried about still holds its key
    assert pair.at(codes.KEY, codes.PICKUP) == (0, False) and pair.do(codes.DROP) == (0, False)
    reward, ended = pair.at(codes.BALL, codes.PICKUP, codes.BLUE)
    assert reward > 0.9 and ended


def test_the_wrong_door_ends_a_strict_level_without_reward():
    pair = Pair("BabyAI-OpenDoorDebug-v0", seed=0)
    cells, meant = pair.ours.grids.cells[0], pair.ours.grids.tracked[0, :, :, 0] > 0
    wrong = cells[(cells[:, :, 0] == codes.DOOR) & ~meant][0]
    assert pair.at(codes.DOOR, codes.TOGGLE, int(wrong[1])) == (0, True)


def test_an_object_on_your_left_stays_the_one_that_was_on_the_left():
    """Another object of its kind is no success, wherever the agent then stands."""
    env = worlds.GridEnv("BabyAI-PickupLoc-v0")
    tried = 0
    for seed in range(400):
        mission = env.reset(seed=seed)[0]["mission"]
        grids = env.grids
        cells, marks = grids.cells[0], grids.tracked[0, :, :, 0]
        if not mission.endswith(("left", "right", "you")):
            continue
        (kind, colour), meant = env.grids.missions[0, 4:6], marks & 1
        same = (cells[:, :, 0] == kind) & ((cells[:, :, 1] == colour) | (colour == -1)) & (meant == 0)
        for x, y in np.argwhere(same).tolist():
            if cells[x - 1, y, 0] == codes.EMPTY:
                grids.agents[0] = (x - 1, y, 0)
                _, reward, terminated, _, _ = env.step(codes.PICKUP)
                assert grids.carried[0, 0] == kind and reward == 0 and not terminated
                tried += 1
                break
    assert tried > 10


def test_the_grammar_has_every_order_and_joins_up_to_four_parts():
    env = worlds.make("BabyAI-BossLevel-v0", 1500, seed=0)
    missions = env.reset()[0]["mission"]
    assert any(mission.count(" and ") == 2 and ", then " in mission for mission in missions)
    assert any(mission.count(" and ") == 2 and " after you " in mission for mission in missions)
    for words in ("go to ", "pick up ", "open ", "put ", "on your left", "on your right", "in front of", "behind you"):
        assert any(words in mission for mission in missions)
    assert max(map(len, missions)) <= 400 and env.observation_space.contains(env.reset()[0])
    limits = {int(limit) // (8 * 8 * 9) for limit in env.grids.max_steps}
    assert limits <= set(range(1, 2 * PARTS + 1)) and max(limits) >= 6


def test_a_row_says_how_large_a_level_is_and_how_long():
    """A drawn mission may need fewer walks than the longest one."""
    for name in LEVELS:
        theirs, world = reference(name), worlds.find(name)
        theirs.reset(seed=0)
        assert (world.width, world.height) == (theirs.width, theirs.height)
        drawn = world.levels[0].blueprint[-1][0] == steps.INSTRUCT
        assert world.max_steps >= theirs.max_steps if drawn else world.max_steps == theirs.max_steps


def test_floats_are_numpys():
    for seed in range(20):
        numpys, row = np.random.default_rng(seed), seed_row(seed)
        assert [double(row) for _ in range(50)] == numpys.random(50).tolist()


def test_a_package_may_add_a_level_as_a_row_of_steps():
    plan = (steps.door(0, 0, 0, 2, 0), steps.agent(0, 0), steps.thing(1, 0, codes.KEY, 0), steps.ask(0, GO_TO, 1))
    rules = Rules(family=ROOM_GRID, room_size=5, columns=2, blueprint=plan)
    env = worlds.GridVectorEnv(worlds.World("Two-v0", (rules,), "go to the red key", "ours"), 8, seed=0)
    observations, _ = env.reset()
    assert observations["mission"] == ["go to the red key"] * 8 and env.grids.cells.shape[1:3] == (9, 5)
    assert ((env.grids.cells[:, :, :, 0] == codes.DOOR).sum((1, 2)) == 1).all()
    assert (env.grids.agents[:, 0] < 4).all() and (env.grids.max_steps == 50).all()
