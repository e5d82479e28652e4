"""How replies are sampled, as settings: length, temperature, top_k, top_p. Loads no torch.

    decoding = Decoding(max_new_tokens=16, temperature=0.7, top_k=50, top_p=0.9)

`generation.py` draws tokens by it.
"""

from dataclasses import dataclass

from groundlab.core.errors import GroundlabError


@dataclass(frozen=True)
class Decoding:
    """How tokens are drawn, all of it explicit: nothing is taken from a model's `generation_config.json`."""

    max_new_tokens: int = 20
    temperature: float = 1.0
    """0 takes the likeliest token."""
    top_k: int = 0
    """Only the k likeliest tokens; 0 for all."""
    top_p: float = 1.0
    """Only the likeliest tokens that together have this probability, after temperature and top_k."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1 or self.temperature < 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise GroundlabError(f"{self}: needs max_new_tokens >= 1, temperature >= 0, top_k >= 0, 0 < top_p <= 1")
