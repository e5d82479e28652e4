"""GLAM's prompts, character by character: goal, actions, the last observations and the actions between them.

    glam_prompt("go to the red ball", text_actions(6), [["You see a red ball 1 step forward"]], [])
    history = History(num_envs=32); history.start(0, sentences); history.step(0, "turn left", sentences)

Also here: the action spaces, the French words for goals and actions, the text replacements of the generalisation
tests (`modify`), and the fixed probe prompts. Source: Carta et al. 2023; docs/papers/glam-method.md#env-3, #env-4 and
docs/papers/glam-reference.md#env-9. Sentences come from `worlds/text.py`; `TextEnv` shows such prompts, and a paper's
agents score what may follow them.
"""

import json
import re
from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from groundlab.assets import read_text
from groundlab.core.errors import GroundlabError, unknown_name

Fidelity = Literal["original", "correct"]

_MOVES = ("turn left", "turn right", "go forward")
_CANONICAL = (*_MOVES, "pick up", "drop", "toggle")
# A text action's place in its tuple is the environment's action number (`env_actions`).
ACTION_SPACES: dict[int | str, tuple[str, ...]] = {
    3: _MOVES,
    6: _CANONICAL,
    9: (*_CANONICAL, "sleep", "do nothing", "think"),
    "older": (*_MOVES, "eat", "dance", "sleep", "do nothing", "cut", "think"),
    "synonyms": ("rotate left", "rotate right", "move ahead", "take", "release", "switch"),
    "synonyms-shift": ("shift left", "shift right", "go ahead", "take", "release", "turn"),
    # Names that mislead: left and right, forward and pick up exchanged.
    "exchanged": ("turn right", "turn left", "pick up", "go forward", "drop", "toggle"),
    # Words that mean nothing, in no corpus of ours, of as many tokens as the usual ones in our tokenizers.
    "opaque": ("jub", "hov", "chud", "yib", "az", "ob"),
}
_NO_OPERATION = 6  # MiniGrid's "done"

_FRENCH_ACTIONS = {
    "turn left": "tourner à gauche",
    "turn right": "tourner à droite",
    "go forward": "aller tout droit",
    "pick up": "attraper",
    "drop": "lâcher",
    "toggle": "basculer",
    "eat": "manger",
    "dance": "dancer",
    "sleep": "dormir",
    "do nothing": "ne rien faire",
    "cut": "couper",
    "think": "penser",
}
_FRENCH_ARTICLES = {"the": "la", "a": "une"}
_FRENCH_NOUNS = {"box": "boîte", "ball": "balle", "key": "clef"}
_FRENCH_COLOURS = {
    "red": "rouge",
    "green": "verte",
    "blue": "bleue",
    "purple": "violette",
    "yellow": "jaune",
    "grey": "grise",
}
_FRENCH_GOAL = re.compile(rf"go to (the|a) ({'|'.join(_FRENCH_COLOURS)}) ({'|'.join(_FRENCH_NOUNS)})")


class _Template(NamedTuple):
    """The words around goal and actions."""

    actions: str
    goal: str


_TEMPLATES = {
    "english": _Template("Possible action of the agent:", "Goal of the agent"),
    "french": _Template("Actions possibles pour l'agent:", "But de l'agent"),
}
LANGUAGES = tuple(_TEMPLATES)


def _known_language(language: str) -> str:
    if language not in _TEMPLATES:
        raise unknown_name("language", language, LANGUAGES)
    return language


def french_action(action: str) -> str:
    """The French words for an English action; French ones stay. Raises GroundlabError for others (the synonyms)."""
    if action in _FRENCH_ACTIONS.values():
        return action
    if action not in _FRENCH_ACTIONS:
        raise unknown_name("action to say in French", action, _FRENCH_ACTIONS)
    return _FRENCH_ACTIONS[action]


def french_goal(goal: str, fidelity: Fidelity = "original") -> str:
    """`go to the purple box` -> `aller à la boîte violette`.

    The original looks for the letter "a" to find the article, so every ball gets `une`
    (docs/papers/glam-reference.md#env-q5); "correct" reads the article itself. Raises GroundlabError for other kinds of
    goal: no French level has them.
    """
    if fidelity not in get_args(Fidelity):
        raise unknown_name("fidelity", fidelity, get_args(Fidelity))
    match = _FRENCH_GOAL.fullmatch(goal)
    if match is None:
        raise GroundlabError(f"no French for {goal!r}; French levels say 'go to the|a COLOUR box|ball|key'")
    article, colour, noun = match.groups()
    if fidelity == "original" and "a" in goal:
        article = "a"
    return f"aller à {_FRENCH_ARTICLES[article]} {_FRENCH_NOUNS[noun]} {_FRENCH_COLOURS[colour]}"


def text_actions(space: int | str, language: str = "english") -> tuple[str, ...]:
    """An action space by its size (3, 6, 9) or name (`ACTION_SPACES`); raises GroundlabError for an unknown one."""
    if space not in ACTION_SPACES:
        raise unknown_name("action space", str(space), map(str, ACTION_SPACES))
    actions = ACTION_SPACES[space]
    return tuple(map(french_action, actions)) if _known_language(language) == "french" else actions


def env_actions(indices: np.ndarray) -> np.ndarray:
    """The environment's actions for text action indices [B]; what it does not have costs a step and does nothing."""
    return np.minimum(indices, _NO_OPERATION)


def glam_prompt(
    goal: str,
    actions: Sequence[str],
    observations: Sequence[Sequence[str]],
    past_actions: Sequence[str],
    language: str = "english",
    fidelity: Fidelity = "original",
) -> str:
    """The prompt whose continuation is the next action (docs/papers/glam-method.md#env-4-1 and #env-4-3).

    observations: the lists of sentences, oldest first; past_actions: what was done between them, one fewer.
    No actions: a short prompt that begins with the goal. French: goal and actions are translated here, sentences are
    expected in French; `fidelity` is that of `french_goal`.
    """
    if language == "french":
        past_actions = [*map(french_action, past_actions)]
    done = [*past_actions, *[""] * (len(observations) - len(past_actions))]
    turns = (glam_turn(k, glam_view(sentences), done[k]) for k, sentences in enumerate(observations))
    return glam_head(goal, actions, language, fidelity) + "".join(turns)


def glam_head(
    goal: str, actions: Sequence[str] = (), language: str = "english", fidelity: Fidelity = "original"
) -> str:
    """What stands before the observations of `glam_prompt`: the same for a whole episode."""
    template = _TEMPLATES[_known_language(language)]
    if language == "french":
        goal, actions = french_goal(goal, fidelity), [*map(french_action, actions)]
    head = f"{template.actions} {', '.join(actions)} \n " if actions else ""
    return f"{head}{template.goal}: {goal}"


def glam_view(sentences: Sequence[str]) -> str:
    """The sentences of one view, as `glam_prompt` joins them."""
    return f"{', '.join(sentences)}, " if sentences else ""


def glam_turn(number: int, view: str, action: str) -> str:
    """The `number`-th observation of `glam_prompt`, and what was done then; nothing yet for the last."""
    return f" \n Observation {number}: {view}\n Action {number}: {action}"


class History:
    """The last observations of B environments, and the actions between them; an episode knows nothing of the last.

    `state` and `load_state` carry it through a checkpoint.
    """

    def __init__(self, num_envs: int, observations: int = 3):
        """Remember `observations` (1 or more) lists of sentences an environment. Raises GroundlabError for fewer."""
        if observations < 1:
            raise GroundlabError(f"a prompt of {observations} observations says nothing; set observations to 1 or more")
        self._observations = [deque[list[str]](maxlen=observations) for _ in range(num_envs)]
        self._actions = [deque[str](maxlen=observations - 1) for _ in range(num_envs)]

    def start(self, env: int, sentences: list[str]) -> None:
        """A new episode begins in environment `env` with this observation."""
        self._observations[env].clear()
        self._actions[env].clear()
        self._observations[env].append(sentences)

    def step(self, env: int, action: str, sentences: list[str]) -> None:
        """`action` was done in environment `env`, and led to this observation of the same episode."""
        self._actions[env].append(action)
        self._observations[env].append(sentences)

    def prompt(
        self,
        env: int,
        goal: str,
        actions: Sequence[str],
        language: str = "english",
        fidelity: Fidelity = "original",
    ) -> str:
        """The prompt of environment `env`: see `glam_prompt`."""
        return glam_prompt(goal, actions, [*self._observations[env]], [*self._actions[env]], language, fidelity)

    def state(self) -> list[dict[str, list]]:
        """Everything remembered, one entry an environment, as JSON knows it."""
        pairs = zip(self._observations, self._actions, strict=True)
        return [{"observations": [*observations], "actions": [*actions]} for observations, actions in pairs]

    def load_state(self, state: list[dict[str, list]]) -> None:
        """Take over what `state` gave. Raises ValueError when the number of environments differs."""
        for observations, actions, saved in zip(self._observations, self._actions, state, strict=True):
            observations.clear()
            actions.clear()
            observations.extend(saved["observations"])
            actions.extend(saved["actions"])


def _table(words: Sequence[str], others: str) -> dict[str, str]:
    return dict(zip(words, others.split(), strict=True))


def _modifiers(
    nouns: Sequence[str],
    colours: Sequence[str],
    goal: str,
    furniture: str,
    synonyms: dict[str, str],
    intros: tuple[str, str],
) -> dict[str, dict[str, str]]:
    """The eight replacement tables of one language, by the names of the original's result files."""
    no_nouns, no_adjectives = _table(nouns, "dax xolo afze"), _table(colours, "faze jatu croh vurst gakul sil")
    return {
        "no_modification_test": {},
        "other_name_same_categories": _table(nouns, furniture),
        "adj_synonym": synonyms,
        "no_meaning_nouns": no_nouns,
        "no_meaning_adj": no_adjectives,
        "no_meaning_words": no_nouns | no_adjectives,
        "change_intro_first_personne_speaker": {goal: intros[0]},
        "change_intro_first_personne_agent": {goal: intros[1]},
    }


_ENGLISH_COLOURS, _FRENCH_HUES = tuple(_FRENCH_COLOURS), tuple(_FRENCH_COLOURS.values())
MODIFIERS = {
    "english": _modifiers(
        nouns=("key", "ball", "box"),
        colours=_ENGLISH_COLOURS,
        goal=_TEMPLATES["english"].goal,
        furniture="chair table car",
        synonyms=_table(_ENGLISH_COLOURS, "vermilion jade cyan violet golden silver"),
        intros=("I would like the agent to", "You have to"),
    ),
    "french": _modifiers(
        nouns=("clef", "balle", "boîte"),
        colours=_FRENCH_HUES,
        goal=_TEMPLATES["french"].goal,
        furniture="chaise table voiture",
        # The original looks for "gris", so that `grise` becomes `argente`.
        synonyms=_table((*_FRENCH_HUES[:-1], "gris"), "vermilion jade cyan mauve dorée argent"),
        intros=("Je veux que l'agent fasse", "Tu dois faire"),
    ),
}


def modify(prompt: str, name: str, language: str = "english") -> str:
    """A finished prompt with the words of one generalisation test, replaced one after the other
    (docs/papers/glam-method.md#env-4-4).

    Raises GroundlabError for an unknown name or language.
    """
    tables = MODIFIERS[_known_language(language)]
    if name not in tables:
        raise unknown_name("modifier", name, tables)
    for word, other in tables[name].items():
        prompt = prompt.replace(word, other)
    return prompt


def probe_prompts(actions: Sequence[str], template: int = 1) -> list[str]:
    """The fixed English prompts by which the original watched its policy change (docs/papers/glam-method.md#env-4-5):
    11, or 2 for template 2.

    They were written by hand, in another style than the agent's prompts (docs/papers/glam-reference.md#env-q7): look at
    the softmax over actions, not at the scores. Raises GroundlabError for another template.
    """
    counts = {1: 11, 2: 2}
    if template not in counts:
        raise unknown_name("probe template", str(template), map(str, counts))
    tails = json.loads(read_text("prompts/glam/probes.json"))[: counts[template]]
    return [f"{_TEMPLATES['english'].actions} {', '.join(actions)}{tail}" for tail in tails]
