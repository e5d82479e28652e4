"""GLAM's agents as folders that transformers and this package read: the authors' checkpoints, and our runs.

    import_weights(Path("glam-mixed/seed_1"), Path("out/mixed-s1"))    # then: --set model=out/mixed-s1
    export_agent(Path("out/glam"), Path("out/glam/model"))             # of a run of `groundlab run glam`

A checkpoint is torch's state dict of Lamorel's module: the language model, and the heads that were tuned with it (of
cloned agents the language model alone). It holds neither configuration nor tokenizer; those are the base model's. The
file is read without running what a pickle may hold, every name and size in it is checked against the base model, and
its SHA-256 is kept in `released.json`. Source: docs/papers/glam-reference.md#released.
"""

import hashlib
import pickle
import secrets
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from groundlab.assets import absent_model, resolve_model
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, clip, first_line, names_in_line
from groundlab.core.run import load_checkpoint
from groundlab.core.storage import digest_bytes
from groundlab.papers.glam import ppo
from groundlab.papers.glam.policy import HEADS, RELEASED, VARIANTS
from groundlab.papers.glam.settings import ModelSettings

CHECKPOINT = "model.checkpoint"
_LANGUAGE_MODEL = "_LLM_model."
_HEADS = {
    "_module_functions.value.value_head_op.": "value_head.layers.",
    "_module_functions.policy_head.action_heads_op.": "action_head.layers.",
}
_BASES = {
    512: "google/flan-t5-small",
    768: "google/flan-t5-base",
    1024: "google/flan-t5-large",
    2048: "google/flan-t5-xl",
}
_SHARED, _VOCABULARY_HEAD = "shared.weight", "lm_head.weight"
_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
_PLAYED = ("temperature", "rule", "nbr_obs", "action_space", "action_list", "num_dists", "dtype")
"""Settings that an agent has to be played with, as it was trained."""
_UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"  # of old versions of T5


def import_weights(source: Path, out: Path, base: str | None = None) -> dict[str, Any]:
    """Write the agent of a checkpoint to the folder `out`; returns what `released.json` then says.

    source: a checkpoint, or a folder that holds one. base: a name or a folder; by default the Flan-T5 of that width.
    A folder `out` that already holds this very agent is left as it is. Raises GroundlabError for whatever is missing,
    damaged, of another model, or not a checkpoint of GLAM.
    """
    file = find_checkpoint(source)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    weights, heads = _parts(_read(file), file)
    base = base or _base_of(weights, file)
    facts = {"checkpoint": file.name, "bytes": file.stat().st_size, "sha256": digest, "base": base}
    facts |= {"heads": sorted({name.split(".")[0] for name in heads})}
    if _is_there(out, facts):
        return facts
    model = _build(weights, base, file)
    try:
        tokenizer = AutoTokenizer.from_pretrained(resolve_model(base), local_files_only=True)
    except (OSError, ValueError):
        raise absent_model(base) from None
    _write(out, model, tokenizer, heads, facts)
    return facts


def export_agent(run: Path, out: Path) -> dict[str, Any]:
    """Write the trained agent of a run of `glam` or a variant to the folder `out`; returns what `released.json` says:
    `plays` is the method that plays it, `settings` are what it has to be played with.

    Adapters are merged into the weights. A folder that already holds this very agent is left as it is. Raises
    GroundlabError for a folder without such a run, and for quantized weights.
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
    facts["settings"] = {name: spec.settings[name] for name in _PLAYED if spec.settings[name] != usual[name]}
    if _is_there(out, facts):
        return facts
    learner = ppo.PPOLearner(spec.model_copy(update={"settings": {**spec.settings, "device": "cpu"}}))
    learner.load_weights(checkpoint.files)
    scorer, recipe = learner.scorer.eval(), Path(learner.settings.model_path) / "recipe.json"
    model = scorer.model.merge_and_unload() if isinstance(scorer.model, PeftModel) else scorer.model
    parts = (("value_head", scorer.value_head), ("action_head", scorer.action_head))
    heads = {
        f"{name}.{key}": value.float().contiguous()
        for name, head in parts
        if head is not None
        for key, value in head.state_dict().items()
    }
    _write(out, model, scorer.tokenizer, heads, facts, [recipe] if recipe.is_file() else [])
    return facts


def _is_there(out: Path, facts: dict[str, Any]) -> bool:
    """Whether `out` holds this very agent. Raises GroundlabError where it holds something else."""
    if (out / RELEASED).is_file() and storage.read_json(out / RELEASED) == facts:
        return True
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise GroundlabError(f"{clip(str(out))} holds something else; choose another --out, or delete it")
    return False


def find_checkpoint(source: Path) -> Path:
    """The checkpoint of a folder: in it, or in the only one of its folders that has one."""
    if source.is_file():
        return source
    found = [source / CHECKPOINT] if (source / CHECKPOINT).is_file() else sorted(source.glob(f"*/{CHECKPOINT}"))
    if len(found) == 1:
        return found[0]
    if found:
        seeds = names_in_line(file.parent.name for file in found)
        raise GroundlabError(f"{clip(str(source))} holds several agents ({seeds}); give the folder of one of them")
    raise GroundlabError(f"{clip(str(source))} holds no {CHECKPOINT}; give the folder of one seed of a released agent")


def _read(file: Path) -> Mapping[str, Tensor]:
    """The tensors of a state dict by name, without the marks that distributed training puts before them."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of pickles that torch did not write; they are refused or read
            stored = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, OSError, EOFError, ValueError, KeyError, IndexError) as error:
        reason = clip(first_line(error), 160)
        raise GroundlabError(f"{clip(str(file))} is no whole checkpoint ({reason}); fetch it again") from None
    if not isinstance(stored, Mapping) or not all(isinstance(value, Tensor) for value in stored.values()):
        raise GroundlabError(f"{clip(str(file))} is no state dict; give the {CHECKPOINT} of a released agent")
    return {str(name).removeprefix("module."): value for name, value in stored.items()}


def _parts(stored: Mapping[str, Tensor], file: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(weights of the language model, weights of the heads), by the names that they have here."""
    if not any(name.startswith(_LANGUAGE_MODEL) for name in stored):
        return dict(stored), {}
    weights: dict[str, Tensor] = {}
    heads: dict[str, Tensor] = {}
    for name, value in stored.items():
        head = next((prefix for prefix in _HEADS if name.startswith(prefix)), None)
        if name.startswith(_LANGUAGE_MODEL):
            weights[name.removeprefix(_LANGUAGE_MODEL)] = value
        elif head:
            heads[_HEADS[head] + name.removeprefix(head)] = value.float().contiguous()
        else:
            raise GroundlabError(f"{clip(str(file))} holds {clip(name)}, which GLAM's agents have not; give another")
    _check_finite(heads, file)
    return weights, heads


def _base_of(weights: Mapping[str, Tensor], file: Path) -> str:
    shared = weights.get(_SHARED)
    base = _BASES.get(shared.shape[1]) if shared is not None and shared.dim() == 2 else None
    if base is None:
        raise GroundlabError(f"{clip(str(file))} is of no Flan-T5 that is known here; name its model with --base")
    return base


def _build(weights: dict[str, Tensor], base: str, file: Path) -> Any:
    """The base model with these weights. Raises GroundlabError unless names and sizes are the base model's."""
    try:
        config = AutoConfig.from_pretrained(resolve_model(base), local_files_only=True)
    except (OSError, ValueError):
        raise absent_model(base) from None
    shared, head = weights.get(_SHARED), weights.get(_VOCABULARY_HEAD)
    config.tie_word_embeddings = head is None or (shared is not None and torch.equal(head, shared))
    try:
        model = AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32)
    except ValueError:
        raise GroundlabError(f"{clip(base)} has no encoder and decoder, as GLAM's agents have; name another") from None
    expected = model.state_dict()
    weights = {name: value for name, value in weights.items() if name != _UNUSED}
    if shared is not None:
        weights |= {name: shared for name in (*_COPIES, _VOCABULARY_HEAD) if name not in weights and name in expected}
    _check_names(weights, expected, base, file)
    _check_finite(weights, file)
    model.load_state_dict(weights)
    return model


def _check_names(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], base: str, file: Path) -> None:
    for what, names in (("lacks", expected.keys() - weights.keys()), ("holds", weights.keys() - expected.keys())):
        if names:
            more = f" and {len(names) - 1} more names" if len(names) > 1 else ""
            raise GroundlabError(
                f"{clip(str(file))} {what} {clip(min(names))}{more}, unlike {clip(base)}; name its model with --base"
            )
    for name, value in expected.items():
        if weights[name].shape != value.shape:
            sizes = f"{list(weights[name].shape)}, not {list(value.shape)}"
            raise GroundlabError(
                f"{name} in {clip(str(file))} is {sizes} as in {clip(base)}; name its model with --base"
            )
    for name in _COPIES:
        if not torch.equal(weights.get(name, weights[_SHARED]), weights[_SHARED]):
            raise GroundlabError(f"{name} in {clip(str(file))} is not the shared embedding; fetch the checkpoint again")


def _check_finite(weights: Mapping[str, Tensor], file: Path) -> None:
    broken = [name for name, value in weights.items() if not torch.isfinite(value).all()]
    if broken:
        raise GroundlabError(f"{clip(broken[0])} in {clip(str(file))} is no number; fetch the checkpoint again")


def _write(
    out: Path,
    model: Any,
    tokenizer: Any,
    heads: dict[str, Tensor],
    facts: dict[str, Any],
    copies: Sequence[Path] = (),
) -> None:
    """The folder, whole or not at all. copies: files that go there as they are."""
    whole = storage.make_folder(out.with_name(f".{out.name}.{secrets.token_hex(8)}.tmp"))
    try:
        with storage.clear_disk_errors(out):
            model.save_pretrained(whole)
            tokenizer.save_pretrained(whole)
            if heads:
                save_file(heads, whole / HEADS)
            for file in copies:
                shutil.copy(file, whole / file.name)
            storage.write_json(whole / RELEASED, facts)
            whole.replace(out)
    finally:
        shutil.rmtree(whole, ignore_errors=True)
