"""Networks of our own language models, and the start that lets them learn to bind.

Which place words belong to the thing that the goal names is learnt late and suddenly, or not within minutes on a CPU,
when a small T5 starts from the stock initialisation. `start` biases the draw, not the function class. The lower heads
begin by looking back by 1, by 3 and by 4 to 7 tokens; the upper heads of later layers begin by comparing tokens with
each other (equal, orthogonal key and query weights) but not with themselves. Layer by layer, what then matters weighs
more than the rest: a noun reads its colour, names are compared, place words look back at the name. Every arm that
starts from random weights gets the same start.
"""

from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, T5Config, T5ForConditionalGeneration

from groundlab.core.errors import GroundlabError
from groundlab.language.t5_forward import buckets_of
from groundlab.learning.checkpoints import seeded_construction

_NEIGHBOURS = ((-1,), (-3,), (-4, -5, -6, -7))  # key minus query: what T5's heads 0, 1 and 2 begin by looking at
_ROTARY_NEIGHBOURS = (-1, -3, -5)  # the same for Llama, which has no table of distances
_NEIGHBOUR_BIAS = 6.0  # logits; near e^6 = 400 times the weight of any other token
_COMPARING_LOGIT = 8.0  # of a token with its like, the mean being 0
# on heads' output weights: of head 0 in layer 0, of heads in use, of the others
_FIRST_GAIN, _READING_GAIN, _OTHER_GAIN = 2.0, 4.0, 0.5
_FEED_FORWARD_GAIN = 0.3  # on the output weights of feed-forward blocks
_LLAMA_SCALE = 0.1  # of the residual stream: tied embeddings make the logits, unscaled
_FAST = 4  # how many of a head's fastest rotations tell near distances apart


class Architecture(BaseModel):
    """The shape of a language model, and whether it begins with the binding start."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: Literal["t5", "llama"] = "t5"
    width: int = Field(default=96, ge=8)
    feed_forward: int = Field(default=192, ge=8)
    heads: int = Field(default=6, ge=1)
    head_width: int = Field(default=16, ge=4)
    layers: int = Field(default=3, ge=1)
    """Of the encoder, or of the causal model."""
    decoder_layers: int = Field(default=1, ge=1)
    """Of T5's decoder; without effect for llama."""
    binding_start: bool = True


def build(architecture: Architecture, vocabulary: int, seed: int) -> PreTrainedModel:
    """A model of random weights drawn from `seed`, in evaluation mode, without dropout; padding has id 0, the end 1."""
    with seeded_construction(seed, "language model"):
        if architecture.family == "t5":
            model: PreTrainedModel = T5ForConditionalGeneration(_t5(architecture, vocabulary))
        else:
            model = LlamaForCausalLM(_llama(architecture, vocabulary))
        if architecture.binding_start:
            start(model)
    return model.eval()


def _t5(shape: Architecture, vocabulary: int) -> T5Config:
    return T5Config(
        vocab_size=vocabulary,
        d_model=shape.width,
        d_ff=shape.feed_forward,
        d_kv=shape.head_width,
        num_heads=shape.heads,
        num_layers=shape.layers,
        num_decoder_layers=shape.decoder_layers,
        relative_attention_num_buckets=32,
        relative_attention_max_distance=64,
        dropout_rate=0.0,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,  # pyright: ignore[reportCallIssue] - read by the model, not declared by its config
    )


def _llama(shape: Architecture, vocabulary: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.head_width,
        max_position_embeddings=1024,
        attention_bias=True,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )


def start(model: nn.Module) -> None:
    """Redraw a model's attention weights as the module's docstring says (from torch's generator, in place)."""
    network: Any = model
    if isinstance(model, T5ForConditionalGeneration):
        _look_at_neighbours(network.encoder.block[0].layer[0].SelfAttention)
        for index, block in enumerate(network.encoder.block):
            attention = block.layer[0].SelfAttention
            if index > 0:
                _compare(attention.q.weight, attention.k.weight, attention.n_heads)
            _weigh(attention.o.weight, attention.n_heads, index)
            block.layer[1].DenseReluDense.wo.weight.data *= _FEED_FORWARD_GAIN
    elif isinstance(model, LlamaForCausalLM):
        _start_llama(network)
    else:
        raise GroundlabError(f"no binding start is known for {type(model).__name__}; set binding_start: false")


@torch.no_grad()
def _look_at_neighbours(attention: Any) -> None:
    """Bias the lower heads (at most three) towards near tokens, and the upper ones against the token itself.

    All layers share the table.
    """
    table = attention.relative_attention_bias.weight  # [buckets, heads]
    lower = table.shape[1] - table.shape[1] // 2
    for head, offsets in enumerate(_NEIGHBOURS[:lower]):
        for offset in offsets:
            table[buckets_of(attention, torch.tensor(offset), bidirectional=True), head] += _NEIGHBOUR_BIAS
    table[buckets_of(attention, torch.tensor(0), bidirectional=True), lower:] -= _NEIGHBOUR_BIAS


@torch.no_grad()
def _compare(query: Tensor, key: Tensor, heads: int) -> None:
    """Give the upper half of the heads equal key and query weights."""
    rows, width = query.shape
    upper = rows // heads * (heads // 2)
    size = max(upper, width)
    orthogonal = _orthogonal(size)[:upper, :width]
    query[rows - upper :] = orthogonal * (_COMPARING_LOGIT / (rows // heads)) ** 0.5
    key[rows - upper :] = query[rows - upper :]


@torch.no_grad()
def _weigh(output: Tensor, heads: int, layer: int) -> None:
    """Let the heads that serve a layer's part count more: head 0 first, then the comparing, then the looking ones."""
    lower, size = heads - heads // 2, output.shape[1] // heads
    if layer == 0:
        gains = [_FIRST_GAIN] + [_OTHER_GAIN] * (heads - 1)
    elif layer % 2 == 1:
        gains = [_OTHER_GAIN] * lower + [_READING_GAIN] * (heads - lower)
    else:
        gains = [_OTHER_GAIN] + [_READING_GAIN] * (lower - 1) + [_OTHER_GAIN] * (heads - lower)
    output *= torch.tensor(gains).repeat_interleave(size)


def _orthogonal(size: int) -> Tensor:
    """A random orthogonal matrix [size, size]."""
    return torch.linalg.qr(torch.randn(size, size))[0]


@torch.no_grad()
def _start_llama(network: Any) -> None:
    """The same parts for Llama: fast rotations of constant queries and keys find neighbours, slow ones compare."""
    heads, width = network.config.num_attention_heads, network.config.hidden_size
    lower, size = heads - heads // 2, network.config.head_dim
    network.model.embed_tokens.weight.normal_(0, _LLAMA_SCALE)
    for index, layer in enumerate(network.model.layers):
        attention = layer.self_attn
        for head, offset in enumerate(_ROTARY_NEIGHBOURS[:lower]):
            rows = slice(head * size, (head + 1) * size)
            _look_at_rotary(attention, rows, offset, network.model.rotary_emb.inv_freq)
        for head in range(lower, heads) if index > 0 else ():
            _compare_rotary(attention, slice(head * size, (head + 1) * size), width)
        attention.v_proj.weight.normal_(0, width**-0.5)
        attention.o_proj.weight.normal_(0, _LLAMA_SCALE * (heads * size) ** -0.5)
        _weigh(attention.o_proj.weight, heads, index)
        layer.mlp.down_proj.weight.normal_(0, _FEED_FORWARD_GAIN * _LLAMA_SCALE * width**-0.5)


def _look_at_rotary(attention: Any, rows: slice, offset: int, frequencies: Tensor) -> None:
    """Biases of one head whose product, once rotated, is largest at a key `offset` tokens from the query."""
    size = rows.stop - rows.start
    amplitude = (_COMPARING_LOGIT * size**0.5) ** 0.5
    angles = frequencies[:_FAST] * offset
    query, key = torch.zeros(size), torch.zeros(size)
    query[:_FAST] = amplitude
    key[:_FAST], key[size // 2 : size // 2 + _FAST] = amplitude * angles.cos(), -amplitude * angles.sin()
    attention.q_proj.bias[rows], attention.k_proj.bias[rows] = query, key
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight[rows] *= _FEED_FORWARD_GAIN


def _compare_rotary(attention: Any, rows: slice, width: int) -> None:
    """Equal key and query weights of one head, in the dimensions that rotate slowly."""
    size = rows.stop - rows.start
    slow = [row for row in range(size) if row % (size // 2) >= size // 4]
    weights = torch.zeros(size, width)
    weights[slow] = _orthogonal(width)[: len(slow)] * (_COMPARING_LOGIT * size**0.5 / len(slow)) ** 0.5
    attention.q_proj.weight[rows], attention.k_proj.weight[rows] = weights, weights
