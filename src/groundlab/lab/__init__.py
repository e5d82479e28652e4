"""The laboratory: from a config to finished runs in the store, and from those to a version of the results.

In a notebook:

    from groundlab import lab
    plan = lab.plan("mediator", scale="quick")     # printed: runs, time, disk
    lab.run(plan)                                  # idempotent: trains what is missing, continues what was started
    folder = lab.collect(plan)                     # the records that tables and figures are made from

Read in the order of a run: config.py (the YAML's schema), plan.py, executor.py, worker.py, store.py, reproduce.py.
"""

# ruff: noqa: E402 - the imports below load transformers, which warns about progress bars that nobody draws on a page
import warnings

warnings.filterwarnings("ignore", message="IProgress not found")

from groundlab.lab.executor import Outcome, run, run_one
from groundlab.lab.plan import Plan, plan
from groundlab.lab.reproduce import reproduce
from groundlab.lab.results import collect, publish
from groundlab.lab.worker import execute_run

__all__ = ["Outcome", "Plan", "collect", "execute_run", "plan", "publish", "reproduce", "run", "run_one"]
