"""What a rehearsal puts in the place of what cannot be had: random weights of a published shape, and labels.

    replaced(settings, world, folder, toy=False)    # the settings, with folders in the place of names

A model is saved as `save_pretrained` leaves it, so that a run loads it as it would the published one. Its tokenizer is
ours, padded to the published number of words: texts of this world have somewhat fewer tokens than in the original's.
"""

import itertools
import shutil
import string
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from groundlab.assets import MODELS
from groundlab.core import storage
from groundlab.lab.rehearsal import rows

_OURS = {"t5": "quick-t5-s0", "bert": "quick-t5-s0"}
_DIALOGUE = "quick-llama-chat-s0"
_TOKENIZER = ("tokenizer_config.json", "chat_template.jinja")
_FILLERS = ("qz", 4)  # how made-up words begin, and how many letters follow


def replaced(settings: dict[str, Any], world: str, folder: Path, toy: bool = False) -> dict[str, Any]:
    """Settings that name folders: models of random weights for those of the hub, made-up labels for missing ones."""
    found = dict(settings)
    for name, value in settings.items():
        if isinstance(value, dict):
            found[name] = replaced(value, world, folder, toy)
        elif name in ("model", "encoder") and value in rows.models_of({name: value}):
            found[name] = str(random_model(value, folder / "models", toy))
    if "revision" in found and found["model"] != settings["model"]:
        found["revision"] = None
    if settings.get("source") and not Path(settings["source"]).exists():
        found["source"] = str(labels(settings["form"], world, folder / "labels"))
    return found


def random_model(name: str, folder: Path, toy: bool = False) -> Path:
    """A folder with a model of that architecture, its weights drawn at random; what is there already is kept."""
    home = folder / (name.replace("/", "--") + ("-toy" if toy else ""))
    if (home / "tokenizer.json").is_file():  # written last
        return home
    shutil.rmtree(home, ignore_errors=True)
    config = rows.configuration(name, toy)
    build(name, toy).save_pretrained(storage.make_folder(home))
    ours = MODELS / _OURS.get(config.model_type, _DIALOGUE)
    for file in (ours / each for each in _TOKENIZER):
        if file.is_file():
            shutil.copy(file, home / file.name)
    storage.write_json(home / "tokenizer.json", padded(storage.read_json(ours / "tokenizer.json"), config.vocab_size))
    return home


def build(name: str, toy: bool = False) -> Any:
    """A model of that architecture; its tables and matrices are drawn here, by all cores, as no other part is random.

    torch and transformers would each draw all of them once, by one core.
    """
    model = without_weights(name, toy).to_empty(device="cpu")
    model.tie_weights()  # what is one table there came out as two
    _untie(model, name)
    with ThreadPoolExecutor() as pool:
        list(pool.map(_draw, *zip(*model.named_parameters(), strict=True), itertools.count()))
    return model


def without_weights(name: str, toy: bool = False) -> Any:
    """The same on PyTorch's `meta` device, where weights have shapes and no numbers."""
    import torch
    from transformers import AutoModel, logging

    from groundlab.language.models import KINDS

    logging.disable_progress_bar()
    config = rows.configuration(name, toy)
    maker = AutoModel if config.model_type == "bert" else KINDS["seq2seq" if config.is_encoder_decoder else "causal"]
    with torch.device("meta"):
        model = maker.from_config(config, dtype=getattr(torch, rows.architectures()[name]["stored"]))
    _untie(model, name)
    return model


def _untie(model: Any, name: str) -> None:
    """transformers ties every T5 that it builds, and leaves untied one that it loads with two tables of words, such as
    Flan-T5; so such a one gets its second table here.
    """
    import torch

    if not rows.architectures()[name].get("tie_word_embeddings", True) and model.config.tie_word_embeddings:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))


def _draw(name: str, weights: Any, number: int) -> None:
    """In place: of norms ones, of biases zeros, of all others draws with a standard deviation of 0.02."""
    import torch

    with torch.no_grad():
        if weights.dim() == 1:
            weights.fill_(0.0 if name.endswith("bias") else 1.0)
        else:
            weights.normal_(std=0.02, generator=torch.Generator().manual_seed(number))


def padded(tokenizer: dict[str, Any], words: int) -> dict[str, Any]:
    """A stored tokenizer with made-up words up to that number; each is one token where a model writes it."""
    known = tokenizer["model"]["vocab"]
    beginning, letters = _FILLERS
    made_up = (beginning + "".join(each) for each in itertools.product(string.ascii_lowercase, repeat=letters))
    missing = itertools.islice((word for word in made_up if word not in known), max(0, words - len(known)))
    vocabulary = {**known, **{word: len(known) + number for number, word in enumerate(missing)}}
    return {**tokenizer, "model": {**tokenizer["model"], "vocab": vocabulary}}


def labels(form: str, world: str, folder: Path) -> Path:
    """Background knowledge of a form: for programs and goals the hand-written ones, else an untrained network."""
    from groundlab.papers.knowledge import bk_pref
    from groundlab.papers.knowledge.observations import adapter_for
    from groundlab.papers.knowledge.settings import HOME

    if form == "code":
        return HOME / "code" / "code-final.py"
    if form in ("goals", "ellm"):
        return HOME / "goals"
    adapter = adapter_for(world)
    home = folder / f"preferences-{'-'.join(map(str, adapter.shape))}"
    if not (home / "network.json").is_file():
        bk_pref.store(home, bk_pref.PreferenceTransformer(adapter.shape, len(adapter.actions)))
    return home
