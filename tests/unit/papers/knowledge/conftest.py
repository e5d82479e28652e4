"""Facts of the background-knowledge paper's code, recorded by running it (tests/golden/README.md)."""

import pytest
from knowledge_data import data, episodes, golden, sandbox  # noqa: F401 - fixtures


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Pictures and vectors that others left are not found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
