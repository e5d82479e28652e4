"""Facts recorded from the original code, packed (tests/golden/README.md)."""

import gzip
import json
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"


@cache
def facts(name: str) -> dict:
    """Return the recording of that name: facts("babyai_text")."""
    return json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))
