"""Tables, figures, claims and the review page, from stored results only: nothing here trains or imports a method.

In a notebook:

    from groundlab import report
    report.draw("mediator-table1", folder)       # writes the table, shows it
    report.judge(folder, "mediator")             # each claim of the paper against what was measured
    report.review(folder)                        # <folder>/review.html and claims.json

What is stored becomes frames (records.py), groups of runs (arms.py), intervals (statistics.py), tables and figures
(tables.py, curves.py, style.py, exhibits.py), verdicts (claims.py, judging.py), a page (review.py) and the front page
(front_page.py).
"""

from groundlab.report.exhibits import draw, draw_all, exhibits
from groundlab.report.front_page import publish
from groundlab.report.judging import judge
from groundlab.report.records import Records, load
from groundlab.report.review import Review, review

__all__ = ["Records", "Review", "draw", "draw_all", "exhibits", "judge", "load", "publish", "review"]
