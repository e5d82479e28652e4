"""What several tests of the whole house share."""

import importlib.util
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
