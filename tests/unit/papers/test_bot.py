"""The bot acts as the original's, and solves every level."""

from fnmatch import fnmatchcase

import numpy as np
import pytest
from golden_facts import facts

from groundlab import worlds
from groundlab.papers import registry
from groundlab.papers.worlds import bot

# Mean length and raw return of 300 episodes of the original's bot (docs/papers/glam-reference.md#env-11-14).
RECORDED = {
    "goto": (5.7, 0.920), "pickup": (6.7, 0.906), "open": (15.8, 0.889), "putnext": (11.2, 0.921),
    "pick_up_seq_go_to": (12.2, 0.914),
}  # fmt: skip
OTHER_MISSIONS = ("BabyAI-PickupLoc-v0", "BabyAI-BossLevel-v0")
"""Levels with words of place, to which the package of the recordings gave other missions than minigrid 3.2 does."""
NO_PLAN = (
    *("BabyAI-KeyInBox-v0", "BabyAI-PutNext*Carrying-v0", "BabyAI-UnlockToUnlock-v0", "BabyAI-OpenDoorsOrder*Debug-v0"),
    *(f"MiniGrid-ObstructedMaze-{name}*" for name in ("1Dlh", "2Dlh", "1Q", "2Q", "Full")),
)
"""Levels where minigrid's planner fails now and then: keys in boxes, a thing held from the start, strict orders."""


def world_of(case: dict) -> str:
    return f"{case['level']}/{case['kind'].replace(' ', '_')}" if "Mixed" in case["level"] else case["level"]


def bot_cases() -> list[dict]:
    cases = [case for case in facts("babyai_text")["cases"] if case["level"] and "-bot" in case["id"]]
    return [case for case in cases if world_of(case) in worlds.WORLDS and case["level"] not in OTHER_MISSIONS]


def play_with_slips(env: worlds.GridEnv, seed: int, slips: float) -> tuple[list[int], bool]:
    """The actions of one episode, a share of which are random moves, and whether it succeeded."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    player, actions, success, over = bot.Bot(env), [], False, False
    while not (success or over):
        action = player.act()
        if rng.random() < slips:
            action = int(rng.integers(3))
        _, _, success, over, _ = env.step(action)
        player.observe(action)
        actions.append(action)
    return actions, success


@pytest.mark.parametrize("case", bot_cases(), ids=lambda case: case["id"])
def test_the_bot_acts_as_the_originals(case):
    """Of levels of several rooms the first actions were recorded, of all others the whole episode."""
    recorded = [step["action"] for step in case["steps"][1:]]
    actions, success = play_with_slips(worlds.GridEnv(world_of(case)), case["seed"], slips=0)
    assert actions[: len(recorded)] == recorded and success
    assert len(actions) == len(recorded) or case["num_rows"] * case["num_cols"] > 1


def test_many_episodes_of_the_originals_bot_are_recorded():
    assert len(bot_cases()) >= 36
    assert {case["id"] for case in bot_cases() if case["num_rows"] * case["num_cols"] > 1} >= {"GoTo-bot", "Unlock-bot"}


@pytest.mark.parametrize("kind", RECORDED)
def test_the_bot_solves_every_training_kind_as_fast_as_the_originals(kind):
    rows = bot.play(f"BabyAI-MixedTrainLocal-v0/{kind}", list(range(200)))
    steps, game_return = RECORDED[kind]
    assert all(row["success"] for row in rows)
    assert np.mean([row["steps"] for row in rows]) == pytest.approx(steps, rel=0.1)
    assert np.mean([row["return"] for row in rows]) == pytest.approx(game_return, abs=0.01)


@pytest.mark.parametrize("world", registry.worlds_of(registry.named("bot")[0][1]))
def test_the_bot_solves_every_level_for_which_it_has_a_plan(world):
    solved = all(row["success"] for row in bot.play(world, list(range(5))))
    assert solved != any(fnmatchcase(world, pattern) for pattern in NO_PLAN)


def test_the_bot_corrects_the_slips_of_another_agent():
    env = worlds.GridEnv("BabyAI-MixedTrainLocal-v0/open")
    assert all(play_with_slips(env, seed, slips=0.3)[1] for seed in range(20))
