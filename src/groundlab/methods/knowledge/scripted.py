"""Advisers by rule: what a labelling leaves when nobody is asked, to compare language models with.

    labelling.label(..., maker="scripted")      groundlab label goals --maker scripted --out DIR

`judging.scripted_judge` is the third one; for Crafter see `survival.py`. Called from: `labelling.py`.
"""

import re

from groundlab.language.chat import Sampling, Scripted
from groundlab.methods.knowledge import survival

_PROGRAM = """def compute_reward(obs, past_obs, past_actions):
    things = np.isin(obs[0], [OBJECT_TO_IDX["key"], OBJECT_TO_IDX["ball"], OBJECT_TO_IDX["box"]])
    seen, ahead = 0.5 * float(things.any()), 0.5 * float(things[3, 5])
    return seen + ahead, {"a thing in view": seen, "a thing ahead": ahead}
"""
_THING = re.compile(r"You see a (\w+ (?:key|ball|box)) ")


def programmer() -> Scripted:
    """Always the same program: half a point while a thing is in view, another half while one is right ahead."""
    return Scripted("scripted programmer", lambda text, sampling: f"```python\n{_PROGRAM}```\n")


def adviser() -> Scripted:
    """Goes to each thing in view, in the order of the last description; looks around when there is none."""

    def rule(text: str, sampling: Sampling) -> str:
        now = text.rpartition("Current observation: ")[2]
        things = dict.fromkeys(_THING.findall(now))
        return "\n".join(f"- Go to the {thing}." for thing in things) or "- Look around."

    return Scripted("scripted adviser", rule)


def survivor() -> Scripted:
    """The adviser for Crafter."""

    def rule(text: str, sampling: Sampling) -> str:
        return "\n".join(f"- {goal}" for goal in survival.goals(text.rpartition("Current observation: ")[2]))

    return Scripted("scripted survivor", rule)
