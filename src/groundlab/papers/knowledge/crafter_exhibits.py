"""Crafter's tasks: how agents learn them, and which of the game's 22 achievements the trained ones reach."""

from itertools import groupby

from matplotlib.figure import Figure

from groundlab.papers.knowledge.arms import KnowledgeArm, knowledge_arms
from groundlab.papers.knowledge.figures import draw_panels
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.tables import Column, Table

TASKS = "Crafter-Text-"


def crafter_tasks(records: Records) -> dict[str, list[KnowledgeArm]]:
    """The arms in each of Crafter's tasks, phi = 0 first, by the task's name."""
    played = [arm for arm in knowledge_arms(records) if arm.world.startswith(TASKS)]
    played.sort(key=lambda arm: arm.world)
    return {world.removeprefix(TASKS): list(arms) for world, arms in groupby(played, lambda arm: arm.world)}


@exhibit("knowledge-crafter", "Success while agents learn Crafter's tasks", methods=("knowledge",))
def curves(records: Records) -> Figure | None:
    """Success while learning, a panel a task."""
    tasks = crafter_tasks(records)
    return draw_panels(tasks, "Crafter's text variant", [arm for arms in tasks.values() for arm in arms], 2.9, 3)


@exhibit("knowledge-achievements", "What trained agents achieve in Crafter", methods=("knowledge",))
def achievements(records: Records) -> Table | None:
    """Task by task: the share of test episodes with each achievement, arm by arm, without those that none reaches."""
    tasks = crafter_tasks(records)
    shares = {(task, arm.name): _shares(arm) for task, arms in tasks.items() for arm in arms}
    titles = {arm.name: arm.title for arms in tasks.values() for arm in arms}
    rows = [
        (task, name, {arm: shares[task, arm].get(name, 0.0) for arm in titles if (task, arm) in shares})
        for task, arms in tasks.items()
        for name in sorted(set().union(*(shares[task, arm.name] for arm in arms)))
    ]
    columns: list[Column[tuple[str, str, dict[str, float]]]] = [
        Column("task", lambda row: row[0]),
        Column("achievement", lambda row: row[1], lambda name: name.replace("_", " ")),
        *(Column(arm, lambda row, arm=arm: row[2].get(arm), "{:.0f} %", titles[arm]) for arm in titles),
    ]
    return Table.of(rows, columns, _NOTES) if rows else None


_NOTES = (
    "share of the test episodes in which it was achieved, drawn actions, all seeds together; an episode ends with its "
    "task, so what comes later has less time the better an agent is",
    "only the task itself is paid: the rest is what an agent does on the way, or by chance",
)


def _shares(arm: KnowledgeArm) -> dict[str, float]:
    """In percent, by achievement; those that it never reaches are left out."""
    drawn = arm.evaluations.loc[arm.evaluations["policy"] == "sampled", "achievements"]
    return (100 * drawn.explode().value_counts() / len(drawn)).to_dict()
