"""The exhibits of the reasoning agents: id, title, methods that are needed, methods shown beside, how it is drawn.

Called from: exhibits.py, which makes its entries of these lines. Read next: reasoning.py.
"""

from collections.abc import Callable

from matplotlib.figure import Figure

from groundlab.report import (
    reasoning_agents,
    reasoning_bias,
    reasoning_learning,
    reasoning_thoughts,
    reasoning_transcripts,
)
from groundlab.report.reasoning_studies import BUDGET, DISTRACTORS, ESTIMATORS, WINDOWS, Study, figure, table
from groundlab.report.records import Records
from groundlab.report.tables import Table

Drawing = Callable[[Records], Table | Figure | None]
_UNTUNED = ("reasoning-zero-shot", "direct-zero-shot")


def _figure(*studies: Study) -> Drawing:
    return lambda records: figure(records, *studies)


def _table(*studies: Study) -> Drawing:
    return lambda records: table(records, *studies)


REASONING: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], Drawing], ...] = (
    (
        "reasoning-curves",
        "True and displayed success while the two agents learn, and their invalid replies",
        ("direct",),
        ("reasoning", *_UNTUNED, "random"),
        reasoning_learning.curves,
    ),
    (
        "reasoning-agents",
        "Thinking or not, before and after training, beside the report's table",
        ("direct",),
        ("reasoning", *_UNTUNED, "random"),
        reasoning_agents.agents_table,
    ),
    (
        "reasoning-thoughts",
        "What becomes of the thoughts while the agent is tuned",
        ("reasoning",),
        (),
        reasoning_thoughts.figure,
    ),
    (
        "reasoning-collapse",
        "Do thoughts collapse? Run by run",
        ("reasoning",),
        (),
        reasoning_thoughts.collapse_table,
    ),
    (
        "reasoning-swaps",
        "What a thought tells and what it decides: success with thoughts left out and exchanged",
        ("reasoning",),
        ("reasoning-zero-shot",),
        reasoning_thoughts.swaps_table,
    ),
    (
        "reasoning-transcripts",
        "What is read and said, before and after training",
        ("direct",),
        ("reasoning", *_UNTUNED),
        reasoning_transcripts.transcripts,
    ),
    (
        "reasoning-length-bias",
        "The length bias: what counting only ended episodes displays, and what is true",
        ("direct",),
        ("reasoning", *_UNTUNED),
        reasoning_bias.length_bias,
    ),
    (
        "reasoning-distractors",
        "Learning among distractors (shape only)",
        ("direct",),
        ("reasoning", *_UNTUNED),
        _figure(DISTRACTORS),
    ),
    (
        "reasoning-distractors-table",
        "Distractors, beside the report's tables (shape only)",
        ("direct",),
        ("reasoning", *_UNTUNED),
        _table(DISTRACTORS),
    ),
    (
        "reasoning-estimators",
        "Estimators of credit, all else held fixed (shape only)",
        ("direct",),
        ("reasoning",),
        _figure(ESTIMATORS),
    ),
    (
        "reasoning-estimators-table",
        "Estimators of credit, all else held fixed: what they reach (shape only)",
        ("direct",),
        ("reasoning",),
        _table(ESTIMATORS),
    ),
    (
        "reasoning-limits",
        "The limit of new tokens and the context window (shape only)",
        ("direct",),
        ("reasoning",),
        _figure(BUDGET, WINDOWS),
    ),
    (
        "reasoning-limits-table",
        "The limit of new tokens and the context window: what is reached (shape only)",
        ("direct",),
        ("reasoning", *_UNTUNED),
        _table(BUDGET, WINDOWS),
    ),
)
