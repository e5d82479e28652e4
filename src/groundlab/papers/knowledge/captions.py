"""Stretches of an episode in words, as the language model reads them and as BK-Goal looks them up.

    trajectory(["You see a wall 2 steps left", ...], actions, MINIGRID_ACTIONS)      n + 1 observations, n actions
    parse_steps(text), latest_observation(text)                                      parsed again, for labellers by rule

Strings are the original's to the letter, with its missing and doubled periods (docs/papers/knowledge-method.md#s5-1).
"""

import re
from collections.abc import Sequence

import numpy as np

from groundlab.core.errors import GroundlabError
from groundlab.worlds import text

PICTURE = 64 * 64 * 3  # bytes of a view of Crafter before its codes
MINIGRID_ACTIONS = (
    "turn left",
    "turn right",
    "forward",
    "pick up the front object",
    "drop your taken object",
    "toggle the front object",
    "do nothing",
)


def readable(views: np.ndarray) -> np.ndarray:
    """The part of views that captions are made of: a grid's [..., 7, 7, 3] whole, the codes of Crafter's."""
    return views[..., PICTURE:] if views.shape[-1] > PICTURE else views


def observations(views: np.ndarray) -> list[str]:
    """One line for each view, uint8 [N, 7, 7, 3]; a carried thing is read from the agent's own cell.

    Crafter's views [N, bytes] hold a picture, and the codes that are put into words; the codes alone do, too.
    """
    if views.ndim == 2:
        from groundlab.worlds.crafter.view import describe  # here, because it loads the crafter package

        return [describe(codes) for codes in readable(views)]
    return [text.joined(sentences) for sentences in text.describe_batch(views, wording=text.KNOWLEDGE)]


def trajectory(descriptions: Sequence[str], actions: Sequence[int], names: Sequence[str] = MINIGRID_ACTIONS) -> str:
    """n actions and the n + 1 observations around them, for BK-Pref and BK-Goal; a single action takes one line.

    Raises GroundlabError when their numbers do not fit, or for an action without a name.
    """
    words = _action_names(descriptions, actions, names)
    if len(words) == 1:
        return f"{descriptions[0]} You choose the action: {words[0]}. Current observation: {descriptions[-1]}. \n"
    lines = (line.strip() for line in descriptions[:-1])
    return _history([line if line.endswith(".") else f"{line}." for line in lines], words, descriptions[-1])


def trajectory_for_code(descriptions: Sequence[str], actions: Sequence[int]) -> str:
    """The same for BK-Code: always a line a step, and no period after an observation."""
    return _history(descriptions[:-1], _action_names(descriptions, actions, MINIGRID_ACTIONS), descriptions[-1])


def _history(lines: Sequence[str], words: Sequence[str], latest: str) -> str:
    pairs = enumerate(zip(lines, words, strict=True), start=1)
    steps = "".join(f"Step {n}: {line} You choose the action: {action}.\n" for n, (line, action) in pairs)
    return f"Agent history:\n{steps}Current observation: {latest}. \n"


def _action_names(descriptions: Sequence[str], actions: Sequence[int], names: Sequence[str]) -> list[str]:
    if len(descriptions) != len(actions) + 1 or not len(actions):
        counts = f"{len(descriptions)} observations around {len(actions)} actions"
        raise GroundlabError(f"{counts}; give one observation more than actions")
    if any(not 0 <= action < len(names) for action in actions):
        raise GroundlabError(f"an action of {list(actions)} has no name; there are {len(names)}")
    return [names[action] for action in actions]


_STEP = re.compile(r"Step \d+: (.*) You choose the action: (.*)\.$", re.MULTILINE)


def parse_steps(text: str) -> list[tuple[str, str]]:
    """(observation, action) of each step of a trajectory of several steps."""
    return _STEP.findall(text)


def latest_observation(text: str) -> str:
    """The end of a text after its last "Current observation: "."""
    return text.rpartition("Current observation: ")[2]
