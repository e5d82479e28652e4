"""On a GPU, prompts are read in few large batches, at the price of padding.

    with on(device): ...        # of a run, or of an `ActionScorer` that is made and used inside

Prompts are cut into batches by what one more pass costs, in tokens. The constants of the modules that cut are a CPU's,
to which a pass costs next to nothing. On a GPU it costs the start of a thousand operations, in which hundreds to
thousands of tokens could be read. They are replaced from here, because the text of those modules is part of every
run's name.
"""

from collections.abc import Iterator
from contextlib import contextmanager

PASS = 8192.0
"""Tokens. On an H200 any value from 512 on cut prompts of 97 to 154 tokens alike; unlike lengths were not tried."""


@contextmanager
def on(device: str) -> Iterator[None]:
    """Inside, what is built for a GPU cuts its batches for one; for a CPU nothing changes."""
    if device.partition(":")[0] == "cpu":
        yield
        return
    from groundlab.language import generation, scoring, token_policy  # with transformers: no worker of small networks

    before = scoring.OVERHEAD, token_policy._OVERHEAD, generation._OVERHEAD
    scoring.OVERHEAD = token_policy._OVERHEAD = (0.0, PASS)
    generation._OVERHEAD = PASS
    try:
        yield
    finally:
        scoring.OVERHEAD, token_policy._OVERHEAD, generation._OVERHEAD = before
