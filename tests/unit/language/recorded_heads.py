"""The heads of `tests/golden/lm_scores.json`: 2.2 million random numbers, drawn again from their seed."""

import hashlib
from functools import cache

import torch
from torch import Tensor, nn

_SEED = 99
_OUTPUTS = {"value.value_head_op": 1, "policy_head.action_heads_op": 6}  # in the order in which they were drawn
_SHA256 = "2c8539c2cd75d3e517dbb2a0ec28c578785dec67cfdfe04d10c62ccad6fc36b7"


@cache
def recorded_heads() -> dict[str, Tensor]:
    """Weights by Lamorel's names, float32: layers of 32, 1024, 1024 and 1 (value) or 6 (actions) units."""
    heads: dict[str, Tensor] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        for name, outputs in _OUTPUTS.items():
            for layer, sizes in ((0, (32, 1024)), (2, (1024, 1024)), (4, (1024, outputs))):
                weights = nn.Linear(*sizes).state_dict()
                heads |= {f"{name}.{layer}.{part}": value for part, value in weights.items()}
    content = b"".join(heads[name].numpy().tobytes() for name in sorted(heads))
    assert hashlib.sha256(content).hexdigest() == _SHA256, "this torch draws other weights from a seed than 2.13 does"
    return heads
