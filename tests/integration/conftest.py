"""What several integration tests share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A run folder of the asking policy, trained for two iterations on SimpleDoorKey."""
    from groundlab import lab
    from groundlab.papers import registry

    folder = tmp_path_factory.mktemp("runs") / "mediator"
    spec = registry.resolve("mediator", "SimpleDoorKey", 1, {"iterations": 2, "trajectories": 2, "layouts": "0-4"})
    lab.execute_run(spec, folder)
    return folder
