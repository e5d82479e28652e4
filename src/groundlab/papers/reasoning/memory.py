"""The memory that tuning a causal language model needs, computed from its configuration before anything is loaded.

    plan = estimate(causal(configuration(name), name), TrainingSettings(...), context=512)
    plan["total"] / 1e9

A real step would need the model, whose fit on a card is asked before it is fetched.
Exact are weights, gradients, Adam's states and the cache of keys and values. Activations are counted tensor by tensor
for a layer of Llama's kind (two norms, rotary attention, a gated feed-forward block), with whole rows and no beginning
shared: within 15 % of what PyTorch measures on small models (`test_memory.py`). On a CPU the program itself is added,
and the checkpoint that a process holds while it resumes. Not counted: CUDA itself (1 GB) and what an allocator wastes.
`groundlab model memory` prints it.
"""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM

from groundlab.assets import absent_model, resolve_model
from groundlab.core.errors import GroundlabError, clip
from groundlab.language.models import Lora, add_lora
from groundlab.learning.process_memory import ADAM_STATES, of_process
from groundlab.papers.reasoning.settings import TrainingSettings

_FLOAT = 4  # bytes of float32, which adapters, value head and log-probabilities are in
_SLOTS, _LESS = 64, 8  # the cache holds multiples of so many tokens, less so many (`language/generation.py`)
_QUANTIZED = 0.516  # bytes of a 4-bit weight with its scales, doubly quantized


def configuration(model: str) -> Any:
    """The configuration of a model that ships, of a folder, or by name. Raises GroundlabError where there is none."""
    path = resolve_model(model)
    try:
        return AutoConfig.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, RecursionError):
        if Path(path).exists():
            raise GroundlabError(
                f"{clip(model)} has no configuration on this machine; give a folder with config.json"
            ) from None
        raise absent_model(model) from None


def causal(config: Any, model: str) -> Any:
    """The configuration, of a model that writes replies. Raises GroundlabError for any other."""
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        kind = f"{clip(model)} is a {config.model_type}, which `reasoning` does not tune"
        raise GroundlabError(f"{kind}; give a model that writes replies, such as quick-llama-chat-s0")
    return config


def estimate(config: Any, settings: TrainingSettings, context: int) -> dict[str, int]:
    """Bytes by purpose, and their "total". context: tokens of the longest prompt, with its window full."""
    with torch.device("meta"):  # shapes without memory
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, settings.dtype))
        weights = _weights(model, settings)
        adapters = _adapters(model, settings) * _FLOAT
    size = config.hidden_size
    head = size + 1 + (2 * size * (size + 1) if settings.value_head == "mlp" else 0)
    head = 0 if settings.is_critic_free else head * _FLOAT
    trainable = (adapters or weights["weights"]) + head
    served = settings.backend == "vllm"  # by a second copy of the model; not counted: what it compiles and captures
    row = context + settings.max_new_tokens
    rows = min(settings.minibatch_size, max(1, settings.token_budget // row))  # that are read at once
    # Log-probabilities of all words before each token of the replies, and their gradients; or those of a draw.
    learning = 5 * rows * (settings.max_new_tokens + 1) * _FLOAT
    drawing = settings.num_envs * (2 * _FLOAT + 4 * 2 * _FLOAT)
    vocabulary = config.vocab_size * max(learning, drawing)
    plan = {
        **weights,
        "adapters and value head": adapters + head,
        "gradients": trainable,
        "Adam's states": ADAM_STATES * trainable,
        "reference": 0 if adapters or settings.kl == "none" else weights["weights"],
        "keys and values": 0 if served else _cache(config, settings, context),
        "vLLM's weights and cache": weights["weights"] + int(settings.engine_gb * 1e9) if served else 0,
        "vocabulary": vocabulary,
        "activations": _activations(config, settings, rows * row, vocabulary),
    }
    if settings.device == "cpu":
        plan |= of_process(trainable // _FLOAT)
    return {**plan, "total": sum(plan.values())}


def _weights(model: nn.Module, settings: TrainingSettings) -> dict[str, int]:
    """The model's own, and their second form for sampling on a CPU (`language/cpu_inference.py`)."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    size, count = _bytes(settings), sum(parameter.numel() for parameter in model.parameters())
    if settings.quantization:
        output = model.get_output_embeddings()  # type: ignore[operator]
        small = sum(layer.weight.numel() for layer in layers if layer is not output)
        return {"weights": round(small * _QUANTIZED) + (count - small) * _FLOAT}
    packs = settings.device == "cpu" and settings.dtype == "float32"
    packed = sum(layer.weight.numel() for layer in layers) * size if packs else 0
    return {"weights": count * size, "weights in oneDNN's form": packed}


def _adapters(model: Any, settings: TrainingSettings) -> int:
    """Weights of the adapters."""
    if not settings.lora_rank:
        return 0
    targets = tuple(settings.lora_targets) or None
    adapted = add_lora(model, Lora(settings.lora_rank, settings.lora_alpha, settings.lora_dropout, targets), seed=0)
    return sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)


def _cache(config: Any, settings: TrainingSettings, context: int) -> int:
    """Of all environments, with a copy of one layer, which is what a batch of prompts reads."""
    slots = -(-(context + settings.max_new_tokens + 1 + _LESS) // _SLOTS) * _SLOTS - _LESS
    return (config.num_hidden_layers + 1) * 2 * _shape(config)[2] * _bytes(settings) * settings.num_envs * slots


def _activations(config: Any, settings: TrainingSettings, tokens: int, vocabulary: int) -> int:
    """What the layers keep for the gradient; checkpointed ones their inputs, and one of them all of it for a moment.

    Of a layer's two norms what they read, in float32, their norm and what they make; rotated queries, keys and values
    of every head, and what attention makes; of the feed-forward block the gate, its activation, the other half, and
    their product. Where only adapters are trained, norms and frozen layers keep less.
    """
    width, queries, _, hidden = _shape(config)
    if _is_short(config, settings):
        layer = tokens * (2 * width + 4 * queries + 3 * hidden)
        joined = 2 * width * (3 * queries + 2 * hidden)  # weights with their norms multiplied in, and their gradients
        under_way = 4 * tokens * width
        return (config.num_hidden_layers * (layer + joined) + under_way) * _FLOAT
    size = _bytes(settings)
    norms, gates = 2 * width * _FLOAT, 3 * hidden * size
    if not settings.lora_rank:
        norms, gates = norms + 4 * width * size, gates + hidden * size
    else:
        norms += (2 if size < _FLOAT else 1) * width * _FLOAT  # what adapters read, cast for each of the two
    layer = tokens * (norms + 4 * queries * size + gates)
    if not settings.gradient_checkpointing:
        return config.num_hidden_layers * layer
    moment = tokens * 2 * hidden * size  # gradients under way, when what the vocabulary took is free again
    return config.num_hidden_layers * tokens * width * size + max(0, layer + moment - vocabulary)


def _is_short(config: Any, settings: TrainingSettings) -> bool:
    """Whether the gradient is that of `language/llama_forward.py`."""
    tuned = not (settings.lora_rank or settings.has_adapters or settings.gradient_checkpointing)
    _, queries, keys, _ = _shape(config)
    plain = config.model_type == "llama" and config.hidden_act == "silu" and queries == keys
    return tuned and plain and settings.device == "cpu" and settings.dtype == "float32"


def _shape(config: Any) -> tuple[int, int, int, int]:
    """Width, width of all queries, of all keys, and of the feed-forward block."""
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    return config.hidden_size, heads * size, keys * size, getattr(config, "intermediate_size", 4 * config.hidden_size)


def _bytes(settings: TrainingSettings) -> int:
    """Of a number of the model's type."""
    return torch.finfo(getattr(torch, settings.dtype)).bits // 8
