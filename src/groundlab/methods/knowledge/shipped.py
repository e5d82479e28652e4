"""The knowledge that ships, by name: the dataset it is about, ledgers of replies, labels.

    shipped.dataset()                     60 episodes of the pretraining world (assets/knowledge/README.md)
    shipped.ledger("goals")               replies written for this package, and reviewed

Figures that rest on the ledgers say `LABEL`: the replies are no sample of a named model. Called from: `labelling.py`.
"""

import json
from pathlib import Path

from groundlab import assets
from groundlab.methods.knowledge.dataset import Dataset
from groundlab.methods.pretraining import place_of

HOME = Path(assets.__file__).parent / "knowledge"
DATASET = HOME / "pretraining-s20"
AUTHOR = "hand-written"  # the model's name in the ledgers
LABEL = "hand-written knowledge"


def dataset() -> Dataset:
    """The dataset that ships."""
    return Dataset(DATASET)


def ledger(form: str) -> Path:
    """The file of replies to the prompts of a form, "code" or "goals"."""
    return HOME / f"{form}-ledger.jsonl"


def is_scorer(model: str | None) -> bool:
    """Whether a model reads and scores (a T5) instead of talking: such a one cannot be asked, but can judge."""
    file = Path(place_of(model or "")) / "config.json"
    return file.is_file() and bool(json.loads(file.read_text()).get("is_encoder_decoder"))
