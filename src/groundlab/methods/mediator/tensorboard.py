"""TensorBoard events beside `metrics.jsonl`, under the original's tags (spec mediator 7).

Events hold clock readings, so they are for looking at only; nothing reads them back.
"""

from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

TAGS = {
    "test_return": "Test/Return",
    "test_game_return": "Test/Game Return",
    "test_steps": "Test/Mean Eplen",
    "test_interactions": "Test/Comm",
    "return": "Train/Return Mean",
    "return_std": "Train/Return Std",
    "game_return": "Train/Game Return Mean",
    "game_return_std": "Train/Game Return Std",
    "steps": "Train/Eplen",
    "success": "Train/Success Rate",
    "loss": "Train/Loss",
    "entropy": "Train/Mean Entropy",
}


class Events:
    """Writes the records of a run as scalars."""

    def __init__(self, folder: Path):
        self._writer = SummaryWriter(str(folder))

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def add(self, iteration: int, record: dict[str, Any]) -> None:
        """One scalar a tag that the record has a figure for."""
        for name, tag in TAGS.items():
            if name in record:
                self._writer.add_scalar(tag, record[name], iteration)
