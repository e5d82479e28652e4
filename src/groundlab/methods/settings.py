"""What the settings of all methods share: strictness, and the layouts on which they are tested.

Called from: every method's `Settings`.
"""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class Strict(BaseModel):
    """A schema that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def input_files(self) -> list[Path]:
        """The files that a run with these settings reads."""
        return []


def parse_layouts(text: str) -> list[int]:
    """The seeds of "0-99" or "7"; none for a range that runs backwards."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def _checked(text: str) -> str:
    if not re.fullmatch(r"\d+(-\d+)?", text) or not parse_layouts(text):
        raise ValueError("is no range: give first-last, as in 0-99, or one number")
    return text


Layouts = Annotated[str, AfterValidator(_checked)]
"""Test layouts, "first-last": the reset seeds of an evaluation."""
