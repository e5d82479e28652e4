"""A run is renamed by what was asked for, by what it reads, by behaviour numbers and by the packages that compute."""

import json
import shutil
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

import groundlab
from groundlab import assets as assets_of
from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict
from groundlab.lab import machine, run_hash
from groundlab.papers import registry
from groundlab.papers.mediator import settings as mediator_settings

PACKAGE = Path(groundlab.__file__).parent
RUN = ("mediator", "SimpleDoorKey")
GRID_RUN = ("random", "BabyAI-GoToLocal-v0")


def name_of(method: str = RUN[0], world: str = RUN[1], **settings) -> str:
    return run_hash.hash_run(registry.resolve(method, world, 0, settings))


@pytest.fixture
def assets(tmp_path, monkeypatch) -> Path:
    """A copy of the package's text assets, read in the place of the package's."""
    home = tmp_path / "groundlab"
    shutil.copytree(PACKAGE / "assets", home / "assets", ignore=shutil.ignore_patterns("__pycache__", "models"))
    monkeypatch.setattr(run_hash, "package_folder", lambda: home)
    return home / "assets"


def test_a_higher_behaviour_number_renames_the_runs_of_a_method_or_of_a_family_of_worlds(monkeypatch):
    before, other = name_of(), name_of(*GRID_RUN)
    row = registry.get(*RUN)
    monkeypatch.setattr(registry, "methods", lambda: (("mediator", replace(row, behaviour=2)),))
    assert name_of() != before
    monkeypatch.undo()
    monkeypatch.setattr(type(worlds.family_of(GRID_RUN[1])), "behaviour", 2)
    assert name_of(*GRID_RUN) != other


def test_a_changed_prompt_or_tokenizer_renames_the_runs_that_read_it_and_no_other(assets):
    readers = {
        "prompts/mediator/SimpleDoorKey.txt": RUN,
        "prompts/reasoning/reasoning.txt": ("reasoning", "Reasoning-GoTo-v0"),
        "prompts/reasoning/invalid-direct-short.txt": ("direct-zero-shot", "Reasoning-GoTo-v0"),
        "prompts/glam/probes.json": ("glam", "BabyAI-GoToLocal-v0"),
        "prompts/knowledge/preference-segments.txt": ("knowledge", "BabyAI-Text-GoToLocal-RedBall-S20"),
        "tokenizers/drrn.json": ("drrn", "BabyAI-GoToLocal-v0"),
    }
    for name, run in readers.items():
        before, other = name_of(*run), name_of(*GRID_RUN)
        with (assets / name).open("a") as file:
            file.write("\n")
        assert name_of(*run) != before, name
        assert name_of(*GRID_RUN) == other


def test_an_asset_that_is_declared_and_not_there_is_refused_by_name(assets):
    (assets / "tokenizers/drrn.json").unlink()
    with pytest.raises(GroundlabError, match=r"expected the asset 'tokenizers/drrn\.json' of drrn"):
        name_of("drrn", "BabyAI-GoToLocal-v0")


def test_a_model_is_named_by_weights_config_and_tokenizer_wherever_it_lies(tmp_path):
    run = ("glam", "BabyAI-GoToLocal-v0")
    folder = shutil.copytree(PACKAGE / "assets" / "models" / "quick-t5-s0", tmp_path / "somewhere")
    usual = name_of(*run)
    assert name_of(*run, model=str(folder)) == usual
    moved = folder.rename(tmp_path / "elsewhere")
    assert name_of(*run, model=str(moved)) == usual
    recipe = json.loads((moved / "recipe.json").read_text())
    (moved / "recipe.json").write_text(json.dumps({**recipe, "date": "another", "hardware": "another"}))
    (moved / "README.md").write_text("another card")
    assert name_of(*run, model=str(moved)) == usual
    (moved / "recipe.json").write_text(json.dumps({**recipe, "temperature": 9.0}))
    assert name_of(*run, model=str(moved)) != usual, "scores are divided by it"
    (moved / "recipe.json").write_text(json.dumps(recipe))
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        before = (moved / name).read_bytes()
        (moved / name).write_bytes(before + b" ")
        assert name_of(*run, model=str(moved)) != usual, name
        (moved / name).write_bytes(before)
    assert name_of(*run, model=str(moved)) == usual


@pytest.mark.parametrize("run", [("glam", "BabyAI-GoToLocal-v0"), ("reasoning", "Reasoning-GoTo-v0")])
def test_a_model_that_does_not_ship_is_named_by_its_recipe_alone_before_and_after_it_is_pretrained(
    run, tmp_path, monkeypatch
):
    monkeypatch.setenv("GROUNDLAB_RESULTS", str(tmp_path))
    models = ["smoke-t5-s0", "smoke-t5-s1", "quick-llama-chat-fitting-0-s0", "quick-llama-chat-fitting-0.5-s0"]
    names = [name_of(*run, model=model) for model in models]
    assert len({*names, name_of(*run)}) == 5
    home = shutil.copytree(PACKAGE / "assets" / "models" / "quick-t5-s0", tmp_path / ".models" / "smoke-t5-s0")
    assert assets_of.resolve_model("smoke-t5-s0") == str(home)
    assert [name_of(*run, model=model) for model in models] == names
    monkeypatch.setattr(assets_of, "read_recipe", lambda name: {"pieces": 601})
    assert name_of(*run, model="smoke-t5-s0") != names[0]


def test_only_names_of_our_recipes_with_a_seed_are_pretrained_here():
    models = ["quick-t5-s0", "smoke-t5-s00", "smoke-t5-sx", "smoke-t6-s0", "org/smoke-t5-s0", "smoke-t5", "smoke-t5-s0"]
    assert [assets_of.unshipped({"a": 1, "teacher": {"model": model}}) for model in models] == [[]] * 6 + [models[-1:]]


def test_a_single_file_of_weights_and_every_other_file_count_by_their_content(tmp_path):
    for run, setting, given in (
        (("glam", "BabyAI-GoToLocal-v0"), "model", {}),
        (("reasoning", "Reasoning-GoTo-v0"), "model", {}),
        (("always", "KeyInBox"), "ledger", {"planner": "recorded"}),
        (("chat", "BabyAI-GoToLocal-v0"), "prompt", {}),
        (("knowledge", "BabyAI-Text-GoToLocal-RedBall-S20"), "source", {"form": "code"}),
    ):
        first, second = tmp_path / "model.gguf", tmp_path / "other.gguf"
        first.write_text("a")
        second.write_text("a")
        before = name_of(*run, **given, **{setting: str(first)})
        assert name_of(*run, **given, **{setting: str(second)}) == before, run
        second.write_text("b")
        assert name_of(*run, **given, **{setting: str(second)}) != before, run


def test_public_versions_count_of_what_is_installed_and_pinned_ones_where_nothing_is(monkeypatch):
    honest = metadata.version

    def forget() -> None:
        for read in (run_hash.computing_versions, machine.package_versions):
            read.cache_clear()

    def pretend(**versions: str | None):
        def version(name: str) -> str:
            if name not in versions:
                return honest(name)
            if versions[name] is None:
                raise metadata.PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(metadata, "version", version)
        forget()
        return name_of()

    pinned = run_hash.pinned_versions()["torch"]
    try:
        assert pretend(torch=f"{pinned}+cpu") == pretend(torch=f"{pinned}+cu130") == pretend(torch=None)
        assert pretend(torch="2.99.0") != pretend(torch=pinned)
        assert pretend(jupyterlab="99") == pretend(torch=pinned)
    finally:
        monkeypatch.undo()
        forget()


def test_a_run_is_renamed_by_the_rows_of_the_worlds_that_it_plays_and_by_no_other_row(monkeypatch):
    run, tested = ("drrn", "BabyAI-GoToLocal-v0"), {"tests": ["BabyAI-GoToObj-v0 fixed-mission"]}
    before, with_test = name_of(*run), name_of(*run, **tested)
    row = worlds.WORLDS["BabyAI-GoToObj-v0"]
    level = row.levels[0]._replace(objects=2)
    monkeypatch.setitem(worlds.WORLDS, row.name, replace(row, levels=(level,)))
    assert name_of(*run) == before and name_of(*run, **tested) != with_test
    row = worlds.WORLDS[run[1]]
    monkeypatch.setitem(worlds.WORLDS, row.name, replace(row, summary="described in other words"))
    assert name_of(*run) == before
    monkeypatch.setitem(worlds.WORLDS, row.name, replace(row, language="french"))
    assert name_of(*run) != before


def test_settings_at_their_defaults_do_not_count_nested_ones_neither():
    assert name_of(plans="head", fidelity={"repeat": "whole"}) == name_of()
    remaining = {"repeat": "remaining"}
    assert name_of(fidelity=remaining) != name_of()
    assert name_of(fidelity=remaining | {"carry_inside": False}) == name_of(fidelity=remaining)


def test_a_renamed_setting_and_a_renamed_method_are_understood_and_rename_no_run(monkeypatch):
    before = name_of(*RUN, ask_lambda=0.5)

    class Renamed(mediator_settings.TrainingSettings):
        former_names = {"ask_lambda": "price"}  # noqa: RUF012
        price: float = 0.01
        heads: str = "one"

    fields = {name: each for name, each in Renamed.model_fields.items() if name != "ask_lambda"}
    schema = type(
        "Settings",
        (Strict,),
        {
            "__annotations__": {name: each.annotation for name, each in fields.items()},
            **{name: each for name, each in fields.items()},
            "former_names": {"ask_lambda": "price"},
            "inputs": Renamed.inputs,
            "model_config": mediator_settings.TrainingSettings.model_config,
        },
    )
    monkeypatch.setattr(registry, "schema_of", lambda method: schema)
    assert name_of(*RUN, price=0.5) == name_of(*RUN, ask_lambda=0.5) == before
    monkeypatch.undo()
    row = registry.get(*RUN)
    renamed = replace(row, name="asker", formerly=("mediator", "asking"))
    monkeypatch.setattr(registry, "methods", lambda: (("mediator", renamed),))
    assert registry.resolve("asking", RUN[1], 0, {}).method == "asker"
    assert name_of("asker", RUN[1], ask_lambda=0.5) == name_of("mediator", RUN[1], ask_lambda=0.5) == before


def test_a_model_of_the_hub_enters_a_plan_with_its_revision_only(laboratory, rule_entry):
    from groundlab import lab

    entry = {**rule_entry, "method": "always", "worlds": ["KeyInBox"]}
    for settings, missing in (
        ({"planner": "local", "ledger": "l", "chat": {"model": "someone/some-model"}}, True),
        ({"planner": "local", "ledger": "l", "chat": {"model": "someone/some-model", "revision": "0" * 40}}, False),
        ({"planner": "openai", "ledger": "l", "chat": {"model": "someone/some-model"}}, False),
        ({"planner": "local", "ledger": "l", "chat": {"model": "quick-llama-chat-s0"}}, False),
    ):
        laboratory.write_config([{**entry, "settings": settings}])
        if missing:
            with pytest.raises(GroundlabError, match=r"expected revision .* someone/some-model"):
                lab.plan("mediator", scale="smoke")
        else:
            lab.plan("mediator", scale="smoke")
