"""Released agents: a checkpoint with Lamorel's names becomes an agent with the original's scores, or one clear line."""

import json
import pickle
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from recorded_heads import ACTIONS, GOLDEN, PROMPTS, T5, recorded_heads
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM

from groundlab import lab
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.papers import registry
from groundlab.papers.glam.policy import VARIANTS, build_scorer
from groundlab.papers.glam.released_weights import export_agent, import_weights
from groundlab.papers.glam.settings import ModelSettings

BASE = GOLDEN / "tiny_t5"
SCORES = T5["log_softmax_sum/actions6/pre_encode=True/minibatch=192"]


def state(action_head: bool = False, prefix: str = "module.") -> dict[str, torch.Tensor]:
    """What Lamorel's module saves: the model with all copies of its embedding, and the heads."""
    model = load_file(BASE / "model.safetensors")
    model |= dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), model["shared.weight"])
    heads = recorded_heads()
    kept = {name: value for name, value in heads.items() if action_head or name.startswith("value.")}
    named = {f"_LLM_model.{name}": value for name, value in model.items()}
    named |= {f"_module_functions.{name}": value for name, value in kept.items()}
    return {prefix + name: value for name, value in named.items()}


@pytest.fixture
def save(tmp_path):
    """Store a checkpoint as the hub has it: save(state()) -> the folder of its seed."""

    def write(stored) -> Path:
        folder = tmp_path / "agent" / "seed_1"
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(stored, folder / "model.checkpoint")
        return folder

    return write


def scorer(folder: Path, variant: str = "glam", **settings):
    return build_scorer(VARIANTS[variant], ModelSettings(model=str(folder), **settings), tuple(ACTIONS), seed=5)


def close(ours, recorded):
    torch.testing.assert_close(ours, torch.tensor(recorded), rtol=0, atol=1e-4)


@pytest.mark.parametrize("prefix", ["module.", ""], ids=["distributed", "alone"])
def test_scores_and_values_are_the_originals(save, tmp_path, prefix):
    import_weights(save(state(prefix=prefix)), tmp_path / "out", str(BASE))
    scores, values = scorer(tmp_path / "out")(PROMPTS)
    close(scores, SCORES)
    close(values, T5["value/minibatch=192"])


@pytest.mark.parametrize(("action_head", "method", "other"), [(True, "aflan", "glam"), (False, "glam", "aflan")])
def test_an_agent_comes_with_its_heads_and_plays_by_its_own_method_only(save, tmp_path, action_head, method, other):
    import_weights(save(state(action_head)), tmp_path / "out", str(BASE))
    built, stored = scorer(tmp_path / "out", method), recorded_heads()
    for layer in (0, 2, 4) if action_head else ():
        assert torch.equal(
            built.action_head.layers[layer].weight, stored[f"policy_head.action_heads_op.{layer}.weight"]
        )
    close(built(PROMPTS).values, T5["value/minibatch=192"])
    with pytest.raises(GroundlabError, match=f"is an agent of the method {method}; give {method}"):
        scorer(tmp_path / "out", other)


def test_a_cloned_agent_is_the_language_model_alone(save, tmp_path):
    bare = {name.split("_LLM_model.")[1]: value for name, value in state().items() if "_LLM_model." in name}
    facts = import_weights(save(bare), tmp_path / "out", str(BASE))
    assert facts["heads"] == [] and not (tmp_path / "out" / "heads.safetensors").exists()
    close(scorer(tmp_path / "out")(PROMPTS).scores, SCORES)


def test_the_embedding_that_encoder_and_decoder_share_is_one(save, tmp_path):
    """Else tuning on would part them."""
    import_weights(save(state()), tmp_path / "out", str(BASE))
    model = scorer(tmp_path / "out").model
    assert model.encoder.embed_tokens.weight is model.decoder.embed_tokens.weight is model.shared.weight
    assert model.lm_head.weight is not model.shared.weight


def test_what_was_imported_is_written_down_and_done_once(save, tmp_path):
    folder, out = save(state()), tmp_path / "out"
    facts = import_weights(folder, out, str(BASE))
    checkpoint = folder / "model.checkpoint"
    assert json.loads((out / "released.json").read_text()) == facts
    assert facts["sha256"] == sha256(checkpoint.read_bytes()).hexdigest() and facts["heads"] == ["value_head"]
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    assert import_weights(checkpoint, out, str(BASE)) == facts
    assert {file: file.stat().st_mtime_ns for file in out.iterdir()} == before
    save(state(prefix=""))
    with pytest.raises(GroundlabError, match="holds something else; choose another --out"):
        import_weights(checkpoint, out, str(BASE))


def test_the_agent_is_played_without_a_run_of_ours(save, tmp_path, groundlab):
    out = tmp_path / "out"
    code, said, _ = groundlab("model", "import-glam", save(state()), "--out", out, "--base", BASE)
    assert code == 0 and f"wrote {out}" in said and "value_head" in said
    play = ["evaluate", "glam", "--world", "BabyAI-GoToObjS4-v0", "--layouts", "0-1"]
    code, _, error = groundlab(*play, "--set", f"model={out}", "--json", tmp_path / "rows.json")
    assert code == 0, error
    assert len(json.loads((tmp_path / "rows.json").read_text())["rows"]) == 2
    code, _, error = groundlab(*play, "--set", f"model={BASE}")
    assert code == 2 and "glam needs a trained agent; give --checkpoint FOLDER of `groundlab run glam`" in error


@pytest.mark.parametrize(("method", "given"), [("glam", {}), ("glam", {"lora_rank": 2, "lr": 0.1}), ("npae", {})])
def test_a_trained_agent_leaves_as_a_folder_that_plays_as_it_did(tmp_path, groundlab, method, given):
    world, run, out = "BabyAI-GoToObjS4-v0", tmp_path / "run", tmp_path / "out"
    settings = {"num_envs": 2, "frames_per_env": 4, "batch_size": 4, "epochs": 1, "frames": 16, "lr": 0.001}
    settings |= {"model": str(BASE), "layouts": "0-29", "temperature": 20} | given
    lab.execute_run(registry.resolve(method, world, 3, settings), run)
    code, said, error = groundlab("model", "export", run, "--out", out)
    assert code == 0, error
    told = " ".join(said.split()).partition("plays by: groundlab ")[2].split()
    assert told[:2] == ["evaluate", "aflan" if method == "npae" else "glam"]
    assert AutoModelForSeq2SeqLM.from_pretrained(out) and not (out / "adapter_config.json").exists()
    code, _, error = groundlab(*told, "--seed", 3, "--layouts", "0-29", "--json", tmp_path / "rows.json")
    assert code == 0, error
    played, trained = (json.loads(file.read_text()) for file in (tmp_path / "rows.json", run / "evaluation.json"))
    assert played["rows"] == trained[0]["rows"] and any(row["success"] for row in played["rows"])
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    assert export_agent(run, out) == json.loads((out / "released.json").read_text())
    assert {file: file.stat().st_mtime_ns for file in out.iterdir()} == before


class Trap:
    """What a pickle can hold: a call that happens when it is read."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def changed(name: str, change) -> dict[str, torch.Tensor]:
    return {key: change(value) if key.endswith(name) else value for key, value in state().items()}


LAYER = "encoder.block.0.layer.0.SelfAttention.q.weight"
MORE = torch.zeros(1)
WRONG = {
    "a missing weight": (
        lambda: {key: value for key, value in state().items() if LAYER not in key},
        f"Missing .*{LAYER}",
    ),
    "a weight too many": (lambda: state() | {"module._LLM_model.more": MORE}, 'Unexpected .*"more"'),
    "a part that is unknown": (lambda: state() | {"module._other.x": MORE}, "Unexpected .*_other.x"),
    "another size": (lambda: changed(LAYER, lambda value: value[:, :-1]), "size mismatch"),
    "two embeddings": (lambda: changed("encoder.embed_tokens.weight", lambda value: value + 1), "not the shared"),
}


@pytest.mark.parametrize("name", WRONG)
def test_weights_of_another_model_are_one_line(save, tmp_path, name):
    make, message = WRONG[name]
    with pytest.raises(GroundlabError, match=f"does not fit .*{message}.*; name its model with --base") as error:
        import_weights(save(make()), tmp_path / "out", str(BASE))
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "stored", [[1], {1: MORE}, {"x": 1}, {"x": MORE / 0}], ids=["list", "keys", "values", "not a number"]
)
def test_what_is_not_a_state_dict_of_finite_numbers_is_one_line(save, tmp_path, stored):
    with pytest.raises(GroundlabError, match=r"is not a whole checkpoint \(.*; fetch it again"):
        import_weights(save(stored), tmp_path / "out", str(BASE))


def test_an_import_that_is_killed_leaves_nothing_and_is_made_again(save, tmp_path, monkeypatch):
    out, write = tmp_path / "out", storage.write_json
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(storage, "write_json", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        import_weights(save(state()), out, str(BASE))
    assert not out.exists() and storage.write_json is write
    import_weights(save(state()), out, str(BASE))
    assert sorted(tmp_path.iterdir()) == [tmp_path / "agent", out]


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", None], ids=["empty", "words", "half"])
def test_a_file_that_is_no_whole_checkpoint_is_one_line(save, tmp_path, content):
    file = save(state()) / "model.checkpoint"
    file.write_bytes(file.read_bytes()[:-5000] if content is None else content)
    with pytest.raises(GroundlabError, match=r"is not a whole checkpoint \(.*; fetch it again"):
        import_weights(file, tmp_path / "out", str(BASE))


@pytest.mark.parametrize("by", [torch.save, lambda value, file: file.write_bytes(pickle.dumps(value))])
def test_nothing_that_a_pickle_holds_is_run(save, tmp_path, by):
    folder = save(state())
    by({"module._LLM_model.x": Trap(tmp_path / "sprung")}, folder / "model.checkpoint")
    with pytest.raises(GroundlabError, match="is not a whole checkpoint"):
        import_weights(folder, tmp_path / "out", str(BASE))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("base", "message"),
    [(None, "name its model with --base"), ("google/no-such-t5", "fetch it with: hf download google/no-such-t5")],
)
def test_a_base_model_that_is_unknown_or_absent_is_one_line(save, tmp_path, base, message):
    with pytest.raises(GroundlabError, match=message):
        import_weights(save(state()), tmp_path / "out", base)
