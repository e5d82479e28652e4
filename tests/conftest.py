"""Facts recorded from the original systems, shared by all tests; and one thread for each process of a suite."""

import json
import os
from pathlib import Path

import pytest

# Two processes with one thread each beat one with two. Before torch is imported by any test.
os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ})

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def mediator_golden() -> dict:
    """Recorded by running LLM4RL (commit efaf4ee) unmodified; see tests/golden/README.md."""
    return json.loads((GOLDEN / "mediator.json").read_text())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What lies in tests/integration is marked so; `-m "not integration and not slow"` leaves it out."""
    for item in items:
        if "integration" in item.path.parts:
            item.add_marker("integration")
