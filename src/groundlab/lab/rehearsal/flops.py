"""What a run with a language model computes: floating-point operations, from its settings and its model's shape.

    count(spec) / RATES[spec.settings["dtype"]] / 3600     # hours on a GPU that reaches so much

A token costs two operations a weight to read, and four more to learn from, two where only adapters are trained;
attention adds its products. Assumed is what nobody has seen yet: prompts of `prompt_tokens`, each of them new, whole
replies, and tests of half the steps that a world allows. Nothing is timed; `groundlab rehearse` measures.
"""

from functools import cache
from typing import Any

from groundlab import worlds
from groundlab.core.run import RunSpec
from groundlab.lab.rehearsal import rows
from groundlab.worlds.text_env.prompts import text_actions

RATES = {"float32": 8e12, "bfloat16": 60e12}
"""FLOP a second that an A100 is taken to reach: two fifths of 19.5e12, a fifth of 312e12."""
_OBSERVATION, _REST = 80, 100  # tokens of a prompt of GLAM: of an observation, and of goal and actions


def prompt_tokens(settings: dict[str, Any]) -> int:
    """The assumed length of a prompt."""
    return _REST + _OBSERVATION * settings["nbr_obs"] if "nbr_obs" in settings else rows.CONTEXT


def count(spec: RunSpec) -> float:
    """FLOP of a whole run, that of a teacher inside included; 0 without a language model."""
    settings = spec.settings
    if settings.get("model") not in rows.architectures():
        return 0.0
    work, reading = rows.work(settings), _reading(settings)
    learning = 2 + bool(not settings.get("lora_rank")) + bool(settings.get("gradient_checkpointing"))
    plays = "steps_per_record" not in settings  # cloning learns from what others have played
    if "max_new_tokens" in settings:  # replies are read again before they are learnt from, and by the reference
        plays += 1 + (settings.get("kl") != "none")
    each = (plays + learning * settings.get("epochs", 1)) * reading
    steps = (work.tests + work.episodes) * worlds.find(spec.world).max_steps / 2
    taught = settings.get("teacher")
    teacher = count(spec.model_copy(update={"settings": taught})) if taught else 0.0
    return work.units * each + steps * reading + teacher


def _reading(settings: dict[str, Any]) -> float:
    """FLOP to read one prompt, with what is scored or written after it."""
    encoder, decoder, vocabulary, width, layers = _sizes(settings["model"])
    prompt = prompt_tokens(settings)
    if "max_new_tokens" in settings:
        written = settings["max_new_tokens"]
        return 2 * decoder * (prompt + written) + 2 * vocabulary * written + 2 * layers * width * prompt**2
    scored = sum(len(action.split()) for action in text_actions(settings["action_space"]))
    return 2 * encoder * prompt + 2 * (decoder + vocabulary) * scored + 4 * layers * width * prompt**2


@cache
def _sizes(name: str) -> tuple[int, int, int, int, int]:
    """Weights of (encoder with what it gives the decoder, decoder, vocabulary), width, layers that read the prompt."""
    from torch import nn

    config = rows.configuration(name)
    model = rows.without_weights(config)
    layers = {key: layer.weight.numel() for key, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    vocabulary = layers.pop("lm_head")
    reads = {
        key for key in layers if key.startswith("encoder.") or key.endswith(("EncDecAttention.k", "EncDecAttention.v"))
    }
    encoder = sum(layers[key] for key in reads)
    return encoder, sum(layers.values()) - encoder, vocabulary, config.hidden_size, config.num_hidden_layers
