"""Package data: prompts, one text file each. `read_text("prompts/mediator/KeyInBox.txt")` gives one."""

from importlib.resources import files


def read_text(name: str) -> str:
    """A text asset by its path inside this folder."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
