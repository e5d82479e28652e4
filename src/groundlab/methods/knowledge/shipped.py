"""The knowledge that ships, by name: the datasets it is about, ledgers of replies, labels.

    shipped.dataset()                     60 episodes of the pretraining world (assets/knowledge/README.md)
    shipped.dataset("crafter-reward")     60 lives in Crafter
    shipped.ledger("goals")               replies written for this package, and reviewed

Figures that rest on the ledgers say `LABEL`: the replies are no sample of a named model. Called from: `labelling.py`.
"""

import json
from pathlib import Path

from groundlab import assets
from groundlab.methods.knowledge.dataset import Dataset
from groundlab.methods.pretraining import place_of

HOME = Path(assets.__file__).parent / "knowledge"
DATASETS = ("pretraining-s20", "crafter-reward")
DATASET = HOME / DATASETS[0]
AUTHOR = "hand-written"  # the model's name in the ledgers
LABEL = "hand-written knowledge"


def folder_of(name: str | Path | None) -> Path:
    """Where a dataset lies: one that ships, by its name; another by its folder; without either, the one of grids."""
    if name is None:
        return DATASET
    return HOME / name if str(name) in DATASETS else Path(name)


def dataset(name: str | Path | None = None) -> Dataset:
    """A dataset that ships, or another by its folder. Raises GroundlabError when there is none or it is broken."""
    return Dataset(folder_of(name))


def ledger(form: str, about: str | Path | None = None) -> Path:
    """The file of replies to the prompts of a form, "code" or "goals", about a dataset (as in `folder_of`)."""
    crafter = folder_of(about) == HOME / "crafter-reward"
    return HOME / (f"crafter-{form}-ledger.jsonl" if crafter else f"{form}-ledger.jsonl")


def is_scorer(model: str | None) -> bool:
    """Whether a model reads and scores (a T5) instead of talking: such a one cannot be asked, but can judge."""
    file = Path(place_of(model or "")) / "config.json"
    return file.is_file() and bool(json.loads(file.read_text()).get("is_encoder_decoder"))
