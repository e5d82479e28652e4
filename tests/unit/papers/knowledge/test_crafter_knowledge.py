"""Knowledge of Crafter: lives are stored in little room and come back whole, and they are labelled as stated."""

import re

import numpy as np
import pytest
import torch
from knowledge_data import told

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Sampling
from groundlab.papers.knowledge import bk_goal, bk_pref, dataset, labelling, scripted
from groundlab.papers.knowledge.captions import PICTURE, readable
from groundlab.papers.knowledge.dataset import Dataset, Episode, write
from groundlab.papers.knowledge.observations import CRAFTER, normalise
from groundlab.worlds.crafter.rules import ACHIEVEMENTS, VERBS
from groundlab.worlds.crafter.view import describe

WORLD = "Crafter-Text-Reward"
CALM = "health: 9/9, food: 9/9, drink: 9/9, energy: 9/9"
THIRST = CALM.replace("drink: 9", "drink: 3")


@pytest.fixture(scope="module")
def lives():
    return labelling.dataset("crafter-reward")


# --- The dataset


def test_every_life_is_what_the_world_shows_for_its_seed_and_actions_and_so_are_its_captions(lives):
    episodes = [lives.episode(number) for number in range(len(lives))]
    seen = {}
    played = [each.layout for each in episodes], [each.actions for each in episodes]
    for moment in dataset.replay_crafter(WORLD, *played):
        for life, view in zip(moment.episodes.tolist(), moment.views, strict=True):
            np.testing.assert_array_equal(readable(view), episodes[life].views[moment.step])
            seen[life, moment.step] = describe(readable(view))
    assert len(seen) == lives.card["steps"] + 60
    for number, length in enumerate(lives.lengths.tolist()):
        assert lives.segment(number, 0, length).captions == [seen[number, step] for step in range(length + 1)]


def test_what_the_lives_came_to_is_on_the_card(lives):
    for snapshot, shares in lives.card["achievements"].items():
        mine = [each for each in map(lives.episode, range(60)) if str(each.snapshot) == snapshot]
        came_to = dataset.crafter_progress(WORLD, [each.layout for each in mine], [each.actions for each in mine])
        assert came_to.achievements == shares and came_to.cells == lives.card["cells_visited"][snapshot]
        assert set(shares) <= set(ACHIEVEMENTS) and all(0 < share <= 1 for share in shares.values())


def looks(view):
    """How many different cells a picture shows."""
    cells = view[:PICTURE].reshape(64, 64, 3)[:49, :63].reshape(7, 7, 9, 7, 3).transpose(0, 2, 1, 3, 4)
    return len(np.unique(cells.reshape(63, -1), axis=0))


def test_lives_come_back_with_the_pictures_that_were_shown_by_night_too(tmp_path, own_cache):
    actions = np.random.default_rng(1).integers(0, 5, 260).astype(np.uint8)  # moves: this player gets into the night
    envs = CRAFTER.make(WORLD, 1, "disabled")
    shown, ended, rewards = [CRAFTER.view(envs.reset(seed=[13])[0])[0]], False, []
    for action in actions:
        observations_, reward, terminated, _, _ = envs.step(np.array([action]))
        shown.append(CRAFTER.view(observations_)[0])
        rewards.append(reward[0])
        if ended := bool(terminated[0]):
            break
    taken = len(rewards)
    assert taken > 220, "choose a player that lives until the night"
    episode = Episode(np.stack(shown), actions[:taken], np.array(rewards, np.float32), ended, False, 13, 0)
    write(tmp_path / "data", [episode], {"world": WORLD})
    data = Dataset(tmp_path / "data")
    np.testing.assert_array_equal(data.segment(0, 0, taken).views, np.stack(shown))
    back = vars(data.episode(0)) | {"views": episode.views}
    for name, value in vars(episode).items():
        np.testing.assert_array_equal(back[name], value, err_msg=name)
    assert looks(shown[1]) < 10 and looks(shown[210]) > 50  # by night no two cells look the same
    assert (tmp_path / "data" / "arrays.npz").stat().st_size < 50_000 < np.stack(shown).nbytes / 50


def test_a_life_that_the_world_does_not_show_is_found(lives, tmp_path, own_cache):
    first = lives.episode(0)
    views = first.views.copy()
    views[3, 0] += 1
    write(tmp_path / "data", [Episode(views, *list(vars(first).values())[1:])], {"world": WORLD})
    data = Dataset(tmp_path / "data")
    assert data.episode(0).actions.tolist() == first.actions.tolist()
    with pytest.raises(GroundlabError, match="episode 0 is not what Crafter-Text-Reward shows at step 3; collect"):
        data.segment(0, 0, 2)
    assert not list((tmp_path / "cache").rglob("pictures.npy"))


# --- What is asked, and of whom


def test_the_prompt_tells_what_the_game_is_its_verbs_and_what_each_achievement_requires():
    text = bk_goal.opening(CRAFTER)[1]["content"]
    flat = " ".join(text.split())
    assert all(verb in flat for verb in VERBS)
    lines = re.findall(r"^- ([A-Z][a-z]+(?: [A-Z][a-z]+)+): ", text, re.MULTILINE)
    assert sorted(line.lower().replace(" ", "_") for line in lines) == sorted(ACHIEVEMENTS)


def test_a_judge_is_told_of_crafter_and_shown_its_verbs(lives):
    asked = bk_pref.question(lives.segment(0, 0, 5), lives.segment(1, 0, 5), CRAFTER)
    assert "Crafter" in asked[0]["content"] and "You face" in asked[1]["content"]
    actions = re.findall(r"You choose the action: (.*)\.$", asked[1]["content"], re.MULTILINE)
    assert len(actions) == 10 and set(actions) <= set(VERBS)


def test_no_program_is_asked_for_in_crafter(lives, tmp_path):
    for ask in (labelling.label, labelling.estimate):
        with pytest.raises(GroundlabError, match="BK-Code has no Crafter form"):
            ask(labelling.Labelling("code", tmp_path, maker="scripted"), lives)


def test_a_model_that_only_scores_does_not_judge_lives(lives, tmp_path):
    asked = labelling.Labelling("preferences", tmp_path, maker="local", model="quick-t5-s0")
    with pytest.raises(GroundlabError, match="only scores, and judges grids only; use --maker scripted"):
        labelling.label(asked, lives)


# --- The rule


def sight(near="grass at 1 steps to your left", faced="grass", status=CALM, owned="You have nothing."):
    return f"You see: {near}.You face {faced} at your front. Your status: {status}. {owned}"


@pytest.mark.parametrize(
    ("first", "action", "last", "merit"),
    [
        (sight(), "do nothing", sight(), -9),
        (sight(), "move up", sight("tree at 4 steps to your up"), -4),
        (sight(), "move up", sight("zombie at 4 steps to your up"), -9),
        (sight("tree at 1 steps to your up", "tree"), "collect", sight(owned="Your have 1 wood"), 1),
        (sight(status=THIRST), "drink", sight(), 1),
        (sight(faced="cow"), "eat", sight(), 1),
        (sight(faced="zombie"), "attack", sight(), 1),
        (sight(faced="zombie"), "move up", sight(), -9),
        (sight(owned="Your have 2 wood"), "place crafting table", sight("table at 1 steps to your up", "table"), 9),
        (sight(), "place crafting table", sight(), -9),
        (sight(), "do nothing", sight(status=CALM.replace("health: 9", "health: 7")), -29),
        ("You are sleeping, x. " + sight(), "do nothing", sight(), 1),
        (sight(owned="Your have 1 sapling"), "place plant", sight("plant at 1 steps to your up", "plant"), 9),
        ("Error, you are out of the map.", "move up", sight(), -9),
    ],
)  # fmt: skip
def test_deeds_count_then_nearness_to_something_useful(first, action, last, merit):
    assert scripted.score_crafter_segment(told([(first, action)], last)) == merit


@pytest.mark.parametrize(
    ("now", "goals"),
    [
        (sight("tree at 2 steps to your up"), ["Collect wood."]),
        (sight("water at 2 steps to your up"), ["Explore the map."]),
        (sight("water at 2 steps to your up", status=THIRST), ["Drink water."]),
        (sight("stone at 2 steps to your up"), ["Explore the map."]),
        (sight("stone at 2 steps to your up", owned="Your have 1 wood_pickaxe"), ["Collect stone."]),
        (sight("table at 1 steps to your up", owned="Your have 1 wood, 1 wood_sword"), ["Make a wood pickaxe."]),
        (sight(owned="Your have 1 sapling, 2 wood"), ["Place a crafting table.", "Place a plant."]),
        ("Error, you are out of the map.", ["Explore the map."]),
    ],
)  # fmt: skip
def test_the_scripted_adviser_says_what_is_at_hand(now, goals):
    text = told([(sight(), "do nothing")], now)
    reply = scripted.crafter_adviser().reply([{"role": "user", "content": text}], Sampling())
    assert reply.split("\n") == [f"- {goal}" for goal in goals]


# --- Training


def test_the_preference_network_reads_pictures_as_bytes_as_it_reads_them_normalise(lives):
    network = bk_pref.PreferenceTransformer(CRAFTER.shape, 20, size="small").eval()
    segment = lives.segment(0, 3, 5)
    part = bk_pref.segments_of([segment])
    assert part.states.dtype == torch.uint8
    plain = part._replace(states=torch.from_numpy(normalise(segment.views[None])))
    with torch.no_grad():
        torch.testing.assert_close(network.values(part), network.values(plain), rtol=0, atol=0)
