"""Models load from disk or say how to get them; fresh weights and adapters come from the seed alone."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny_models import write_gguf

from groundlab.assets import MODELS, known_models, model_files
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.language import models
from groundlab.language.chat.interface import Sampling
from groundlab.language.chat.local_client import Local
from groundlab.language.models import load
from groundlab.language.pretraining import card
from groundlab.language.scoring import ActionScorer, score_actions
from groundlab.language.sentence_embedding import load_encoder

GOLDEN = Path(__file__).parents[2] / "golden"
T5, LLAMA = GOLDEN / "tiny_t5", GOLDEN / "tiny_llama"
ACTIONS = ["turn left", "toggle"]


def damaged(tmp_path, name="tiny_t5", **config):
    """A copy of a tiny model whose configuration says something else."""
    folder = shutil.copytree(GOLDEN / name, tmp_path / "copy")
    stored = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(stored | config))
    return folder


def same(first, second, names):
    first, second = first.state_dict(), second.state_dict()
    return all(torch.equal(first[name], second[name]) for name in names)


@pytest.mark.parametrize(("folder", "padding"), [(T5, "right"), (LLAMA, "left")])
def test_saved_models_load_in_eval_mode_and_score(folder, padding):
    model, tokenizer = load(folder)
    assert not model.training and tokenizer.padding_side == padding and tokenizer.pad_token is not None
    assert score_actions(model, tokenizer, ["go to the red key"], ACTIONS).shape == (1, 2)


@pytest.mark.parametrize("folder", [T5, LLAMA])
def test_half_precision_gives_nearly_the_same_policy(folder):
    models = (load(folder, dtype=dtype) for dtype in ("float32", "bfloat16"))
    exact, half = (score_actions(*each, ["go to the red key"], ACTIONS) for each in models)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, exact, rtol=0.05, atol=0.5)


def test_a_model_that_is_not_here_comes_with_the_command_that_fetches_it():
    line = "not on this machine; fetch it with: hf download google/flan-t5-nowhere"
    with pytest.raises(GroundlabError, match=f"{line}$"):
        load("google/flan-t5-nowhere")
    with pytest.raises(GroundlabError, match="hf download google/flan-t5-nowhere --revision abc"):
        load("google/flan-t5-nowhere", revision="abc")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("smollm2-135m-instruct", "fetch it with: groundlab model fetch smollm2-135m-instruct"),
        ("smollm2-135-instruct", "did you mean smollm2-135m-instruct?"),
    ],
)
def test_a_public_model_that_is_not_fetched_names_its_command(tmp_path, monkeypatch, name, line):
    monkeypatch.setenv("GROUNDLAB_MODELS", str(tmp_path))
    with pytest.raises(GroundlabError, match=f"not on this machine; {line.replace('?', '.')}$"):
        load(name)


@pytest.mark.parametrize(("kind", "error"), [("F32", 0.0), ("Q8_0", 0.02), ("Q4_1", 0.2)])
def test_a_gguf_file_is_read_scored_tuned_and_saved_like_any_model(tmp_path, kind, error):
    original = write_gguf(file := tmp_path / "tiny.gguf", kind)
    model, tokenizer = load(file)
    for (name, read), written in zip(model.named_parameters(), original.parameters(), strict=True):
        assert (read - written).norm() <= error * written.norm(), name
    assert tokenizer.convert_ids_to_tokens(tokenizer("a  12<|im_end|>")["input_ids"]) == [
        *("a", "ĠĠ", "1", "2", "<|im_end|>")
    ], "a digit is a word of its own, so that two blanks before one are a token"
    assert (tokenizer.eos_token_id, tokenizer.padding_side) == (2, "left")

    tuned = models.add_lora(model, models.Lora(rank=2, alpha=4), seed=0)
    scorer = ActionScorer(tuned, tokenizer, ACTIONS)
    assert not scorer._plainness.needed(20), "the fast way of reading equals a plain pass"
    before, *_ = scorer(["go to the red key"])
    torch.testing.assert_close(
        before, score_actions(original, tokenizer, ["go to the red key"], ACTIONS), atol=0.5, rtol=0
    )
    trained = [weight for weight in tuned.parameters() if weight.requires_grad]
    assert 0 < sum(weight.numel() for weight in trained) < 2000
    optimizer = torch.optim.SGD(trained, lr=1.0)
    before[0, 0].neg().backward()
    optimizer.step()
    after, *_ = scorer(["go to the red key"])
    assert after[0, 0] > before[0, 0]
    merged = tuned.merge_and_unload()
    merged.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    again = score_actions(*load(tmp_path / "saved"), ["go to the red key"], ACTIONS)
    torch.testing.assert_close(again, after, atol=1e-4, rtol=0)


def test_the_local_maker_answers_from_a_gguf_file_and_files_it_by_its_content(tmp_path):
    write_gguf(file := tmp_path / "tiny.gguf")
    local = Local(str(file))
    assert local.reply([{"role": "user", "content": "go"}], Sampling(max_tokens=3)).tokens.completion <= 3
    with pytest.raises(GroundlabError, match="reads one way only"):
        load_encoder(file)
    other = tmp_path / "other.gguf"
    other.write_bytes(file.read_bytes() + b" ")
    versions = [Local(str(each)).model.rpartition("@")[2] for each in (file, other)]
    assert all(len(version) == 12 for version in versions) and versions[0] != versions[1]


@pytest.mark.parametrize(
    ("prepare", "line"),
    [
        (lambda file, monkeypatch: monkeypatch.setattr(models, "find_spec", lambda name: None), "pip install gguf"),
        (lambda file, monkeypatch: file.write_bytes(file.read_bytes()[:900]), "does not hold a whole model"),
        (lambda file, monkeypatch: file.write_bytes(b"nothing"), "does not hold a whole model"),
    ],
)
def test_a_gguf_file_that_cannot_be_read_is_one_line(tmp_path, monkeypatch, prepare, line):
    write_gguf(file := tmp_path / "tiny.gguf")
    prepare(file, monkeypatch)
    with pytest.raises(GroundlabError, match=line) as error:
        load(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_without_one_of_its_files_is_told(tmp_path, lost):
    folder = damaged(tmp_path)
    (folder / lost).unlink()
    with pytest.raises(GroundlabError, match="does not hold a whole model") as told:
        load(folder)
    assert "\n" not in str(told.value)


def test_damaged_and_missing_weights_are_told_instead_of_filled_at_random(tmp_path):
    deeper = damaged(tmp_path, "tiny_llama", num_hidden_layers=3)
    with pytest.raises(GroundlabError, match=r"9 weights are missing, e\.g\. model\.layers\.2"):
        load(deeper)
    (deeper / "model.safetensors").write_bytes(b"nothing" * 9)
    with pytest.raises(GroundlabError, match="does not hold a whole model"):
        load(deeper)


CODE = {"AutoConfig": "own.Own", "AutoModel": "own.Own", "AutoModelForCausalLM": "own.Own"}
OWN = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
FOREIGN = [
    ("config.json", None, "model.safetensors", "got adapters of some/base in .*merge_and_unload"),
    ("config.json", {"model_type": "own9", "auto_map": CODE}, "", "own Python code is not run"),
    ("tokenizer_config.json", OWN, "", "own Python code is not run"),
    ("config.json", {"architectures": ["BertForMaskedLM"]}, "", "is a BertForMaskedLM, which writes no text"),
    ("config.json", {"vocab_size": "many"}, "", "does not hold a whole model"),
    ("model.safetensors.index.json", {"metadata": {}, "weight_map": {"a": "b"}}, "model.safetensors", "No such file"),
]


@pytest.mark.parametrize(("file", "content", "lost", "line"), FOREIGN)
def test_a_foreign_folder_is_one_line_and_its_code_does_not_run(file, content, lost, line, tmp_path, monkeypatch):
    folder, ran = damaged(tmp_path, "tiny_llama"), tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\nfrom transformers import LlamaConfig as Own")
    stored = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps(stored | (content or {})))
    if content is None:
        (folder / file).rename(folder / "adapter_config.json").write_text('{"base_model_name_or_path": "some/base"}')
    if lost:
        (folder / lost).unlink()
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    for reader in (load, load_encoder)[: 1 if "writes no text" in line else 2]:
        with pytest.raises(GroundlabError, match=line if reader is load else None) as error:
            reader(folder)
        assert "\n" not in str(error.value) and not ran.exists()


def test_a_dtype_that_a_cpu_is_slow_in_is_one_warning(caplog, monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    models._warn_where_slow.cache_clear()
    for dtype in ("float32", "bfloat16", "bfloat16"):
        load(LLAMA, dtype=dtype)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "bfloat16 can take ten times as long" in caplog.text and "ONEDNN_MAX_CPU_ISA=ALL" in caplog.text


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"kind": "casual"}, "did you mean 'causal'"),
        ({"kind": "causal"}, "is a seq2seq model, not causal; give kind=seq2seq"),
        ({"dtype": "bf16"}, "unknown dtype 'bf16'; did you mean 'bfloat16'"),
        ({"weights": "randm"}, "did you mean 'random'"),
        ({"quantization": "8bit"}, "unknown quantization '8bit'"),
        ({"quantization": "4bit", "weights": "random"}, "4-bit weights are pretrained ones"),
    ],
)
def test_wrong_settings_are_told_in_one_line(options, line):
    with pytest.raises(GroundlabError, match=line) as told:
        load(T5, **options)
    assert "\n" not in str(told.value)


def test_four_bit_weights_name_what_they_need(monkeypatch):
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(GroundlabError, match="need a GPU and bitsandbytes"):
        load(T5, quantization="4bit")


def test_random_weights_follow_the_seed():
    first, second, other = (load(T5, weights="random", seed=seed)[0] for seed in (1, 1, 2))
    names = [name for name in first.state_dict() if name.endswith(".q.weight")]
    assert same(first, second, first.state_dict()) and not same(first, other, names)
    assert not first.training and not same(first, load(T5)[0], ["shared.weight"])


def test_checkpointing_of_activations_drops_nothing():
    model, _ = load(T5, gradient_checkpointing=True)
    assert model.config.dropout_rate == 0.0 and model.encoder.block[0].layer[0].SelfAttention.dropout == 0.0
    assert model.is_gradient_checkpointing


@pytest.mark.parametrize("name", known_models())
def test_the_card_beside_a_shipped_model_says_what_its_recipe_says(name):
    facts = storage.read_json(MODELS / name / "recipe.json")
    text = (MODELS / name / "README.md").read_text()
    assert text == card(facts) and f"{facts['parameters']:,} parameters" in text
    assert f"| places | {100 * facts['probes']['places']:.0f} |" in text


def test_a_card_is_no_input_of_a_run():
    files = model_files("quick-t5-s0")
    assert {"model/model.safetensors", "model/config.json"} <= files.keys()
    assert {"model/README.md", "model/recipe.json"}.isdisjoint(files), "what describes a model names no run"
