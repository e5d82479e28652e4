"""The memory that GLAM needs to tune a language model, computed from its configuration before anything is loaded.

    plan = estimate(config, TrainingSettings(token_budget=16_384), context=350)
    plan["total"] / 1e9

A real step would count exactly, but would need the model, whose fit on a card is what is asked before it is fetched.
The network is built without numbers (torch's device "meta") and reads one full batch of prompts, and what autograd
keeps for the way back is added up: activations are counted, not guessed. Weights, float32 masters, gradients and Adam's
states are exact. On a CPU the program itself is added, and the checkpoint that a process holds while it resumes. Not
counted: gradients under way (a few tensors of one layer), what an allocator wastes, CUDA itself
(about 1 GB). Attention is counted with its weights, as without a fused kernel: with one it is less. On a CPU a T5 takes
less (`language/t5_forward.py`).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from groundlab.language.models import KINDS, Lora, add_lora, base_of
from groundlab.language.prefix_batching import branch, prefix_states
from groundlab.language.scoring import Head
from groundlab.learning.process_memory import ADAM_STATES, of_process
from groundlab.papers.glam.settings import TrainingSettings
from groundlab.worlds.text_env.prompts import text_actions

_FLOAT = 4  # bytes of float32
_QUANTIZED = 0.516  # bytes of a 4-bit weight with its scales, doubly quantized


def estimate(config: Any, settings: TrainingSettings, context: int) -> dict[str, int]:
    """Bytes by purpose, and their "total". context: tokens of every prompt of the fullest batch."""
    with torch.device("meta"):
        kind = KINDS["seq2seq" if config.is_encoder_decoder else "causal"]
        model = kind.from_config(config, dtype=getattr(torch, settings.dtype))
        if getattr(config, "scale_decoder_outputs", True) is False:  # untied, though transformers 5 builds it tied
            output: Any = model.get_output_embeddings()
            output.weight = nn.Parameter(torch.empty_like(output.weight))
        linear = sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))
        own = sum(parameter.numel() for parameter in model.parameters())
        if settings.lora_rank:
            model = add_lora(model, Lora(settings.lora_rank, 2 * settings.lora_rank), seed=0)
        head = Head(config.hidden_size, 1)
    trained = [parameter for module in (model, head) for parameter in module.parameters() if parameter.requires_grad]
    sixteen = sum(parameter.numel() for parameter in trained if parameter.dtype == torch.bfloat16)
    count = sum(parameter.numel() for parameter in trained)
    size = torch.finfo(getattr(torch, settings.dtype)).bits // 8
    weights = round(linear * _QUANTIZED) + (own - linear) * _FLOAT if settings.quantization else own * size
    extra = sum(p.numel() for module in (model, head) for p in module.parameters()) - own
    plan = {
        "weights": weights,
        "adapters and value head": extra * _FLOAT,
        "float32 masters": sixteen * _FLOAT,
        "gradients": count * _FLOAT,
        "Adam's states": ADAM_STATES * count * _FLOAT,
        "activations": _activations(model, head, settings, context),
    }
    if settings.device == "cpu":
        plan |= of_process(count)
    return {**plan, "total": sum(plan.values())}


def _activations(model: Any, head: nn.Module, settings: TrainingSettings, context: int) -> int:
    """What is kept of one batch; of checkpointed layers their inputs, and all of one layer for a moment."""
    whole = kept(model, head, settings, context)
    if not settings.gradient_checkpointing:
        return whole
    base_of(model).activation_checkpointing_enable({"use_reentrant": False})
    return kept(model, head, settings, context) + whole // base_of(model).config.num_hidden_layers


def kept(model: Any, head: nn.Module, settings: TrainingSettings, context: int) -> int:
    """Bytes that autograd keeps of one batch: as many prompts of `context` tokens as the settings let it read."""
    base = base_of(model).train(settings.gradient_checkpointing)
    words = {word: number for number, word in enumerate(sorted(" ".join(text_actions(settings.action_space)).split()))}
    actions = [[words[word] for word in action.split()] for action in text_actions(settings.action_space)]
    tree = branch(actions, 0 if base.config.is_encoder_decoder else None).to(torch.device("meta"))
    count = min(settings.batch_size, max(1, settings.token_budget // context))
    rows = [[row % 2, *[1] * (context - 1)] for row in range(count)]  # no two neighbours begin alike
    shapes = FakeTensorMode(allow_non_fake_inputs=True)  # so that nobody looks into a mask
    owned = [*model.parameters(), *head.parameters()]
    owned += [shapes.from_tensor(parameter) for parameter in owned]  # what views of them are made of
    weights = {parameter.untyped_storage()._cdata for parameter in owned}
    found: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage()._cdata not in weights:
            found[tensor.untyped_storage()._cdata] = tensor
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with shapes, hooks:
        states = prefix_states(base, rows, tree)
        log_probs = base.get_output_embeddings()(states).float().log_softmax(-1)
        _ = head(states[:, 0]).sum() + log_probs.sum()
    return sum(tensor.untyped_storage().nbytes() for tensor in found.values())
