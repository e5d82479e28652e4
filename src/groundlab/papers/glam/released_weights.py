"""GLAM's agents as folders that transformers and this package read: the authors' checkpoints, and our runs.

    import_weights(Path("glam-mixed/seed_1"), Path("out/mixed-s1"))    # then: --set model=out/mixed-s1
    export_agent(Path("out/glam"), Path("out/glam/model"))             # of a run of `groundlab run glam`

A checkpoint is torch's state dict of Lamorel's module: the language model, and the heads that were tuned with it (of
cloned agents the language model alone). It holds neither configuration nor tokenizer; those are the base model's.
Source: docs/papers/glam-reference.md#released.
"""

import hashlib
import pickle
import shutil
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from groundlab.assets import resolve_model
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, clip, first_line
from groundlab.core.run import load_checkpoint
from groundlab.core.storage import digest_bytes
from groundlab.language.models import clear_errors, place_of
from groundlab.papers.glam import ppo
from groundlab.papers.glam.policy import HEADS, RELEASED, VARIANTS
from groundlab.papers.glam.settings import ModelSettings

CHECKPOINT = "model.checkpoint"
_PREFIXES = {
    "_LLM_model.": "",
    "_module_functions.value.value_head_op.": "value_head.layers.",
    "_module_functions.policy_head.action_heads_op.": "action_head.layers.",
}
_HEADS = ("value_head.", "action_head.")
_BASES = {
    512: "google/flan-t5-small",
    768: "google/flan-t5-base",
    1024: "google/flan-t5-large",
    2048: "google/flan-t5-xl",
}
_SHARED, _VOCABULARY_HEAD = "shared.weight", "lm_head.weight"
_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", _VOCABULARY_HEAD)
_PLAYED = ("temperature", "rule", "move_blanks", "nbr_obs", "action_space", "action_list", "num_dists", "dtype")
"""Settings that an agent has to be played with, as it was trained."""
_UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"  # of old versions of T5


def import_weights(source: Path, out: Path, base: str | None = None) -> dict[str, Any]:
    """Write the agent of a checkpoint to the folder `out`; returns the content of its `released.json`.

    source: a checkpoint, or the folder that holds it. base: a name or a folder; by default the Flan-T5 of that width.
    A folder `out` that already holds this agent is left as it is. Raises GroundlabError for a file that is missing or
    damaged, and for weights of another model.
    """
    file = source / CHECKPOINT if source.is_dir() else source
    try:
        stored = torch.load(file, map_location="cpu", weights_only=True)
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        weights = {_renamed(name): value for name, value in stored.items()}
        if not all(torch.isfinite(value).all() for value in weights.values()):
            raise ValueError("a weight is not a finite number")
    except (OSError, EOFError, RuntimeError, ValueError, TypeError, AttributeError, pickle.UnpicklingError) as error:
        raise GroundlabError(f"{file} is not a whole checkpoint ({first_line(error)}); fetch it again") from None
    heads = {name: weights.pop(name).float().contiguous() for name in [*weights] if name.startswith(_HEADS)}
    base = base or (_BASES.get(weights[_SHARED].shape[-1]) if _SHARED in weights else None)
    if base is None:
        raise GroundlabError(f"{file} is not of a Flan-T5 that is known here; name its model with --base")
    facts = {"checkpoint": file.name, "bytes": file.stat().st_size, "sha256": digest, "base": base}
    facts |= {"heads": sorted({name.split(".")[0] for name in heads})}
    if not _is_there(out, facts):
        model = _build(weights, base, file)
        with clear_errors(base):
            tokenizer = AutoTokenizer.from_pretrained(**place_of(resolve_model(base)))
        _write(out, model, tokenizer, heads, facts)
    return facts


def export_agent(run: Path, out: Path) -> dict[str, Any]:
    """Write the trained agent of a run of `glam` or a variant to the folder `out`; returns its `released.json`.

    `plays` in it is the method that plays the agent, `settings` what it has to be played with. Adapters are merged into
    the weights. A folder that already holds this agent is left as it is. Raises GroundlabError for a folder without
    such a run, and for quantized weights.
    """
    checkpoint = load_checkpoint(run)
    spec = checkpoint.spec
    if spec.method not in VARIANTS:
        raise GroundlabError(f"{clip(str(run))} is a run of {spec.method}; give one of {', '.join(VARIANTS)}")
    if spec.settings["quantization"]:
        raise GroundlabError(f"{clip(str(run))} was tuned on quantized weights, which adapters cannot be merged with")
    facts = {"method": spec.method, "world": spec.world, "seed": spec.seed, "updates": checkpoint.step}
    model = spec.settings["model"]
    facts["base"] = Path(model).name if Path(model).exists() else model  # names no folder of this machine
    facts["sha256"] = digest_bytes(checkpoint.files["network.safetensors"])
    facts["plays"] = "aflan" if VARIANTS[spec.method].use_action_heads else "glam"
    usual = ModelSettings.model_validate({}).model_dump()
    given = usual | spec.settings  # a run of before a setting came does not name it
    facts["settings"] = {name: given[name] for name in _PLAYED if given[name] != usual[name]}
    if _is_there(out, facts):
        return facts
    learner = ppo.PPOLearner(spec.model_copy(update={"settings": {**spec.settings, "device": "cpu"}}))
    learner.load_weights(checkpoint.files)
    scorer, recipe = learner.scorer.eval(), Path(learner.settings.model_path) / "recipe.json"
    heads = {
        f"{name}.{key}": value.float().contiguous()
        for name, head in (("value_head", scorer.value_head), ("action_head", scorer.action_head))
        if head is not None
        for key, value in head.state_dict().items()
    }
    model = scorer.model.merge_and_unload() if isinstance(scorer.model, PeftModel) else scorer.model
    _write(out, model, scorer.tokenizer, heads, facts, recipe)
    return facts


def _renamed(name: str) -> str:
    """The name here of a weight in Lamorel's module, distributed or not; other names stay."""
    name = name.removeprefix("module.")
    for theirs, ours in _PREFIXES.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def _build(weights: dict[str, Tensor], base: str, file: Path) -> Any:
    """The base model with these weights. Raises GroundlabError unless names and sizes are the base model's."""
    with clear_errors(base):
        config = AutoConfig.from_pretrained(**place_of(resolve_model(base)))
    shared, head = weights.get(_SHARED), weights.get(_VOCABULARY_HEAD)
    config.tie_word_embeddings = head is None or (shared is not None and torch.equal(head, shared))
    try:
        model = AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
        copies = {name: shared for name in _COPIES if name in model.state_dict()}
        for name in _COPIES[:2]:
            if shared is not None and not torch.equal(weights.get(name, shared), shared):
                raise ValueError(f"{name} is not the shared embedding")
        model.load_state_dict({name: value for name, value in (copies | weights).items() if name != _UNUSED})
    except (RuntimeError, ValueError) as error:
        reason = clip(" ".join(str(error).split()), 300)
        raise GroundlabError(f"{file} does not fit {base} ({reason}); name its model with --base") from None
    return model


def _is_there(out: Path, facts: dict[str, Any]) -> bool:
    """Return True if `out` holds this agent. Raises GroundlabError where it holds something else."""
    if (out / RELEASED).is_file() and storage.read_json(out / RELEASED) == facts:
        return True
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise GroundlabError(f"{clip(str(out))} holds something else; choose another --out, or delete it")
    return False


def _write(
    out: Path, model: Any, tokenizer: Any, heads: dict[str, Tensor], facts: dict[str, Any], recipe: Path | None = None
) -> None:
    """Write the folder, whole or not at all. recipe: copied where there is one."""
    whole = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(whole, ignore_errors=True)  # of a command that was killed
    storage.make_folder(whole)
    with storage.clear_disk_errors(out):
        model.save_pretrained(whole)
        tokenizer.save_pretrained(whole)
        if heads:
            save_file(heads, whole / HEADS)
        if recipe and recipe.is_file():
            shutil.copy(recipe, whole / recipe.name)
        storage.write_json(whole / RELEASED, facts)
        whole.replace(out)
