"""The laboratory: from a config to finished runs in the store, and from those to a version of the results.

In a notebook:

    from groundlab import lab
    print(lab.plan("mediator", scale="quick"))                      # runs, CPU time, disk
    folder = lab.version("mediator", "quick")                       # the published version
    folder = lab.version("mediator", "quick", source="fresh")       # one of this machine: trains what is missing
    agent = lab.load_agent("mediator", folder)                      # the trained agent that versions keep

A plan is made without torch; what executes runs is imported when it is first used.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from groundlab.lab.page_records import load_agent, published, version
from groundlab.lab.plan import Outcome, Plan, plan
from groundlab.lab.reproduce import reproduce, reproduce_claims
from groundlab.lab.versions import publish

if TYPE_CHECKING:
    from groundlab.lab.executor import run, run_one
    from groundlab.lab.worker import execute_run

__all__ = [
    "Outcome",
    "Plan",
    "execute_run",
    "load_agent",
    "plan",
    "publish",
    "published",
    "reproduce",
    "reproduce_claims",
    "run",
    "run_one",
    "version",
]

warnings.filterwarnings("ignore", message="IProgress not found")  # transformers' word on bars that nobody draws


def __getattr__(name: str) -> Any:
    """What executes runs, when it is first used: it loads torch."""
    home = {"run": "executor", "run_one": "executor", "execute_run": "worker"}.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
