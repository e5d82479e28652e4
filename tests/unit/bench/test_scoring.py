"""The naive way of scoring, with which the benchmark compares: both compute the same."""

import numpy as np
import torch
from transformers import T5Config, T5ForConditionalGeneration

from groundlab.bench import scoring
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.scoring import ActionScorer


def test_the_naive_way_computes_the_scores_of_shared_prefixes():
    sizes = {"d_model": 16, "d_ff": 32, "d_kv": 8, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
    model = T5ForConditionalGeneration(T5Config(vocab_size=32_128, **sizes)).eval()
    prompts = [scoring.random_prompt(np.random.default_rng(seed)) for seed in range(2)]
    tokenizer = scoring.tokenizer_of([*prompts, *ACTIONS])
    assert len(prompts[0].split()) != len(prompts[1].split()), "padding is used"
    with torch.no_grad():
        shared = ActionScorer(model, tokenizer, ACTIONS)(prompts).scores
    torch.testing.assert_close(scoring.plain_scores(model, tokenizer, prompts, ACTIONS), shared, atol=1e-4, rtol=1e-4)
