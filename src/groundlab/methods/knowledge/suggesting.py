"""BK-Goal's labelling: in one long conversation a language model suggests goals for one stretch of play after another.

    library = suggest(chat, chat_settings.sampling, dataset, Settings(rounds=60), seed)
    goals.GoalPotential(library, embedder)

The model sees the goals it gave before, as far as the conversation reaches back, and is asked to use them again.
Replies come through a ledger (language/chat). Source: spec background-knowledge 5.2. Called from: `labelling.py`.
"""

from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from groundlab.assets import read_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.language.chat import ChatModel, Messages, Sampling
from groundlab.methods.knowledge import replies
from groundlab.methods.knowledge.captions import trajectory
from groundlab.methods.knowledge.conversation import Estimate, growing, pruned, tokens_of
from groundlab.methods.knowledge.dataset import Dataset, sample
from groundlab.methods.knowledge.goals import GoalLibrary
from groundlab.methods.knowledge.senses import GRID, Senses, senses_of
from groundlab.methods.settings import Strict

_OPENING = 2  # system messages, which are never left out
_REPLY_TOKENS = 60  # of a reply, for estimates


class Settings(Strict):
    """How a labelling goes; the original's values."""

    rounds: int = Field(default=500, ge=1)
    """Stretches of play that goals are suggested for."""
    length: int = Field(default=3, ge=2)
    attempts: int = Field(default=15, ge=1)
    """Replies without a list that one round may take."""
    max_prompt_tokens: int = Field(default=6000, ge=1)
    strict: bool = True
    """How replies are read (`replies.goals`)."""


def opening(senses: Senses = GRID) -> Messages:
    """The messages that the conversation begins with."""
    texts = (read_text(f"prompts/knowledge/{name}.txt") for name in ("goals-task", senses.prompt))
    return [{"role": "system", "content": text} for text in texts]


def stretches(data: Dataset, settings: Settings, seed: int) -> list[str]:
    """The stretches of play, in words, that goals are asked for."""
    rng, told, names = generator(seed, "goal captions"), [], _senses(data).actions
    for _ in range(settings.rounds):
        segment = data.segment(*sample(data.lengths, settings.length, rng), settings.length)
        told.append(trajectory(segment.captions, segment.actions.tolist(), names))
    return told


def _senses(data: Dataset) -> Senses:
    return senses_of(data.card.get("world"))


def _question(caption: str) -> Messages:
    return [{"role": "user", "content": read_text("prompts/knowledge/goals-request.txt").format(caption=caption)}]


def estimate(data: Dataset, settings: Settings, seed: int) -> Estimate:
    """Calls and tokens of a labelling, to be shown before it."""
    asked = (tokens_of(_question(caption)) for caption in stretches(data, settings, seed))
    return growing(opening(_senses(data)), asked, _REPLY_TOKENS, settings.max_prompt_tokens)


def suggest(
    chat: ChatModel, sampling: Callable[[int], Sampling], data: Dataset, settings: Settings, seed: int
) -> GoalLibrary:
    """Goals for `rounds` stretches of play; those that no reply has a list for are left out.

    Raises GroundlabError when the first of them is, and what the chat model raises.
    """
    messages, library = opening(_senses(data)), GoalLibrary([], [])
    for caption in stretches(data, settings, seed):
        asked = pruned([*messages, *_question(caption)], settings.max_prompt_tokens, _OPENING)
        reply, goals = _ask(chat, sampling, asked, settings)
        if goals:
            messages = [*asked, {"role": "assistant", "content": reply}]
            library.captions.append(caption)
            library.goals.append([goal.strip() for goal in goals])
        elif not library.captions:
            tried = f"{chat.model} gave no list of goals in {settings.attempts} replies"
            raise GroundlabError(f"{tried}; try another model")
    return library


def _ask(
    chat: ChatModel, sampling: Callable[[int], Sampling], messages: Messages, settings: Settings
) -> tuple[str, list[str]]:
    """The first reply with a list, and the list; an empty one when none of the replies has any."""
    for call in range(settings.attempts):
        reply = str(chat.reply(messages, sampling(call)))
        goals = replies.goals(reply, settings.strict)
        if goals is not None:
            return reply, goals
    return "", []


def store(folder: Path, library: GoalLibrary) -> None:
    """Write the library as the original does: captions, goals by number of each caption, and the goals' numbers."""
    distinct = dict.fromkeys(goal for goals in library.goals for goal in goals)
    numbers = {goal: number for number, goal in enumerate(distinct)}
    storage.write_json(folder / "trajectory_text.json", library.captions)
    storage.write_json(folder / "goal_library.json", [[numbers[goal] for goal in goals] for goals in library.goals])
    storage.write_json(folder / "goal_index.json", numbers)


def load(folder: Path) -> GoalLibrary:
    """The library that `store` wrote. Raises GroundlabError when a file is missing or broken."""
    names = ("trajectory_text", "goal_library", "goal_index")
    captions, library, numbers = (storage.read_json(folder / f"{name}.json") for name in names)
    goals = {number: goal for goal, number in numbers.items()}
    return GoalLibrary(captions, [[goals[number] for number in row] for row in library])
