"""LLM-BabyBench's tasks: the bot answers all of them, bad replies are wrong and named, and a server is asked once."""

import json

import chat_server as serving
import numpy as np
import pytest

from groundlab import worlds
from groundlab.core.seeding import generator
from groundlab.papers import babybench, protocols, recording
from groundlab.papers.babybench import answerers, questions
from groundlab.papers.babybench.follower import NAMES
from groundlab.papers.babybench.questions import Unreadable

SEQUENCE, MAZE = "BabyAI-SynthSeq-v0", "BabyAI-UnblockPickup-v0"
WALK = ("GoNextToSubgoal", (3, 4))


def ask(task: str, world: str = SEQUENCE, layout: int = 7) -> questions.Question:
    question = questions.ask(task, worlds.GridEnv(world), layout)
    assert question is not None
    return question


def judge(question: questions.Question, reply: str) -> dict:
    return babybench._judge(question, worlds.GridEnv(question.world), reply)[0]


@pytest.mark.parametrize("world", ["BabyAI-GoToLocal-v0", "BabyAI-PutNextLocal-v0", MAZE, SEQUENCE])
def test_the_bot_answers_every_question_and_adds_nothing_to_its_own_subgoals(world):
    for task in babybench.WORLDS:
        (policy,) = babybench.play(task, "bot", layouts="0-2", world=world)["policies"]
        assert policy["in_all"]["success"] == 100 and policy["in_all"]["episodes"] == 3
        for measure, best in (("efficiency", 1), ("precision", 100), ("assistance", 1)):
            assert measure not in policy["in_all"] or policy["in_all"][measure]["value"] == best


def test_a_locked_door_is_opened_with_its_key_which_stays_in_the_hand():
    question = ask("decompose", "BabyAI-BossLevel-v0", 29)
    assert question.mirrored == question.end and ", locked" in question.prompt
    row = judge(question, answerers.by_bot(question))
    assert row["success"] and row["precision"] == 100
    env = worlds.GridEnv(question.world)
    env.reset(seed=29)
    for action in question.actions:
        locked = int((env.grids.cells[0, :, :, 2] == 2).sum())
        env.step(action)
        if int((env.grids.cells[0, :, :, 2] == 2).sum()) < locked:
            return
    pytest.fail("no door was unlocked")


def test_a_level_is_told_whole():
    question, env = ask("plan"), worlds.GridEnv(SEQUENCE)
    env.reset(seed=7)
    x, y, heading = env.grids.agents[0].tolist()
    objects = np.argwhere(env.grids.cells[0, :, :, 0] > 3).tolist()
    assert f"Agent: at ({x}, {y}), direction {heading}" in question.prompt and "Grid: 22 by 22" in question.prompt
    assert question.prompt.count("\n- ") == len(objects) and question.prompt.count(", locked") == 1
    assert all(f"at ({right}, {down})" in question.prompt for right, down in objects)
    assert "Mission: pick up a blue key, then open a green door and go to the purple door\n" in question.prompt


@pytest.mark.parametrize(
    ("read", "reply", "answer"),
    [
        (questions.read_state, "It ends there. ANSWER: ((3, 4), 2)", ((3, 4), 2)),
        (questions.read_state, "ANSWER: ((1, 1), 0), no, ANSWER: x=3, y=4, facing 2", ((3, 4), 2)),
        (questions.read_state, "((3, 4), 2)", "no answer"),
        (questions.read_state, "ANSWER: (3, 4) north", "no state"),
        (questions.read_actions, "ANSWER: Left, forward\nforward, jump, toggle", [0, 2, 2, 5]),
        (questions.read_actions, "ANSWER: jump", "no action"),
        (questions.read_subgoals, "ANSWER:\n(GoNextToSubgoal, (3,4))\n\nOpenSubgoal", [WALK, (NAMES[1], None)]),
        (questions.read_subgoals, "ANSWER:\n(GoNextToSubgoal)", "no subgoal"),
        (questions.read_subgoals, "ANSWER:\n(OpenSubgoal, (3, 4))", "no subgoal"),
        (questions.read_subgoals, "ANSWER:\n(OpenSubgoal)\nand that is all", "no subgoal"),
        (questions.read_subgoals, "ANSWER:", "no subgoal"),
    ],
)  # fmt: skip
def test_a_reply_is_read_after_its_last_mark_or_says_what_it_lacks(read, reply, answer):
    if isinstance(answer, str):
        with pytest.raises(Unreadable, match=answer):
            read(reply)
    else:
        assert read(reply) == answer


def test_a_state_is_right_to_the_last_digit_or_wrong_by_its_distance():
    question = ask("predict")
    (x, y), heading = question.end
    assert judge(question, f"ANSWER: {question.end}") == {"success": True, "distance": None, "unreadable": ""}
    assert judge(question, f"ANSWER: {(x - 2, y + 1), heading}")["distance"] == 3
    turned = judge(question, f"ANSWER: {(x, y), (heading + 1) % 4}")
    assert turned == {"success": False, "distance": 0, "unreadable": ""}


def test_a_plan_is_played_and_all_its_actions_count():
    question = ask("plan", "BabyAI-GoToRedBallGrey-v0", 3)
    longer = questions.actions_text([0, 1, *question.actions, 2, 2])
    row = judge(question, longer)
    assert row["success"] and row["efficiency"] == len(question.actions) / (len(question.actions) + 4)
    half = judge(question, questions.actions_text(question.actions[:-1]))
    assert not half["success"] and half["efficiency"] is None and half["unreadable"] == ""


def test_the_bot_adds_what_a_decomposition_leaves_out_and_that_is_counted():
    question = ask("decompose", "BabyAI-Open-v0", 2)
    whole = question.subgoals
    assert [name for name, _ in whole].count("OpenSubgoal") == 2 and question.added > 2
    fewer = [*whole[2:]]  # without the door on the way
    row = judge(question, questions.subgoals_text(fewer))
    assert row["success"] and row["precision"] == 0 and row["added"] == 1
    assert row["assistance"] == pytest.approx(sum(k >= 1 for k in range(question.added)) / question.added)
    short = judge(question, questions.subgoals_text(whole[:-1]))
    assert not short["success"] and short["assistance"] == 0
    padded = [whole[0], ("DropSubgoal", None), ("CloseSubgoal", None), *whole[1:]]
    senseless = judge(question, questions.subgoals_text(padded))
    assert senseless["precision"] == 100  # what makes no sense is passed over
    assert not judge(question, "ANSWER:\n(GoNextToSubgoal, (99, 99))")["success"]


def test_any_answer_of_the_right_form_is_judged():
    rng = generator(1, "test")
    for world in babybench.LEVELS[::3]:
        question = ask("decompose", world, 3)
        for _ in range(3):
            row = judge(question, answerers.by_chance(question, rng))
            assert row["unreadable"] == "" and 0 <= row["assistance"] <= 1


def test_adding_up_moves_predicts_every_end_as_the_bot_never_walks_into_anything():
    """Predict can be solved without reading the level: docs/papers/worlds-method.md#babybench."""
    (policy,) = babybench.play("predict", "chat", layouts="0-4", world=SEQUENCE)["policies"]
    assert policy["in_all"]["success"] == 100
    (chance,) = babybench.play("predict", "random", layouts="0-4", world=SEQUENCE)["policies"]
    assert chance["in_all"]["success"] < 50 and chance["in_all"]["distance"]["value"] > 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("glam",), "glam cannot play babybench-plan: it answers no questions"),
        (("chat", "--set", "thinks=true"), "no use for the setting thinks"),
        (("chat", "--world", "BabyAI-GoToo-v0"), "did you mean 'BabyAI-GoTo-v0'"),
        (("chat", "--show"), "give --record FOLDER"),
        (("chat", "--layouts", "9-1"), "first-last"),
        (("bot", "--checkpoint", "out"), "bot has no checkpoint"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(words, line, groundlab):
    code, _, problem = groundlab("evaluate", words[0], "--protocol", "babybench-plan", *words[1:])
    assert code == 2 and line in problem and problem.count("\n") == 1


@pytest.mark.parametrize("task", ["predict", "plan", "decompose"])
def test_a_server_is_asked_once_and_everything_is_kept(task, tmp_path, groundlab):
    """End to end over the loopback: the rule answers as the server, but for its last reply, which says nothing."""

    def reply(prompt):
        return "I do not know" if len(server.requests) == 4 else answerers.by_rule(prompt)

    words = f"evaluate chat --protocol babybench-{task} --world BabyAI-GoToLocal-v0 --layouts 0-3".split()
    words += ["--set", "maker=openai", "--model", "m", "--ledger", tmp_path / "ledger.jsonl", "--json", tmp_path / "j"]
    with serving.ChatServer(serving.rule(reply)) as server:
        outcomes = []
        for _ in range(2):
            code, printed, _ = groundlab(*words, "--base-url", server.base_url, "--record", tmp_path / "record")
            outcomes.append((code, len(server.requests), json.loads((tmp_path / "j").read_text())))
    assert outcomes[0] == outcomes[1] and outcomes[0][:2] == (0, 4)
    (policy,) = outcomes[0][2]["policies"]
    assert policy["in_all"]["unreadable"] == {"no answer": 1} and policy["in_all"]["success"] in (50, 75)
    assert f"babybench-{task}, chat (chat), in all: " in printed and "4 questions" in printed
    assert "1 with no answer" in printed
    kept = (tmp_path / "record" / "BabyAI-GoToLocal-v0-3.txt").read_text()
    assert server.requests[3].body["messages"][0]["content"] in kept and "> I do not know" in kept
    episode = recording.read(tmp_path / "record" / "BabyAI-GoToLocal-v0-0.json")
    assert [stage.steps for stage, *_ in recording.replay(episode)][-1] == len(episode.actions)


def test_protocols_know_the_tasks():
    assert protocols.check("babybench-predict", "chat").kinds.keys() == set(babybench.LEVELS)
    outcome = protocols.play("babybench-plan", "bot", layouts="0")
    assert outcome["policies"][0]["kinds"][0]["kind"] == "BabyAI-GoToRedBallGrey-v0"
