"""Whether the laboratory is installed beside the worlds; commands that need it say in one line how to install it.

`pip install groundlab` is the worlds; `pip install "groundlab[lab]"` adds what trains, judges and draws, and
`pip install "groundlab[slurm]"` what sends runs to a cluster, where an image trains.
"""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from groundlab.core import extras
from groundlab.core.errors import GroundlabError


def require(command: str) -> None:
    """Raises GroundlabError where the laboratory is not installed."""
    if not extras.has_laboratory():
        raise GroundlabError(f'{command} needs the laboratory; pip install "groundlab[lab]"')


def with_laboratory(command: Callable[..., None]) -> Callable[..., None]:
    """A command that says in one line what to install where the laboratory is missing; its options stay."""

    @wraps(command)
    def checked(*arguments: Any, **options: Any) -> None:
        require(f"groundlab {command.__name__}")
        logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it says in two lines that no home can be written
        command(*arguments, **options)

    return checked
