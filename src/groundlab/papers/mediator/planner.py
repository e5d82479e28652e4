"""Text to plan: the planner's question, the parser of its reply, and the scripted planner that needs no LLM.

    planner = Planner(world, chat)
    reply, plan = planner.plan(text, coordinates, seed)

`scripted_planner` answers by the tables that match the paper's prompts (docs/papers/mediator-method.md#s4-5); with them
the paper's LLM-driven baselines come out to the second decimal.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

from groundlab.assets import read_text
from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.language.chat import ChatModel, Ledger, Messages, Recorded, Recording, Sampling, Scripted, Unanswered
from groundlab.language.chat.factory import chat_model
from groundlab.language.chat.texts import without_thoughts
from groundlab.papers.mediator.search import OBJECT_CODES, Coordinates, has_box
from groundlab.papers.mediator.settings import Settings, ledger_of
from groundlab.papers.mediator.skills import DROP_OBJECT, EXPLORE, GO_TO, PICK_UP, TOGGLE_OBJECT, UNKNOWN, Option, Plan

_log = logging.getLogger(__name__)
FALLBACK: Plan = (Option(EXPLORE),)
ATTEMPTS = 3  # questions to the model before the fallback plan (the original asks for ever, Q5)
REMINDER = "That was no plan. Answer with a list of actions in braces, as in the examples, and with nothing else."
_EXAMPLE = re.compile(r"((?:Q: \[|observation: \{).*?[\]}])(?:, |\n)(A: .*|action: .*?\}\.)")
_LONGEST_SHOWN = 1000  # characters of an illegal reply that the model gets to see again


@dataclass(frozen=True)
class Planner:
    """Asks a chat model for plans in one world; `sampling` says how the reply to the n-th draw is drawn."""

    world: str
    chat: ChatModel
    sampling: Callable[[int], Sampling] = lambda draw: Sampling()
    survives: bool = False
    """Takes the fallback where the model gave no usable answer, instead of ending the run."""
    examples: str = "system"
    """Place of the prompt's examples, as `Settings.examples`."""

    @cached_property
    def system_prompt(self) -> str:
        """Task description and examples, sent with every question (servers keep no state)."""
        name = "SimpleDoorKey" if self.world == "MovingObstacle" else self.world
        return read_text(f"prompts/mediator/{name}.txt")

    @cached_property
    def opening(self) -> Messages:
        """Messages before each question: the system prompt, or its task and each example as a question and a reply."""
        if self.examples == "system":
            return [{"role": "system", "content": self.system_prompt}]
        task = re.split(r"Example:|observation: \{|\nQ: \[", self.system_prompt)[0].strip()
        end = {"ColoredDoorKey": "", "KeyInBox": ", "}.get(self.world, " ")  # as `Translator` ends a question
        turns: Messages = [{"role": "system", "content": task}]
        for question, reply in _EXAMPLE.findall(self.system_prompt):
            turns += [{"role": "user", "content": question + end}, {"role": "assistant", "content": reply}]
        return turns

    def plan(self, text: str, coordinates: Coordinates, seed: int) -> tuple[str, Plan]:
        """(reply, plan) for an observation text; an illegal reply is asked again, then `FALLBACK` is taken.

        Asked again means drawn again; where replies are not drawn (temperature 0), the model reads what was wrong.
        """
        messages: Messages = [*self.opening, {"role": "user", "content": text}]
        reply = ""
        for attempt in range(ATTEMPTS):
            sampling = self.sampling(seed * ATTEMPTS + attempt)
            try:
                reply = self.chat.reply(messages, sampling)
            except Unanswered as error:
                if not self.survives:
                    raise
                _log.warning("%s; the plan is to explore", error)
                return "", FALLBACK
            plan = parse_plan(reply, self.world, coordinates)
            if plan is not None:
                return reply, plan
            if sampling.temperature == 0:
                shown = without_thoughts(reply)[:_LONGEST_SHOWN]
                again: Messages = [{"role": "assistant", "content": shown}]
                messages = [*messages, *again, {"role": "user", "content": f"{REMINDER}\n{text}"}]
        _log.warning("%s gave no plan in %d replies; the plan is to explore", self.chat.model, ATTEMPTS)
        return reply, FALLBACK


def planner_for(world: str, settings: Settings) -> Planner:
    """The planner of one world. Raises GroundlabError when a ledger, a model or a server is asked for and missing."""
    scripted = scripted_planner(world, settings.plans, settings.epsilon)
    ledger = ledger_of(settings.ledger)
    if settings.planner == "scripted":
        return replace(scripted, chat=Recording(scripted.chat, Ledger(ledger), "scripted")) if ledger else scripted
    if settings.planner == "recorded" and settings.chat.model is None:
        if ledger is None or not ledger.is_file():
            raise GroundlabError(f"planner=recorded needs a ledger file, not {settings.ledger!r}; give --ledger FILE")
        return replace(scripted, chat=Recorded(scripted.chat.model, Ledger(ledger)))
    chat = chat_model(settings.planner, settings.chat, ledger)
    survives = settings.chat.unanswered == "fallback"
    return Planner(world, chat, settings.chat.sampling, survives, settings.examples)


_ACTION_WORDS = (
    ("explore", EXPLORE),
    ("go to", GO_TO),
    ("pick up", PICK_UP),
    ("drop", DROP_OBJECT),
    ("toggle", TOGGLE_OBJECT),
)


def parse_plan(reply: str, world: str, coordinates: Coordinates) -> Plan | None:
    """The options of the first {...} group of a reply (docs/papers/mediator-method.md#s4-3); None when there is no
    group.

    An object that was never seen gives an option that the executor skips (the original crashes, Q6).
    """
    # what the pattern {(.*?)} finds first, in a time that grows with the reply's length, not with its square
    for line in without_thoughts(reply).split("\n"):
        _, opened, rest = line.partition("{")
        group, closed, _ = rest.partition("}")
        if opened and closed:
            return tuple(_parse_option(piece, world, coordinates) for piece in group.split(","))
    return None


def _parse_option(piece: str, world: str, coordinates: Coordinates) -> Option:
    action = next((code for word, code in _ACTION_WORDS if word in piece), UNKNOWN)
    kinds = ("key", "door", "box") if has_box(world) else ("key", "door")
    kind = next((word for word in kinds if word in piece), None)
    if kind is None:
        return Option(action)
    name = kind
    if world == "ColoredDoorKey":  # the last two words, letters only; a trailing or doubled space spoils them
        words = ["".join(filter(str.isalpha, word)) for word in piece.split(" ")]
        name = " ".join(words[-2:])
    if kind == "key" and has_box(world) and name not in coordinates:
        name = "box"  # the key is thought to be in it (Q20)
    if name not in coordinates:
        return Option(UNKNOWN, OBJECT_CODES[kind])
    return Option(action, OBJECT_CODES[kind], coordinates[name])


_TAKE_KEY = "go to the key, pick up the key"
_OPEN_DOOR = "go to the door, toggle the door"
_OPEN_BOX = "go to the box, toggle the box"
_KEY_THEN_DOOR = f"{_TAKE_KEY}, {_OPEN_DOOR}"
_KEY_THEN_EXPLORE = f"{_TAKE_KEY}, explore"
_BOX_KEY_DOOR = f"{_OPEN_BOX}, pick up key, go to door, toggle door"
_BOX_KEY_EXPLORE = f"{_OPEN_BOX}, pick up key, explore"
_TABLE = ("explore", _OPEN_DOOR, _KEY_THEN_DOOR, _KEY_THEN_EXPLORE, _TAKE_KEY)
_BOX_TABLE = (*_TABLE, _OPEN_BOX)
_COLOURED_TABLE = ("explore", "toggle door")


def _plain_plan(world: str, text: str, plans: str) -> str:
    """The plan for the three worlds without colours (docs/papers/mediator-method.md#s4-5; first-commit variants: 4.1,
    8.1)."""
    key, box, door = (f"observed a {name}" in text for name in ("key", "box", "door"))
    if "carry key" in text:
        return _OPEN_DOOR if door else "explore"
    if key and door:
        return _KEY_THEN_DOOR
    if key:
        stop_at_key = plans == "head" and (world == "KeyInBox" or (world == "RandomBoxKey" and not box))
        return _TAKE_KEY if stop_at_key else _KEY_THEN_EXPLORE
    if box and world == "KeyInBox" and plans == "first-commit":
        return _BOX_KEY_DOOR if door else _BOX_KEY_EXPLORE
    return _OPEN_BOX if box else "explore"


def _coloured_plan(text: str) -> str:
    """The plan groups for ColoredDoorKey (docs/papers/mediator-method.md#s4-5)."""
    door = re.search(r"observed (\w+) door", text)
    keys = re.findall(r"observed (\w+) key", text)
    carried = re.search(r"carry (\w+) key", text)
    fetch_first = f"{{go to {keys[0]} key, pick up {keys[0]} key}}{{explore}}" if keys and not carried else "{explore}"
    if door is None:
        return fetch_first
    colour = door[1]
    if carried and carried[1] == colour:
        return f"{{go to {colour} door, toggle {colour} door}}"
    if colour in keys:
        return f"{{go to {colour} key, pick up {colour} key}}"
    return fetch_first


@lru_cache(maxsize=4096)
def perfect_reply(world: str, text: str, plans: str = "head") -> str:
    """The reply of a planner that follows the prompt's examples without error."""
    if world == "ColoredDoorKey":
        return f"A: {_coloured_plan(text)}"
    return f"action: {{{_plain_plan(world, text, plans)}}}."


def _noisy_reply(world: str, text: str, plans: str, epsilon: float, seed: int) -> str:
    """With probability epsilon, one of three faults, equally likely: another plan, no `go to`, or no braces."""
    reply = perfect_reply(world, text, plans)
    rng = generator(seed, "planner noise")
    if rng.random() >= epsilon:
        return reply
    fault = rng.integers(3)
    if fault == 0:
        table = _COLOURED_TABLE if world == "ColoredDoorKey" else _BOX_TABLE if has_box(world) else _TABLE
        others = [plan for plan in table if f"{{{plan}}}" not in reply]
        return f"action: {{{others[rng.integers(len(others))]}}}."
    return re.sub(r"go to [^,}]*, ", "", reply) if fault == 1 else reply.translate({ord("{"): None, ord("}"): None})


def scripted_planner(world: str, plans: str = "head", epsilon: float = 0.0) -> Planner:
    """The planner that needs no LLM; `epsilon`: how often its reply is disturbed."""

    def rule(text: str, sampling: Sampling) -> str:
        if sampling.seed is None:
            return perfect_reply(world, text, plans)
        return _noisy_reply(world, text, plans, epsilon, sampling.seed)

    chat = Scripted(f"scripted-{plans}-{epsilon:g}", rule)
    return Planner(world, chat, partial(Sampling, 1.0)) if epsilon > 0 else Planner(world, chat)
