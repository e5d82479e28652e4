"""groundlab: a reproducible laboratory for four ways in which a language model helps an agent learn to act.

Floors, from the ground up: `core` (seeds, files, runs), `learning`, then `worlds`, `language` and `report` side by side
(`report` reads stored results only), `papers` (one readable file an agent), `lab` (plans and runs them), `pages` (what
notebooks show) beside `bench` (speed), and `cli`.
"""

from groundlab.core import numerics

__version__ = "1.1.0"

numerics.hold()  # before anything of groundlab loads torch or numpy
