"""What a page is given to play is what the engine shows: grids, pictures, words and hands, in every family."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundlab.papers import playback, recording
from groundlab.papers.playback import Playback
from groundlab.papers.recording import Episode
from groundlab.papers.stage import Stage
from groundlab.worlds import render

WORLDS = (
    "BabyAI-MixedTrainLocal-v0/open", "BabyAI-MixedTrainLocal-v0/putnext", "BabyAI-GoToFrench-v0", "Reasoning-GoTo-v0",
    "BabyAI-BossLevel-v0", "MiniGrid-KeyCorridorS3R1-v0", "BabyAI-Text-GoToLocal-RedBall-S10", "ColoredDoorKey",
    "MovingObstacle", "RandomBoxKey", "Crafter-Text-EatCow", "Crafter-Reward",
)  # fmt: skip


def random_episode(world: str, layout: int, actions: list[int]) -> Episode:
    """An episode of these actions, cut where it ends."""
    stage, names = Stage(world, layout), []
    for action in actions:
        if stage.over:
            break
        names.append(stage.actions[action % len(stage.actions)])
        stage.step(action % len(stage.actions))
    return Episode(world=world, layout=layout, actions=names)


def decoded(data: dict, episode: dict) -> list[list[int]]:
    """The grids of an episode, from its first one and what changed."""
    grids = [episode["start"]]
    for pairs in episode["changes"]:
        grid = list(grids[-1])
        for cell, tile in zip(pairs[::2], pairs[1::2], strict=True):
            grid[cell] = tile
        grids.append(grid)
    return grids


@pytest.mark.parametrize("world", WORLDS)
@settings(max_examples=3, deadline=None)
@given(layout=st.integers(0, 10_000), actions=st.lists(st.integers(0, 20), min_size=10, max_size=60))
def test_the_changed_cells_lead_to_the_engines_states(world, layout, actions):
    episode = random_episode(world, layout, actions)
    data = playback.of([episode])
    (told,) = data["episodes"]
    grids = decoded(data, told)
    for step, (stage, _, _) in enumerate(recording.replay(episode)):
        assert grids[step] == playback.tiles(stage).ravel().tolist()
        text = [data["sentences"][number] for number in data["texts"][told["read"][step]]]
        assert text == stage.sentences
    assert len(grids) == len(episode.actions) + 1 and told["mission"] == stage.mission
    assert told["outcome"] == stage.outcome and told["success"] == episode.success


@pytest.mark.parametrize("world", [world for world in WORLDS if not world.startswith("Crafter")])
def test_tiles_make_the_engines_own_picture(world):
    rng, sheet, size = np.random.default_rng(0), playback.sheet("grid"), playback.TILE
    tiles = sheet.reshape(size, -1, size, 3).swapaxes(0, 1)
    episode = random_episode(world, 4, rng.integers(0, 6, 40).tolist())
    data = playback.of([episode])
    (told,) = data["episodes"]
    columns, rows = told["size"]
    for step, (stage, _, _) in enumerate(recording.replay(episode)):
        grid = np.array(decoded(data, told)[step]).reshape(rows, columns)
        drawn = tiles[grid].swapaxes(1, 2).reshape(rows * size, columns * size, 3).astype(float)
        digits = data["lights"][told["lit"][step]]
        if digits:
            bits = np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8))[: grid.size].reshape(grid.shape)
            lit = np.kron(bits, np.ones((size, size)))[..., None] > 0
            drawn = np.where(lit, drawn + 0.3 * (255 - drawn), drawn)
            picture = render.level_picture(stage.env.grids, tile=size)
        else:
            picture = render.as_picture(stage.observation["image"], size)
        assert np.abs(drawn - picture).max() < 2, step  # minigrid lights before it shrinks a tile, and cuts twice


def test_crafters_tiles_are_what_its_player_sees_at_noon():
    stage, sheet = Stage("Crafter-Reward", 3), playback.sheet("crafter")
    for _ in range(60):
        stage.step(0)
    grid, unit = playback.tiles(stage), len(sheet)
    picture = stage.observation["image"][: grid.shape[0] * unit, : grid.shape[1] * unit]
    cells = picture.reshape(grid.shape[0], unit, grid.shape[1], unit, 3).swapaxes(1, 2)
    same = (cells == sheet.reshape(unit, -1, unit, 3).swapaxes(0, 1)[grid]).all((2, 3, 4))
    assert same.sum() >= same.size - 8  # all but creatures that stand on another ground than theirs


def test_what_is_carried_and_what_is_lit_is_told():
    episode = Episode(world="BabyAI-GoToLocal-v0", layout=0, actions=["left"] * 3)
    data = playback.of([episode])
    (told,) = data["episodes"]
    stage = Stage("BabyAI-GoToLocal-v0", 0)
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(data["lights"][told["lit"][0]]), np.uint8))
    assert np.array_equal(bits[:64].reshape(8, 8).astype(bool), render.lit_cells(stage.env.grids).T)
    assert {data["words"][number] for number in told["hand"]} == {""}
    assert [data["words"][number] for number in told["did"]] == ["turn left"] * 3


def test_an_episode_of_another_outcome_is_refused():
    episode = random_episode("BabyAI-GoToLocal-v0", 0, [0, 0, 0])
    wrong = episode.model_copy(update={"method": "hand", "steps": 3, "success": True})
    with pytest.raises(Exception, match="ends otherwise"):
        Playback().add(wrong)
