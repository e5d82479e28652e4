"""The small models and data of the papers' unit tests, for agents, sandboxes and servers in processes of their own."""

import knowledge_data
import pytest
from tiny_models import write_chat_llama, write_t5


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory):
    """The folder of GLAM's tiny T5."""
    return write_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="session")
def tiny_chat_llama(tmp_path_factory):
    """The folder of the Llama that converses."""
    return write_chat_llama(tmp_path_factory.mktemp("chat"))


@pytest.fixture(scope="session")
def golden():
    return knowledge_data.golden()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A dataset of two episodes, of views that a world can show."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return knowledge_data.write_data(tmp_path / "data")


@pytest.fixture(scope="session")
def fixed_replies():
    return knowledge_data.FixedReplies
