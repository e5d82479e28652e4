"""A run on a sparse task is shaped by the knowledge that its settings name."""

import numpy as np
import pytest
import runs
import torch
from knowledge_data import warm

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run
from groundlab.learning.shaping import scale_of
from groundlab.papers import registry
from groundlab.papers.knowledge import agent, bk_goal, bk_pref, scripted
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


def test_the_oracle_knows_the_targets_of_a_world_that_fixes_them():
    assert targets("BabyAI-Text-GoToLocal-PurpleKey-S20") == [("key", "purple")]
    assert targets("BabyAI-Text-GoTo-RedBallBlueBox-S20") == [("ball", "red"), ("box", "blue")]
    for world in ("BabyAI-GoToLocal-v0", "BabyAI-Text-GoToLocal-Pretraining-S20"):
        with pytest.raises(GroundlabError, match="draws its targets"):
            targets(world)


def test_knowledge_that_is_not_there_is_one_clear_line(tmp_path):
    for form in ("code", "preference", "goals"):
        given = {**SMALL, "form": form, "source": str(tmp_path / "nothing")}
        with pytest.raises(GroundlabError, match="needs what a labelling left"):
            runs.executed(tmp_path / form, "knowledge", WORLD, **given)
    (tmp_path / "network.json").write_text('{"shape": [3, 7, 7], "actions": 7, "scaled_attention": true}')
    with pytest.raises(GroundlabError, match="no whole preference network"):
        bk_pref.load(tmp_path)


def test_what_a_labelled_run_reads_belongs_to_its_identity(data):
    given = {"form": "goals", "maker": "scripted", "dataset": str(data.folder)}
    files = agent.Settings.model_validate(given).inputs().values()
    assert {file.name for file in files} >= {"arrays.npz", "card.json", "model.safetensors"}
    motif = agent.Settings.model_validate({"form": "motif", "source": "nowhere", "dataset": str(data.folder)})
    assert {file.name for file in motif.inputs().values()} == {"arrays.npz", "card.json"}
    lives = agent.Settings.model_validate({"form": "goals", "maker": "recorded", "dataset": "crafter-reward"})
    assert "crafter-goals-ledger.jsonl" in {file.name for file in lives.inputs().values()}
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


def test_a_source_of_labels_is_learnt_from_and_as_a_control_they_are_shuffled(episodes, tmp_path):
    settings = bk_pref.LabelSettings(pairs=60)
    labels = bk_pref.judge(scripted.scripted_judge(0.0, 0), warm, episodes, settings, seed=0)
    bk_pref.store_labels(tmp_path / "preferences.json", labels, episodes, settings)
    given = {"form": "preference", "source": str(tmp_path)}
    given["labelling"] = {"train": {"network": "small", "epochs": 2, "test_share": 0.3}}
    (tmp_path / ".ledger.jsonl.lock").touch()
    windows, phi = random_play(WORLD, 5, 0, 8, 4), {}
    for shuffled in (False, True):
        asked = agent.Settings.model_validate(given | {"shuffled": shuffled})
        names = {file.name for file in asked.inputs().values()}
        assert names == {"arrays.npz", "card.json", "coverage.json", "preferences.json"}
        phi[shuffled] = agent.make_potential(WORLD, 3, asked, tmp_path / "unused")(windows)
    learnt, _ = bk_pref.train(labels.pairs(), bk_pref.TrainSettings(**given["labelling"]["train"]), (3, 7, 7), 7, 3)
    assert np.array_equal(phi[False], bk_pref.PreferencePotential(learnt)(windows))
    assert not np.array_equal(phi[False], phi[True]) and not (tmp_path / "unused").exists()
    bk_pref.store(tmp_path, learnt)
    for more in ({}, {"labelling": {}, "shuffled": True}, {"labelling": {}, "form": "oracle", "shuffled": True}):
        with pytest.raises(ValueError, match="does not read; leave it out"):
            agent.Settings.model_validate(given | more)


def test_goals_are_shuffled_among_stretches(tmp_path, monkeypatch):
    library = bk_goal.GoalLibrary([f"stretch {n}" for n in range(9)], [[f"goal {n}"] for n in range(9)])
    bk_goal.store(tmp_path, library)
    made = []
    monkeypatch.setattr(agent, "load_encoder", lambda *_: None)
    monkeypatch.setattr(agent, "GoalPotential", lambda library, *_: made.append(library))
    for shuffled in (False, True):
        given = {"form": "goals", "source": str(tmp_path), "threshold": 0.5, "shuffled": shuffled}
        agent.make_potential(WORLD, 0, agent.Settings.model_validate(given), tmp_path)
    assert made[0] == library and made[1].captions == library.captions
    assert made[1].goals != library.goals and sorted(made[1].goals) == sorted(library.goals)


def test_a_bonus_is_divided_by_what_endless_random_play_would_be_paid():
    bonus = EveryStep()
    assert measure_scale(bonus, WORLD, 0, "range", 0.9) == pytest.approx(0.5 / 0.1)
    assert bonus.counted == 0, "what was met while measuring is forgotten"


def test_a_reward_is_not_taken_for_a_potential(tmp_path):
    bk_pref.store(tmp_path / "preference", PreferenceTransformer((3, 7, 7), 7))
    settings = agent.Settings.model_validate({"form": "motif", "source": str(tmp_path / "preference")})
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
