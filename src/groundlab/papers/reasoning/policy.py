"""The language model that answers: opened with or without adapters, sampled from, and saved in peft's own format.

    policy, tokenizer = open_policy(settings, seed)          # to be trained: adapters or all weights, a value head
    chat_policy = open_chat_policy(settings)                 # to be evaluated as it is
    replies = chat_policy.reply(prompts, numbers)            # numbers: uniform, [prompts, max_new_tokens]
    save_policy(policy, tokenizer, folder)                   # setting model=folder opens it again

A saved folder holds `adapter_model.safetensors` and `adapter_config.json` (or a whole model), the tokenizer, and
`value_head.safetensors`.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from peft import PeftConfig, PeftModel
from safetensors.torch import load_file, save_file
from torch import nn

from groundlab.core.errors import GroundlabError
from groundlab.core.storage import make_folder
from groundlab.language.chat_format import DialogueWriter
from groundlab.language.generation import ReplyGenerator
from groundlab.language.models import Lora, clear_errors, load
from groundlab.language.token_policy import TokenPolicy
from groundlab.learning.checkpoints import seeded_construction
from groundlab.papers.reasoning.settings import ReplySettings, TrainingSettings
from groundlab.papers.reasoning.text_env import Message

VALUE_HEAD = "value_head.safetensors"


class Reply(NamedTuple):
    """What a model answered."""

    tokens: list[int]  # its end token included, where there is one
    text: str
    ended: bool  # not cut off by the limit of new tokens
    log_probs: list[float]  # of each token, at temperature 1 and untruncated
    sampling_log_probs: list[float]  # under the distribution that it was sampled from


class ChatPolicy:
    """A model that answers conversations. It reads only what it has not read before, until `forget` is called."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        settings: ReplySettings,
        *,
        hide_end_tokens: bool = False,
    ):
        """hide_end_tokens: prompts are read without them (quirk Q7)."""
        self._writer = DialogueWriter(tokenizer)
        # What was read with other activations dropped is of no use.
        reuse = not settings.fidelity.dropout
        self._generate = ReplyGenerator(
            model, self._writer.end_tokens, settings.decoding, reuse=reuse, pass_tokens=settings.pass_tokens
        )
        self._hide_end_tokens, self.forget = hide_end_tokens, self._generate.forget

    @property
    def end_token(self) -> int:
        """The token that ends a reply."""
        return self._writer.end_tokens[0]

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens of a reply as text, without its end."""
        return self._writer.text(tokens)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The tokens that the next reply follows."""
        tokens = self._writer.prompt(messages)
        # A token that attention hides, and that counts for no position, is as if it were not there.
        return [token for token in tokens if token != self.end_token] if self._hide_end_tokens else tokens

    def reply(self, prompts: Sequence[Sequence[int]], numbers: np.ndarray) -> list[Reply]:
        """A reply to each prompt; row by row, `numbers` [prompts, max_new_tokens] in [0, 1) decide what is sampled."""
        replies = self._generate(prompts, torch.from_numpy(numbers))
        texts = [self._writer.text(tokens) for tokens in replies.tokens]
        return [Reply(*each) for each in zip(replies.tokens, texts, replies.ended, *replies[1:3], strict=True)]


@contextmanager
def adapter_dropout(model: nn.Module, seed: int, *purpose: str | int) -> Iterator[None]:
    """Adapters drop activations inside, though the model is in evaluation mode (quirk Q4)."""

    def drop(module: Any, inputs: tuple[Any, ...], _: Any) -> torch.Tensor:
        return nn.functional.dropout(inputs[0], module.p)

    with seeded_construction(seed, *purpose), ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, nn.Dropout) and module.p > 0:
                hooks.callback(module.register_forward_hook(drop).remove)
        yield


def open_policy(settings: TrainingSettings, seed: int) -> tuple[TokenPolicy, Any]:
    """The model of the settings with a value head, to be trained, and its tokenizer.

    Where the model is a folder of `save_policy`, its adapters and value head are trained on. New adapters and a new
    value head are initialised from the seed. Raises GroundlabError for a value head of another kind.
    """
    sizes = Lora(settings.lora_rank, settings.lora_alpha, settings.lora_dropout)
    model, tokenizer = _open(settings, sizes if settings.lora_rank else None, seed, settings.gradient_checkpointing)
    policy = TokenPolicy(
        model,
        "none" if settings.is_critic_free else settings.value_head,
        temperature=settings.learning_temperature,
        token_budget=settings.token_budget,
        pass_tokens=settings.pass_tokens,
        keep_reference=settings.kl != "none",
        seed=seed,
    )
    file = Path(settings.model_path) / VALUE_HEAD
    if policy.value_head is not None and file.is_file():
        try:
            policy.value_head.load_state_dict(load_file(file))
        except RuntimeError:
            raise GroundlabError(f"{file} is of another kind than value_head={settings.value_head}") from None
    return policy, tokenizer


def open_chat_policy(settings: ReplySettings) -> ChatPolicy:
    """The model of the settings as it is, for evaluation."""
    model, tokenizer = _open(settings, lora=None, seed=0)
    return evaluation_policy(model, tokenizer, settings)


def evaluation_policy(model: Any, tokenizer: Any, settings: ReplySettings) -> ChatPolicy:
    """A model as it answers in evaluations."""
    return ChatPolicy(model, tokenizer, settings, hide_end_tokens=settings.fidelity.masked_separators)


def _open(settings: ReplySettings, lora: Lora | None, seed: int, checkpointing: bool = False) -> tuple[Any, Any]:
    """Model and tokenizer; a folder of adapters opens as its base model with them."""
    adapter_folder, name, revision = None, settings.model_path, settings.revision
    if settings.has_adapters:
        with clear_errors(name):
            adapter_folder, lora, config = name, None, PeftConfig.from_pretrained(name)
        base = settings.model_copy(update={"model": config.base_model_name_or_path or "an unnamed model"})
        name, revision = base.model_path, config.revision
    model, tokenizer = load(
        name,
        revision,
        "causal",
        dtype=settings.dtype,
        device=settings.device,
        weights=settings.weights,
        lora=lora,
        quantization=settings.quantization,
        gradient_checkpointing=checkpointing,
        seed=seed,
    )
    if adapter_folder is not None:
        with clear_errors(adapter_folder):
            model = PeftModel.from_pretrained(model, adapter_folder, is_trainable=True).eval()
    elif lora is not None:
        # Adapters name their base model as the settings do, so that a saved folder opens on other machines.
        local = Path(settings.model)
        for config in model.peft_config.values():
            config.base_model_name_or_path = str(local.resolve()) if local.exists() else settings.model
            config.revision = settings.revision
    return model, tokenizer


def save_policy(policy: TokenPolicy, tokenizer: Any, folder: Path) -> None:
    """Write adapters (or all weights), value head and tokenizer; `open_policy` and `open_chat_policy` read them."""
    make_folder(folder)
    # peft would ask the hub about the model's vocabulary, which adapters do not touch.
    adapters: dict[str, Any] = {"save_embedding_layers": False} if isinstance(policy.model, PeftModel) else {}
    policy.model.save_pretrained(str(folder), **adapters)
    tokenizer.save_pretrained(folder)
    if policy.value_head is not None:
        weights = {name: tensor.contiguous() for name, tensor in policy.value_head.state_dict().items()}
        save_file(weights, folder / VALUE_HEAD)
