"""Skills do what the original's do: recorded action strings, tie-breaking included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import room_image

from groundlab import worlds
from groundlab.papers.mediator import skills
from groundlab.papers.mediator.search import FIFO, ORIGINAL, has_loop, shortest_path
from groundlab.papers.mediator.skills import Explore, Option, Pickup, PlanExecutor, SkillSettings, SweepMemory
from groundlab.worlds.codes import STEP_X, STEP_Y

PLAIN = SkillSettings()


def memory() -> SweepMemory:
    return SweepMemory(np.random.default_rng(0))


def digits(actions) -> str:
    return "".join(map(str, actions))


def test_goto_takes_the_originals_path(mediator_golden):
    for case in mediator_golden["goto"]:
        image = room_image(case["objects"], case["agent"], case["dir"])
        path = shortest_path(image, *case["agent"], case["dir"], *case["target"], ORIGINAL)
        assert digits(path) == case["actions_one_optimal"]
        assert len(shortest_path(image, *case["agent"], case["dir"], *case["target"], FIFO)) == case["n_actions"]


def search_with_a_real_set(image, start, target):
    """The original's search, its open nodes in a Python set."""
    costs, parents, opened = {start: 0}, {}, {start}
    while opened:
        node = min(opened, key=costs.__getitem__)
        x, y, heading = node
        if (x + STEP_X[heading], y + STEP_Y[heading]) == target:
            path = []
            while node != start:
                node, action = parents[node]
                path.append(action)
            return path[::-1]
        ahead = (x + STEP_X[heading], y + STEP_Y[heading])
        ways = [((x, y, (heading + 3) % 4), 0), ((x, y, (heading + 1) % 4), 1)]
        if all(0 <= v < 10 for v in ahead) and image[ahead][0] in (1, 8):
            ways.append(((*ahead, heading), 2))
        for to, action in ways:
            if costs[node] + 1 < costs.get(to, 10**9):
                costs[to], parents[to] = costs[node] + 1, (node, action)
                opened.add(to)
        opened.remove(node)
    return []


@settings(max_examples=300, deadline=None)
@given(
    blocked=st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=45),
    start=st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)),
    target=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_compiled_search_equals_a_search_with_a_real_python_set(blocked, start, target):
    image = np.ones((10, 10, 4), np.uint8)
    for cell in blocked - {start[:2]}:
        image[cell][0] = 2
    expected = search_with_a_real_set(image, start, target)
    assert shortest_path(image, *start, *target, ORIGINAL).tolist() == expected
    assert len(shortest_path(image, *start, *target, FIFO)) == len(expected)


def test_pickup_puts_down_what_it_carries_as_the_original_does(mediator_golden):
    for case in mediator_golden["pickup"]:
        skill = Pickup(room_image(case["objects"], case["agent"], case["dir"], case["carry"]))
        actions, done = [], False
        while not done:
            action, done = skill.step(np.empty(0))
            actions.append(action)
        assert digits(actions) == case["actions"]


def test_pickup_walks_to_a_place_and_comes_back():
    walls = [("wall", "grey", x, y) for x, y in ((2, 3), (3, 4))]
    door = [("door", "red", 2, 2, 2)]
    image = room_image([*walls, *door, ("key", "red", 4, 3)], (3, 3), 0, ("key", "blue"))
    skill = Pickup(image)
    assert not skill.finished
    actions, done, pose, dropped = [], False, (3, 3, 0), None
    while not done:
        action, done = skill.step(image)
        actions.append(action)
        x, y, heading = pose
        if action == 2:
            pose = (x + STEP_X[heading], y + STEP_Y[heading], heading)
        elif action in (0, 1):
            pose = (x, y, (heading + (3 if action == 0 else 1)) % 4)
        elif action == 4:
            dropped = (x + STEP_X[heading], y + STEP_Y[heading])
    assert pose == (3, 3, 0) and actions[-1] == 3
    assert image[dropped][0] == 1


def test_a_pickup_with_no_place_to_put_things_is_skipped():
    walls = [("wall", "grey", x, y) for x, y in ((2, 3), (3, 4), (3, 2))]
    assert Pickup(room_image([*walls, ("key", "red", 4, 3)], (3, 3), 0, ("key", "blue"))).finished


def test_explore_sweeps_empty_rooms_as_the_original_does(mediator_golden):
    for case in mediator_golden["explore_empty_rooms"]:
        env = worlds.GridEnv("SimpleDoorKey")
        env.reset(seed=0)
        width, height = case["room"]
        cells = room_image(size=(width, height))[:, :, :3]
        cells[width:] = cells[:, height:] = (1, 0, 0)
        env.grids.cells[0] = cells
        env.grids.cells[0, case["door"][0], case["door"][1]] = (4, 0, 2)
        env.grids.agents[0] = (*case["agent"], case["dir"])
        env.grids.seen[0] = False
        image = env.step(6)[0]["image"]
        skill, actions, done = Explore(image, None, PLAIN, np.random.default_rng(0)), [], False
        while not done and len(actions) < 100:
            action, done = skill.step(image)
            actions.append(action)
            image = env.step(action)[0]["image"]
        assert digits(actions) == case["actions"] and done == case["done"]


def test_explore_walks_into_a_key_for_ever_unless_told_to_avoid_it():
    image = room_image([("key", "red", 2, 3)], (3, 3), 2)
    image[9, 9, 0] = 0  # not all seen
    stubborn = Explore(image, None, PLAIN, np.random.default_rng(0))
    careful = Explore(image, None, SkillSettings(avoid_objects=True), np.random.default_rng(0))
    assert [stubborn.step(image)[0] for _ in range(5)] == [2] * 5
    assert careful.step(image)[0] == 1


def test_loops_are_found_only_where_the_first_cell_belongs_to_one(mediator_golden):
    for case in mediator_golden["find_loop"]:
        border = np.zeros((10, 10), bool)
        border[tuple(np.array(case["cells"]).T)] = True
        assert has_loop(border) == case["loop"]


def test_the_executor_skips_what_has_nothing_to_do_and_wastes_one_step_at_the_end():
    image = room_image([("key", "red", 4, 3)])
    there = Option(skills.GO_TO, 5, (4, 3))
    plan = (there, Option(skills.DROP_OBJECT, 5, (4, 3)), Option(skills.PICK_UP, 5, (4, 3)), there)
    executor = PlanExecutor(plan, image, memory(), PLAIN)
    assert executor.act(image) == (3, False)
    assert executor.act(image) == (6, True)


def test_a_plan_without_any_skill_is_one_no_op():
    image = room_image()
    for plan in ((), (Option(skills.UNKNOWN),), (Option(skills.GO_TO, 1, None),)):
        assert PlanExecutor(plan, image, memory(), PLAIN).act(image) == (6, True)


def test_the_last_toggle_ends_the_plan():
    executor = PlanExecutor((Option(skills.TOGGLE_OBJECT, 4, (4, 3)),), room_image(), memory(), PLAIN)
    assert executor.act(room_image()) == (5, True)


def test_a_new_explore_goes_on_with_the_sweep_until_a_goto_forgets_it():
    image = room_image([("key", "red", 7, 3)], heading=0)
    image[9, 9, 0] = 0
    swept = memory()
    plan = (Option(skills.EXPLORE),)
    assert PlanExecutor(plan, image, swept, PLAIN).act(image)[0] == 0
    assert PlanExecutor(plan, image, swept, PLAIN).act(image)[0] == 0  # the second of the two turns
    assert PlanExecutor(plan, image, swept, PLAIN).act(image)[0] == 2
    PlanExecutor((Option(skills.GO_TO, 5, (7, 3)),), image, swept, PLAIN)
    assert PlanExecutor(plan, image, swept, PLAIN).act(image)[0] == 0


@pytest.mark.parametrize("ties", ["original", "fifo"])
def test_goto_plans_again_when_something_stood_in_the_way(ties):
    image = room_image([("key", "red", 7, 3)])
    executor = PlanExecutor((Option(skills.GO_TO, 5, (7, 3)),), image, memory(), SkillSettings(ties=ties))
    assert executor.act(image)[0] == 2
    ball = [("key", "red", 7, 3), ("ball", "grey", 4, 3)]
    turn = executor.act(room_image(ball))[0]
    assert turn in (0, 1)
    assert executor.act(room_image(ball, heading=1 if turn == 1 else 3))[0] == 2
