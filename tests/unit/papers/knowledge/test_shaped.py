"""A run on a sparse task is shaped by the knowledge that its settings name."""

import json

import numpy as np
import pytest
import runs
import torch

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run
from groundlab.learning.shaping import scale_of
from groundlab.papers import registry
from groundlab.papers.knowledge import agent, bk_goal, bk_pref
from groundlab.papers.knowledge.bk_goal import GoalLibrary
from groundlab.papers.knowledge.bk_pref import PreferenceTransformer
from groundlab.papers.knowledge.potentials import (
    Adjusted,
    Bonus,
    Constant,
    OraclePotential,
    Zero,
    measure_scale,
    play_effect,
    play_mean,
    random_play,
    targets,
)

WORLD = "BabyAI-GoToRedBallNoDists-v0"
SMALL = {"num_envs": 4, "frames_per_env": 8, "epochs": 1, "minibatches": 2, "iterations": 3, "layouts": "0-1"}


def run(folder, **given):
    return runs.executed(folder, "knowledge", WORLD, **SMALL, **given)


@pytest.fixture
def sources(tmp_path):
    """What the three labellings leave."""
    program = tmp_path / "code-final.py"
    source = "def compute_reward(obs, past_obs, past_actions):\n    return float((past_actions == 2).mean()), {}"
    program.write_text(source)
    torch.manual_seed(0)
    bk_pref.store(tmp_path / "preference", PreferenceTransformer((3, 7, 7), 7))
    library = GoalLibrary(["Step 1: You see a red ball 1 step forward."], [["Go to the ball."]])
    bk_goal.store(tmp_path / "goals", library)
    folders = {name: str(tmp_path / name) for name in ("preference", "goals")}
    return {"code": str(program), **folders, "motif": folders["preference"], "ellm": folders["goals"]}


class EveryStep(Bonus):
    """Half a point a step."""

    horizon, counted = 1, 0

    def __call__(self, reached, ends):
        self.counted += ends.size
        return np.full(ends.shape, 0.5)

    def state(self):
        return self.counted

    def load_state(self, state):
        self.counted = state


FORMS = ("none", "constant", "random", "oracle", "code", "preference", "goals", "ellm", "motif")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_knowledge_shapes_a_run(tmp_path, sources, form):
    run(tmp_path, form=form, source=sources.get(form), threshold=-1.0, pooling="sentences")
    shaping = [record["shaping"] for record in runs.records(tmp_path)]
    assert len(shaping) == 3 and (max(shaping) > 0) == (form != "none")
    assert [each["policy"] for each in runs.evaluations(tmp_path)] == ["argmax", "sampled"]


def test_the_oracle_knows_the_targets_of_a_world_that_fixes_them():
    assert targets("BabyAI-Text-GoToLocal-PurpleKey-S20") == [("key", "purple")]
    assert targets("BabyAI-Text-GoTo-RedBallBlueBox-S20") == [("ball", "red"), ("box", "blue")]
    for world in ("BabyAI-GoToLocal-v0", "BabyAI-Text-GoToLocal-Pretraining-S20"):
        with pytest.raises(GroundlabError, match="draws its targets"):
            targets(world)


def test_knowledge_that_is_not_there_is_one_clear_line(tmp_path):
    for form in ("code", "preference", "goals"):
        with pytest.raises(GroundlabError, match="needs what a labelling left"):
            run(tmp_path / form, form=form, source=str(tmp_path / "nothing"))
    (tmp_path / "network.json").write_text('{"shape": [3, 7, 7], "actions": 7, "scaled_attention": true}')
    with pytest.raises(GroundlabError, match="no whole preference network"):
        bk_pref.load(tmp_path)


@pytest.mark.parametrize("form", ["code", "goals", "ellm"])  # the others are in tests/contract
def test_a_run_can_have_its_knowledge_labelled_by_rule_first(tmp_path, data, form):
    given = {"form": form, "maker": "scripted", "dataset": str(data.folder)}
    given["labelling"] = {"rounds": 1 if form == "code" else 2}
    given |= {"share": 0.9, "pooling": "sentences"}  # whole texts are many more, and each is embedded once
    run(tmp_path / "run", **given)
    assert max(record["shaping"] for record in runs.records(tmp_path / "run")) > 0
    assert json.loads((tmp_path / "run" / "knowledge" / "labelling.json").read_text())["maker"] == "scripted"


def test_what_a_labelled_run_reads_belongs_to_its_identity(data):
    given = {"form": "goals", "maker": "scripted", "dataset": str(data.folder)}
    files = agent.Settings.model_validate(given).inputs().values()
    assert {file.name for file in files} >= {"arrays.npz", "card.json", "model.safetensors"}
    motif = agent.Settings.model_validate({"form": "motif", "source": "nowhere", "dataset": str(data.folder)})
    assert {file.name for file in motif.inputs().values()} == {"arrays.npz", "card.json"}
    assert agent.Settings(form="oracle").inputs() == {}


def test_a_run_has_one_source_of_knowledge():
    for given, line in (
        ({"form": "code", "source": "code-final.py", "maker": "scripted"}, "leave one of them out"),
        ({"form": "oracle", "maker": "scripted"}, "is not labelled"),
        ({"form": "motif", "source": "labels", "scale": "sums"}, "is for potentials"),
        ({"form": "ellm", "source": "labels", "effect": 0.2}, "has effect, which is for potentials"),
    ):
        with pytest.raises(ValueError, match=line):
            agent.Settings.model_validate(given)


def test_a_bonus_is_divided_by_what_endless_random_play_would_be_paid():
    bonus = EveryStep()
    assert measure_scale(bonus, WORLD, 0, "range", 0.9) == pytest.approx(0.5 / 0.1)
    assert bonus.counted == 0, "what was met while measuring is forgotten"


def test_a_reward_is_not_taken_for_a_potential(sources, tmp_path):
    settings = agent.Settings.model_validate({"form": "motif", "source": sources["motif"]})
    with pytest.raises(GroundlabError, match="is a reward, no potential"):
        agent.make_potential(WORLD, 0, settings, tmp_path)


def test_potentials_are_divided_by_their_size_in_random_play():
    oracle = OraclePotential([("ball", "red")])
    windows = random_play(WORLD, oracle.horizon, 0, 128, 16)
    seen = oracle(windows)
    assert 0 < seen.mean() < 1 and len(seen) == 128 * 16
    size = scale_of(torch.from_numpy(seen).reshape(128, 16), 0.99)
    for scale, expected in (("range", 1.0), ("sums", size), (3.0, 3.0)):
        assert measure_scale(oracle, WORLD, 0, scale, 0.99) == pytest.approx(expected)
    assert measure_scale(Zero(), WORLD, 0, "range", 0.99) == 1.0


@pytest.mark.parametrize("form", ["oracle", "random"])
@pytest.mark.parametrize("scale", ["range", "sums"])
def test_potentials_pay_the_same_in_random_play_and_have_no_mean_there(tmp_path, form, scale):
    given = {**SMALL, "form": form, "scale": scale, "centred": True, "effect": 0.25}
    spec = registry.resolve("knowledge", WORLD, 0, given)
    learner = agent.make_learner(spec, Run(tmp_path, spec))
    potential = learner._potential
    assert play_mean(potential, WORLD, 0) == pytest.approx(0, abs=1e-9)
    paid = learner._strength * play_effect(potential, WORLD, 0, 0.99) / learner._scale
    assert paid == pytest.approx(0.25)
    assert learner.train_step(1)["strength"] == learner._strength


def test_a_constant_pays_for_each_step_and_at_the_end_and_its_negative_the_opposite():
    assert play_effect(Constant(), WORLD, 0, 0.9) == pytest.approx(0.1)
    assert play_mean(Adjusted(Constant(), negated=True), WORLD, 0) == -1
    assert play_mean(Adjusted(Constant(), offset=1.0), WORLD, 0) == 0


def test_windows_of_random_play_follow_each_other():
    windows = random_play(WORLD, 3, 0, 10, 2)
    views, times = windows.views.reshape(10, 2, 4, 7, 7, 3), windows.times.reshape(10, 2, 4)
    assert (times[:, :, -1] == [[step, step] for step in range(10)]).all()
    assert (views[1:, :, 2] == views[:-1, :, 3]).all()
