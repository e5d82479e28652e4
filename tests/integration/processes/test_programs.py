"""A language model that writes programs is asked, corrected and shown its results as in the paper's code."""

import pytest
from knowledge_data import FixedReplies, warm

from groundlab.core.errors import GroundlabError
from groundlab.papers.knowledge.bk_code import (
    Settings,
    choose_program,
    estimate,
    opening,
    prune,
    store,
    tokens_of,
    write_programs,
)

HEAD = "def compute_reward(obs, past_obs, past_actions):\n    "


def fenced(body):
    return f"Here it is.\n```python\n{HEAD}{body}\n```\n"


def test_the_originals_scripted_run_takes_the_same_course(golden, data, sandbox, tmp_path):
    facts = golden["misc"]["label_code_run"]
    chat = FixedReplies(facts["replies"])
    programs = write_programs(chat, warm, data, sandbox, Settings(rounds=3), seed=0)
    roles = [[message["role"] for message in asked] for asked in chat.prompts]
    assert roles == [[message["role"] for message in call] for call in facts["calls"]]
    assert [(program.calls, program.faults) for program in programs] == [(3, 1), (1, 0), (1, 0)]
    store(tmp_path / "out", programs, programs[-1])
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == facts["files"]
    said = next(messages[-1]["content"] for messages in chat.prompts if "NameError" in messages[-1]["content"])
    assert "name 'undefined_name' is not defined" in said and "compute_reward" in said.partition("NameError")[0]


def test_the_model_is_shown_five_windows_with_rewards_and_their_parts(data, sandbox):
    chat = FixedReplies([fenced('return 0.5, {"part": 0.25, "other": 0.25}')])
    write_programs(chat, warm, data, sandbox, Settings(rounds=2), seed=0)
    said = chat.prompts[-1][-1]["content"]
    line = "The computed reward is 0.5000. Reward details: part: 0.2500, other: 0.2500."
    assert said.count(line) == 5 and "Sample#5\nAgent history:\nStep 1: " in said and "Sample#6" not in said


def test_the_program_chosen_is_the_newest_that_tells_windows_apart(data, sandbox):
    said = ["return float(past_actions[-1]), {}", "return float(past_actions[0]), {}", "return 1.0, {}"]
    chat = FixedReplies([fenced(body) for body in said])
    programs = write_programs(chat, warm, data, sandbox, Settings(rounds=3), seed=0)
    assert choose_program(programs, data, sandbox, seed=0) == programs[1]
    with pytest.raises(GroundlabError, match="none of 1 programs tells windows apart"):
        choose_program(programs[2:], data, sandbox, seed=0)


def test_a_long_conversation_forgets_its_oldest_rounds_but_not_its_request(golden):
    facts = golden["misc"]["prune_code"]
    roles = ["system", "system", *["user", "assistant"] * 3]
    messages = [{"role": role, "content": text} for role, text in zip(roles, facts["in"], strict=True)]

    def letters(given):
        return sum(len(message["content"]) for message in given)

    original = prune(messages, facts["max_tokens"], 2, letters)
    assert [f"{message['role']}:{message['content']}" for message in original] == facts["out"]
    assert prune(messages, facts["max_tokens"], 3, letters) == [*messages[:3], messages[-1]]
    assert prune(messages, 10**6, 3) == messages


def test_the_estimate_grows_with_rounds_up_to_the_longest_prompt():
    one, many = estimate(Settings(rounds=1)), estimate(Settings(rounds=20))
    assert one.prompt_tokens == tokens_of(opening()) and many.calls == 20
    assert 19 * one.prompt_tokens < many.prompt_tokens <= 20 * 6000
