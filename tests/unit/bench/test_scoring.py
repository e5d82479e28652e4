"""The benchmark of scoring: what it times is right, for as many actions as its figure shows."""

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

from groundlab.bench import scoring
from groundlab.bench.measurement import Measurement
from groundlab.language.scoring import ActionScorer
from groundlab.report import style

MODELS = {
    "T5": lambda: T5ForConditionalGeneration(
        T5Config(vocab_size=32_128, d_model=16, d_ff=32, d_kv=8, num_layers=1, num_heads=2, dropout_rate=0.0)
    ),
    "Llama": lambda: LlamaForCausalLM(
        LlamaConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_plain_loop_scores_42_actions_as_shared_prefixes_do(name):
    prompts = [scoring.random_prompt(np.random.default_rng(seed)) for seed in range(2)]
    actions = scoring._actions(42)
    tokenizer, model = scoring.tokenizer_of([*prompts, *actions]), MODELS[name]().eval()
    assert len(set(actions)) == 42
    rows = [scoring.tokens_of(tokenizer, texts) for texts in (prompts, actions)]
    with torch.no_grad():
        shared = ActionScorer(model, tokenizer, actions)(prompts).scores
    torch.testing.assert_close(scoring.plain_scores(model, *rows), shared, atol=1e-4, rtol=1e-4)
    figures = scoring.scaling(name, model, tokenizer, prompts, (2, 6))
    shared, loop, ratio = (each.value for each in figures[3:])
    assert [each.name for each in figures[2::3]] == [f"{name}, {count} actions, ratio" for count in (2, 6)]
    assert ratio == loop / shared
    assert figures[5].unit == "x", "`groundlab bench --check` holds it"


def test_the_figure_has_a_panel_a_model_and_leaves_other_figures_out(tmp_path):
    ways = ("shared prefixes", "every pair from scratch")
    points = [
        Measurement(f"{model}, {count} actions, {way}", count * slope, "CPU-ms/prompt")
        for model in MODELS
        for count in (2, 42)
        for way, slope in zip(ways, (1, 10), strict=True)
    ]
    files = scoring.draw([Measurement("T5, scoring", 1.0, "prompts/CPU-s"), *points], tmp_path)
    assert [file.name for file in files] == ["scoring-actions.png", "scoring-actions.pdf"]
    assert scoring.draw(points, tmp_path / "again")[0].read_bytes() == files[0].read_bytes()
    one = scoring.draw(points[:4], tmp_path / "one")[0]
    assert one.read_bytes() != files[0].read_bytes()
    assert Image.open(files[0]).width > 7 * style.DPI
