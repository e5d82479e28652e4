"""BK-Goal's labelling: in one long conversation a language model suggests goals for one stretch of play after another.

    library = suggest(chat, chat_settings.sampling, dataset, Settings(rounds=60), seed)
    goals.GoalPotential(library, embedder)

The model sees the goals it gave before, as far as the conversation reaches back, and is asked to use them again.
Replies come through a ledger (language/chat). Source: spec background-knowledge 5.2. Called from: nobody yet.
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
from groundlab.methods.knowledge.conversation import pruned
from groundlab.methods.knowledge.dataset import Dataset, sample
from groundlab.methods.knowledge.goals import GoalLibrary
from groundlab.methods.settings import Strict

_OPENING = 2  # system messages, which are never left out


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


def opening() -> Messages:
    """The messages that the conversation begins with."""
    texts = (read_text(f"prompts/knowledge/{name}.txt") for name in ("goals-task", "minigrid"))
    return [{"role": "system", "content": text} for text in texts]


def suggest(
    chat: ChatModel, sampling: Callable[[int], Sampling], data: Dataset, settings: Settings, seed: int
) -> GoalLibrary:
    """Goals for `rounds` stretches of play. Raises GroundlabError when a round stays without a list of goals."""
    messages, library, rng = opening(), GoalLibrary([], []), generator(seed, "goal captions")
    request = read_text("prompts/knowledge/goals-request.txt")
    for _ in range(settings.rounds):
        segment = data.segment(*sample(data.lengths, settings.length, rng), settings.length)
        caption = trajectory(segment.captions, segment.actions.tolist())
        messages = [*messages, {"role": "user", "content": request.format(caption=caption)}]
        messages = pruned(messages, settings.max_prompt_tokens, _OPENING)
        reply, goals = _ask(chat, sampling, messages, settings)
        messages = [*messages, {"role": "assistant", "content": reply}]
        library.captions.append(caption)
        library.goals.append([goal.strip() for goal in goals])
    return library


def _ask(
    chat: ChatModel, sampling: Callable[[int], Sampling], messages: Messages, settings: Settings
) -> tuple[str, list[str]]:
    for call in range(settings.attempts):
        reply = str(chat.reply(messages, sampling(call)))
        goals = replies.goals(reply, settings.strict)
        if goals is not None:
            return reply, goals
    raise GroundlabError(f"{chat.model} gave no list of goals in {settings.attempts} replies; try another model")


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
