"""The recordings of `tests/golden/lm_scores.json`, and its heads: 2.2 million random numbers, drawn from their seed."""

import json
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDED = json.loads((GOLDEN / "lm_scores.json").read_text())
PROMPTS, ACTIONS = RECORDED["prompts"], RECORDED["actions6"]
T5 = RECORDED["models"]["tiny_t5"]
_SEED = 99
_OUTPUTS = {"value.value_head_op": 1, "policy_head.action_heads_op": 6}  # in the order in which they were drawn
_SUM = 41.86486  # of all weights; their last bits depend on the CPU


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
    drawn = sum(weights.double().sum().item() for weights in heads.values())
    assert abs(drawn - _SUM) < 1e-3, "this torch draws other weights from a seed than 2.13 does"
    return heads
