"""The small models and data of the papers' unit tests, for agents, sandboxes and servers in processes of their own."""

import pytest
from knowledge_data import data, golden, sandbox  # noqa: F401 - fixtures
from tiny_models import write_t5


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory):
    """The folder of GLAM's tiny T5."""
    return write_t5(tmp_path_factory.mktemp("t5"))
