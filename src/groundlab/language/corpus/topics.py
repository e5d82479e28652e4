"""What the corpus talks about: one function a topic, each drawing one (input, target) pair.

`TOPICS` names them. Questions about scenes ask where things are, never what to do; what to do is said word by word
("something is on your left": "turn left"), never where a goal and a scene are given. `leaks` is the rule that a test
holds 100,000 samples against. It is a rule about strings: the corpus holds a policy cut in two halves, and joining the
answers to its questions plays well without training (papers/glam/answers.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from numpy.random import Generator

from groundlab.language.corpus import scenes
from groundlab.language.corpus.scenes import FRENCH, SYNONYMS, Scene, Thing, Vocabulary, one_of, steps

BLANK = "<blank>"
UNSEEN = "not in sight"
FITTING = 0.2
"""Of `Breadth.fitting`: with 1, an untrained agent that thinks succeeds nearly always on one object (32 of 32)."""

Answers = Literal["faithful", "shuffled", "mirrored"]
"""Answers about scenes: true, with the place of another thing, or with left for right."""


@dataclass(frozen=True)
class Breadth:
    """How wide the corpus is at a moment of the curriculum."""

    fewest: int = 2
    most: int = 8
    """Things in a scene."""
    similar: float = 0.5
    """Share of the distractors that share colour or noun with the thing asked for."""
    rare: float = 0.0
    """Share of the scenes described with rare words, and half of it with invented ones."""
    styles: float = 0.0
    """Share of the scenes described in other sentences than the worlds'."""
    fitting: float = FITTING
    """Share of the moves and conclusions of dialogues whose action fits the fact or thought before it."""
    answers: Answers = "faithful"
    """Inputs are distributed alike in all three; `corpus.sample` exchanges left and right."""


def _vocabulary(rng: Generator, breadth: Breadth) -> Vocabulary:
    draw = rng.random()
    if draw < breadth.rare / 2:
        return Vocabulary(scenes.several_invented(rng, 4), scenes.several_invented(rng, 4))
    if draw < breadth.rare:
        return Vocabulary(scenes.CORE_COLOURS + scenes.RARE_COLOURS, scenes.CORE_THINGS + scenes.RARE_THINGS)
    return Vocabulary()


def draw_scene(rng: Generator, breadth: Breadth, vocabulary: Vocabulary | None = None) -> tuple[Scene, Thing]:
    """A scene of the curriculum's breadth, and one of its things; shuffled: with the place of another one."""
    count = breadth.fewest + int(rng.random() * (breadth.most - breadth.fewest + 1))
    scene, thing = scenes.draw(rng, count, vocabulary or _vocabulary(rng, breadth), breadth.similar)
    others = [each for each in scene.things if each != thing]
    if breadth.answers == "shuffled" and others:
        other = one_of(rng, others)
        thing = replace(thing, right=other.right, ahead=other.ahead)
    return scene, thing


def _told(rng: Generator, scene: Scene, breadth: Breadth) -> str:
    """The scene as one text; most often as the worlds tell it."""
    if rng.random() >= breadth.styles:
        return ", ".join(scenes.captions(scene))
    sentences = scenes.captions(scene, one_of(rng, scenes.OPENINGS))
    if rng.random() < 0.5:
        sentences = [sentences[index] for index in rng.permutation(len(sentences))]
    return one_of(rng, (", ", ". ", " and ", " \n ")).join(sentences)


_WISHES = (
    "go to the {}",
    "go to the {}",
    "go to a {}",
    "i want the {}",
    "find the {}",
    "the {}",
    "pick up the {}",
    "you look for a {}",
    "goal: {}",
    "the goal is the {}",
)
_SIDES = ("which side?", "which way is it?", "direction:", "left, right or forward?")
_PAUSES = (" \n ", ". ", ": ")
_PLACES = ("where is it?", "where?", "place:", "how far is it?")


def _asked(rng: Generator, wish: str, told: str, question: str) -> str:
    """Wish, scene and question; the scene last but one most often, as agents read it."""
    if rng.random() < 0.15:
        return f"{told}. {wish}, {question}"
    return f"{wish}{one_of(rng, _PAUSES)}{told}, \n {question}"


def _kind_in_question(rng: Generator, scene: Scene, thing: Thing) -> tuple[str, bool]:
    """The name of the thing asked for, or, one time in eight, of a kind that is not in the scene."""
    if rng.random() < 0.125:
        absent = scenes.any_name(rng)
        if all(other.name != absent for other in scene.things):
            return absent, False
    return thing.name, True


def places(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Where a named or wished thing is, or what is at a place."""
    scene, thing = draw_scene(rng, breadth)
    told, where = _told(rng, scene, breadth), scenes.place(thing.right, thing.ahead)
    if rng.random() < 0.15:
        return f"{told}, \n what is {where}?", thing.name
    name, seen = _kind_in_question(rng, scene, thing)
    text = _asked(rng, one_of(rng, _WISHES).format(name), told, one_of(rng, _PLACES))
    return text, where if seen else UNSEEN


def sides(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Which way a named or wished thing is, in one word."""
    scene, thing = draw_scene(rng, breadth)
    name, seen = _kind_in_question(rng, scene, thing)
    told = _told(rng, scene, breadth)
    text = _asked(rng, one_of(rng, _WISHES).format(name), told, one_of(rng, _SIDES))
    return text, thing.side if seen else UNSEEN


_SIGHTINGS = ("something is {}", "it is {}", "something {}", "{}")
_ON_SIDE = {
    "left": ("on your left", "to the left", "left of you", "left"),
    "right": ("on your right", "to the right", "right of you", "right"),
    "forward": ("in front of you", "ahead of you", "straight on", "forward"),
}
_FACING = {"left": "turn left", "right": "turn right", "forward": "go forward"}
_MOVES = ("action:", "which move?", "which words bring you to face it?", "the move for that:")
_HANDLING = (
    ("pick up", ("something lies before you", "it can be carried", "it lies at your feet"), ("what takes it?",)),
    ("drop", ("something is in your hands", "you hold it", "your hands are full"), ("what lets go of it?",)),
    ("toggle", ("something is shut", "it is closed", "a door is locked"), ("what changes that?",)),
)


def affordances(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Which words turn you where, and which verb is for what: one nameless thing, one word about it, one action."""
    if rng.random() < 0.4:
        action, states, questions = one_of(rng, _HANDLING)
        return f"{one_of(rng, states)}, \n {one_of(rng, (*questions, *_MOVES[:2]))}", action
    side = one_of(rng, ("left", "right", "forward"))
    where = one_of(rng, _ON_SIDE[side]) if rng.random() < 0.5 else f"{steps(1 + int(rng.random() * 6))} {side}"
    return f"{one_of(rng, _SIGHTINGS).format(where)}, \n {one_of(rng, _MOVES)}", _FACING[side]


_NAMED = {action: (action, *SYNONYMS[action]) for action in scenes.ACTIONS}
_MEANINGS = {
    "turn left": ("you face what was on your left", "you turn to your left"),
    "turn right": ("you face what was on your right", "you turn to your right"),
    "go forward": ("you come 1 step nearer to what is ahead", "you walk 1 step ahead"),
    "pick up": ("you take what is in front of you", "you carry what lay before you"),
    "drop": ("you put down what you carry", "your hands are empty"),
    "toggle": ("a closed door opens", "the door changes from closed to open"),
}
_EFFECTS = (("you {}: what happens?", "what does {} do?"), ("{} means:", "you {}, \n then:"))  # one pair a meaning
_CAUSES = ("{}: what did you do?", "{}, \n after which move?", "{} \n because of:")


def _moved(action: str, right: int, ahead: int) -> tuple[int, int]:
    """Where a thing is after a move of the one who sees it."""
    return {"turn left": (ahead, -right), "turn right": (-ahead, right), "go forward": (right, ahead - 1)}[action]


def verbs(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """What each verb does: in words, and to the place of one thing."""
    action = one_of(rng, scenes.ACTIONS)
    said, which = one_of(rng, _NAMED[action]), int(rng.random() * 2)
    meaning = _MEANINGS[action][which]
    draw = rng.random()
    if draw < 0.25:
        return one_of(rng, _EFFECTS[which]).format(said), meaning
    if draw < 0.4:
        return one_of(rng, _CAUSES).format(meaning), action
    action = one_of(rng, ("turn left", "turn right", "go forward"))
    right = int(rng.random() * 7) - 3
    ahead = int(rng.random() * 7) if right else 1 + int(rng.random() * 6)
    after = _moved(action, right, ahead)
    seen = after[1] >= 0 and after != (0, 0)
    name = scenes.any_name(rng)
    told = f"a {name} is {scenes.place(right, ahead)}"
    if draw < 0.8 or not seen:
        asked = one_of(rng, ("where is it now?", "now it is:", "place:"))
        said = one_of(rng, _NAMED[action])
        return f"{told}. you {said}, \n {asked}", scenes.place(*after) if seen else UNSEEN
    return f"{told}. now it is {scenes.place(*after)}, \n what did you do?", action


_SAME = (("another word for {}:", "a synonym of {}?"), ("{} means the same as:", "say {} in another way:"))
_PLAIN = ("what does {} mean?", "the usual word for {}:", "{} is:")


def _renamed(rng: Generator, name: str) -> str:
    """A name with each word that has synonyms replaced by one of them."""
    return " ".join(one_of(rng, SYNONYMS[word]) if word in SYNONYMS else word for word in name.split())


def synonyms(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Words that mean the same, alone and in questions about scenes."""
    draw, word = rng.random(), one_of(rng, tuple(SYNONYMS))
    if draw < 0.2:
        which = int(rng.random() * 2)
        return one_of(rng, _SAME[which]).format(word), SYNONYMS[word][-which]
    if draw < 0.4:
        return one_of(rng, _PLAIN).format(one_of(rng, SYNONYMS[word])), word
    scene, thing = draw_scene(rng, breadth, Vocabulary())
    wish, told = one_of(rng, _WISHES).format(_renamed(rng, thing.name)), ", ".join(scenes.captions(scene))
    return _asked(rng, wish, told, one_of(rng, _PLACES)), scenes.place(thing.right, thing.ahead)


_FRENCH_MOVES = ("que fais-tu ?", "action :", "quel geste ?")
_FRENCH_PLACES = ("où est-elle ?", "où ?")
_FRENCH_SIDES = ("de quel côté ?", "gauche, droite ou devant ?")
_ON_SIDE_FRENCH = {
    "left": ("sur ta gauche", "à gauche"),
    "right": ("sur ta droite", "à droite"),
    "forward": ("devant toi", "tout droit", "devant"),
}


_FRENCH_WISHES = ("aller à la {}", "aller à une {}", "je veux la {}", "la {}")


def french(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """French words, sentences, and where things are in scenes described in French."""
    draw, word = rng.random(), one_of(rng, tuple(FRENCH))
    if draw < 0.2:
        return f"{word} in french:", FRENCH[word]
    if draw < 0.4:
        return f"{FRENCH[word]} en anglais :", word
    scene, thing = draw_scene(rng, breadth, Vocabulary())
    name, where = scenes.name_french(thing), scenes.place_french(thing.right, thing.ahead)
    if draw < 0.5:
        english = f"you see a {thing.name} {scenes.place(thing.right, thing.ahead)}"
        return f"{english} \n en français :", f"tu vois une {name} {where}"
    wish, told = one_of(rng, _FRENCH_WISHES).format(name), ", ".join(scenes.captions_french(scene))
    return _asked(rng, wish, told, one_of(rng, _FRENCH_PLACES)), where


def french_spatial(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """The spatial words in French: which way a thing is, and which words turn you where."""
    if rng.random() < 0.4:
        side = one_of(rng, ("left", "right", "forward"))
        told = f"c'est {one_of(rng, _ON_SIDE_FRENCH[side])}, \n {one_of(rng, _FRENCH_MOVES)}"
        return told, FRENCH[_FACING[side]]
    scene, thing = draw_scene(rng, breadth, Vocabulary())
    wish = one_of(rng, _FRENCH_WISHES).format(scenes.name_french(thing))
    told = ", ".join(scenes.captions_french(scene))
    return _asked(rng, wish, told, one_of(rng, _FRENCH_SIDES)), FRENCH[thing.side]


def denoising(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """A span of a described scene is blanked; half of the time the whole description came before."""
    scene, thing = draw_scene(rng, breadth)
    sentences = scenes.captions(scene)
    parts = sentences[int(rng.random() * len(sentences))].split()
    length = 1 + int(rng.random() * 3)
    start = int(rng.random() * (len(parts) - length + 1))
    blanked = " ".join([*parts[:start], BLANK, *parts[start + length :]])
    span = " ".join(parts[start : start + length])
    if rng.random() < 0.5:
        told = f"You see a {thing.name} {BLANK}"
        return f"{', '.join(sentences)}, \n {told}", scenes.place(thing.right, thing.ahead)
    return blanked, span


_TERMS = {
    "a goal": ("what one wants", "what one tries to reach"),
    "an observation": ("what one sees", "what is told about the room"),
    "an action": ("what one does", "a move"),
    "the agent": ("the one who acts", "the one who sees and moves"),
    "a mission": ("a goal in words", "what one is told to do"),
    "a step": ("as far as the next cell", "the way from one cell to the next"),
    "a wall": ("what nobody walks through", "where the room ends"),
}


def terms(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """What the words of the trade mean: goal, observation, action, agent."""
    term, meaning = one_of(rng, tuple(_TERMS)), int(rng.random() * 2)
    if rng.random() < 0.5:
        asked = one_of(rng, (("what is {}?", "{} is:"), ("{} means:", "what does {} mean?"))[meaning])
        return asked.format(term), _TERMS[term][meaning]
    return one_of(rng, ("{} is called:", "a word for {}:", "{}: which word is that?")).format(
        _TERMS[term][meaning]
    ), term


TOPICS: dict[str, Callable[[Generator, Breadth], tuple[str, str]]] = {
    "places": places,
    "sides": sides,
    "affordances": affordances,
    "verbs": verbs,
    "terms": terms,
    "synonyms": synonyms,
    "french": french,
    "french_spatial": french_spatial,
    "denoising": denoising,
}
"""Topic name -> what draws one sample of it."""
