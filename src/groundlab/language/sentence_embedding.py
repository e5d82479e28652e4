"""Sentence embeddings: the mean of an encoder's states over a text's tokens, of length 1, cached by text.

    embed = Embedder(load_encoder("prajjwal1/bert-small"))      # any encoder that transformers loads, from this disk
    embed = Embedder(load_encoder("path/of/quick-t5-s0"))       # our own language models: the encoder of a T5
    embed(["go to the red ball", ...])                          # float32 [N, d]

Captions repeat, so each text is encoded once. The original pools as here (docs/papers/knowledge-method.md#s5-2).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer

from groundlab.assets import resolve_model
from groundlab.core.errors import GroundlabError
from groundlab.language import models
from groundlab.learning.devices import check_device

_log = logging.getLogger(__name__)
LONGEST = 512  # tokens of a text; what follows is not read, with a warning
BATCH = 64
Encode = Callable[[Sequence[str]], np.ndarray]


def pooled(states: Tensor, mask: Tensor) -> Tensor:
    """The mean [N, d] of states [N, L, d] where mask [N, L] is 1, divided by its length."""
    weights = mask[..., None].to(states.dtype)
    mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, dim=-1)


def load_encoder(name_or_path: str | Path, revision: str | None = None, device: str = "cpu") -> Encode:
    """A function from texts to vectors [N, d]: the model's encoder, from this machine's disk.

    Raises GroundlabError when the model is not here, is damaged, or has no encoder that reads both ways.
    """
    check_device(device)
    name_or_path = resolve_model(str(name_or_path))
    with models.clear_errors(name_or_path, revision):
        config = AutoConfig.from_pretrained(**(place := models.place_of(name_or_path, revision)))
        if config.is_encoder_decoder:
            model, tokenizer = models.load(name_or_path, revision, device=device)
            return _reader(model.get_encoder(), tokenizer, device)
        if "gguf_file" in place or any("Causal" in kind for kind in config.architectures or ()):
            raise GroundlabError(
                f"{name_or_path} reads one way only; give an encoder, or an encoder-decoder such as T5"
            )
        model, report = AutoModel.from_pretrained(**place, output_loading_info=True)
        if lost := [name for name in report["missing_keys"] if "pooler" not in name]:
            raise ValueError(f"{len(lost)} weights are missing, e.g. {min(lost)}")
        tokenizer = AutoTokenizer.from_pretrained(**place)
    return _reader(model.to(device).eval(), tokenizer, device)


def _reader(model: Any, tokenizer: Any, device: str) -> Encode:
    room = min(LONGEST, getattr(model.config, "max_position_embeddings", LONGEST))

    @torch.inference_mode()
    def encode(texts: Sequence[str]) -> np.ndarray:
        batch = tokenizer(list(texts), padding=True, truncation=True, max_length=room, return_tensors="pt").to(device)
        for full in torch.nonzero(batch["attention_mask"].sum(1) == room).flatten().tolist():
            if (length := len(tokenizer(texts[full], verbose=False)["input_ids"])) > room:
                _log.warning("a text of %d tokens is read to its token %d only", length, room)
        states = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        return pooled(states.float(), batch["attention_mask"]).cpu().numpy()

    return encode


@dataclass
class Embedder:
    """Vectors of texts, each text encoded once."""

    encode: Encode
    _known: dict[str, np.ndarray] = field(default_factory=dict)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors [N, d]; those not known yet are encoded in batches, shortest first, so that little is padded."""
        new = sorted({text for text in texts if text not in self._known}, key=lambda text: (len(text), text))
        for start in range(0, len(new), BATCH):
            part = new[start : start + BATCH]
            vectors = self.encode(part)
            if not np.isfinite(vectors).all():
                raise GroundlabError(f"the encoder's vector of {part[0]!r} is not finite; choose another encoder")
            self._known.update(zip(part, vectors, strict=True))
        return np.stack([self._known[text] for text in texts])
