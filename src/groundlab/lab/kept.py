"""Files that versions keep of a run besides its records: the weights and folders that its config's entry names.

`keep: [weights]` are the final weights, any other name is a folder of the run; only an entry's first run keeps any.
They lie in the run's folder of a version as they do in the store, so `--checkpoint` and `load_checkpoint` take it.
Large weights are kept in half precision, and without the value head, which no agent plays with. Files of a folder of at
most `KEPT_BYTES` are kept.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from groundlab.core import storage
from groundlab.core.manifests import MANIFEST
from groundlab.core.run import Files, load_checkpoint
from groundlab.lab.plan import PlannedRun
from groundlab.lab.progress import say

WEIGHTS = "weights"
FULL_PRECISION_BYTES = 500_000  # weights of at most this size are kept as they are
KEPT_BYTES = 1_000_000
"""A larger file of a kept folder stays in the store, such as a network of BK-Pref in the size of the paper."""
_VALUE_HEAD = "value_head."


def keep(run: PlannedRun, source: Path, target: Path) -> None:
    """Copy what is to be kept of a finished run from its folder in the store to `target`, with its manifest."""
    for name in run.keep:
        if name == WEIGHTS:
            _keep_weights(run.label, source, target)
        else:
            copy_files(source / name, target / name, KEPT_BYTES)
    if target.is_dir():
        storage.write_atomic(target / MANIFEST, (source / MANIFEST).read_bytes())


def copy_files(source: Path, target: Path, most: float = math.inf) -> None:
    """Copy a folder's files of at most so many bytes."""
    for file in sorted(path for path in source.rglob("*") if path.is_file() and path.stat().st_size <= most):
        storage.write_atomic(target / file.relative_to(source), file.read_bytes())


def _keep_weights(label: str, source: Path, target: Path) -> None:
    if not (source / "checkpoint").is_dir():
        say(f"{label}: its weights are not kept, since its records were taken from another version")
        return
    checkpoint = load_checkpoint(source)
    files: Files = {"network.safetensors": _small(checkpoint.files["network.safetensors"]), "facts.json": b"{}"}
    folder = Path("checkpoint") / str(checkpoint.step)
    index: dict[str, Any] = storage.read_json(source / folder / "checkpoint.json")
    index["files"] = {name: storage.digest_bytes(content) for name, content in files.items()}
    for name, content in files.items():
        storage.write_atomic(target / folder / name, content)
    storage.write_json(target / folder / "checkpoint.json", index)


def _small(network: bytes) -> bytes:
    """Weights as a version keeps them."""
    weights = {name: values for name, values in load(network).items() if not name.startswith(_VALUE_HEAD)}
    if sum(values.nbytes for values in weights.values()) <= FULL_PRECISION_BYTES:
        return network
    return save({name: values.astype(np.float16) for name, values in weights.items()})
