"""Dialogue turns and short spatial reasoning: what a causal model must have read before it can think and then act.

`questions` puts the corpus's questions into conversations. The other topics are the warm-up of the reasoning agents, in
their own prompts: format, language and hints (`Breadth.fitting`). Nowhere does an action depend on an observation:

    replies       a direct agent's turn: any of the six actions, each as likely, whatever is seen
    moves         no goal and no scene, one fact about something nameless ("it is 2 steps left"): an action for it
    thoughts      what the agent sees of its goal; the reply stops where its action would stand (`OPEN`)
    conclusions   a thought and an action, both drawn without looking at the scene; only the action is taught

A thought tells what is seen, a conclusion hints at what a thought means (`Breadth.fitting`), and no sample joins the
two: that an agent of these parts succeeds more often than chance is composition, not imitation. The rest is for
reinforcement.
"""

from collections.abc import Callable

from numpy.random import Generator

from groundlab.assets import read_text
from groundlab.language.chat_format import FORMATS
from groundlab.language.corpus import scenes, topics
from groundlab.language.corpus.scenes import ACTIONS, Scene, Thing, one_of, steps
from groundlab.language.corpus.topics import Breadth

OPEN = "<open>"
"""At the end of a target: the reply goes on, and neither how nor its end is taught."""

FINAL = "final answer:"
HIDDEN = "Generated invalid action"
"""What stands in a context for a reply that was not valid (docs/papers/reasoning-method.md#s1-5)."""

_SYSTEM = {mode: read_text(f"prompts/reasoning/{mode}-short.txt") for mode in ("direct", "reasoning")}
_INVALID = {mode: read_text(f"prompts/reasoning/invalid-{mode}-short.txt") for mode in ("direct", "reasoning")}
_EARLIER = 0.5  # share of the samples with an earlier turn in the window
_INVALID_SHARE = 0.15  # of those: the earlier reply was not valid
_CARRYING = 0.06
_SEEN = 0.6  # share of the views that hold what the goal names
_THINGS = 0.3  # share of a direct agent's views that hold anything but walls
_MISSIONS = ("go to the {}", "go to a {}", "go to the {}", "pick up the {}", "pick up a {}")
_ASKING = ("Answer in a few words.", "Answer the question.", "Answer.")
_ASKED = {"places": 1.0, "sides": 1.0, "affordances": 0.7, "verbs": 0.7, "synonyms": 0.3, "terms": 0.1}


def _conversation(system: str, turns: list[tuple[str, str]], user: str) -> str:
    """System, earlier turns (user, assistant), the newest user message, and the opening of the reply."""
    told = [("system", system)]
    for said, answered in turns:
        told += [("user", said), ("assistant", answered)]
    told.append(("user", user))
    return FORMATS["groundlab"].text([{"role": role, "content": content} for role, content in told])


def _view(rng: Generator, breadth: Breadth) -> tuple[Scene, Thing, bool]:
    """What an agent sees, the thing that its goal names, and whether that is in sight."""
    scene, thing = topics.draw_scene(rng, breadth)
    if rng.random() < _SEEN:
        return scene, thing, True
    return Scene(tuple(other for other in scene.things if other is not thing), scene.walls), thing, False


def _told(rng: Generator, scene: Scene) -> str:
    """The sentences of a view, one a line, as agents read them."""
    hand = [f"You carry a {scenes.any_name(rng)}"] if rng.random() < _CARRYING else []
    return "\n".join([*hand, *scenes.captions(scene)])


_INTENTIONS = {"pick up": "i take the {}.", "drop": "i put down the {}.", "toggle": "i open the {}."}
_TOWARDS = {"turn left": "left", "turn right": "right", "go forward": "forward"}
_NOT_SEEN = "i see no {}."


def _sighting(rng: Generator, thing: Thing) -> str:
    """One part of where a thing is: sideways or forward, either as likely where it is both."""
    parts = [(abs(thing.right), "left" if thing.right < 0 else "right")] if thing.right else []
    parts += [(thing.ahead, "forward")] if thing.ahead else []
    distance, side = one_of(rng, parts)
    return f"i see a {thing.name} {steps(distance)} {side}."


def _thought_for(rng: Generator, action: str, name: str) -> str:
    """A thought that fits an action, about no scene."""
    if action in _INTENTIONS:
        return _INTENTIONS[action].format(name)
    if rng.random() < 0.4:
        return _NOT_SEEN.format(name)
    return f"i see a {name} {steps(1 + int(rng.random() * 6))} {_TOWARDS[action]}."


def _reply(rng: Generator, mode: str, name: str) -> str:
    """A valid reply whose action is any of the six."""
    action = one_of(rng, ACTIONS)
    return action if mode == "direct" else f"{_thought_for(rng, action, name)}\n{FINAL} {action}"


def _prompt(rng: Generator, mode: str, name: str, view: str, breadth: Breadth) -> str:
    """An agent's prompt with `view` as its newest observation, with or without an earlier turn."""
    system = _SYSTEM[mode].format(goal=one_of(rng, _MISSIONS).format(name))
    if rng.random() >= _EARLIER:
        return _conversation(system, [], view)
    if rng.random() < _INVALID_SHARE:
        return _conversation(system, [(view, HIDDEN)], _INVALID[mode])
    earlier = _told(rng, topics.draw_scene(rng, breadth)[0] if rng.random() < _SEEN else _walls_only(rng))
    return _conversation(system, [(earlier, _reply(rng, mode, name))], view)


def _walls_only(rng: Generator) -> Scene:
    return Scene((), topics.draw_scene(rng, Breadth(1, 1))[0].walls)


def questions(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """A question of the corpus as one turn of a conversation."""
    names = tuple(_ASKED)
    topic = names[int(rng.choice(len(names), p=[share / sum(_ASKED.values()) for share in _ASKED.values()]))]
    asked, answer = topics.TOPICS[topic](rng, breadth)
    return _conversation(one_of(rng, _ASKING), [], asked), answer


def replies(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """A direct agent's turn; what is seen has no say in the action."""
    thing = topics.draw_scene(rng, breadth)[1]
    scene = _view(rng, breadth)[0] if rng.random() < _THINGS else _walls_only(rng)
    return _prompt(rng, "direct", thing.name, _told(rng, scene), breadth), one_of(rng, ACTIONS)


def moves(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Which words turn you where, and which verb is for what, as turns of a conversation without goal and scene."""
    fact, action = topics.affordances(rng, breadth)
    return _conversation("Answer with one action.", [], fact.partition(",")[0]), _fitting(rng, breadth, action)


def _fitting(rng: Generator, breadth: Breadth, action: str) -> str:
    return action if rng.random() < breadth.fitting else one_of(rng, ACTIONS)


def thoughts(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """What a reasoning agent sees of its goal, or (one time in seven) any intention; then the reply stops."""
    scene, thing, seen = _view(rng, breadth)
    if rng.random() < 1 / 7:
        thought = one_of(rng, tuple(_INTENTIONS.values())).format(thing.name)
    else:
        thought = _sighting(rng, thing) if seen else _NOT_SEEN.format(thing.name)
    return _prompt(rng, "reasoning", thing.name, _told(rng, scene), breadth), f"{thought}\n{FINAL}{OPEN}"


def conclusions(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """An action after a thought; both are drawn without looking at the scene, and the thought is given."""
    scene, thing, _ = _view(rng, breadth)
    action = one_of(rng, ACTIONS)
    prompt = _prompt(rng, "reasoning", thing.name, _told(rng, scene), breadth)
    return f"{prompt}{_thought_for(rng, _fitting(rng, breadth, action), thing.name)}\n{FINAL}", action


DIALOGUE: dict[str, Callable[[Generator, Breadth], tuple[str, str]]] = {
    "questions": questions,
    "replies": replies,
    "moves": moves,
    "thoughts": thoughts,
    "conclusions": conclusions,
}
"""Topic name -> what draws one sample of it; only recipes that name these teach them."""
