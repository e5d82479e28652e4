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
from typing import Literal, NamedTuple, Self, get_args

from pydantic import Field, model_validator

from groundlab.core.errors import GroundlabError
from groundlab.papers.glam.settings import TrainingSettings
from groundlab.worlds.text_env.prompts import MODIFIERS, glam_head, glam_turn

PromptFormat = Literal["glam", "reordered", "xml", "prose"]
FORMATS: tuple[PromptFormat, ...] = get_args(PromptFormat)
_ACTIONS, _OBSERVATION, _ACTION = "Possible action of the agent: ", " \n Observation ", "\n Action "
_INTRODUCTIONS = {name: table for name, table in MODIFIERS["english"].items() if name.startswith("change_intro")}
_LABELS = {label for table in _INTRODUCTIONS.values() for pair in table.items() for label in pair}


class ExtendedSettings(TrainingSettings):
    """What later papers changed about GLAM's agent."""

    prompt_format: Literal[PromptFormat, "mixed"] = "glam"
    """How its prompts are written, in training and in tests."""
    test_formats: list[PromptFormat] = Field([])
    """Formats in which the agent's own task is tested besides."""
    normalisation: Literal["none", "token", "word"] = "none"
    """What an action's score is divided by: the number of its tokens or words (TWOSOME), or nothing."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.probe_template:
            raise ValueError("probe prompts have one format and one list of actions; set probe_template=0")
        if self.normalisation != "none" and self.rule != "logprob":
            raise ValueError(f"normalisation divides log-probabilities, which {self.rule} has not; set rule=logprob")
        unseen = [name for name in self.tests if not _INTRODUCTIONS.keys().isdisjoint(name.split())]
        if unseen and self.prompt_format not in ("glam", "reordered"):
            raise ValueError(f"prompts of format {self.prompt_format} lack what {unseen[0]} changes; leave that test")
        return self

    @property
    def rewrites(self) -> bool:
        """Whether any prompt is another than GLAM's."""
        return self.prompt_format != "glam" or bool(self.test_formats)

    def plain(self) -> dict[str, object]:
        """The settings that GLAM's agent knows itself."""
        return self.model_dump(include=set(TrainingSettings.model_fields))


class _Content(NamedTuple):
    """What a prompt says."""

    label: str  # "Goal of the agent"
    goal: str
    actions: list[str]
    views: list[str]  # an observation's sentences, joined
    past_actions: list[str]  # one fewer

    @property
    def action_list(self) -> str:
        return ", ".join(self.actions)


def rewrite(name: PromptFormat | Literal["mixed"], prompt: str) -> str:
    """Return a prompt of `glam_prompt` in another format.

    Raises GroundlabError for a prompt that is not of the English agents.
    """
    if name == "glam":
        return prompt
    content = _read(prompt)
    chosen = FORMATS[zlib.crc32(prompt.encode()) % len(FORMATS)] if name == "mixed" else name
    return _WRITERS[chosen](content)


def _read(prompt: str) -> _Content:
    head, *turns = prompt.split(_OBSERVATION)
    action_list, _, goal_line = head.rpartition(" \n ")
    label, _, goal = goal_line.partition(": ")
    if label not in _LABELS or not turns:
        raise GroundlabError(f"prompts of other formats are made of English ones, not of {prompt[:60]!r}")
    actions = action_list.removeprefix(_ACTIONS).strip().split(", ") if action_list else []
    views, past_actions = [], []
    for number, turn in enumerate(turns):
        view, action = turn.removeprefix(f"{number}: ").split(f"{_ACTION}{number}: ")
        views.append(view)
        past_actions.append(action)
    return _Content(label, goal, actions, views, past_actions[:-1])


def _turns(content: _Content, actions: list[str]) -> str:
    pairs = zip(content.views, actions, strict=False)
    return "".join(glam_turn(number, view, action) for number, (view, action) in enumerate(pairs))


def _list_line(content: _Content) -> str:
    return glam_head("", content.actions).removesuffix(glam_head("")) if content.actions else ""


def _glam(content: _Content) -> str:
    turns = _turns(content, [*content.past_actions, ""])
    return f"{_list_line(content)}{content.label}: {content.goal}{turns}"


def _reordered(content: _Content) -> str:
    last = len(content.views) - 1
    view = f"{_OBSERVATION}{last}: {content.views[last]}"
    goal = f"{content.label}: {content.goal} \n {_list_line(content)}"
    return f"{_turns(content, content.past_actions)}{view}\n {goal}Action {last}: "


def _xml(content: _Content) -> str:
    lines = [f"<goal>{content.goal}</goal>"]
    lines += [f"<actions>{content.action_list}</actions>"] if content.actions else []
    for view, action in zip(content.views, [*content.past_actions, None], strict=True):
        lines.append(f"<observation>{view.removesuffix(', ')}</observation>")
        lines.append("<action>" if action is None else f"<action>{action}</action>")
    return "\n".join(lines)


def _prose(content: _Content) -> str:
    lines = [f"The agent has to {content.goal}.", *([f"It can {content.action_list}."] if content.actions else [])]
    for view, action in zip(content.views, content.past_actions, strict=False):
        lines.append(f"Before, it was told: {view.removesuffix(', ')}. So it chose to {action}.")
    return " ".join([*lines, f"Now it is told: {content.views[-1].removesuffix(', ')}. So it chooses to "])


_WRITERS = {"glam": _glam, "reordered": _reordered, "xml": _xml, "prose": _prose}
