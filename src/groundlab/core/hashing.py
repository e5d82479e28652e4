"""Short content hashes: what a run is named by, and how broken files are recognised."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def digest_bytes(data: bytes) -> str:
    """SHA-256 of bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    """SHA-256 of the canonical JSON text of `value` (sorted keys, no spaces)."""
    return digest_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def digest_files(files: Iterable[Path], root: Path) -> str:
    """SHA-256 over the names (relative to `root`) and contents of `files`, whatever their order."""
    entries = sorted((file.relative_to(root).as_posix(), digest_bytes(file.read_bytes())) for file in files)
    return digest_json(entries)
