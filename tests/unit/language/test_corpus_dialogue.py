"""The warm-up teaches format and language, no policy: no action in it depends on an observation."""

import re
from collections import Counter
from math import log

import numpy as np
import pytest

from groundlab.core.seeding import generator
from groundlab.language import corpus, pretraining
from groundlab.language.corpus import ALL_TOPICS, DIALOGUE, OPEN, TASKS, TOPICS, Breadth, dialogue
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.corpus.topics import FITTING

COUNT = 20_000
TURN = re.compile(r"<(system|user|assistant)>(.*?)(?:</s>|$)", re.DOTALL)
SIDES = ("left", "right", "forward")


def drawn(topic: str, count: int = COUNT, seed: int = 0, breadth: Breadth | None = None) -> list[corpus.Sample]:
    rng = generator(seed, "test", topic)
    return [corpus.sample(rng, [topic], breadth or Breadth(1, 3)) for _ in range(count)]


def turns(text: str, role: str) -> list[str]:
    return [said for who, said in TURN.findall(text) if who == role]


def goal(text: str) -> str:
    """The thing that the goal names."""
    return re.search(r"(?:go to|pick up) (?:the|a) (\w+ \w+)\.", turns(text, "system")[0])[1]


def features(text: str, observation: str) -> list[tuple]:
    """What could tell an action: where the goal's thing is, what stands in front, how near the walls are."""
    place = re.search(rf"see a {goal(text)} (.*)", observation)
    walls = tuple(re.findall(r"wall (\d) steps? (\w+)", observation))
    sides = tuple(side for side in SIDES if place and side in place[1])
    return [sides, (sides, place and "1 step" in place[1]), walls[:1], walls[1:], ("carry" in observation,)]


def information(pairs: list[tuple]) -> float:
    """Mutual information in nats between the halves of some pairs, as counted."""
    both, left, right = Counter(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    total = len(pairs)
    return sum(n / total * log(n * total / (left[a] * right[b])) for (a, b), n in both.items())


def excess(pairs: list[tuple]) -> float:
    """What is left of the information once what shuffled actions show is taken off: about 0 for independent halves."""
    rng, actions = np.random.default_rng(0), [action for _, action in pairs]
    shuffled = [
        information([(seen, actions[i]) for (seen, _), i in zip(pairs, rng.permutation(len(pairs)), strict=True)])
        for _ in range(5)
    ]
    return information(pairs) - float(np.mean(shuffled))


@pytest.mark.parametrize("topic", ["replies", "conclusions"])
def test_an_action_tells_nothing_about_any_observation_of_the_warm_up(topic):
    samples = drawn(topic)
    assert {sample.target for sample in samples} == set(ACTIONS)
    for which in range(5):
        newest = [(features(s.input, turns(s.input, "user")[-1])[which], s.target) for s in samples]
        assert excess(newest) < 1e-3
        first = [(features(s.input, turns(s.input, "user")[0])[which], s.target) for s in samples]
        assert excess(first) < 1e-3


@pytest.mark.parametrize("topic", ["replies", "thoughts", "conclusions"])
def test_nor_do_the_actions_of_earlier_turns(topic):
    pairs = []
    for sample in drawn(topic):
        seen, said = turns(sample.input, "user"), turns(sample.input, "assistant")
        if len(seen) > 1 and said[0] != dialogue.HIDDEN:
            pairs.append((features(sample.input, seen[0])[0], said[0].rpartition(dialogue.FINAL)[2].strip()))
    assert len(pairs) > COUNT / 4 and {action for _, action in pairs} == set(ACTIONS)
    assert excess(pairs) < 2e-3


def test_this_measure_finds_what_thoughts_say_about_actions():
    pairs = []
    for sample in drawn("conclusions"):
        thought = turns(sample.input, "assistant")[-1].partition("\n")[0]
        pairs.append((next((side for side in SIDES if side in thought), thought.split()[1]), sample.target))
    assert excess(pairs) > 0.02


def test_no_thought_goes_on_to_an_action():
    for sample in drawn("thoughts", 3000):
        assert sample.target.endswith(f"\n{dialogue.FINAL}{OPEN}") and sample.target.count(dialogue.FINAL) == 1


def test_thoughts_tell_what_is_seen():
    told = Counter()
    for sample in drawn("thoughts", 5000):
        thought, name = sample.target.partition("\n")[0], goal(sample.input)
        views = [said for said in turns(sample.input, "user") if not said.startswith("Invalid")]
        seen = re.search(rf"see a {name} (.*)", views[-1])
        sighting = re.fullmatch(r"i see a (\w+ \w+) (\d steps? \w+)\.", thought)
        if sighting:
            assert seen and sighting[1] == name and sighting[2] in seen[1]
        elif thought.startswith("i see no"):
            assert thought == f"i see no {name}." and not seen
        told[thought.split()[2]] += 1
    assert told["a"] > 1500 and told["no"] > 1000


def test_questions_and_moves_show_no_policy():
    for topic in ("questions", "moves"):
        assert {corpus.leaks(sample.input, sample.target) for sample in drawn(topic)} == {None}
    assert corpus.leaks("go to the red ball. you see a red ball 2 steps left", "red ball. final answer: turn left")


def test_moves_name_no_goal_and_no_thing():
    assert not any(re.search(r"goal|red|ball|key|box", sample.input.lower()) for sample in drawn("moves", 3000))


@pytest.mark.parametrize("fitting", [FITTING, 0.0, 1.0])
def test_so_many_moves_fit_and_the_others_are_any(fitting: float):
    fits = {"left": "turn left", "right": "turn right"}
    moves = drawn("moves", breadth=Breadth(1, 3, fitting=fitting))
    asked = [s for s in moves if any(side in turns(s.input, "user")[0] for side in fits)]
    right = [any(side in turns(s.input, "user")[0] and s.target == fits[side] for side in fits) for s in asked]
    assert np.mean(right) == pytest.approx(fitting + (1 - fitting) / 6, abs=0.02)


def test_a_recipe_of_another_share_has_another_hash_and_the_default_is_not_stored():
    usual = pretraining.load_recipe("quick-llama-chat")
    stages = [{**stage.model_dump(), "fitting": 1.0} for stage in usual.stages]
    other = pretraining.load_recipe("quick-llama-chat", stages=stages)
    assert all("fitting" not in stage for stage in usual.model_dump()["stages"])
    assert other.hash != usual.hash and other.stages[0].breadth.fitting == 1


def test_prompts_and_replies_of_the_warm_up_are_as_short_as_the_small_agents_need():
    words = pretraining.train_tokenizer(pretraining.load_recipe("quick-llama-chat"))
    for topic in ("thoughts", "conclusions"):
        for sample in drawn(topic, 500, breadth=Breadth(1, 1)):
            said = turns(sample.input, "assistant")[-1] + sample.target.removesuffix(OPEN)
            action = " turn left" if topic == "thoughts" else ""
            assert len(words(said + action, add_special_tokens=False)["input_ids"]) + 1 <= 16


def test_topics_of_dialogue_are_taught_only_by_recipes_that_name_them():
    assert not set(DIALOGUE) & set(TOPICS) and set(ALL_TOPICS) == set(DIALOGUE) | set(TOPICS) | set(TASKS)
    assert pretraining.load_recipe("quick-t5").further_topics == ()
    plain = pretraining.train_tokenizer(pretraining.load_recipe("smoke-t5"))
    assert "<user>" not in plain.get_vocab() and plain.chat_template is None
