"""Tables, figures, claims and the review page, from stored results only: nothing here trains or imports a method.

In a notebook:

    from groundlab import report
    report.show("mediator-table1", folder)       # a table or figure of a version
    report.review(folder)                        # judges every claim: <folder>/claims.json, and review.html of it
    report.verdicts(folder, "mediator")          # the claims of the paper with what was measured, from claims.json

In the order of the data: records.py reads frames, arms.py groups runs, statistics.py makes intervals.
tables.py, curves.py and style.py draw, exhibits.py names what is drawn. claims.py and judging.py give verdicts, which
claims.json holds; review.py makes a page of it, front_page.py what README and docs show.
"""

from groundlab.report.exhibits import draw, draw_all, exhibits, show
from groundlab.report.front_page import publish
from groundlab.report.judging import judge
from groundlab.report.records import Records, load
from groundlab.report.review import Review, review
from groundlab.report.verdicts import verdicts

__all__ = [
    "Records",
    "Review",
    "draw",
    "draw_all",
    "exhibits",
    "judge",
    "load",
    "publish",
    "review",
    "show",
    "verdicts",
]
