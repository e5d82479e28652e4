"""The largest seeds, layouts and repetitions that anything takes: more of them is a slip, answered in one line."""

LAST_SEED = 2**31 - 1
"""The largest seed of a run, and the last layout: 31 bits, which every library takes."""
TRAINING_LAYOUTS = (1_000_000, LAST_SEED + 1)
"""Reset seeds, from the first to before the second, that training begins with; those below are tests of some paper.

The mediator's begin earlier (papers/mediator/settings.py)."""
MOST_LAYOUTS = 100_000
"""Of one evaluation: twenty times what any paper takes."""
MOST_SEEDS = 100
"""Repetitions of a run."""
