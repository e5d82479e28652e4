"""The corpus tells the truth, shows no policy, keeps the test words and the held-out part to itself."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.language import corpus, tokenizer
from groundlab.language.corpus import TOPICS, Breadth, scenes
from groundlab.language.corpus.topics import UNSEEN, draw_scene

WIDE = Breadth(rare=0.3, styles=0.3)
ANSWERS = ("faithful", "shuffled", "mirrored")
PLAIN = re.compile(r"you see an? (?P<name>\w+ \w+) (?P<place>\d step.*)")


def drawn(count: int, topics=tuple(TOPICS), breadth=WIDE, seed=0) -> list[corpus.Sample]:
    rng = generator(seed, "test")
    return [corpus.sample(rng, topics, breadth) for _ in range(count)]


def test_no_sample_of_100_000_shows_the_policy_or_the_agents_prompt():
    found = {(sample.topic, corpus.leaks(sample.input, sample.target)) for sample in drawn(100_000)}
    assert found == {(topic, None) for topic in TOPICS}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("go to the red ball. You see a red ball 1 step left,", "turn left"),
        ("i want the key: a red key 2 steps forward, \n what now?", "go forward"),
        ("aller à la clef rouge: Tu vois une clef rouge 2 pas à gauche,", "tourner à gauche"),
        ("find the blue box. You see a blue box 1 step forward,", "grab"),
        ("a red ball is 1 step left", "Goal of the agent: go to the red ball"),
        ("Goal of the agent: go to the red ball \n Observation 0: ", "left"),
        ("go on", "Action 0: turn left"),
    ],
)
def test_the_rule_finds_a_demonstration_and_the_prompt_format(text, target):
    assert corpus.leaks(text, target)


def test_the_words_that_test_invented_words_are_in_no_sample():
    text = " ".join(f"{sample.input} {sample.target}" for sample in drawn(20_000, breadth=Breadth(rare=1.0)))
    assert not scenes.RESERVED & set(re.findall(r"\w+", text))


def test_a_shuffled_corpus_gives_the_place_of_another_thing_and_keeps_unigram_counts():
    for number in range(200):
        faithful, shuffled = (draw_scene(generator(number, "test"), replace(WIDE, answers=a)) for a in ANSWERS[:2])
        others = {(each.right, each.ahead) for each in faithful[0].things if each != faithful[1]}
        assert shuffled[0] == faithful[0] and shuffled[1].name == faithful[1].name
        assert not others or (shuffled[1].right, shuffled[1].ahead) in others
    shares = []
    for answers in ANSWERS[:2]:
        found = drawn(3000, ["places", "sides"], Breadth(answers=answers))
        words = Counter(word for sample in found for word in f"{sample.input} {sample.target}".lower().split())
        shares.append({word: count / words.total() for word, count in words.items()})
    assert shares[0] == pytest.approx(shares[1], abs=0.002)


def test_a_mirrored_corpus_exchanges_sides_in_answers_only():
    faithful, mirrored = (drawn(3000, breadth=replace(WIDE, answers=each)) for each in (ANSWERS[0], ANSWERS[2]))
    swap = {"left": "right", "gauche": "droite", "leftward": "rightward"}
    swap |= {right: left for left, right in swap.items()}
    for usual, other in zip(faithful, mirrored, strict=True):
        words = [swap.get(word, word) for word in re.split(r"(\W)", usual.target)]
        assert other == usual._replace(target="".join(words))
    assert faithful != mirrored


def test_every_answer_about_a_scene_is_what_the_scene_says():
    answered = 0
    for sample in drawn(3000, ["places", "sides"], Breadth()):
        text = sample.input.lower()
        told = {}
        for sentence in re.split(r", |\. |: | \n ", text):
            found = PLAIN.fullmatch(sentence.strip(" ,"))
            if found:
                told.setdefault(found["name"], []).append(found["place"])
        if "what is" in text:
            place = re.search(r"what is (.*)\?", text)[1]
            assert place in told[sample.target]
            continue
        wish = re.sub(r"you see[^\n]*", "", text) if text.index("you see") else text.rpartition(". ")[2]
        named = re.search(r"(red|green|blue|purple|yellow|grey) (key|ball|box)", wish)[0]
        if sample.target == UNSEEN:
            assert named not in told
            continue
        (place,) = told[named]
        side = next(word for word in ("left", "right", "forward") if word in place)
        assert sample.target == (place if sample.topic == "places" else side)
        answered += 1
    assert answered > 2000


def test_captions_tell_walls_first_then_things_from_left_to_right_and_farthest_first():
    scene = scenes.Scene(
        (scenes.Thing("red", "key", -1, 2), scenes.Thing("blue", "ball", 0, 3), scenes.Thing("grey", "box", 2, 0)),
        (0, 2, 0),
    )
    assert scenes.captions(scene) == [
        "You see a wall 2 steps left",
        "You see a red key 1 step left and 2 steps forward",
        "You see a blue ball 3 steps forward",
        "You see a grey box 2 steps right",
    ]
    assert scenes.captions_french(scene)[:2] == [
        "Tu vois un mur à 2 pas à gauche",
        "Tu vois une clef rouge 1 pas à gauche et 2 pas devant",
    ]


def test_scenes_are_rooms_of_six_cells_seen_from_inside():
    rng = generator(0, "rooms")
    for _ in range(500):
        scene, asked = scenes.draw(rng, 8, scenes.Vocabulary(), 0.5)
        ahead, left, right = scene.walls
        cells = [(thing.right, thing.ahead) for thing in scene.things]
        assert len(set(cells)) == len(cells) and (0, 0) not in cells
        assert all(abs(x) <= scenes.SIGHT_ASIDE and 0 <= y <= scenes.SIGHT_AHEAD for x, y in cells)
        assert sum(thing.name == asked.name for thing in scene.things) == 1
        assert all(y < ahead for _, y in cells) or not ahead
        assert all(-x < left for x, _ in cells) or not left
        assert all(x < right for x, _ in cells) or not right


def test_distractors_share_colour_or_noun_when_asked_to():
    rng = generator(0, "similar")
    for _ in range(200):
        scene, asked = scenes.draw(rng, 6, scenes.Vocabulary(), 1.0)
        assert all(thing.colour == asked.colour or thing.noun == asked.noun for thing in scene.things)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("is 2 steps left. you turn left", "2 steps forward"),
        ("is 2 steps left and 1 step forward. you turn left", "1 step right and 2 steps forward"),
        ("is 3 steps forward. you turn right", "3 steps left"),
        ("is 3 steps right. you turn left", UNSEEN),
        ("is 4 steps forward. you go forward", "3 steps forward"),
    ],
)
def test_moves_change_places_as_a_turn_or_a_step_does(before, after):
    assert {sample.target for sample in drawn(20_000, ["verbs"]) if before in sample.input} == {after}


def test_training_and_held_out_parts_never_meet():
    rng = generator(0, "parts")
    train = {corpus.sample(rng).input for _ in range(3000)}
    held_out = {corpus.sample(rng, ["places", "french"], held_out=True).input for _ in range(1000)}
    assert not train & held_out
    assert min(map(len, held_out)) >= corpus.FACT > min(map(len, train))


def test_facts_are_never_held_out():
    with pytest.raises(GroundlabError, match="'affordances' has facts only"):
        corpus.sample(generator(0, "x"), ["affordances"], held_out=True)


def test_an_unknown_topic_is_answered_with_the_nearest():
    with pytest.raises(GroundlabError, match="unknown topic 'synonym'; did you mean 'synonyms'"):
        corpus.sample(generator(0, "x"), ["synonym"])


@pytest.fixture(scope="module")
def our_tokenizer():
    return tokenizer.train((f"{sample.input} {sample.target}" for sample in drawn(5000)), 1200)


def test_no_text_of_the_corpus_has_an_unknown_token(our_tokenizer):
    texts = [text for sample in drawn(5000, seed=9) for text in sample[:2]]
    assert not any(our_tokenizer.unk_token_id in ids for ids in our_tokenizer(texts)["input_ids"])


def test_actions_are_words_that_captions_share(our_tokenizer):
    assert all(our_tokenizer.tokenize(action) == action.split() for action in scenes.ACTIONS)
    assert our_tokenizer.tokenize("You see a red key 1 step left")[-1] == "left"


def test_invented_words_fall_into_pieces_and_none_is_unknown(our_tokenizer):
    whole = {word for word in scenes.RESERVED if len(our_tokenizer.tokenize(word)) == 1}
    assert whole <= {"sil"}  # the beginning of "silver", no word of the corpus
    assert our_tokenizer.unk_token not in our_tokenizer.tokenize(" ".join(scenes.RESERVED))


def test_digits_newlines_and_the_blank_are_tokens_of_their_own(our_tokenizer):
    assert our_tokenizer.tokenize("Action 12: \n <blank>,")[-5:] == ["2", ":", "\n", "<blank>", ","]


def test_a_stored_tokenizer_reads_as_before(our_tokenizer, tmp_path):
    our_tokenizer.save_pretrained(tmp_path)
    text = "Goal of the agent: go to the red ball \n Observation 0: Tu vois une boîte fermée, \n Action 0: "
    assert tokenizer.load(tmp_path)(text)["input_ids"] == our_tokenizer(text)["input_ids"]
