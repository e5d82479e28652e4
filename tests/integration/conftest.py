"""What several integration tests share."""

import importlib.util
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def sessions():
    """The noxfile as a module, once: nox takes each session's name once."""
    found = importlib.util.spec_from_file_location("noxfile", Path(__file__).parents[2] / "noxfile.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


class RecordingSession:
    """A session of nox that keeps the commands that it is given in `calls`, and runs those of git and the shell."""

    def __init__(self, *posargs: str):
        self.posargs, self.calls = posargs, []

    def run(self, *words: str, **_: object) -> str:
        self.calls.append(words)
        if words[0] not in ("git", "sh"):
            return ""
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def log(self, line: str) -> None:
        """Nothing is shown."""


@pytest.fixture(scope="session")
def recording_session() -> type[RecordingSession]:
    """A stand-in for nox.Session."""
    return RecordingSession


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A run folder of the asking policy, trained for two iterations on SimpleDoorKey."""
    from groundlab import lab
    from groundlab.papers import registry

    folder = tmp_path_factory.mktemp("runs") / "mediator"
    spec = registry.resolve("mediator", "SimpleDoorKey", 1, {"iterations": 2, "trajectories": 2, "layouts": "0-4"})
    lab.execute_run(spec, folder)
    return folder
