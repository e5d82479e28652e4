"""Prompts are the original's, character by character."""

import json
from pathlib import Path

import numpy as np
import pytest
from golden_facts import facts

from groundlab.core.errors import GroundlabError
from groundlab.worlds.text_env import prompts
from groundlab.worlds.text_env.prompts import History, french_goal, glam_prompt, modify, text_actions

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "babyai_text_prompts.json").read_text())
CASES = {case["id"]: case for case in facts("babyai_text")["cases"]}


def test_every_recorded_prompt_is_rebuilt():
    assert len(GOLDEN["prompts"]) == 18
    for record in GOLDEN["prompts"]:
        parts = (record[name] for name in ("goal", "actions", "observations", "past_actions", "language"))
        assert modify(glam_prompt(*parts), record["modifier"], record["language"]) == record["prompt"]


def test_a_history_of_a_recorded_episode_gives_its_recorded_prompts():
    records = [record for record in GOLDEN["prompts"] if record["case"] in CASES]
    assert {record["language"] for record in records} == {"english", "french"}
    assert max(record["step"] for record in records) > 3
    for record in records:
        steps, language = CASES[record["case"]]["steps"], record["language"]
        history = History(1, record["nbr_obs"])
        history.start(0, steps[0]["descriptions"])
        for step in steps[1 : record["step"] + 1]:
            history.step(0, record["actions"][step["action"]], step["descriptions"])
        prompt = history.prompt(0, record["goal"], record["actions"], language)
        assert modify(prompt, record["modifier"], language) == record["prompt"]


def test_english_actions_are_translated_in_a_french_prompt_and_french_ones_stay():
    english = glam_prompt("go to the red key", text_actions(9), [[], []], ["pick up"], "french")
    french = glam_prompt("go to the red key", text_actions(9, "french"), [[], []], ["attraper"], "french")
    assert english == french
    assert english.startswith(
        "Actions possibles pour l'agent: tourner à gauche, tourner à droite, aller tout droit, attraper, lâcher, "
        "basculer, dormir, ne rien faire, penser \n But de l'agent: aller à la clef rouge \n Observation 0: \n "
        "Action 0: attraper \n Observation 1: "
    )
    older = ("manger", "dancer", "dormir", "ne rien faire", "couper", "penser")
    assert text_actions("older", "french")[3:] == older


def test_a_synonym_has_no_french():
    with pytest.raises(GroundlabError, match="rotate left"):
        prompts.french_action("rotate left")


@pytest.mark.parametrize(
    ("goal", "original", "correct"),
    [
        ("go to the green ball", "aller à une balle verte", "aller à la balle verte"),
        ("go to the purple box", "aller à la boîte violette", "aller à la boîte violette"),
        ("go to a grey key", "aller à une clef grise", "aller à une clef grise"),
    ],
)
def test_every_ball_is_une_in_the_original_and_has_its_own_article_when_correct(goal, original, correct):
    assert french_goal(goal) == original
    assert french_goal(goal, "correct") == correct
    assert f"But de l'agent: {correct} \n" in glam_prompt(goal, [], [[]], [], "french", fidelity="correct")


def test_french_words_of_all_goals():
    nouns = {"box": "boîte", "ball": "balle", "key": "clef"}
    colours = {"red": "rouge", "green": "verte", "blue": "bleue", "purple": "violette", "yellow": "jaune"}
    colours["grey"] = "grise"
    for noun, french_noun in nouns.items():
        for colour, french_colour in colours.items():
            assert french_goal(f"go to a {colour} {noun}") == f"aller à une {french_noun} {french_colour}"


@pytest.mark.parametrize("goal", ["pick up the red ball", "go to the red door", "go to the red ball, then go to a box"])
def test_a_goal_without_french_is_refused(goal):
    with pytest.raises(GroundlabError, match="no French"):
        glam_prompt(goal, [], [[]], [], "french")


def test_actions_that_the_environment_lacks_become_its_no_operation():
    assert prompts.env_actions(np.arange(9)).tolist() == [0, 1, 2, 3, 4, 5, 6, 6, 6]


def test_modifiers_are_the_recorded_ones_in_their_order():
    for language in prompts.LANGUAGES:
        recorded = GOLDEN[f"modifiers_{language}"]
        assert list(prompts.MODIFIERS[language]) == list(recorded)
        for name, pairs in recorded.items():
            assert list(prompts.MODIFIERS[language][name].items()) == list(pairs.items())


@pytest.mark.parametrize("observations", [1, 3, 6, 9])
def test_a_prompt_shows_the_last_observations_and_one_action_fewer(observations):
    history = History(2, observations)
    history.start(0, ["seen 0"])
    history.start(1, ["elsewhere"])
    for step in range(1, 11):
        history.step(0, f"act {step}", [f"seen {step}"])
    prompt = history.prompt(0, "wait", [])
    first = 11 - observations
    turns = "".join(
        f" \n Observation {k}: seen {first + k}, \n Action {k}: "
        + (f"act {first + k + 1}" if k < observations - 1 else "")
        for k in range(observations)
    )
    assert prompt == f"Goal of the agent: wait{turns}"
    assert history.prompt(1, "wait", []).endswith("wait \n Observation 0: elsewhere, \n Action 0: ")


def test_a_new_episode_forgets_the_last_one():
    history = History(1, 3)
    history.start(0, ["old"])
    history.step(0, "drop", ["older"])
    history.start(0, ["new"])
    assert history.prompt(0, "wait", []) == "Goal of the agent: wait \n Observation 0: new, \n Action 0: "


def test_probe_prompts_are_the_recorded_ones_behind_the_list_of_actions():
    head = "Possible action of the agent: turn left, turn right, go forward"
    for template in (1, 2):
        tails = GOLDEN[f"probe_prompts_template_{template}"]
        assert prompts.probe_prompts(text_actions(3), template) == [head + tail for tail in tails]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: glam_prompt("wait", [], [[]], [], "german"),
        lambda: text_actions(6, "german"),
        lambda: text_actions(7),
        lambda: modify("", "no_meaning_nous"),
        lambda: modify("", "no_meaning_nouns", "german"),
        lambda: french_goal("go to a red box", "corect"),  # pyright: ignore[reportArgumentType]
        lambda: prompts.probe_prompts(["drop"], 3),
    ],
)
def test_an_unknown_name_is_answered_by_the_known_ones(mistake):
    with pytest.raises(GroundlabError, match=r"did you mean|known: "):
        mistake()


def test_a_history_of_nothing_is_refused():
    with pytest.raises(GroundlabError, match="1 or more"):
        History(1, 0)
