"""What the levels ask for, and how often: mission filters, kinds, and what random actions achieve."""

import re
from collections import Counter

import numpy as np
import pytest

from groundlab import worlds
from groundlab.core.seeding import generator
from groundlab.papers.episodes import play_first_finished, play_layouts, summary
from groundlab.papers.worlds.random_agent import RandomPlayer
from groundlab.worlds.codes import BOX, COLOURS, DOOR, TYPES

TRAIN, TEST = "BabyAI-MixedTrainLocal-v0", "BabyAI-MixedTestLocal-v0"
KINDS = worlds.find(TRAIN).kinds
HELD_OUT = {"yellow box", "red key", "green ball", "red door", "grey door"}
COLOURED = re.compile(rf"(?:{'|'.join(COLOURS)}) (?:key|ball|box|door)")
EPISODES = 500
EPISODES_AT_RANDOM = 600  # standard errors of 0.02


def episodes(world: str, count: int) -> tuple[list[str], np.ndarray]:
    """Missions and grids [count, W, H, 3] of the first `count` seeds."""
    env = worlds.make(world, count, seed=0)
    return env.reset()[0]["mission"], env.grids.cells.copy()


def things(cells: np.ndarray) -> set[str]:
    """Everything that lies in some grids, as `colour type`."""
    found = np.unique(cells[(cells[..., 0] >= DOOR) & (cells[..., 0] <= BOX)][:, :2], axis=0)
    return {f"{COLOURS[colour]} {TYPES[kind]}" for kind, colour in found.tolist()}


@pytest.mark.parametrize("kind", KINDS)
def test_training_missions_name_nothing_held_out_though_it_lies_there_and_test_missions_nothing_else(kind):
    for world in (TRAIN, TEST):
        missions, cells = episodes(f"{world}/{kind}", EPISODES)
        named = {name for mission in missions for name in COLOURED.findall(mission)}
        assert named and (named <= HELD_OUT if world == TEST else not named & HELD_OUT)
        assert things(cells) - HELD_OUT and {"yellow box", "red key", "green ball"} <= things(cells)


def kind_of(mission: str) -> str:
    if " after you " in mission or ", then " in mission:
        return "pick_up_seq_go_to"
    return {"go": "goto", "pick": "pickup", "open": "open", "put": "putnext"}[mission.split()[0]]


def test_a_kind_alone_is_its_environments_in_the_mixed_world():
    mixed = worlds.make(TRAIN, 10).reset(seed=list(range(10)))[0]
    for i, kind in enumerate(KINDS):
        alone = worlds.make(f"{TRAIN}/{kind}", 2).reset(seed=[i, i + 5])[0]
        np.testing.assert_array_equal(mixed["image"][i::5], alone["image"])
        assert mixed["mission"][i::5] == alone["mission"]


def test_listed_kinds_are_played_as_listed():
    listed = ["open", "goto", "open", "putnext"]
    env = worlds.make(TRAIN, 4, seed=0, kinds=listed)
    for _ in range(3):
        assert [kind_of(mission) for mission in env.reset()[0]["mission"]] == listed


def test_kinds_drawn_for_each_episode_come_equally_often_and_follow_the_seed():
    env, again = (worlds.make(TRAIN, 100, seed=5, kinds="per-episode") for _ in range(2))
    counts, changed = Counter(), np.zeros(100, bool)
    before = env.reset()[0]["mission"]
    assert again.reset()[0]["mission"] == before
    for _ in range(30):
        missions = env.reset()[0]["mission"]
        assert again.reset()[0]["mission"] == missions
        assert env.kinds == [kind_of(mission) for mission in missions]
        changed |= [kind_of(a) != kind_of(b) for a, b in zip(before, missions, strict=True)]
        counts.update(env.kinds)
    assert changed.all()
    # 3,000 draws of probability 1/5: standard deviation 22
    assert all(abs(counts[kind] - 600) < 110 for kind in KINDS)


@pytest.mark.parametrize("num_dists", [0, 3, 12])
@pytest.mark.parametrize(
    ("level", "own"), [("GoTo", 1), ("Pickup", 1), ("Open", 1), ("PutNext", 2), ("PickUpSeqGoTo", 2)]
)
def test_num_dists_counts_the_objects_besides_the_missions_own(level, own, num_dists):
    """Open's own object is the key of its door."""
    env = worlds.make(f"Reasoning-{level}-v0", 40, seed=0, num_dists=num_dists)
    env.reset()
    kinds = env.grids.cells[..., 0]
    objects = ((kinds > DOOR) & (kinds <= BOX)).sum((1, 2))
    assert (objects == own + num_dists).all()


@pytest.mark.parametrize("part", ["Train", "Test"])
def test_an_old_name_is_the_same_world(part):
    old, new = (worlds.make(f"BabyAI-{name}{part}Local-v0", 5, seed=2) for name in ("Mixt", "Mixed"))
    assert old.reset()[0]["mission"] == new.reset()[0]["mission"]
    assert old.world.name == new.world.name


@pytest.mark.parametrize(("actions", "rate"), [(6, 0.307), (3, 0.413)])
def test_random_actions_succeed_as_often_as_in_the_original(actions, rate):
    """Uniform ones, over 600 episodes; that all levels are the original's is in test_parity.py, step for step."""
    player = RandomPlayer(actions, generator(0, "random actions"))
    rows = play_layouts("BabyAI-GoToLocal-v0", range(EPISODES_AT_RANDOM), player)
    assert len(rows) == EPISODES_AT_RANDOM
    assert np.mean([row["success"] for row in rows]) == pytest.approx(rate, abs=0.06)


def test_counting_episodes_as_they_finish_flatters_the_short_kinds():
    """As many environments of each kind: 0.165 instead of 0.121 in the original; standard error here 0.003."""
    player = RandomPlayer(6, generator(1, "random actions"))
    by_kind = summary("random", play_layouts(TRAIN, range(2000), player))["mean"]["success"]
    finished = play_first_finished(TRAIN, 50, 12_000, 0, player)
    counted = np.mean([row["success"] for row in finished])
    shares = Counter(row["kind"] for row in finished)
    assert by_kind == pytest.approx(0.121, abs=0.02)
    assert counted == pytest.approx(0.165, abs=0.02)
    assert shares["goto"] > 1.5 * shares["open"]
