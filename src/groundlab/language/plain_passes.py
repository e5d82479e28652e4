"""Plain forward passes: what scores and replies equal, and how a model is read that no faster way suits.

by_passes = not reads_right(model, "scores", read)     # compares once a model, or raises GroundlabError
states, logits = plain_pass(model, prompt, reply)      # one row, the model's own mask and positions, no cache
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import cycle, islice
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from groundlab.core.errors import GroundlabError, clip, first_line
from groundlab.language.models import base_of
from groundlab.learning.checkpoints import seeded_construction
from groundlab.learning.devices import send

Pairs = Sequence[tuple[list[int], list[int]]]  # prompts and replies
_LENGTHS = re.compile(
    r'"(?!\w*(?:layers|pattern|type))\w*(?:window|chunk|local|original_max|floor_scale)\w*": \[?\s*(\d+)'
)
_LIMITS = ("max_position_embeddings", "max_encoder_position_embeddings")
_CAUSAL_LIMITS = (*_LIMITS, "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")  # T5's limit nothing
_found: WeakKeyDictionary[nn.Module, dict[Any, bool]] = WeakKeyDictionary()


def plain_pass(model: Any, prompt: Sequence[int], reply: Sequence[int], copies: int = 1) -> tuple[Tensor, Tensor]:
    """The states [R + 1, d] that the vocabulary head reads, and its logits, before each of R tokens and after the last.

    copies: equal rows in the batch, of which the first is returned. Differentiable where gradients are on.
    """
    base, seen = base_of(model), list[Tensor]()
    rows = {"input_ids": [*prompt, *reply]}
    if base.config.is_encoder_decoder:
        rows = {"input_ids": [*prompt], "decoder_input_ids": [start_token(base), *reply]}
    given = {name: send(torch.tensor([row] * copies), base.device) for name, row in rows.items()}
    with base.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
        logits = model(**given, use_cache=False, return_dict=True).logits
    return seen[-1][0, -len(reply) - 1 :], logits[0, -len(reply) - 1 :].float()


def start_token(base: Any) -> int:
    """Return the first token of a decoder's sequence; T5 configurations name it in one of three places."""
    places = [(base.config, "decoder_start_token_id"), (base.generation_config, "decoder_start_token_id")]
    places += [(base.generation_config, "bos_token_id"), (base.config, "pad_token_id")]
    return next(token for place, name in places if (token := getattr(place, name, None)) is not None)


@contextmanager
def kept_modes(model: nn.Module) -> Iterator[None]:
    """Give every module back the mode, training or evaluation, that it came with."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def is_checkpointed(module: nn.Module) -> bool:
    """Return True if a layer keeps no activations in training."""
    return isinstance(module, GradientCheckpointingLayer) and module.gradient_checkpointing


@contextmanager
def checkpointing(model: nn.Module) -> Iterator[None]:
    """Inside, such layers keep none in evaluation mode either, in which they drop nothing."""
    with ExitStack() as stack:
        for layer in filter(is_checkpointed, model.modules() if torch.is_grad_enabled() else ()):
            if not layer.training:
                twice = partial(checkpoint, partial(_evaluated, layer, layer.forward), use_reentrant=False)
                stack.enter_context(patch.object(layer, "forward", twice))
        yield


def _evaluated(layer: nn.Module, forward: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """A layer's pass in evaluation mode; `backward` repeats it, when the model may be in training mode again."""
    with kept_modes(layer):
        layer.eval()
        return forward(*given, **options)


class Plainness:
    """Decides when a model is read by plain passes: always, if `read` gives other logits, or from some length on.

    read: the logits [2, 2, V] at both tokens of each reply, by the way `name`. A model is asked once for each name,
    until its layers, precision or device change. Raises GroundlabError where plain passes differ among themselves
    (noise, attention to what comes later) or cannot be made.
    """

    def __init__(self, model: Any, name: str, read: Callable[[Pairs], Tensor]):
        base = base_of(model)
        config, text = base.config, base.config.get_text_config(decoder=True)
        sizes = [getattr(text, name, None) for name in (_LIMITS if config.is_encoder_decoder else _CAUSAL_LIMITS)]
        self._limit = min((size for size in sizes if isinstance(size, int) and size > 0), default=1 << 60)
        lengths = map(int, _LENGTHS.findall(text.to_json_string(use_diff=False)))
        self._from = min(filter(None, lengths), default=1 << 60)
        asked = name, base.dtype, base.device, config._attn_implementation, hash(tuple(map(type, model.modules())))
        known = _found.setdefault(base, {})
        if asked not in known:
            with kept_modes(model), seeded_construction(0, "self-check"), torch.no_grad():
                known[asked] = not self._equal(model.eval(), read)
        self._always = known[asked]

    def needed(self, tokens: int) -> bool:
        """Return True if rows of so many tokens need plain passes; GroundlabError if the model has no positions."""
        if tokens > self._limit:
            raise GroundlabError(
                f"a prompt and what follows it take {tokens} tokens, the model reads {self._limit}; shorten the window"
            )
        return self._always or tokens > self._from

    def _equal(self, model: Any, read: Callable[[Pairs], Tensor]) -> bool:
        if getattr(model.config, "attention_type", None) == "block_sparse":  # a short prompt would switch it off
            raise GroundlabError('block-sparse attention is not supported; load it with attention_type="original_full"')
        try:
            pairs = _pairs(base_of(model), min(9, self._limit - 4))
            expected = torch.stack([plain_pass(model, *pair)[1][:2] for pair in pairs])
            allowed = _allowed(model, pairs[0], expected)
            with suppress(Exception):  # whatever comes of masks, positions and caches that are not its own
                if _difference(read(pairs), expected) <= allowed:
                    return True
            again = torch.stack([plain_pass(model, prompt, reply[:1])[1] for prompt, reply in pairs])
            if (difference := _difference(again, expected)) <= allowed:
                return False
            problem = f"scores differ from a plain pass by {difference:.2g} nats"
        except Exception as error:
            problem = f"a plain pass fails ({clip(first_line(error), 160)})"
        raise GroundlabError(f"this architecture is not supported: {problem}; choose a causal model or a T5")


def _pairs(base: Any, length: int) -> Pairs:
    """Two replies, one after a prompt and one after a longer one that begins alike; no special token among them."""
    special = {value for name, value in base.config.to_dict().items() if name.endswith("_id") and type(value) is int}
    sizes = base.get_input_embeddings().num_embeddings, base.get_output_embeddings().out_features
    spread = (min(sizes) * (2 * place + 1) // 48 for place in range(24))
    tokens = list(islice(cycle(dict.fromkeys(token for token in spread if token not in special)), 13))
    beginning = tokens[: max(1, length)]
    return [(beginning, tokens[9:11]), (beginning + tokens[9:11], tokens[11:])]


def _difference(found: Tensor, expected: Tensor) -> float:
    first, second = (logits.float().log_softmax(-1).clamp(min=-1e4) for logits in (found, expected))
    return (first - second).abs().max().item()


def _allowed(model: Any, pair: tuple[list[int], list[int]], expected: Tensor) -> float:
    """Nats: 0.001, but less where all tokens are nearly alike, as fresh weights have it; more in coarse precisions."""
    exact, largest = torch.finfo(torch.float32).eps, expected.abs().max().item()
    allowed = max(1e-3 * min(1.0, expected.std(-1).max().item()), 16 * exact * largest)
    dtypes = {p.dtype if p.is_floating_point() else torch.bfloat16 for p in model.parameters()}  # integers: 4 bits
    coarsest = max(torch.finfo(dtype).eps for dtype in dtypes)
    if base_of(model).device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32:
        coarsest = max(coarsest, 2.0**-10)
    if coarsest <= exact:
        return allowed
    alone, among = (plain_pass(model, *pair, copies=copies)[1] for copies in (1, 3))
    return max(allowed, 3 * _difference(alone, among), 4 * coarsest * largest)
