"""Texts, replies and plans are the original's, character by character; bad replies end in the fallback."""

import time

import pytest
from rooms import room_image

from groundlab.lab import config
from groundlab.language.chat import Sampling, Scripted
from groundlab.papers.mediator.planner import ATTEMPTS, Planner, parse_plan, perfect_reply, scripted_planner
from groundlab.papers.mediator.public_planner import plans, questions
from groundlab.papers.mediator.search import Translator
from groundlab.papers.mediator.settings import Settings
from groundlab.papers.mediator.skills import DROP_OBJECT, EXPLORE, GO_TO, UNKNOWN, Option

DOOR_KEY_WORLDS = ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey")


def test_every_text_is_the_originals_to_the_letter(mediator_golden):
    for case in mediator_golden["describe"]:
        translator = Translator(case["task"])
        image = room_image(case["objects"], case["agent"], carry=case["carry"])
        assert translator.describe(image) == case["text"]
        assert {name: list(place) for name, place in translator.coordinates.items()} == case["coordinates"]


def test_the_carried_key_can_be_put_inside_the_braces():
    image = room_image([("door", "red", 0, 4, 2)], carry=("key", "red"))
    assert Translator("KeyInBox").describe(image) == "observation: {observed a door}, , carry key"
    assert Translator("KeyInBox", carry_inside=True).describe(image) == "observation: {observed a door, carry key} "


def test_replies_are_parsed_as_the_original_parses_them(mediator_golden):
    for case in mediator_golden["parser"]:
        coordinates = {name: tuple(place) for name, place in case["known_coordinates"].items()}
        plan = parse_plan(case["reply"], case["task"], coordinates)
        if "raises" in case:  # the original crashes; here no braces give no plan, an unseen object a skipped option
            assert plan is None or all(option.action == UNKNOWN for option in plan)
            continue
        expected = [(o["action"], o["object"], o["coordinate"] and tuple(o["coordinate"])) for o in case["options"]]
        assert [tuple(option) for option in plan] == expected


def test_only_the_first_group_counts_and_drop_is_understood():
    known = {"key": (1, 2), "door": (3, 4)}
    assert parse_plan("{go to the key}{toggle the door}", "SimpleDoorKey", known) == (Option(GO_TO, 5, (1, 2)),)
    assert parse_plan("{drop the key}", "SimpleDoorKey", known) == (Option(DROP_OBJECT, 5, (1, 2)),)


@pytest.mark.parametrize(
    "reply",
    [
        "<think> {explore}? </think> Action: {go to the key}",
        "Perhaps {explore}.</think>\n{go to the key}",
        "<Thinking>{explore}</Thinking><think a='b'>{explore}</think>{go to the key}<think>or {explore}",
        "[THINK]{explore}[/THINK]{go to the key}",
        "<think>{explore} <think> {explore} </think> {explore} </think>{go to the key}",
        "<|channel|>analysis<|message|>{explore}<|end|><|start|>assistant<|channel|>final<|message|>{go to the key}",
    ],
)
def test_a_thought_is_no_plan(reply):
    assert parse_plan(reply, "SimpleDoorKey", {"key": (1, 2)}) == (Option(GO_TO, 5, (1, 2)),)


def test_the_scripted_planner_answers_every_recorded_question_as_recorded(mediator_golden):
    for episode in mediator_golden["episodes"]:
        for ask in episode["asks"]:
            assert perfect_reply(episode["task"], ask["text"]) == ask["reply"]


def test_first_commit_plans_differ_only_where_the_first_commit_did():
    key = "observation: {observed a key} "
    assert perfect_reply("KeyInBox", key, "head") == "action: {go to the key, pick up the key}."
    assert perfect_reply("KeyInBox", key, "first-commit") == "action: {go to the key, pick up the key, explore}."
    assert perfect_reply("RandomBoxKey", key, "first-commit").endswith(", explore}.")
    for world in ("SimpleDoorKey", "ColoredDoorKey"):
        assert perfect_reply(world, key, "head") == perfect_reply(world, key, "first-commit")


@pytest.mark.parametrize("world", DOOR_KEY_WORLDS)
def test_the_system_prompt_shows_the_planners_own_answers(world):
    """The examples of the prompt are questions and answers of the scripted planner (three worlds without colours)."""
    prompt = scripted_planner(world).system_prompt
    if world == "ColoredDoorKey":
        assert prompt.count("Q: [") == 10 and "<color2>" in prompt
        return
    examples = prompt[prompt.index("observation: {") :].strip().split(" \n ")
    assert len(examples) == {"SimpleDoorKey": 5, "KeyInBox": 7, "RandomBoxKey": 11}[world]
    for example in examples:
        text, reply = example.split("}, action: ")
        assert f"action: {reply}" == perfect_reply(world, f"{text}}} "), text


@pytest.mark.parametrize("world", DOOR_KEY_WORLDS)
def test_examples_as_turns_are_those_of_the_prompt_in_the_words_of_questions(world):
    shown = Planner(world, Scripted("silent", lambda text, sampling: ""), examples="turns")
    task, *turns = shown.opening
    asked, replies = ([turn["content"] for turn in turns[start::2]] for start in (0, 1))
    assert len(replies) == {"SimpleDoorKey": 5, "KeyInBox": 7, "RandomBoxKey": 11, "ColoredDoorKey": 10}[world]
    assert all(reply in shown.system_prompt and reply not in task["content"] for reply in replies)
    if world == "ColoredDoorKey":
        return
    strange = [text for text in asked if text not in questions(world)]
    assert strange == (["observation: {observed a door, carry key}, "] if world == "KeyInBox" else [])  # Q17


def test_each_text_of_an_episode_of_the_original_is_among_the_questions_of_its_world(mediator_golden):
    known = {world: questions(world) for world in DOOR_KEY_WORLDS}
    for episode in mediator_golden["episodes"]:
        assert {ask["text"] for ask in episode["asks"]} <= known[episode["task"]].keys()


@pytest.mark.parametrize(
    ("world", "planned", "right"),
    [
        ("SimpleDoorKey", 6, 1),
        ("MovingObstacle", 6, 1),
        ("KeyInBox", 8, 3),
        ("RandomBoxKey", 12, 5),
        ("ColoredDoorKey", 235, 42),
    ],
)
def test_the_ledgers_that_ship_replay_each_question(world, planned, right):
    rows = config.load("mediator", "full").runs
    (row,) = [row for row in rows if row.arm == "always/planner/smollm2" and world in row.worlds]
    found = plans(world, Settings(**row.settings))  # a question without a reply would raise
    assert (sum(valid for valid, _ in found), sum(same for _, same in found)) == (planned, right)


def test_a_planner_that_never_gives_a_plan_means_to_explore_after_the_stated_attempts():
    asked = []

    def silent(text: str, sampling: Sampling) -> str:
        asked.append(text)
        return "I would rather not say"

    reply, plan = Planner("SimpleDoorKey", Scripted("silent", silent)).plan("observation: {} ", {}, 0)
    assert plan == (Option(EXPLORE),) and len(asked) == ATTEMPTS and reply == "I would rather not say"


def test_noise_has_the_stated_rate_and_depends_only_on_the_seed():
    text, coordinates = "observation: {observed a key, observed a door} ", {"key": (1, 1), "door": (0, 3)}
    noisy, right = scripted_planner("SimpleDoorKey", epsilon=0.3), perfect_reply("SimpleDoorKey", text)
    replies = [noisy.chat.reply([{"role": "user", "content": text}], Sampling(1.0, seed)) for seed in range(2000)]
    again = [noisy.chat.reply([{"role": "user", "content": text}], Sampling(1.0, seed)) for seed in range(2000)]
    assert replies == again
    assert sum(reply != right for reply in replies) / 2000 == pytest.approx(0.3, abs=0.03)
    assert noisy.plan(text, coordinates, 5) == noisy.plan(text, coordinates, 5)


@pytest.mark.parametrize("reply", ["{" * 2**20, "{\n" * 2**19, "{" * 2**19 + "\n}"])
def test_a_reply_without_a_plan_is_read_in_a_moment_however_long(reply):
    began = time.process_time()
    assert parse_plan(reply, "SimpleDoorKey", {}) is None
    assert time.process_time() - began < 1.0
