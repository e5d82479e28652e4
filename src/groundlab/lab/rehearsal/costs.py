"""What rehearsals have measured, in `<results>/.rehearsal/costs.json`, by the same key as what finished runs took.

load(results)[run_folder.cost_key(spec)].estimate       # of a whole run; plans prefer it to their config's
"""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict
from groundlab.lab.config import Estimate


class Measured(Strict):
    """A row, rehearsed."""

    row: str
    """Paper, arm and world."""
    hash: str
    """Of the planned run, its code included: another code is rehearsed again."""
    size: dict[str, int]
    """How small it was (`rows.Size`)."""
    machine: str
    date: str
    estimate: Estimate
    """Of the whole run."""
    instead: str = ""
    """What was rehearsed in the place of something else."""
    figures: dict[str, Any]
    """seconds, flop and tokens of an update, peak_gb, expected_gb, what was extrapolated."""

    @property
    def counts(self) -> bool:
        """Whether plans may take it for the row: it was the row's own network, and nothing in its place."""
        return not self.instead and not self.size["toy"]

    @property
    def source(self) -> str:
        """`by rehearsal on AMD EPYC, 2026-11-24`."""
        return f"by rehearsal on {self.machine}, {self.date}"


def home(results: Path) -> Path:
    """Where rehearsals keep their scratch and what they measured."""
    return results / ".rehearsal"


def load(results: Path) -> dict[str, Measured]:
    """All rows that were rehearsed. Raises GroundlabError for a damaged file."""
    file = home(results) / "costs.json"
    if not file.is_file():
        return {}
    try:
        return {key: Measured.model_validate(row) for key, row in storage.read_json(file).items()}
    except (ValidationError, AttributeError):
        raise GroundlabError(f"{file} is not what a rehearsal writes; delete it") from None


def add(results: Path, key: str, row: Measured) -> None:
    rows = {**load(results), key: row}
    storage.write_json(home(results) / "costs.json", {name: each.model_dump() for name, each in rows.items()})
