"""Language models by name: `load("google/flan-t5-small") -> (model, tokenizer)`, from this machine's disk only.

    model, tokenizer = load("path/of/a/saved/model")
    model, tokenizer = load("smollm2-135m-instruct")     # a public model, after `groundlab model fetch`
    model, tokenizer = load("path/of/a/model.gguf")      # its blocks are unpacked: 4 bits become float32
    model, tokenizer = load("google/flan-t5-large", revision="0613663", lora=Lora(rank=16, alpha=32))
    model, tokenizer = load("google/flan-t5-large", weights="random", seed=3)  # GLAM's NPA; "embeddings": NPAE, NPE

Nothing is fetched: a model that is not here gives the command that fetches it. Models come in eval mode, tokenizers
with a padding token, and on the left for causal models, so that both generate. All that is drawn at random
(adapters, fresh weights) is drawn from the seed.
"""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, BitsAndBytesConfig
from transformers.integrations.gguf.reader import read_gguf_metadata

from groundlab.assets import ADAPTER, absent_model, adapted_model, resolve_model
from groundlab.core.errors import GroundlabError, clip, first_line, unknown_name
from groundlab.learning.checkpoints import seeded_construction
from groundlab.learning.devices import check_device

_log = logging.getLogger(__name__)
KINDS = {"seq2seq": AutoModelForSeq2SeqLM, "causal": AutoModelForCausalLM}
WEIGHTS = ("pretrained", "embeddings", "random")
DTYPES = ("float32", "bfloat16", "float16")
_TOKENIZER_FILES = {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt"}
_TOKENIZER_FILES |= {"sentencepiece.bpe.model", "source.spm"}
_SILENT = re.compile("MaskedLM|PreTraining|Classification|Answering")  # architectures that write no text


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters of the query and value projections (peft's choice for T5 and Llama)."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    layers: int = 0
    """Only of a causal model's last layers, so many; 0: of all."""


def load(
    name_or_path: str | Path,
    revision: str | None = None,
    kind: str = "auto",
    *,
    dtype: str = "float32",
    device: str = "cpu",
    weights: str = "pretrained",
    lora: Lora | None = None,
    quantization: str | None = None,
    gradient_checkpointing: bool = False,
    seed: int = 0,
) -> tuple[Any, Any]:
    """The model, in eval mode, and its tokenizer.

    kind: "seq2seq", "causal", or "auto" (what its configuration says). weights: "pretrained"; "random", the same
    architecture with fresh weights; "embeddings", fresh but for the token embeddings
    (docs/papers/glam-method.md#agents-1-4).
    quantization: "4bit" (NF4, double, computing in bfloat16; needs bitsandbytes and a GPU) or None.
    gradient_checkpointing trades a second forward pass for memory; it also sets every dropout to 0.
    Raises GroundlabError when the model is not on this machine, is damaged, or cannot be had in this way.
    """
    _check_names(kind, dtype, weights, quantization)
    check_device(device)
    name_or_path = resolve_model(str(name_or_path))
    if device.startswith("cpu"):
        _warn_where_slow(dtype)
    with clear_errors(name_or_path, revision), seeded_construction(seed, "language model"):
        config = AutoConfig.from_pretrained(**(place := place_of(name_or_path, revision)))
        if gradient_checkpointing:
            _drop_nothing(config)
        tokenizer = _tokenizer(place)
        found = "seq2seq" if config.is_encoder_decoder else "causal"
        if kind not in ("auto", found):
            raise GroundlabError(f"{name_or_path} is a {found} model, not {kind}; give kind={found}")
        if silent := found == "causal" and [each for each in config.architectures or () if _SILENT.search(each)]:
            raise GroundlabError(
                f"{clip(str(name_or_path))} is a {silent[0]}, which writes no text; name another model"
            )
        model = _build(KINDS[found], config, place, getattr(torch, dtype), weights, quantization)
    if quantization is None:
        _move(model, device)
    else:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if gradient_checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    if lora is not None:
        model = add_lora(model, lora, seed)
    tokenizer.padding_side = "right" if config.is_encoder_decoder else "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.eval(), tokenizer


def _move(model: Any, device: str) -> None:
    try:
        model.to(device)
    except (RuntimeError, AssertionError) as error:
        reason = clip(first_line(error), 160)
        raise GroundlabError(f"cannot use the device {clip(device)!r} ({reason}); give device=cpu") from None


def add_lora(model: Any, lora: Lora, seed: int) -> Any:
    """The model with adapters as its only trainable weights, drawn from the seed; `get_base_model()` gives it back."""
    task = "SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM"
    sizes: dict[str, Any] = {"r": lora.rank, "lora_alpha": lora.alpha, "lora_dropout": lora.dropout}
    if lora.layers:
        count = layer_count(model)
        if model.config.is_encoder_decoder or lora.layers > count:
            raise GroundlabError(
                f"expected a causal model of at least {lora.layers} layers, got {task} of {count}; give lora_layers=0"
            )
        sizes["layers_to_transform"] = [*range(count - lora.layers, count)]
    config = LoraConfig(**sizes, bias="none", task_type=task)
    with seeded_construction(seed, "lora"):
        try:
            return get_peft_model(model, config)
        except ValueError as error:
            raise GroundlabError(
                f"LoRA knows no layers of this model ({first_line(error)}); give lora_rank=0"
            ) from None


def layer_count(model: Any) -> int:
    """Return the number of layers of a model, or of its decoder."""
    return model.config.get_text_config(decoder=True).num_hidden_layers


def base_of(model: Any) -> Any:
    """The Hugging Face model, without the wrapper that adapters put around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _check_names(kind: str, dtype: str, weights: str, quantization: str | None) -> None:
    if kind not in ("auto", *KINDS):
        raise unknown_name("kind of model", kind, ("auto", *KINDS))
    if dtype not in DTYPES:
        raise unknown_name("dtype", dtype, DTYPES)
    if weights not in WEIGHTS:
        raise unknown_name("weights", weights, WEIGHTS)
    if quantization not in (None, "4bit"):
        raise unknown_name("quantization", str(quantization), ("4bit",))
    if quantization and weights != "pretrained":
        raise GroundlabError("4-bit weights are pretrained ones; give weights=pretrained or no quantization")
    if quantization and (find_spec("bitsandbytes") is None or not torch.cuda.is_available()):
        raise GroundlabError("4-bit weights need a GPU and bitsandbytes (pip install bitsandbytes)")


@cache
def _warn_where_slow(dtype: str) -> None:
    """Warn, once a process, of a dtype that this CPU has no instructions for, or may not use."""
    short = {"bfloat16": "bf16", "float16": "fp16"}.get(dtype)
    if short and not getattr(torch.ops.mkldnn, f"_is_mkldnn_{short}_supported", bool)():
        reason = "libraries are held to AVX2; give dtype=float32, or set ONEDNN_MAX_CPU_ISA=ALL if the CPU has more"
        _log.warning("%s can take ten times as long as float32 on this CPU: %s", dtype, reason)


def place_of(name: str | Path, revision: str | None = None) -> dict[str, Any]:
    """Return the arguments of `from_pretrained`, none of which runs code. Raises errors that `clear_errors` clears."""
    where = {"revision": revision, "local_files_only": True, "trust_remote_code": False}
    if os.path.isfile(name) and str(name).endswith(".gguf"):  # noqa: PTH113 - no name raises
        if find_spec("gguf") is None:
            raise GroundlabError(f"{clip(str(name))} is read by the package gguf; pip install gguf")
        return {"pretrained_model_name_or_path": str(Path(name).parent), "gguf_file": Path(name).name, **where}
    files = {*os.listdir(name)} if os.path.isdir(name) else _TOKENIZER_FILES  # noqa: PTH112, PTH208 - no name raises
    if ADAPTER in files and not any(file.startswith(("model", "pytorch_model")) for file in files):
        base, way = adapted_model(Path(name)) or "an unnamed model", "merge_and_unload() and save_pretrained()"
        fix = f"merge them by peft's {way}, or play them by a method of the reasoning paper"
        raise GroundlabError(f"expected a whole model, got adapters of {clip(base)} in {clip(str(name))}; {fix}")
    if not files & _TOKENIZER_FILES:
        raise ValueError("no tokenizer.json")  # transformers would make one up
    return {"pretrained_model_name_or_path": str(name), **where}


def _tokenizer(place: dict[str, Any]) -> Any:
    """Return the tokenizer; of SmolLM's GGUF files, single digits are words, which transformers does not know."""
    tokenizer = AutoTokenizer.from_pretrained(**place)
    if "gguf_file" in place:
        metadata, _ = read_gguf_metadata(os.path.join(place["pretrained_model_name_or_path"], place["gguf_file"]))  # noqa: PTH118
        if metadata.get("tokenizer.ggml.pre") == "smollm":
            words = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
            tokenizer.backend_tokenizer.pre_tokenizer = Sequence(words)
    return tokenizer


@contextmanager
def clear_errors(name: str | Path, revision: str | None = None) -> Iterator[None]:
    """Turn what the libraries raise for missing, damaged and foreign files into one line."""
    transformers.logging.disable_progress_bar()
    try:
        yield
    except GroundlabError:
        raise
    except Exception as error:  # they trip over damaged files in ways of their own
        code, reason, fix = "custom code" in str(error), clip(first_line(error), 160), "save or copy it again"
        if not code and not os.path.exists(name):  # noqa: PTH110 - also of a name that no file can have
            raise absent_model(str(name), revision) from None
        if code:
            reason, fix = "its own Python code is not run", "choose a model that transformers knows"
        raise GroundlabError(f"{clip(str(name))} does not hold a whole model ({reason}); {fix}") from None


def _build(maker: Any, config: Any, place: dict[str, Any], dtype: torch.dtype, weights: str, quantization: str | None):
    if weights == "random":
        return maker.from_config(config, dtype=dtype, trust_remote_code=False)
    four_bit = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    # no progress bar of GGUF files, which no setting of transformers leaves out
    with patch("transformers.modeling_gguf_pytorch_utils.tqdm", lambda tensors, **_: tensors):
        model, report = maker.from_pretrained(
            **place,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            **({"quantization_config": four_bit} if quantization else {}),
        )
    if report["missing_keys"]:  # transformers would fill them at random
        raise ValueError(f"{len(report['missing_keys'])} weights are missing, e.g. {min(report['missing_keys'])}")
    if "gguf_file" in place:  # marked as quantized, such a model is neither saved nor tuned
        plain = maker.from_config(config, dtype=dtype)
        plain.load_state_dict(model.state_dict())
        model = plain
    return model if weights == "pretrained" else _fresh_but_for_embeddings(maker, model)


def _fresh_but_for_embeddings(maker: Any, pretrained: Any) -> Any:
    """Keep the token embeddings; the vocabulary head is fresh unless it is tied to them."""
    fresh = maker.from_config(pretrained.config, dtype=pretrained.dtype)
    with torch.no_grad():
        fresh.get_input_embeddings().weight.copy_(pretrained.get_input_embeddings().weight)
    return fresh


def _drop_nothing(config: Any) -> None:
    """Checkpointed layers run in training mode, where a few models drop activations in the layer itself."""
    for name, value in vars(config).items():
        if isinstance(value, float) and (name.endswith(("dropout", "_pdrop")) or name == "dropout_rate"):
            setattr(config, name, 0.0)
