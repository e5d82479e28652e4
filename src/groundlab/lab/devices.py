"""Whether this machine has the GPU that runs ask for: said in one line before any of them starts."""

from collections.abc import Iterable
from typing import Any

from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec


def needs_gpu(settings: dict[str, Any]) -> bool:
    """Whether a run with these settings asks for a GPU (`device: cuda`, `cuda:1`)."""
    return str(settings.get("device", "cpu")).startswith("cuda")


def check_devices(specs: Iterable[RunSpec]) -> None:
    """Raises GroundlabError where a run asks for a GPU and torch has none to offer."""
    asking = [spec for spec in specs if needs_gpu(spec.settings)]
    if not asking:
        return
    import torch  # plans are made without it

    if not torch.cuda.is_available():
        others = f" and {len(asking) - 1} other runs" if len(asking) > 1 else ""
        raise GroundlabError(
            f"{asking[0].label}{others} want device {asking[0].settings['device']}, and torch finds no GPU here; "
            "use a machine with one, another --scale, or for a single run --set device=cpu"
        )
