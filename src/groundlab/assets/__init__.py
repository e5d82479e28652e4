"""Package data: prompts, and the language models that ship with the recipes that they were trained by.

    read_text("prompts/mediator/KeyInBox.txt")
    resolve_model("quick-t5-s0")        # the folder of its weights; any other name or folder stays as it is

Loads neither torch nor transformers, so that settings can name a model before either is needed.
"""

from importlib.resources import files
from pathlib import Path

MODELS = Path(__file__).parent / "models"
"""The folder of recipes (`quick-t5.yaml`) and shipped weights (`quick-t5-s0/`)."""


def read_text(name: str) -> str:
    """A text asset by its path inside this folder."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def resolve_model(model: str) -> str:
    """The folder of a model that ships; any other name or folder as it is."""
    folder = MODELS / model
    return str(folder) if (folder / "config.json").is_file() else model


def model_files(model: str) -> list[Path]:
    """The files of a model that ships or is a folder; none of one that is known by name only."""
    folder = Path(resolve_model(model))
    return sorted(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []


def known_recipes() -> list[str]:
    """The names of the shipped recipes."""
    return sorted(file.stem for file in MODELS.glob("*.yaml"))
