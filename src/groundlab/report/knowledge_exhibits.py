"""The exhibits of the knowledge agents: id, title, methods that are needed, methods shown beside, how it is drawn.

Called from: exhibits.py, which makes its entries of these lines. Read next: knowledge.py.
"""

from collections.abc import Callable

from matplotlib.figure import Figure

from groundlab.report import knowledge, knowledge_figures, knowledge_row, knowledge_shipped, knowledge_studies
from groundlab.report.records import Records
from groundlab.report.tables import Table

KNOWLEDGE: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], Callable[[Records], Table | Figure | None]], ...] = (
    (
        "knowledge-curves",
        "Success while agents learn, their rewards shaped by background knowledge",
        ("knowledge",),
        ("rnd",),
        knowledge_figures.curves,
    ),
    (
        "knowledge-improvement",
        "How much more is learnt than with φ = 0: area under the curve, and the chance of more",
        ("knowledge",),
        ("rnd",),
        knowledge_figures.improvement,
    ),
    (
        "knowledge-efficiency",
        "Sample efficiency of every arm against φ = 0",
        ("knowledge",),
        ("rnd",),
        knowledge.improvement_table,
    ),
    (
        "knowledge-final",
        "Success after training",
        ("knowledge",),
        ("rnd",),
        knowledge.final_table,
    ),
    (
        "knowledge-labels",
        "Sensitivity to wrong preference labels",
        ("knowledge",),
        (),
        knowledge_studies.label_errors,
    ),
    (
        "knowledge-quirks",
        "What each of the original's quirks does to learning",
        ("knowledge",),
        (),
        knowledge_studies.quirks_table,
    ),
    (
        "knowledge-worlds",
        "Other tasks and rooms",
        ("knowledge",),
        ("rnd",),
        knowledge_studies.worlds_table,
    ),
    (
        "knowledge-original-network",
        "The paper's room, network and batch, one seed: success while agents learn",
        (),
        (),
        knowledge_row.row_curves,
    ),
    (
        "knowledge-original-network-table",
        "The paper's room, network and batch, one seed: the numbers",
        (),
        (),
        knowledge_row.row_table,
    ),
    (
        "knowledge-coverage",
        "Where the agents of the dataset that ships have been",
        (),
        (),
        knowledge_shipped.coverage,
    ),
    (
        "knowledge-dataset",
        "The dataset that ships: what was played before any label",
        (),
        (),
        knowledge_shipped.dataset_table,
    ),
)
