"""Other ways to write what an agent's prompt says, and the settings of an agent that reads them.

    rewrite("xml", prompt)    # what `glam_prompt` made, in another format
    groundlab run glam-extended --world BabyAI-GoToLocalS8N4-v0 --seed 0 --set prompt_format=xml --out runs/xml

glam        as GLAM writes it (worlds/text_env/prompts.py)
reordered   the same lines, observations first, then the goal and the list of actions
xml         goal, actions, observations and past actions as elements
prose       the same in sentences

Each tells the goal, the actions where they are listed, and the last observations with what was done between them; the
action's words follow. "mixed" is no format of its own: a checksum of the prompt chooses one of the four, so that one
agent reads all. The question is that of Aissi et al. 2024 (arXiv 2410.19920), the words are ours.
"""

import zlib
from collections.abc import Mapping
from typing import Literal, NamedTuple, Self, get_args

from pydantic import Field, model_validator

from groundlab.core.errors import GroundlabError
from groundlab.papers.glam.settings import TrainingSettings
from groundlab.worlds.text_env.prompts import glam_head, glam_turn, text_actions

PromptFormat = Literal["glam", "reordered", "xml", "prose"]
FORMATS: tuple[PromptFormat, ...] = get_args(PromptFormat)
_ACTIONS, _OBSERVATION, _ACTION = "Possible action of the agent: ", " \n Observation ", "\n Action "


class ExtendedSettings(TrainingSettings):
    """What later papers changed about GLAM's agent."""

    prompt_format: Literal[PromptFormat, "mixed"] = "glam"
    """How its prompts are written, in training and in tests."""
    test_formats: list[PromptFormat] = Field([])
    """Formats in which the agent's own task is tested besides."""
    normalisation: Literal["none", "token", "word"] = "none"
    """What an action's score is divided by: the number of its tokens or words (TWOSOME), or nothing."""
    action_words: list[str] = Field([])
    """What the actions of `action_space` are called instead, in their order; empty: as the space names them."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = text_actions(self.action_space)
        if self.action_words and len(self.action_words) != len(names):
            raise ValueError(f"action_words are {len(self.action_words)}; name all {len(names)}: {', '.join(names)}")
        if self.probe_template:
            raise ValueError("probe prompts have one format and one list of actions; set probe_template=0")
        return self

    @property
    def renamed(self) -> dict[str, str]:
        """The action texts that have other words, and these."""
        return dict(zip(text_actions(self.action_space), self.action_words, strict=True)) if self.action_words else {}

    def plain(self) -> dict[str, object]:
        """The settings that GLAM's agent knows itself."""
        return self.model_dump(include=set(TrainingSettings.model_fields))


class _Told(NamedTuple):
    """What a prompt says."""

    head: str  # "Goal of the agent"
    goal: str
    actions: list[str]
    views: list[str]  # an observation's sentences, joined
    done: list[str]  # one fewer

    @property
    def listed(self) -> str:
        return ", ".join(self.actions)


def rewrite(name: PromptFormat | Literal["mixed"], prompt: str, words: Mapping[str, str] | None = None) -> str:
    """A prompt of `glam_prompt` in another format, and with other words for its actions.

    Raises GroundlabError for a prompt that is not of the English agents.
    """
    if name == "glam" and not words:
        return prompt
    told = _read(prompt, words or {})
    chosen = FORMATS[zlib.crc32(prompt.encode()) % len(FORMATS)] if name == "mixed" else name
    return _WRITERS[chosen](told)


def _read(prompt: str, words: Mapping[str, str]) -> _Told:
    head, *turns = prompt.split(_OBSERVATION)
    listed, _, goal = head.rpartition(" \n ")
    label, colon, goal = goal.partition(": ")
    if not (colon and turns and listed.startswith(_ACTIONS if listed else "")):
        raise GroundlabError(f"prompts of other formats or words are made of English ones, not of {prompt[:60]!r}")
    actions = listed.removeprefix(_ACTIONS).strip().split(", ") if listed else []
    views, done = [], []
    for number, turn in enumerate(turns):
        view, action = turn.removeprefix(f"{number}: ").split(f"{_ACTION}{number}: ")
        views.append(view)
        done.append(words.get(action, action))
    return _Told(label, goal, [words.get(action, action) for action in actions], views, done[:-1])


def _glam(told: _Told) -> str:
    turns = (
        glam_turn(k, view, action) for k, (view, action) in enumerate(zip(told.views, [*told.done, ""], strict=True))
    )
    return f"{_list_of(told)}{told.head}: {told.goal}{''.join(turns)}"


def _list_of(told: _Told) -> str:
    return glam_head("", told.actions).removesuffix(glam_head("")) if told.actions else ""


def _reordered(told: _Told) -> str:
    seen = "".join(
        glam_turn(k, view, action) for k, (view, action) in enumerate(zip(told.views, told.done, strict=False))
    )
    last = len(told.views) - 1
    return (
        f"{seen}{_OBSERVATION}{last}: {told.views[last]}\n {told.head}: {told.goal} \n {_list_of(told)}Action {last}: "
    )


def _xml(told: _Told) -> str:
    lines = [f"<goal>{told.goal}</goal>", *([f"<actions>{told.listed}</actions>"] if told.actions else [])]
    for view, action in zip(told.views, [*told.done, None], strict=True):
        lines.append(f"<observation>{view.removesuffix(', ')}</observation>")
        lines.append("<action>" if action is None else f"<action>{action}</action>")
    return "\n".join(lines)


def _prose(told: _Told) -> str:
    lines = [f"The agent has to {told.goal}.", *([f"It can {told.listed}."] if told.actions else [])]
    for view, action in zip(told.views, told.done, strict=False):
        lines.append(f"Before, it was told: {view.removesuffix(', ')}. So it chose to {action}.")
    return " ".join([*lines, f"Now it is told: {told.views[-1].removesuffix(', ')}. So it chooses to "])


_WRITERS = {"glam": _glam, "reordered": _reordered, "xml": _xml, "prose": _prose}
