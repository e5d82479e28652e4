"""Seals: digests that show whether a finished record has changed since it was written.

    facts = sealed({**facts, "records": digests_of(folder)})     # when a run has finished
    damaged(folder, facts["records"])                            # {} or {"metrics.jsonl": "has changed ..."}

A file of facts (a manifest, the index of a checkpoint) holds the size and SHA-256 of the files it speaks for, and
`seal`, the SHA-256 of all else in it. One byte that flips, in either, is seen when it is next read. A seal is no
signature: whoever changes a record on purpose can seal it anew.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.storage import digest_bytes, digest_json

SEAL = "seal"
RECORDS = ("config.yaml", "metrics.jsonl", "evaluation.json")
"""What a finished run is judged by; a run without training steps may have no metrics."""
COMPARED = RECORDS[1:]
"""What two runs are compared by, byte for byte."""

Digests = dict[str, dict[str, Any]]
"""File name -> `{"bytes": size, "sha256": hexadecimal}`."""


def sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with a new `seal` as their last key."""
    rest = {key: value for key, value in facts.items() if key != SEAL}
    return {**rest, SEAL: _seal_of(rest)}


def seal_holds(facts: Mapping[str, Any]) -> bool:
    """Whether facts that were read are those that were sealed."""
    return facts.get(SEAL) == _seal_of({key: value for key, value in facts.items() if key != SEAL})


def _seal_of(rest: dict[str, Any]) -> str:
    return digest_json(json.loads(json.dumps(rest)))  # as they will be read back: keys are text, tuples lists


def digests_of(folder: Path) -> Digests:
    """Size and SHA-256 of those of the records that are there."""
    files = {name: folder / name for name in RECORDS if storage.stored(folder / name).is_file()}
    return {name: dict(zip(("bytes", "sha256"), _digest_of(file), strict=True)) for name, file in files.items()}


def damaged(folder: Path, digests: Digests | None) -> dict[str, str]:
    """What is wrong with the sealed files of a folder, by name: `{"metrics.jsonl": "is missing"}`; empty if whole."""
    if digests is None:
        return {"manifest.json": "has no seal"}
    found = {}
    for name in dict.fromkeys([*digests, *RECORDS]):
        file, expected = folder / name, digests.get(name)
        if expected is None:
            if storage.stored(file).exists():
                found[name] = "was not there when this was sealed"
        elif not storage.stored(file).is_file():
            found[name] = "is missing"
        elif _digest_of(file) != (expected["bytes"], expected["sha256"]):
            found[name] = "has changed since it was written"
    return found


def _digest_of(file: Path) -> tuple[int, str]:
    """Size and SHA-256 of a record, packed or not."""
    try:
        content = storage.read_bytes(file)
    except gzip.BadGzipFile:  # what was packed is no longer
        content = b""
    return len(content), digest_bytes(content)
