"""Measure the speed of the hot paths on this machine: worlds, scoring of actions, updates of agents, large models.

    groundlab bench                      # all of it, a few minutes
    groundlab bench worlds --check       # exit code 1 if a speed-up that was kept is lost

Each rate is taken in the same run as the one that it is compared with: quote ratios, not absolute numbers.
"""

from importlib import import_module

from groundlab.bench.measurement import Measurement
from groundlab.core.errors import unknown_name

SUBJECTS = ("worlds", "scoring", "training", "models")


def bench(subject: str = "all") -> list[Measurement]:
    """Measure one subject, or all. Raises GroundlabError for an unknown one."""
    if subject not in (*SUBJECTS, "all"):
        raise unknown_name("benchmark", subject, (*SUBJECTS, "all"))
    chosen = SUBJECTS if subject == "all" else (subject,)
    return [each for name in chosen for each in import_module(f"groundlab.bench.{name}").measure()]
