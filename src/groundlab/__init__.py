"""groundlab: a reproducible laboratory for four ways in which a language model helps an agent learn to act.

Floors, from the ground up: `core` (seeds, files, runs), `worlds`, `language` and `learning` (side by side),
`methods` (one readable file an agent), `lab` (plans and runs them), `report` (reads stored results only), `cli`.
"""

__version__ = "1.0.0"
