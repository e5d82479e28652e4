"""Table of how often a recorded language model plans as the script does (tools/planner_replies.py records it)."""

import logging
from itertools import permutations, product

import numpy as np

from groundlab.papers.mediator import WORLDS
from groundlab.papers.mediator.planner import parse_plan, perfect_reply, planner_for
from groundlab.papers.mediator.search import Coordinates, Translator, has_box
from groundlab.papers.mediator.settings import LEDGERS, Settings
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.tables import Column, Table
from groundlab.worlds.codes import BOX, COLOURS, DOOR, KEY
from groundlab.worlds.view import NOT_HERE


def questions(world: str) -> dict[str, Coordinates]:
    """Return each text that a world can show the planner, with the places of what it names."""
    two = world == "ColoredDoorKey"  # keys, one of them of the door's colour
    colours = range(len(COLOURS)) if two else (0,)
    none_or_one, seen = ([each for n in range(most) for each in permutations(colours, n)] for most in (2, 2 + two))
    found = {}
    for keys, box, door, carried in product(seen, range(1 + has_box(world)), none_or_one, none_or_one):
        held = (*keys, *carried)
        unboxed = box and held and world == "KeyInBox"
        if len(set(held)) < len(held) or len({*held, *door}) > 2 or unboxed:
            continue
        objects = [(KEY, colour) for colour in keys] + [(BOX, 0)] * box + [(DOOR, colour) for colour in door]
        image = np.zeros((10, 10, 4), np.uint8)
        image[..., 3] = NOT_HERE
        for place, each in enumerate(objects):
            image[place, 0, :2] = each
        for colour in carried:
            image[9, 9] = KEY, colour, 0, 0
        translator = Translator(world)
        found[translator.describe(image)] = translator.coordinates
    return found


def plans(world: str, settings: Settings) -> list[tuple[bool, bool]]:
    """Return for each question whether a reply held a plan, and whether this was the script's."""
    planner, answers = planner_for(world, settings), []
    for text, coordinates in questions(world).items():
        reply, _ = planner.plan(text, coordinates, 0)
        plan, right = (parse_plan(each, world, coordinates) for each in (reply, perfect_reply(world, text)))
        answers.append((plan is not None, plan == right))
    return answers


@exhibit("mediator-planner", "A public model's plans against the script's", methods=("always",), beside=())
def table(records: Records) -> Table | None:
    """One row a world: questions, plans and right plans of a ledger that ships; None where none was used."""
    found = {}
    for world, settings in records.runs[["world", "settings"]].itertuples(index=False):
        recorded = world not in found and settings.get("planner") == "recorded"
        if recorded and (LEDGERS / f"{settings['ledger']}.jsonl").is_file():
            used = {name: settings[name] for name in ("planner", "chat", "ledger", "examples")}
            logging.disable(logging.WARNING)  # a question without a plan is counted here
            found[world] = plans(world, Settings(**used))
            logging.disable(logging.NOTSET)
    columns: list[Column[str]] = [
        Column("world", str),
        Column("questions", lambda world: len(found[world])),
        Column("plans", lambda world: sum(valid for valid, _ in found[world])),
        Column("right", lambda world: sum(right for _, right in found[world])),
    ]
    note = (
        "each text that a world can show, once, however often it comes up; right: the plan that the script has for it"
    )
    return Table.of(sorted(found, key=WORLDS.index), columns, (note,)) if found else None
