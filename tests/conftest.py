"""Facts recorded from the original systems, shared by all tests."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def mediator_golden() -> dict:
    """Recorded by running LLM4RL (commit efaf4ee) unmodified; see tests/golden/README.md."""
    return json.loads((GOLDEN / "mediator.json").read_text())
