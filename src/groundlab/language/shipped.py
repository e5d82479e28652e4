"""The models that ship: where they are, and which files a name stands for. Loads no torch, so that plans are quick."""

from pathlib import Path

from groundlab import assets

MODELS = Path(assets.__file__).parent / "models"
"""Where recipes (`quick-t5.yaml`) and shipped weights (`quick-t5-s0/`) are."""


def resolve_model(model: str) -> str:
    """The folder of a model that ships, or the name as given."""
    shipped = MODELS / model
    return str(shipped) if (shipped / "config.json").is_file() else model


def model_files(model: str) -> list[Path]:
    """The files of a model that ships or is a folder; none of one that is known by name only."""
    folder = Path(resolve_model(model))
    return sorted(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []
