"""The small dataset of the papers' unit tests."""

from knowledge_data import data  # noqa: F401 - a fixture
