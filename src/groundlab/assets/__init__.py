"""Package data: prompts, and the language models that ship with the recipes that they were trained by.

    read_text("prompts/mediator/KeyInBox.txt")
    resolve_model("quick-t5-s0")        # the folder of its weights; any other name or folder stays as it is
    resolve_model("smollm2-135m-instruct")              # the same, once it is fetched (public.py)

Loads neither torch nor transformers, so that settings can name a model before either is needed.
"""

import difflib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from groundlab.assets.public import PUBLIC, folder_of
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, clip, unknown_name
from groundlab.core.paths import results_folder
from groundlab.core.yaml_files import read_yaml

CARD = "README.md"  # of a model: for people, read by no run
RECIPE = "recipe.json"  # written by our pretraining next to a model
ADAPTER = "adapter_config.json"  # in a folder that holds peft's adapters
_COUNTED = {".safetensors", ".bin", ".gguf", ".json", ".model", ".txt", ".jinja"}  # weights, config, tokenizer
MODELS = Path(__file__).parent / "models"
"""The folder of recipes (`quick-t5.yaml`) and shipped weights (`quick-t5-s0/`)."""
_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)?")


def read_text(name: str) -> str:
    """A text asset by its path inside this folder."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def resolve_model(model: str) -> str:
    """The folder of a model that ships, was fetched or pretrained by a run; any other name, folder or file as it is."""
    folder = folder_of(model) if model in PUBLIC else home_of(model) if recipe_of(model) else MODELS / model
    return str(folder) if (folder / "config.json").is_file() else model


def recipe_of(model: str) -> tuple[str, int] | None:
    """(recipe, seed) of a model of ours that does not ship; None for any other name, folder or file."""
    found = re.fullmatch(r"(.+)-s(0|[1-9][0-9]{0,8})", model)
    if not found or found[1] not in known_recipes() or (MODELS / model / "config.json").is_file():
        return None
    return None if Path(model).exists() else (found[1], int(found[2]))


def home_of(model: str) -> Path:
    """Return the folder of a model of ours that does not ship, once a run has needed it (language/pretraining.py)."""
    return results_folder() / ".models" / model


def unshipped(settings: dict[str, Any]) -> list[str]:
    """The models of ours that settings name, a teacher's among them, and that do not ship."""
    named = (each.get("model") for each in (settings, *settings.values()) if isinstance(each, dict))
    return [model for model in named if isinstance(model, str) and recipe_of(model)]


def model_files(model: str, role: str = "model") -> dict[str, Path | bytes | str]:
    """Return weights, config and tokenizer of a model by role: of one that ships, a folder, or a single (GGUF) file.

    Of a folder of adapters also the files of the model that they belong to (`ROLE/base/...`). Of a model of ours that
    does not ship the recipe alone, of a public model its pinned digest, whether they are on this machine or not. Empty
    for any other model that is known by name only.
    """
    if model in PUBLIC:
        return {role: PUBLIC[model].weights}
    if ours := recipe_of(model):
        recipe = {**read_recipe(ours[0]), "name": ours[0], "seed": ours[1]}
        return {f"{role}/{RECIPE}": json.dumps(recipe, sort_keys=True).encode()}
    place = Path(resolve_model(model))
    if not place.is_dir():
        return {role: place} if place.is_file() else {}
    names = (file for file in sorted(place.iterdir()) if file.suffix in _COUNTED and file.name != RECIPE)
    files: dict[str, Path | bytes | str] = {f"{role}/{file.name}": file for file in names if file.is_file()}
    base = adapted_model(place)
    return files | (model_files(base, f"{role}/base") if base and base != model else {})


def adapted_model(folder: Path) -> str | None:
    """The model that a folder's adapters belong to; None where there are none, or they do not name it."""
    facts = storage.read_json(folder / ADAPTER) if (folder / ADAPTER).is_file() else {}
    base = facts.get("base_model_name_or_path") if isinstance(facts, dict) else None
    return base if isinstance(base, str) else None


def needs_revision(model: str) -> bool:
    """True for a name on the hub: of a model that neither ships nor is a folder or file, and of none of our recipes."""
    return not model_files(model) and bool(_HUB_NAME.fullmatch(model))


def pretraining_facts(model: str) -> dict[str, Any]:
    """Return the facts that our pretraining wrote next to a model (`recipe.json`); empty for other models."""
    file = Path(resolve_model(model)) / RECIPE
    return storage.read_json(file) if model and file.is_file() else {}


def known_models() -> list[str]:
    """The names of the models that ship."""
    return sorted(file.parent.name for file in MODELS.glob("*/config.json"))


def absent_model(model: str, revision: str | None = None) -> GroundlabError:
    """The error for a model that is not on this machine: a public one, a slip in a name, or one of the hub's."""
    if model in PUBLIC:
        return GroundlabError(f"{model} is not on this machine; fetch it with: groundlab model fetch {model}")
    close = difflib.get_close_matches(model[:200], [*known_models(), *PUBLIC], n=1, cutoff=0.7)
    if close and "/" not in model:
        return GroundlabError(f"{clip(model)} is not on this machine; did you mean {close[0]}?")
    at = f" --revision {clip(revision)}" if revision else ""
    fetched = f"fetch it with: hf download {clip(model)}{at}"
    known = "give the name of a model, such as quick-t5-s0, or its folder"
    return GroundlabError(f"{clip(model)} is not on this machine; {fetched if _HUB_NAME.fullmatch(model) else known}")


def known_recipes() -> list[str]:
    """The names of the shipped recipes."""
    return sorted(file.stem for file in MODELS.glob("*.yaml"))


def read_recipe(name: str) -> dict[str, Any]:
    """The values that a recipe's file and those that it extends give. Raises GroundlabError for an unknown recipe."""
    if name not in known_recipes():
        raise unknown_name("recipe", name, known_recipes())
    values = read_yaml(MODELS / f"{name}.yaml")
    base = values.pop("extends", None)
    return (read_recipe(base) if base else {}) | values
