"""Who answers besides a language model: the bot, chance, and a stated rule that walks as if nothing were in the way.

The rule is the maker "scripted" of the method `chat`: it reads the prompt and nothing else. It adds up moves, walks
first along x and then along y, and goes straight to the nearest thing that each clause of the mission names.
"""

import re

import numpy as np

from groundlab.language.chat import Scripted
from groundlab.papers.babybench.follower import NAMES, Place, Step
from groundlab.papers.babybench.questions import Question, State, actions_text, state_text, subgoals_text
from groundlab.worlds.codes import ACTIONS, DROP, FORWARD, LEFT, PICKUP, RIGHT, STEP_X, STEP_Y, TOGGLE

_CLAUSE = re.compile(r"(go to|pick up|open|put) (.+?)(?= and (?:go to|pick up|open|put) |, then | after you |$)")
_THING = re.compile(r"^- (\w+) (\w+) at \((\d+), (\d+)\)", re.MULTILINE)
_AGENT = re.compile(r"^Agent: at \((\d+), (\d+)\), direction (\d)", re.MULTILINE)
_NOUN = re.compile(r"(?:the|a) (?:(red|green|blue|purple|yellow|grey) )?(key|ball|box|door|object)")


def by_bot(question: Question) -> str:
    """The bot's own answer: where minigrid's copy of its episode ended, its actions, or what it did as subgoals."""
    if question.task == "predict":
        return state_text(question.mirrored)
    return actions_text(question.actions) if question.task == "plan" else subgoals_text(question.subgoals)


def by_chance(question: Question, rng: np.random.Generator) -> str:
    """An answer of the right form: a cell and a direction of the grid, or as many actions or subgoals as the bot's."""
    columns, rows = map(int, re.findall(r"Grid: (\d+) by (\d+)", question.prompt)[0])
    cells = [(int(x), int(y)) for *_, x, y in _THING.findall(question.prompt)]
    if question.task == "predict":
        x, y, direction = rng.integers((1, 1, 0), (columns - 1, rows - 1, 4)).tolist()
        return state_text(((x, y), direction))
    if question.task == "plan":
        return actions_text(rng.integers(0, TOGGLE + 1, len(question.actions)).tolist())
    names = [NAMES[each] for each in rng.integers(0, len(NAMES), len(question.subgoals))]
    return subgoals_text([(name, cells[rng.integers(len(cells))] if name == NAMES[0] else None) for name in names])


def by_rule(prompt: str) -> str:
    """The rule's answer to a prompt of any of the three tasks."""
    x, y, direction = map(int, _AGENT.findall(prompt)[0])
    if does := re.search(r"one action after the other:\n(.+)", prompt):
        return state_text(_moved(((x, y), direction), does[1].split(", ")))
    subgoals = _subgoals(prompt, (x, y))
    return subgoals_text(subgoals) if NAMES[0] in prompt else actions_text(_walk(((x, y), direction), subgoals))


RULE = Scripted("straight on", lambda prompt, sampling: by_rule(prompt))


def _moved(state: State, words: list[str]) -> State:
    (x, y), direction = state
    for word in words:
        ahead = word == ACTIONS[FORWARD]
        x, y = x + ahead * STEP_X[direction], y + ahead * STEP_Y[direction]
        direction = (direction + {ACTIONS[LEFT]: 3, ACTIONS[RIGHT]: 1}.get(word, 0)) % 4
    return (x, y), direction


def _subgoals(prompt: str, place: Place) -> list[Step]:
    """Each clause of the mission in its order, its things the nearest ones that fit, whatever lies between."""
    things = [(colour, kind, (int(x), int(y))) for colour, kind, x, y in _THING.findall(prompt)]
    mission = re.findall(r"^Mission: (.+)$", prompt, re.MULTILINE)[0]
    steps: list[Step] = []
    for part in reversed(mission.split(" after you ")):
        for verb, rest in _CLAUSE.findall(part):
            for number, (colour, kind) in enumerate(_NOUN.findall(rest)):
                fits = [at for hue, what, at in things if colour in ("", hue) and kind in ("object", what)]
                place = min(fits, key=lambda at: abs(at[0] - place[0]) + abs(at[1] - place[1]))
                west = (place[0] - 1, place[1])  # what is put next to a thing lies west of it
                steps.append((NAMES[0], west if number else place))
                operation = "Drop" if number else {"open": "Open", "pick up": "Pickup", "put": "Pickup"}.get(verb)
                steps += [(f"{operation}Subgoal", None)] if operation else []
    return steps


def _walk(state: State, steps: list[Step]) -> list[int]:
    """Actions for subgoals on an empty plain: first along x, then along y."""
    actions: list[int] = []
    verbs = dict(zip(NAMES[1:], (TOGGLE, TOGGLE, PICKUP, DROP), strict=True))
    for name, place in steps:
        if place is None:
            actions.append(verbs[name])
            continue
        while place not in (state[0], _moved(state, [ACTIONS[FORWARD]])[0]):
            (x, y), direction = state
            towards = (0 if place[0] > x else 2) if place[0] != x else (1 if place[1] > y else 3)
            turns = (towards - direction) % 4
            actions.append(FORWARD if turns == 0 else LEFT if turns == 3 else RIGHT)
            state = _moved(state, [ACTIONS[actions[-1]]])
    return actions
