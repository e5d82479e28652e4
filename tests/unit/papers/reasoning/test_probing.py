"""What thoughts tell of states and decide: against plain computations, and with policies whose answers are known."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from groundlab.papers.reasoning.policy import Reply, open_chat_policy, open_policy
from groundlab.papers.reasoning.settings import ReplySettings, TrainingSettings
from groundlab.papers.reasoning.thoughts import ReplyParts, probe, reply_with_swap, retrieval, split_reply

MARKER, NEWLINE = 99, 98
WORDS = {1: "left", 2: "right", 3: "turn ", 4: "i see", MARKER: "final answer: ", NEWLINE: "\n"}


class Parrot:
    """Thinks its prompt's first token, and turns as the thought says; without a thought, left."""

    def text(self, tokens):
        return "".join(WORDS[token] for token in tokens)

    def reply(self, prompts, numbers):
        assert len(prompts) == len(numbers)
        return [self._answer(list(prompt)) for prompt in prompts]

    def _answer(self, prompt):
        tokens = [4, prompt[0], NEWLINE, MARKER, 3, prompt[0]]
        if prompt[-1] == MARKER:
            told = [token for token in prompt[1:] if token in (1, 2)]
            tokens = [3, told[0] if told else 1]
        return Reply(tokens, self.text(tokens), True, [], [])


def test_a_reply_is_divided_at_its_marker():
    chat_policy = Parrot()
    [reply] = chat_policy.reply([[2]], [0])
    part = split_reply(reply, chat_policy)
    assert part == ReplyParts([4, 2, NEWLINE], [MARKER])
    assert split_reply(Reply([4, 1], "i seeleft", True, [], []), chat_policy) is None


def test_swaps_change_the_actions_that_heed_thoughts():
    """Prompts 1, 1, 2: without a thought the third action changes; with the next one's the second and the third."""
    policy = uniform(torch.zeros(3, 3))
    figures = probe(policy, Parrot(), [[1], [1], [2]], np.zeros((3, 2)))
    assert figures["probed"] == 3
    assert figures["swap_empty"] == pytest.approx(1 / 3)
    assert figures["swap_other"] == pytest.approx(2 / 3)


def test_fewer_than_two_thoughts_tell_nothing():
    class Silent(Parrot):
        def _answer(self, prompt):
            return Reply([4], "i see", True, [], [])

    assert probe(uniform(torch.zeros(2, 2)), Silent(), [[1], [2]], np.zeros((2, 2))) == {"probed": 0}


def uniform(likelihood):
    """A policy that finds thought i in state j as likely as the table [thought, state] says."""

    values = likelihood.flatten().tolist()

    def read(prompts, responses):
        flat = [torch.full((len(row),), value / len(row)) for row, value in zip(responses, values, strict=True)]
        return SimpleNamespace(log_probs=torch.cat(flat))

    return SimpleNamespace(read=read)


def test_information_is_the_whole_where_each_thought_fits_one_state_and_none_where_all_fit():
    prompts, thoughts = [[1], [2], [3]], [[4], [5, 6], [7]]
    table = torch.full((3, 3), -50.0).fill_diagonal_(-0.5)
    told = retrieval(uniform(table), prompts, thoughts)
    assert told["mi_retrieval"] == pytest.approx(np.log(3)) == told["mi_bound"]
    assert told["retrieval_accuracy"] == 1 and told["thought_entropy"] == pytest.approx(0.5)
    assert retrieval(uniform(torch.full((3, 3), -2.0)), prompts, thoughts)["mi_retrieval"] == pytest.approx(0)


def test_information_equals_a_plain_computation_one_pair_at_a_time(resolved):
    settings = TrainingSettings(**resolved("reasoning"))
    policy, _ = open_policy(settings, seed=0)
    rng = np.random.default_rng(0)
    prompts, thoughts = ([rng.integers(5, 300, size).tolist() for size in sizes] for sizes in ((6, 9, 4), (3, 1, 5)))
    likelihood = np.array([[float(policy.read([p], [z]).log_probs.sum()) for p in prompts] for z in thoughts])
    mean = np.log(np.exp(likelihood).mean(1))
    told = retrieval(policy, prompts, thoughts)
    assert told["mi_retrieval"] == pytest.approx(np.mean(np.diag(likelihood) - mean), abs=1e-4)
    assert told["retrieval_accuracy"] == np.mean(likelihood.argmax(1) == np.arange(3))


def test_in_play_a_thought_is_left_out_or_replaced_and_the_action_follows():
    donors = [ReplyParts([4, 2, NEWLINE], [MARKER])]
    numbers = np.zeros((2, 3))
    empty, other = (reply_with_swap(Parrot(), donors, swap, [[1], [2]], numbers) for swap in ("empty", "other"))
    assert [reply.text for reply in empty] == ["final answer: turn left"] * 2
    assert [reply.text for reply in other] == ["i seeright\nfinal answer: turn right"] * 2


def test_a_real_policy_keeps_its_format_when_its_thoughts_are_swapped(resolved):
    chat_policy = open_chat_policy(ReplySettings(**resolved("reasoning-zero-shot")))
    talks = ([{"role": "system", "content": "go"}, {"role": "user", "content": text}] for text in "ab")
    prompts = [chat_policy.prompt(talk) for talk in talks]
    numbers = np.random.default_rng(0).random((2, 6))
    own, swapped = chat_policy.reply(prompts, numbers), reply_with_swap(chat_policy, [], "empty", prompts, numbers)
    marked = [after.text for before, after in zip(own, swapped, strict=True) if "final answer:" in before.text]
    assert marked and all(text.startswith("final answer:") for text in marked)
