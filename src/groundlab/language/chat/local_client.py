"""The `local` maker: a transformers causal model in this process, no server.

    Local("path/of/a/model").reply(messages, Sampling(max_tokens=64))

Messages are written by the tokenizer's chat template; without one, one below the other. Every sampling value is given
outright, so a model's own generation defaults never count.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError

from groundlab.assets import PUBLIC, resolve_model
from groundlab.core.errors import GroundlabError, clip, first_line
from groundlab.core.storage import digest_json
from groundlab.language import models
from groundlab.language.chat.interface import Messages, Reply, Sampling, Tokens

_DIGITS = 12
DEFAULT_LENGTH = 128  # tokens of a reply whose sampling names no length


@dataclass(frozen=True)
class Local:
    """A causal model of this machine's disk; `revision` pins one of the hub's."""

    name: str
    revision: str | None = None
    device: str = "cpu"
    dtype: str = "float32"

    @property
    def model(self) -> str:
        """The name under which its replies are filed; with a digest of files, which may be trained again."""
        return f"{self.name}@{self._version}" if self._version else self.name

    @cached_property
    def _version(self) -> str | None:
        if self.name in PUBLIC:
            return PUBLIC[self.name].weights[:_DIGITS]
        place = Path(resolve_model(self.name))
        return _content(place) if place.exists() else self.revision

    @cached_property
    def loaded(self) -> tuple[Any, Any]:
        """Return the model and its tokenizer, read from disk at the first use."""
        return models.load(self.name, self.revision, kind="causal", device=self.device, dtype=self.dtype)

    def tokens(self, messages: Messages, begun: str) -> list[int]:
        """Return a conversation as its model reads it, and the words that a reply has begun with."""
        return _encode(self.loaded[1], messages, begun)["input_ids"][0].tolist()

    def reply(self, messages: Messages, sampling: Sampling) -> Reply:
        """The model's reply and its tokens; it costs nothing.

        Raises GroundlabError for a prompt that does not fit, and for a model that cannot write or draw one.
        """
        model, tokenizer = self.loaded
        length = sampling.max_tokens or DEFAULT_LENGTH
        with _clear_errors(f"{clip(self.name)} cannot write this conversation", "mend its chat template"):
            inputs = _encode(tokenizer, messages).to(model.device)
        prompt = inputs["input_ids"].shape[1]
        room = getattr(model.config, "max_position_embeddings", None)
        if room is not None and prompt + length > room:
            raise GroundlabError(f"{prompt} tokens of prompt and {length} of reply do not fit {self.name} ({room})")
        drawing: dict[str, Any] = {"do_sample": False}
        if sampling.temperature:
            drawing = {"do_sample": True, "temperature": sampling.temperature, "top_p": 1.0, "top_k": 0}
        cannot = _clear_errors(
            f"{clip(self.name)} cannot reply at temperature {sampling.temperature:g}", "take another"
        )
        with cannot, torch.inference_mode(), torch.random.fork_rng():  # generate() draws from the global generator
            torch.manual_seed(sampling.seed or 0)
            output = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                **drawing,
                num_beams=1,
                repetition_penalty=1.0,
                max_new_tokens=length,
                pad_token_id=tokenizer.pad_token_id,
                logits_processor=[_refuse_nan],
            )
        reply, ends = output[0, prompt:].tolist(), model.generation_config.eos_token_id
        cut = len(reply) == length and reply[-1] not in (ends if isinstance(ends, list) else [ends])
        return Reply(tokenizer.decode(reply, skip_special_tokens=True), Tokens(prompt, len(reply)), cut=cut)


@contextmanager
def _clear_errors(what: str, fix: str) -> Iterator[None]:
    """Turn what libraries raise for broken templates, weights and temperatures into one line."""
    try:
        yield
    except (TemplateError, RuntimeError, ValueError, TypeError, KeyError) as error:
        raise GroundlabError(f"{what} ({clip(first_line(error), 160)}); {fix}") from None


def _refuse_nan(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Raises ValueError where the best token would be any: a model whose numbers are none still replies, greedily."""
    if torch.isnan(logits).any():
        raise ValueError("its weights give no numbers")
    return logits


def _content(place: Path) -> str:
    """The first digits of a hash over the files of a model."""
    digests = {}
    for path in place.iterdir() if place.is_dir() else [place]:
        if path.is_file():
            with path.open("rb") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digest_json(digests)[:_DIGITS]


def _encode(tokenizer: Any, messages: Messages, begun: str = "") -> Any:
    """One prompt, and the words that its reply has begun with, as tensors [1, T]."""
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    else:
        text = "".join(message["content"] + "\n" for message in messages)
    return tokenizer(text + begun, return_tensors="pt", add_special_tokens=not tokenizer.chat_template)
