"""Where the original's potential-based shaping differs from the published formula, as options. Loads no torch.

`shaping.Shaper` implements them; `ORIGINAL` is all of them together.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Quirks:
    """Where the original's terms differ, by number in docs/papers/knowledge.md#s11; none of them is the default."""

    late: bool = False
    """Q2: step t is paid the term of step t - 1; the last term of an episode is not paid within it."""
    no_boundaries: bool = False
    """Q3: an episode's first potential follows the last one of the episode before; none counts as 0 at an end."""
    running_scale: bool = False
    """Q4: potentials are divided by a standard deviation that goes on changing."""
    carried_twice: bool = False
    """Q4: the potential carried over to the next rollout is divided and counted again. Needs the two above."""
    shared_clock: bool = False
    """Q5: all environments read the last one's step number (`papers/knowledge/observations.py`)."""


ORIGINAL = Quirks(late=True, no_boundaries=True, running_scale=True, carried_twice=True, shared_clock=True)
