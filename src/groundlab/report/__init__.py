"""Tables, figures, claims and the review page, from stored results only: nothing here trains or imports a method.

In a notebook:

    from groundlab import report
    report.draw("mediator-table1", folder)       # writes the table, shows it
    report.judge(folder, "mediator")             # each claim of the paper against what was measured
    report.review(folder)                        # <folder>/review.html and claims.json

In the order of the data: records.py reads frames, arms.py groups runs, statistics.py makes intervals.
tables.py, curves.py and style.py draw, exhibits.py names what is drawn. claims.py and judging.py give verdicts,
review.py a page of them, front_page.py what README and docs show.
"""

from groundlab.report.exhibits import draw, draw_all, exhibits
from groundlab.report.front_page import publish
from groundlab.report.judging import judge
from groundlab.report.records import Records, load
from groundlab.report.review import Review, review

__all__ = ["Records", "Review", "draw", "draw_all", "exhibits", "judge", "load", "publish", "review"]
