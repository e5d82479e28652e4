"""Which of the package's extras are installed; nothing is loaded to know it."""

from importlib.util import find_spec

_LABORATORY = ("torch", "transformers", "pandas", "scipy", "papermill")  # of the extra `lab`, one of each kind
_TO_SUBMIT = ("submitit", "safetensors", "threadpoolctl")  # of the extra `slurm`


def has_laboratory() -> bool:
    """Whether this Python can train, judge and draw."""
    return all(find_spec(name) for name in _LABORATORY)


def can_submit() -> bool:
    """Whether this Python can send runs to a cluster, to be made in an image."""
    return all(find_spec(name) for name in _TO_SUBMIT)
