"""The configs that ship: every entry is one that its method takes, and no experiment of a paper is left out unsaid."""

import re

import pytest

from groundlab.core.paths import repository_root
from groundlab.lab import config
from groundlab.papers import registry
from groundlab.papers.glam import episodes
from groundlab.papers.glam.settings import ReadingSettings

GLAM = [f"E{number}" for number in range(1, 12)]
SHIPPED = [
    (paper, scale)
    for paper in config.known_papers()
    for scale in config.SCALES
    if (repository_root() / "configs" / paper / f"{scale}.yaml").is_file()
]


def names_in(experiment: config.Experiment) -> set[str]:
    return {name for entry in experiment.runs for name in entry.experiments}


@pytest.mark.parametrize(("paper", "scale"), SHIPPED)
def test_every_entry_holds_worlds_settings_and_tests_that_its_method_takes(paper, scale):
    for entry in config.load(paper, scale).runs:
        for world in entry.worlds:
            spec = registry.resolve(entry.method, world, 0, entry.settings)
            settings = registry.schema_of(registry.get(entry.method, world))(**spec.settings)
            if isinstance(settings, ReadingSettings):
                assert len(episodes.plan_tests(settings)) == 4 + len(settings.tests)


@pytest.mark.parametrize("scale", ["quick", "full", "paper"])
def test_a_scale_runs_every_experiment_of_glam_or_says_that_it_does_not(scale):
    experiment = config.load("glam", scale)
    left_out = {name for line in experiment.not_run for name in re.findall(r"E\d+", line)}
    assert names_in(experiment) | left_out >= set(GLAM)


@pytest.mark.parametrize(("paper", "controls"), [("glam", {"random", "bot"}), ("reasoning", {"random"})])
def test_smoke_runs_every_method_of_a_paper(paper, controls):
    known = {method.name for method in registry.papers()[paper].methods}
    assert {entry.method for entry in config.load(paper, "smoke").runs} == known | controls


@pytest.mark.parametrize("scale", ["full", "paper"])
def test_the_larger_scales_hold_every_experiment_of_the_reasoning_agents(scale):
    assert names_in(config.load("reasoning", scale)) >= names_in(config.load("reasoning", "quick"))


def test_the_paper_scale_of_the_reasoning_agents_has_the_published_settings():
    """docs/papers/reasoning-method.md#s3-7."""
    published = {"num_envs": 6, "steps": 128, "minibatch_size": 16, "epochs": 4, "lr": 1.41e-5, "max_grad_norm": None}
    published |= {"gamma": 0.9, "lam": 0.95, "gamma_token": 1, "lam_token": 0.98, "kl": "adaptive", "kl_target": 6}
    published |= {"kl_coefficient": 0.2, "kl_horizon": 10_000, "context_window": 5, "max_new_tokens": 20}
    published |= {"invalid_penalty": -1}
    published |= {"lora_rank": 32, "lora_alpha": 32, "lora_dropout": 0.05, "clip": 0.2, "value_coefficient": 0.1}
    for entry in config.load("reasoning", "paper").runs:
        if not entry.method.endswith("zero-shot"):
            settings = registry.resolve_settings(entry.method, entry.worlds[0], entry.settings)
            differing = {name for name, value in published.items() if settings[name] != value}
            assert differing == ({"max_new_tokens"} if "tokens" in entry.experiments else set())


TUNED = ("glam", "aflan", "npae", "npa", "npe")
PUBLISHED = {"num_envs": 32, "frames_per_env": 40, "epochs": 4, "batch_size": 64, "lr": 1e-6, "adam_eps": 1e-5}
PUBLISHED |= {"gamma": 0.99, "lam": 0.99, "clip": 0.2, "entropy_coefficient": 0.01, "value_coefficient": 0.5}
PUBLISHED |= {"max_grad_norm": 0.5, "reward_scale": 20.0, "normalise_advantages": False, "timeouts": "terminal"}
PUBLISHED |= {"action_list": True, "temperature": "stored"}  # 1 for models that are not ours


def test_language_models_at_scale_paper_are_tuned_with_the_published_values():
    entries = [entry for entry in config.load("glam", "paper").runs if entry.method in TUNED]
    assert len(entries) > 15
    for entry in entries:
        settings = registry.resolve(entry.method, entry.worlds[0], 0, entry.settings).settings
        assert {key: settings[key] for key in PUBLISHED} == PUBLISHED
        assert settings["model"].startswith("google/flan-t5-")
        mixed, variants = "Mixed" in entry.worlds[0], "E6" in entry.experiments
        assert settings["frames"] == (1_500_000 if mixed else 500_000 if variants else 400_000)
