"""Three switches decide what is pretrained, what is fresh, and what the policy is; everything is tuned in all arms."""

import pytest
import torch
from tiny_models import T5

from groundlab.language import models
from groundlab.language.architecture import build
from groundlab.papers.glam.policy import VARIANTS, build_scorer, trainable_parameters
from groundlab.papers.glam.ppo import Settings
from groundlab.worlds.text_env.prompts import text_actions

ACTIONS = text_actions(6)
TOKEN_EMBEDDINGS = "shared.weight"


@pytest.fixture
def built(model_folder):
    def make(name, seed=0, **settings):
        return build_scorer(VARIANTS[name], Settings(model=str(model_folder), **settings), ACTIONS, seed)

    return make


def weights(scorer):
    return {name.removeprefix("model."): p for name, p in scorer.named_parameters() if name.startswith("model.")}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_switches_are_the_papers(name, built, model_folder):
    scorer, pretrained = built(name), dict(models.load(model_folder)[0].named_parameters())
    kept = {key for key, tensor in weights(scorer).items() if torch.equal(tensor, pretrained[key])}
    assert (TOKEN_EMBEDDINGS in kept) == (name != "npa")
    assert (kept == pretrained.keys()) == (name in ("glam", "aflan"))
    assert kept <= {TOKEN_EMBEDDINGS} or name in ("glam", "aflan")
    assert (scorer.action_head is not None) == (name in ("aflan", "npae", "npa"))
    assert scorer.value_head is not None
    assert all(parameter.requires_grad for parameter in scorer.parameters())
    assert len(trainable_parameters(scorer)) == len(list(scorer.parameters()))


def test_fresh_weights_begin_as_pretraining_began(built, model_folder):
    shape = T5.model_copy(update={"binding_start": True})
    expected = dict(build(shape, models.load(model_folder)[0].config.vocab_size, seed=4).named_parameters())
    for name, fresh in weights(built("npa", seed=4)).items():
        assert torch.equal(fresh, expected[name]), name
    assert not torch.equal(
        weights(built("npa", seed=5))["encoder.block.0.layer.0.SelfAttention.q.weight"],
        weights(built("npa", seed=4))["encoder.block.0.layer.0.SelfAttention.q.weight"],
    )


def test_all_scoring_arms_have_the_stored_temperature_and_heads_have_none(built):
    assert [built(name).temperature for name in ("glam", "npe", "npae", "npa", "aflan")] == [2.0, 2.0, 1.0, 1.0, 1.0]
    assert built("glam", temperature=1.5).temperature == 1.5


def test_arms_of_one_seed_share_their_value_head(built):
    first, second = (built(name).value_head.layers[0].weight for name in ("glam", "npe"))
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", ["glam", "npae"])
def test_with_adapters_only_they_and_the_heads_are_tuned(name, built):
    scorer = built(name, lora_rank=4)
    trained = [key for key, parameter in scorer.named_parameters() if parameter.requires_grad]
    assert any("lora" in key for key in trained)
    assert all("lora" in key or "head" in key for key in trained)
