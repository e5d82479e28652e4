"""How a token is drawn: settings, random numbers and one draw, none of it hidden in a model's files.

    decoding = Decoding(max_new_tokens=16, temperature=0.7, top_k=50, top_p=0.9)
    tokens, logprobs, drawn_logprobs = draw(logits, uniform(len(logits), decoding, generator)[:, 0], decoding)

Each token of each reply has a uniform number of its own, so what one row draws does not depend on the others.
"""

import torch
from torch import Tensor

from groundlab.core.errors import GroundlabError
from groundlab.language.decoding import Decoding


def uniform(count: int, decoding: Decoding, randomness: torch.Generator | Tensor | None) -> Tensor:
    """Uniform numbers, one a token that may be drawn: float64 [B, max_new_tokens]."""
    shape = (count, decoding.max_new_tokens)
    if isinstance(randomness, Tensor):
        if randomness.shape != shape:
            raise GroundlabError(f"random numbers of shape {tuple(randomness.shape)}, but {shape} are needed")
        return randomness.double()
    if randomness is None:
        if decoding.temperature > 0:
            raise GroundlabError("replies above temperature 0 are random; give a torch.Generator")
        return torch.zeros(shape, dtype=torch.float64)
    return torch.rand(shape, generator=randomness, dtype=torch.float64)


def draw(logits: Tensor, numbers: Tensor, decoding: Decoding) -> tuple[Tensor, Tensor, Tensor]:
    """One token a row, by the inverse of the cumulative distribution.

    logits: float [B, V]; numbers: [B] in [0, 1). Returns tokens int64 [B], their log-probabilities under the logits,
    and under the distribution drawn from.
    """
    plain = logits.log_softmax(-1)
    if decoding.temperature == 0:
        tokens = logits.argmax(-1)
        own = plain.gather(1, tokens[:, None])[:, 0]
        return tokens, own, torch.zeros_like(own)
    scaled = logits / decoding.temperature
    ids = None
    if decoding.top_k or decoding.top_p < 1:
        scaled, ids = scaled.topk(min(decoding.top_k or scaled.shape[1], scaled.shape[1]))
    shares = scaled.double().softmax(-1)
    if decoding.top_p < 1:
        shares = shares.where(shares.cumsum(-1) - shares < decoding.top_p, 0)
        shares = shares / shares.sum(-1, keepdim=True)
    reached = shares.cumsum(-1)
    whole = reached[:, -1:]
    below = whole.nextafter(torch.zeros_like(whole))  # rounding must not lead behind the last possible token
    place = torch.searchsorted(reached, (numbers[:, None] * whole).minimum(below), right=True)
    tokens = (place if ids is None else ids.gather(1, place))[:, 0]
    drawn = shares.gather(1, place)[:, 0].log().float()
    return tokens, plain.gather(1, tokens[:, None])[:, 0], drawn
