"""Pretraining repeats itself, survives a kill, keeps what is left out away, and its shipped weights are as told."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import runs
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from groundlab.assets import MODELS, known_recipes
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.core.seeding import generator
from groundlab.language import corpus, pretraining, probes, tokenizer
from groundlab.language.architecture import Architecture, build
from groundlab.language.pretraining import Recipe, Stage, load_recipe, pretrain

TINY = {"family": "t5", "width": 16, "feed_forward": 32, "heads": 2, "head_width": 8, "layers": 1}
SHIPPED = sorted(path.parent for path in MODELS.glob("*/recipe.json"))


def tiny(family: str = "t5", **changes) -> Recipe:
    topics = {"sides": 1.0}, dict.fromkeys(corpus.TOPICS, 1.0)
    values = {"name": "tiny", "pieces": 400, "batch_size": 8, "probe_samples": 8}
    values["architecture"] = Architecture(**TINY | {"family": family})
    values["stages"] = [Stage(steps=32, most=3, topics=each) for each in topics]
    return Recipe(**values | changes)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> Callable[[str], tuple[Path, dict]]:
    """The folder and the facts of the tiny recipe of a family, pretrained once."""

    @cache
    def made(family: str) -> tuple[Path, dict]:
        folder = tmp_path_factory.mktemp("pretrained") / family
        return folder, pretrain(tiny(family), folder)

    return made


@pytest.mark.slow
@pytest.mark.parametrize("family", ["t5", "llama"])
def test_a_stopped_pretraining_continues_to_the_weights_of_the_uninterrupted_one(family, pretrained, tmp_path):
    recipe, steps = tiny(family), []
    home, whole = pretrained(family)
    with pytest.raises(Unfinished):
        pretrain(recipe, tmp_path / "parts", lambda progress: steps.append(progress.step), stop=lambda: len(steps) == 2)
    parts = pretrain(recipe, tmp_path / "parts")
    left, right = weights(home), weights(tmp_path / "parts")
    assert left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
    metrics = [(folder / "training" / "metrics.jsonl").read_bytes() for folder in (home, tmp_path / "parts")]
    assert metrics[0] == metrics[1] and len(metrics[0].splitlines()) == 4
    assert whole["probes"] == parts["probes"] and whole["temperature"] == parts["temperature"]


@pytest.mark.parametrize("family", ["t5", "llama"])
def test_a_stored_model_says_what_the_trained_one_said(family, pretrained):
    home, _ = pretrained(family)
    loader = AutoModelForSeq2SeqLM if family == "t5" else AutoModelForCausalLM
    words, model = tokenizer.load(home), loader.from_pretrained(home)
    stored = json.loads((home / "recipe.json").read_text())
    assert probes.examine(model, words, tiny(family).probe_samples) == stored["probes"]


@pytest.mark.slow
def test_the_loss_falls_and_facts_are_learnt(tmp_path):
    stages = [Stage(steps=320, topics={"affordances": 1.0})]
    shape = Architecture(**TINY | {"width": 32, "layers": 2})
    large = {"architecture": shape, "batch_size": 32, "probe_samples": 100, "learning_rate": 3e-3}
    facts = pretrain(tiny(stages=stages, **large), tmp_path)
    assert facts["probes"]["affordances"] > 0.9 > facts["probes"]["binding: places, 8 things"]


def test_topics_left_out_are_never_drawn_and_the_others_take_their_place():
    recipe = tiny(leave_out=["affordances", "french"])
    batches = [batch for index in range(4) for batch in pretraining.pool(recipe, recipe.stages[1], index)]
    topics = {sample.topic for batch in batches for sample in batch}
    assert topics == set(corpus.TOPICS) - {"affordances", "french"}
    assert len(batches) == 4 * pretraining.BATCHES_A_POOL and {len(batch) for batch in batches} == {8}


@pytest.mark.slow
def test_a_dose_is_a_share_of_the_steps(pretrained, tmp_path):
    pretrain(tiny(dose=0.5), tmp_path)
    assert [len(runs.records(home / "training")) for home in (tmp_path, pretrained("t5")[0])] == [2, 4]


def test_a_stage_ends_early_once_its_loss_is_low_enough(tmp_path):
    first, second = tiny().stages
    pretrain(tiny(stages=[first.model_copy(update={"until_loss": 100.0}), second]), tmp_path)
    assert [record["stage"] for record in runs.records(tmp_path / "training")] == [0, 1, 1]


def test_held_out_inputs_are_never_trained_on():
    batches = pretraining.pool(tiny(batch_size=64), tiny().stages[1], 0)
    assert not any(corpus.is_held_out(sample.input) for batch in batches for sample in batch)


def test_a_causal_model_is_asked_for_the_target_only():
    words = pretraining.train_tokenizer(tiny())
    model = build(Architecture(**TINY | {"family": "llama"}), len(words), 0)
    told = corpus.Sample("it is on your left, \n action:", "turn left", "affordances")
    batch = probes.collate(model, words, [told, corpus.Sample("red", "b", "x")])
    told = words("it is on your left, \n action: turn left")["input_ids"]
    assert batch["input_ids"][0].tolist() == [*told, 1]
    assert batch["labels"][0].tolist() == [probes.IGNORED] * (len(told) - 2) + [*told[-2:], 1]
    assert batch["attention_mask"][1].sum() == 3


def attentions(family: str, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What a model that has learnt nothing looks at, by layer: [rows, heads, 40, 40]."""
    model = build(Architecture(family=family, width=96, heads=4, head_width=32), 500, 0)
    model.set_attn_implementation("eager")
    return (model.encoder if family == "t5" else model.model)(input_ids=ids, output_attentions=True).attentions


@pytest.mark.parametrize("family", ["t5", "llama"])
def test_the_first_heads_begin_by_looking_one_and_three_tokens_back(family):
    ids = torch.randint(4, 500, (4, 40), generator=torch.Generator().manual_seed(0))
    weights = attentions(family, ids)[0].mean(0)
    for head, offset in enumerate((-1, -3)):
        by_distance = {back: weights[head].diagonal(-back).mean().item() for back in range(8)}
        assert max(by_distance, key=by_distance.__getitem__) == -offset and by_distance[-offset] > 0.5


@pytest.mark.parametrize("family", ["t5", "llama"])
def test_the_upper_heads_of_the_second_layer_begin_by_finding_the_same_word(family):
    rng = torch.Generator().manual_seed(0)
    ids = torch.stack([torch.randperm(400, generator=rng)[:40] + 4 for _ in range(32)])
    ids[:, 34:36] = ids[:, 4:6]  # the same two words
    weights = attentions(family, ids)[1][:, 2:, 35].mean(0)  # [2 heads, 40 places]
    others = [place for place in range(40) if place not in (5, 35)]
    assert (weights[:, 5] > 5 * weights[:, others].mean(1)).all()


def test_without_the_binding_start_a_model_is_the_stock_one():
    stock = build(Architecture(binding_start=False), 500, 0)
    layer = stock.encoder.block[1].layer[0].SelfAttention
    assert not (layer.q.weight == layer.k.weight).any()


def test_the_temperature_starves_no_action_and_is_the_lowest_that_does_not():
    words = pretraining.train_tokenizer(tiny())
    model, prompts = build(Architecture(), len(words), 3), probes.random_prompts(generator(0, "p"), 32)
    actions = ["turn left", "turn right", "drop"]
    temperature = probes.score_temperature(model, words, actions, prompts)
    scores = probes.score_actions(model, words, prompts, actions).detach()

    def least(value: float) -> float:
        return float((scores / value).softmax(1).mean(0).min())

    assert temperature > 1.2 and least(temperature * 1.001) >= 1 / 6 > least(temperature / 1.11)


def test_unknown_recipes_keys_and_topics_are_answered_with_the_nearest():
    with pytest.raises(GroundlabError, match="unknown recipe 'quick-t4'; did you mean 'quick-t5'"):
        load_recipe("quick-t4")
    with pytest.raises(GroundlabError, match="did you mean 'leave_out'"):
        load_recipe("quick-t5", leave_uot=["french"])
    with pytest.raises(GroundlabError, match="unknown topic 'frensh'; did you mean 'french'"):
        load_recipe("quick-t5", leave_out=["frensh"])


def test_a_recipe_gives_fitting_to_all_its_stages_and_changes_nothing_else():
    usual, none = load_recipe("quick-llama-chat").model_dump(), load_recipe("quick-llama-chat-fitting-0").model_dump()
    assert [stage.pop("fitting") for stage in none["stages"]] == [0, 0]
    assert none | {"name": usual["name"]} == usual


@pytest.mark.parametrize("name", ["places", "shuffled", "mirrored", "no-view"])
def test_a_recipe_of_the_lead_s_study_has_the_usual_tokens_and_another_corpus(name, pretrained, tmp_path):
    usual, other = load_recipe("quick-t5").model_dump(), load_recipe(f"quick-t5-{name}").model_dump()
    changed = {key for key in usual if usual[key] != other[key]}
    assert changed == {"name", "leave_out" if name == "places" else "stages"}
    own = {key: other["stages"][-1][key] for key in ("topics", "answers") if key in other["stages"][-1]}
    stages = [Stage(steps=16, most=3, **own)]
    facts = pretrain(tiny(stages=stages, leave_out=other["leave_out"]), tmp_path)
    assert facts["corpus"] != pretrained("t5")[1]["corpus"]
    words = [tokenizer.load(home).get_vocab() for home in (tmp_path, pretrained("t5")[0])]
    assert words[0] == words[1]


def test_a_model_of_another_corpus_is_pretrained_again_and_one_of_todays_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("GROUNDLAB_RESULTS", str(tmp_path))
    monkeypatch.setattr(pretraining, "load_recipe", lambda name, seed: tiny(seed=seed))
    file = tmp_path / ".models" / "smoke-t5-s2" / "recipe.json"
    pretraining.provide("smoke-t5-s2")
    made = file.read_bytes()
    pretraining.provide("smoke-t5-s2")
    assert file.read_bytes() == made
    file.write_text(json.dumps({**json.loads(made), "corpus": "another"}))
    pretraining.provide("smoke-t5-s2")
    assert json.loads(file.read_bytes())["corpus"] == json.loads(made)["corpus"]


@pytest.mark.parametrize("name", known_recipes())
def test_every_shipped_recipe_is_valid(name):
    assert load_recipe(name).stages


def test_a_tokenizer_is_learnt_from_all_topics_whatever_a_recipe_leaves_out_and_however_it_trains():
    other = tiny("llama", name="other", leave_out=["affordances"], dose=0.5, stages=tiny().stages[:1], batch_size=9)
    assert LEARN_WORDS(other).get_vocab() == LEARN_WORDS(tiny()).get_vocab()


@pytest.fixture(autouse=True)
def drawn_once(monkeypatch):
    """What models share is made once for all: the tokenizers that they began with, the questions of probes."""
    monkeypatch.setattr(
        pretraining, "train_tokenizer", lambda each: TRAINED(each.seed, each.pieces, each.further_topics)
    )
    monkeypatch.setattr(probes, "_drawn", DRAWN)


def _train(seed: int, pieces: int, dialogue: tuple[str, ...], train=pretraining.train_tokenizer):
    stage = Stage(steps=1, topics=dict.fromkeys(dialogue, 1.0))
    return train(tiny(seed=seed, pieces=pieces, stages=[stage]))


LEARN_WORDS = pretraining.train_tokenizer
DRAWN, TRAINED = cache(probes._drawn), cache(_train)


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_shipped_weights_belong_to_the_shipped_recipe(folder):
    stored = json.loads((folder / "recipe.json").read_text())
    recipe = load_recipe(stored["recipe"]["name"], seed=stored["recipe"]["seed"])
    assert stored["hash"] == recipe.hash != load_recipe(recipe.name, seed=99).hash
    assert stored["recipe"] == recipe.model_dump()
    assert stored["corpus"] == pretraining.fingerprint(recipe)
    assert folder.name == f"{recipe.name}-s{recipe.seed}"


@pytest.mark.slow
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_shipped_weights_know_what_their_recipe_says(folder):
    stored = json.loads((folder / "recipe.json").read_text())
    loader = AutoModelForSeq2SeqLM if stored["recipe"]["architecture"]["family"] == "t5" else AutoModelForCausalLM
    words, model = tokenizer.load(folder), loader.from_pretrained(folder)
    recipe = Recipe(**stored["recipe"])
    asked, apart = (40, 0.3) if recipe.seed else (100, 0.2)  # the first of the questions, about four standard errors
    if (recipe.name, recipe.seed) == ("quick-t5", 0):
        asked, apart = recipe.probe_samples, 0.01
    found = probes.examine(model, words, asked, further=recipe.tasks)
    assert found == pytest.approx(stored["probes"], abs=apart)
    assert probes.score_temperature(model, words) == pytest.approx(stored["temperature"], rel=0.11)
