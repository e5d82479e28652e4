"""The exhibits of the shipped language models: whatever ships is there, and cells hold what pretraining wrote."""

import copy
import json

import pandas as pd
import pytest

from groundlab.papers.glam import pretraining_exhibits
from groundlab.report.exhibits import draw

RECIPE = {"name": "quick-t5", "seed": 0, "leave_out": [], "dose": 1.0, "probe_samples": 400}
RECIPE["architecture"] = {"family": "t5", "width": 96, "layers": 3, "decoder_layers": 1, "binding_start": True}
RECIPE["stages"] = [{"topics": {"places": 1.0}}, {"topics": {"places": 1.0, "verbs": 0.5}}]
FACTS = {"recipe": RECIPE, "parameters": 632736, "temperature": 2.1436, "cpu_seconds": 605, "date": "2026-11-21"}
FACTS |= {"hardware": "2-core Test", "probes": {"places": 0.845, "verbs": 0.98, "binding: places, 8 things": 0.3}}


def store(home, folder, probes=None, architecture=None, **recipe):
    facts = copy.deepcopy(FACTS)
    facts["recipe"].update(recipe)
    facts["recipe"]["architecture"].update(architecture or {})
    facts["probes"].update(probes or {})
    (home / folder).mkdir(parents=True)
    (home / folder / "recipe.json").write_text(json.dumps(facts))


@pytest.fixture
def home(tmp_path):
    """Three models: one that met everything, one without verbs, and one of another kind with a probe of its own."""
    store(tmp_path, "a-no-verbs-s0", {"verbs": 0.03}, name="a-no-verbs", leave_out=["verbs"])
    store(tmp_path, "quick-t5-s0")
    store(tmp_path, "z-llama-s3", {"dialogue": 0.5}, {"family": "llama"}, name="z-llama", seed=3)
    (tmp_path / "quick-t5.yaml").write_text("no model")
    return tmp_path


def test_every_folder_of_weights_that_ships_is_shown_with_a_recipe_that_ships():
    weights = {file.parent.name for file in pretraining_exhibits.MODELS.glob("*/model.safetensors")}
    models = pretraining_exhibits.shipped()
    assert set(models) == weights >= {"quick-t5-s0", "quick-t5-s1"}
    recipes = {file.stem for file in pretraining_exhibits.MODELS.glob("*.yaml")}
    assert {facts["recipe"]["name"] for facts in models.values()} <= recipes


def test_the_table_tells_how_each_model_was_made_and_how_to_make_it_again(home):
    rows = pretraining_exhibits.models_table(home).readable.set_index("model")
    ours = rows.loc["quick-t5-s0"]
    told = [ours[name] for name in ("recipe", "temperature", "CPU", "parameters")]
    assert told == ["everything", "2.14", "605 s", "632,736"]
    assert rows.loc["z-llama-s3", "again"] == "groundlab pretrain z-llama --seed 3 --out out/z-llama-s3"
    assert rows.loc["z-llama-s3", "architecture"] == "llama, 3 layers, width 96"


def test_both_are_drawn_into_a_folder_that_holds_no_run(tmp_path):
    assert draw("glam-probes", tmp_path).path("png").stat().st_size > 1000
    data = pd.read_csv(draw("glam-models", tmp_path).path("csv"))
    stored = json.loads((pretraining_exhibits.MODELS / "quick-t5-s1" / "recipe.json").read_text())["probes"]
    ours = data[data["model"] == "quick-t5-s1"].set_index("probe")["success"]
    assert ours.to_dict() == pytest.approx({probe: 100 * share for probe, share in stored.items()})
