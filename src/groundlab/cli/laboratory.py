"""Whether the laboratory is installed beside the worlds; commands that need it say in one line how to install it.

`pip install groundlab` is the worlds; `pip install "groundlab[lab]"` adds what trains, judges and draws, and
`pip install "groundlab[slurm]"` what sends runs to a cluster, where an image trains.
"""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any

from groundlab.core.errors import GroundlabError

_NEEDED = ("torch", "transformers", "pandas", "scipy", "papermill")  # of the extra `lab`, one of each kind
_TO_SUBMIT = ("submitit", "safetensors", "threadpoolctl")  # of the extra `slurm`


def is_installed() -> bool:
    """Whether the packages of the extra `lab` can be imported; none is loaded for it."""
    return all(find_spec(name) for name in _NEEDED)


def require(command: str) -> None:
    """Raises GroundlabError where the laboratory is not installed."""
    if not is_installed():
        raise GroundlabError(f'{command} needs the laboratory; pip install "groundlab[lab]"')


def require_to_submit(command: str) -> None:
    """Raises GroundlabError where not even what sends runs to a cluster is installed."""
    if not all(find_spec(name) for name in _TO_SUBMIT):
        raise GroundlabError(f'{command} --executor slurm needs submitit; pip install "groundlab[slurm]"')


def with_laboratory(command: Callable[..., None]) -> Callable[..., None]:
    """A command that says in one line what to install where the laboratory is missing; its options stay."""

    @wraps(command)
    def checked(*arguments: Any, **options: Any) -> None:
        require(f"groundlab {command.__name__}")
        command(*arguments, **options)

    return checked
