"""Ask a local model each question that the mediator's worlds can pose, once, as the rows of `full` have it:

    python tools/planner_replies.py smollm2-135m-instruct SimpleDoorKey KeyInBox RandomBoxKey ColoredDoorKey

The same call continues: a question in the ledgers of src/groundlab/assets/mediator is not asked again.
"""

import sys

from groundlab.papers.mediator.planner import planner_for
from groundlab.papers.mediator.public_planner import questions
from groundlab.papers.mediator.settings import LEDGERS, Settings

model, *worlds = sys.argv[1:]
for world in worlds:
    ledger = LEDGERS / f"{model}{'-colored' if world == 'ColoredDoorKey' else ''}.jsonl"
    asked = {"planner": "local", "chat": {"model": model}, "ledger": str(ledger), "examples": "turns"}
    settings = Settings(**asked)
    planner, texts = planner_for(world, settings), questions(world)
    for number, (text, coordinates) in enumerate(texts.items(), start=1):
        print(f"{world} {number}/{len(texts)} {text} -> {planner.plan(text, coordinates, 0)[0]}", flush=True)
