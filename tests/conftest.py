"""What tests share: facts recorded from the original systems, the command line, and one thread for each process."""

import json
import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

# Two processes with one thread each beat one with two. Before torch is imported by any test.
os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ})
for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # of a hook: tests would commit to its repository
    os.environ.pop(variable, None)

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def mediator_golden() -> dict:
    """Recorded by running LLM4RL (commit efaf4ee) unmodified; see tests/golden/README.md."""
    return json.loads((GOLDEN / "mediator.json").read_text())


@pytest.fixture(scope="session")
def forget_root() -> Callable[[], None]:
    """Forget what this process keeps of the repository's root: for tests with a root of their own, before and after."""
    from groundlab.core import git, paths
    from groundlab.lab import machine, run_folder, run_hash
    from groundlab.report import claims

    kept = (paths.find_root, git.facts, machine.facts, run_folder.rules, claims.load_claims, claims.headline)

    def forget() -> None:
        for cached in (*kept, run_hash.computing_versions):  # the last holds the root's pins
            cached.cache_clear()

    return forget


@pytest.fixture
def groundlab(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: groundlab("play", "SimpleDoorKey", keys="wa") -> (exit code, stdout, stderr).

    keys: what comes through a pipe. What options leave in the environment is put back.
    """
    from groundlab import cli
    from groundlab.language.chat import connection

    for name in (connection.ADDRESS, connection.PRICES, connection.BUDGET):
        monkeypatch.setenv(name, "")

    def call(*arguments: object, keys: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["groundlab", *map(str, arguments)])
        monkeypatch.setattr("sys.stdin", StringIO(keys))
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code or 0, captured.out, captured.err

    return call


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What lies in tests/integration is marked so; `-m "not integration and not slow"` leaves it out."""
    for item in items:
        if "integration" in item.path.parts:
            item.add_marker("integration")
