"""What is told of a stretch of play, and what is read from replies, is what the original told and read."""

from textwrap import indent

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.papers.knowledge import bk_code, bk_goal, bk_pref
from groundlab.papers.knowledge.captions import MINIGRID_ACTIONS, trajectory, trajectory_for_code


def test_trajectories_are_told_as_the_original_told_them(golden):
    cases = golden["minigrid"]["trajectory_captions"]
    assert len(cases) == 5
    for case in cases.values():
        assert trajectory(case["descriptions"], case["actions"]) == case["get_caption"]
        if "get_caption_for_code" in case:
            assert trajectory_for_code(case["descriptions"], case["actions"]) == case["get_caption_for_code"]


def test_crafters_trajectories_are_told_with_its_own_actions(golden):
    names = golden["crafter"]["actions"]
    for case in golden["crafter"]["trajectory_captions"].values():
        assert trajectory(case["descriptions"], case["actions"], names) == case["get_caption"]


def test_actions_are_called_what_the_original_calls_them(golden):
    assert list(MINIGRID_ACTIONS) == golden["minigrid"]["minigrid_action_strings"]


def test_an_action_without_a_name_is_one_clear_line():
    with pytest.raises(GroundlabError, match="has no name"):
        trajectory(["a", "b"], [7])
    with pytest.raises(GroundlabError, match="one observation more"):
        trajectory(["a", "b"], [1, 2])


def test_replies_are_read_as_the_original_reads_them_on_request(golden):
    facts = golden["misc"]
    for case in facts["preference_label_parse"]:
        label = bk_pref.parse_preference(case["reply"], strict=False)
        assert (facts["label_on_exception"] if label is None else label) == case["label"]
    for case in facts["goal_parse"]:
        assert bk_goal.parse_goals(case["reply"], strict=False) == case.get("goals")
    for case in facts["code_parse"]:
        assert bk_code.parse_program(case["reply"], strict=False) == case.get("code")


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("[Thoughts]\nfine\n\n[Rank]\nA > B", 0.0),
        ("[Rank]\nB>A", 1.0),
        ("[Rank]\nA < B.", 1.0),
        ("[Rank]\n**A = B**", 0.5),
        ("[Rank]\nA > B OR B > A OR A = B", None),
        ("[Rank]\nI think A > B but also B > A", None),
        ("[Rank]\n[Thoughts] first A > B OR B > A\n[Rank]\nB > A", 1.0),
        ("A > B", None),
        ("[Rank]\nB", None),
        ("", None),
    ],
)
def test_a_preference_counts_only_when_it_is_one(reply, label):
    assert bk_pref.parse_preference(reply) == label


def test_goals_are_read_from_any_list_once_each():
    goals = bk_goal.parse_goals("Here:\n- go to a ball\n* look around\n2. go to a ball\n- \n-no")
    assert goals == ["go to a ball", "look around", "no"]
    assert bk_goal.parse_goals("I have no goals.") is None
    assert bk_goal.parse_goals("1. think\n</think>\n- go") == ["go"]
    assert bk_pref.parse_preference("[Rank]\nA > B<think>[Rank]\nB > A</think>") == 0.0


def test_the_program_is_the_last_block_that_defines_the_function():
    first = "```python\ndef compute_reward(a, b, c):\n    return 1.0, {}\n```"
    last = "```py\ndef compute_reward(a, b, c):\n    return 2.0, {}\n```"
    assert bk_code.parse_program(f"{first}\nBetter:\n{last}\nUse:\n```python\nprint(1)\n```") == last[6:-3]
    assert bk_code.parse_program("def compute_reward(a, b, c): ...") is None
    program = "def compute_reward(a, b, c):\n    return 1.0\n"
    for opened in ("```python3", "``` Python 3.11", "~~~py", "````{python}"):
        for text in (program, program.replace("\n", "\r\n")):
            closed = opened[: opened.count(opened[0])]
            assert bk_code.parse_program(f"<think>{last}</think>\n{opened}\n{text}{closed}\nDone.") == program
    assert bk_code.parse_program(f"- so:\n   ```python\n{indent(program, '   ')}   ```\n") == program
    assert bk_code.parse_program(f"```python\n1 +\n```python\n{program}") == program
    assert bk_code.parse_program("```python\nx = 1\n```") is None
