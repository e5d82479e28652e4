"""Share of this CPU's peak that a public language model's passes reach, in float32 and in bfloat16.

The model is a Llama of SmolLM2-135M's shape with random weights and adapters on its last 8 layers. FLOPs are those that
torch counts in the passes really made; the peak is the fastest of three products of 4,096-cubed in the same process.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from groundlab.bench.measurement import Measurement, rates
from groundlab.bench.scoring import random_prompt, tokenizer_of
from groundlab.core import numerics
from groundlab.language import plain_passes
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.models import Lora, add_lora
from groundlab.language.scoring import ActionScorer
from groundlab.learning.checkpoints import seeded_construction

_SIDE, _PROMPTS, _WORDS, _SHARED, _ADAPTED = 4096, 8, 60, 24, 8
SMOLLM2: dict[str, Any] = {"vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30}
SMOLLM2 |= {"num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True}


def measure() -> list[Measurement]:
    """Measure both precisions, each in a process with the instruction sets that its runs have."""
    found = []
    for dtype, sets in (("float32", {}), ("bfloat16", numerics.NATIVE)):
        with patch.dict(os.environ, sets), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found += pool.submit(of_dtype, dtype, SMOLLM2).result()
    return found


def of_dtype(dtype: str, shape: dict[str, Any]) -> list[Measurement]:
    """Measure prompts per CPU second, and the share of the peak, of each way to read and of updates."""
    torch.set_num_threads(1)  # rates are per CPU second of one thread
    with seeded_construction(0, "benchmark", "Llama"):
        model = LlamaForCausalLM(LlamaConfig(**shape)).to(getattr(torch, dtype)).eval()
    rng = np.random.default_rng(0)
    words = [random_prompt(rng).split() for _ in range(_PROMPTS)]
    prompts = [" ".join([*words[0][:_SHARED], *own[_SHARED:_WORDS]]) for own in words]  # GLAM's begin with the actions
    tokenizer = tokenizer_of([*prompts, *ACTIONS])
    frozen = model.config.num_hidden_layers - _ADAPTED
    scorer = ActionScorer(add_lora(model, Lora(layers=_ADAPTED), 0), tokenizer, ACTIONS, frozen_layers=frozen)
    whole = ActionScorer(model, tokenizer, ACTIONS)
    rows = tokenizer([prompts[0], *ACTIONS], add_special_tokens=False)["input_ids"]

    def reads(own: ActionScorer) -> int:
        with torch.no_grad():
            return len(own(prompts).scores)

    def reads_first() -> int:
        scorer.kept.clear()  # pyright: ignore[reportOptionalMemberAccess]
        return reads(scorer)

    def learns(own: ActionScorer) -> int:
        own.backward(prompts, lambda _, scores, values: scores.log_softmax(-1)[:, 0].sum() + values.sum())
        return len(prompts)

    def plain() -> int:
        with torch.no_grad():
            [plain_passes.plain_pass(model, rows[0], action[:-1]) for action in rows[1:]]
        return 1

    works: dict[str, Callable[[], int]] = {
        "transformers' plain loop": plain,
        "reading, all layers": lambda: reads(whole),
        "reading for the first time, 22 layers one by one": reads_first,
        "update, all layers read": lambda: learns(whole),
        "update above 22 kept layers": lambda: learns(scorer),
    }
    peak, found = _peak(getattr(torch, dtype)), []
    for (name, work), rate in zip(works.items(), rates(*works.values()), strict=True):
        with FlopCounterMode(display=False) as counter:
            done = work()
        share = 100 * rate * counter.get_total_flops() / done / peak
        found.append(Measurement(f"SmolLM2's shape, {dtype}: {name}", rate, "prompts/CPU-s"))
        found.append(Measurement(f"SmolLM2's shape, {dtype}: {name}, share of the peak", share, "%"))
    return found


def _peak(dtype: torch.dtype) -> float:
    """Return the operations per CPU second of the fastest of three large products."""
    matrix, seconds = torch.rand(_SIDE, _SIDE).to(dtype), []
    for _ in range(3):
        start = time.process_time()
        torch.matmul(matrix, matrix)
        seconds.append(time.process_time() - start)
    return 2 * _SIDE**3 / min(seconds)
