"""The agent as a run: it learns, it resumes to the same numbers, it reads each prompt once."""

import shutil

import pytest
import runs
import torch
from recorded_heads import GOLDEN
from safetensors.torch import load

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec
from groundlab.papers import registry
from groundlab.papers.glam.policy import VARIANTS, CachedPolicy
from groundlab.papers.glam.ppo import PPOLearner

from .conftest import WORLD


def spec(resolved, method="glam", world=WORLD, seed=0, **given):
    return RunSpec(method=method, world=world, seed=seed, settings=resolved(method, world, **given))


@pytest.mark.parametrize("method", ["glam", "npae", "zero-shot", "cloning"])
def test_an_unknown_model_names_the_command_that_fetches_it(method, tmp_path):
    line = "^someone/flan-t6 is not on this machine; fetch it with: hf download someone/flan-t6 --revision abc$"
    with pytest.raises(GroundlabError, match=line):
        runs.executed(tmp_path, method, WORLD, model="someone/flan-t6", revision="abc")


HISTORY = {"nbr_obs": 3, "action_list": True}
DROPOUT = {"fidelity": {"dropout": True}}


TINY = {"model": str(GOLDEN / "tiny_llama"), "temperature": 1}
ADAPTERS, HEADS = TINY | {"lora_rank": 2, "lora_layers": 1}, TINY | {"feature_layer": 1}


@pytest.mark.parametrize(
    ("method", "given"),
    [
        *(("glam", HISTORY), ("npe", DROPOUT), ("glam", ADAPTERS), ("aflan", HEADS)),
        ("npae", HEADS | {"dtype": "bfloat16"}),
    ],
)
def test_histories_and_dropout_go_through_a_checkpoint(method, given, resolved):
    runs.goes_on(lambda: PPOLearner(spec(resolved, method, **given)))


@pytest.mark.parametrize(("method", "given", "stored"), [("glam", ADAPTERS, "lora"), ("npa", HEADS, "action_head")])
def test_a_checkpoint_holds_what_trains_and_names_the_model_below(method, given, stored, resolved, tmp_path):
    learner = PPOLearner(spec(resolved, method, **given, dtype="bfloat16"))
    files, other = learner.state(), shutil.copytree(given["model"], tmp_path / "other")
    tensors = load(files["network.safetensors"])
    assert any(stored in name for name in tensors) and not any("base_layer" in name for name in tensors)
    assert all(stored in name or "value_head" in name for name in tensors)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    (other / "generation_config.json").write_text("{}")
    moved = PPOLearner(spec(resolved, method, **{**given, "model": str(other)}, dtype="bfloat16"))
    with pytest.raises(GroundlabError, match=r"^expected the model that this checkpoint was trained on"):
        moved.load_weights(files)


@pytest.mark.slow
def test_an_agent_with_an_action_head_learns_a_tiny_room(resolved, tmp_path):
    sizes = {"num_envs": 16, "frames_per_env": 16, "batch_size": 64, "epochs": 3, "frames": 3072}
    asked = spec(resolved, "npae", lr=2e-3, fixed_mission="", layouts="0-99", **sizes)
    registry.execute(Run(tmp_path, asked))
    trained = runs.evaluations(tmp_path)[0]["mean"]
    untrained = PPOLearner(asked).evaluate()[0]["mean"]
    assert trained["return"] > untrained["return"] + 0.3


def test_a_prompt_is_read_once_until_the_weights_change():
    asked = []

    class Counting:
        def __call__(self, prompts):
            asked.extend(prompts)
            return torch.tensor([[float(len(prompt)), 0.0] for prompt in prompts]), torch.zeros(len(prompts))

    policy = CachedPolicy(Counting())  # type: ignore[arg-type]
    first, _ = policy(["a", "bb", "a"])
    second, _ = policy(["bb", "a"])
    assert asked == ["a", "bb"]
    assert torch.equal(first[[1, 0]], second)
    policy.clear()
    policy(["a"])
    assert asked == ["a", "bb", "a"]
    drops = CachedPolicy(Counting(), remember=False)  # type: ignore[arg-type]
    assert len(drops(["a", "a"])[0]) == len(drops(["a", "a"])[0]) == 2
    assert asked[3:] == ["a"] * 4, "with dropout every reading is another one"


def test_a_second_temperature_divides_once_more():
    scores = torch.tensor([[1.0, 0.0]])
    policy = CachedPolicy(lambda prompts: (scores, torch.zeros(1)), temperature=0.5)  # type: ignore[arg-type]
    torch.testing.assert_close(policy(["a"])[0], (2 * scores).log_softmax(-1))


@pytest.mark.parametrize(("given", "reads"), [({}, {1, 2, 3, 4, 5, 6, 7, 8}), (DROPOUT, {9})])
def test_nothing_is_remembered_where_activations_are_dropped(given, reads, resolved):
    settings = {"num_envs": 1, "frames_per_env": 8, "fixed_mission": ""}
    learner, counted = PPOLearner(spec(resolved, "npe", **settings, **given)), []
    learner.scorer.model.encoder.register_forward_pre_hook(lambda *_: counted.append(torch.is_grad_enabled()))
    learner.train_step(1)
    assert counted.count(False) in reads, "8 prompts and the one after them, some of them equal"


def test_dropout_is_off_unless_asked_for_and_never_on_pretrained_weights(resolved):
    drops = {name: PPOLearner(spec(resolved, name, **DROPOUT)).scorer.dropout for name in VARIANTS}
    assert drops == {name: name.startswith("np") for name in VARIANTS}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"action_space": 5}, "action_space must be one of 3, 6, 9, older"),
        ({"rule": "logprobs"}, "unknown value of rule 'logprobs'; did you mean 'logprob'"),
        ({"temperature": 0}, "temperature"),
        ({"lora_layers": 2}, "expected a rank for the adapters of lora_layers, got 0; give lora_rank=16"),
        ({"lora_rank": 2, "feature_layer": 2}, "expected adapters or heads alone, got both"),
    ],
)
def test_settings_that_mean_nothing_are_refused(given, line):
    with pytest.raises(GroundlabError, match=line):
        registry.resolve_settings("glam", WORLD, given)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (HEADS, "this method has no action head; give aflan, npae or npa"),
        (ADAPTERS | {"lora_layers": 3}, "expected a causal model of at least 3 layers, got CAUSAL_LM of 2"),
        ({"lora_rank": 2, "lora_layers": 1}, "expected a causal model of at least 1 layers, got SEQ_2_SEQ_LM"),
    ],
)
def test_parts_that_a_model_has_not_are_refused(given, line, resolved):
    with pytest.raises(GroundlabError, match=line):
        PPOLearner(spec(resolved, **given))
