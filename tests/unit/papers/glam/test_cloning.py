"""Demonstrations say what was read and done, as a replay shows; cloning learns from them."""

from pathlib import Path

import numpy as np
import pytest
import runs
import torch

from groundlab import worlds
from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec
from groundlab.language import tokenizer
from groundlab.language.architecture import Architecture, build
from groundlab.papers import registry
from groundlab.papers.episodes import play_layouts
from groundlab.papers.glam import cloning
from groundlab.papers.glam.cloning import CloningLearner, Pair, Settings, bot_pairs, learning_rate, player_pairs
from groundlab.papers.glam.settings import ReadingSettings
from groundlab.papers.worlds.random_agent import RandomPlayer
from groundlab.worlds.text import describe_batch
from groundlab.worlds.text_env.prompts import glam_prompt, text_actions

WORLD = "BabyAI-GoToLocalS5N2-v0"
READING = ReadingSettings(nbr_obs=3, action_list=True)


def replayed(world: str, pairs: list[Pair], succeeds: bool = False) -> list[str]:
    """The prompts that one episode's actions lead to, from its level, by the rules of the spec and no shared code."""
    env, sentences, actions, prompts, ends = worlds.GridEnv(world), [], [], [], []
    observation, _ = env.reset(seed=pairs[0].layout)
    for pair in pairs:
        sentences.append(describe_batch(observation["image"][None])[0])
        prompts.append(glam_prompt(observation["mission"], text_actions(6), sentences[-3:], actions[-2:]))
        actions.append(pair.action)
        observation, _, terminated, *_ = env.step(text_actions(6).index(pair.action))
        ends.append(terminated)
    assert not succeeds or ends == [*[False] * (len(pairs) - 1), True]
    return prompts


def episodes_of(pairs: list[Pair]) -> list[list[Pair]]:
    starts = [index for index, pair in enumerate(pairs) if pair.step == 0]
    return [pairs[start:end] for start, end in zip(starts, [*starts[1:], len(pairs)], strict=True)]


def test_the_bots_pairs_are_what_a_replay_of_its_episodes_shows_which_succeed():
    episodes = episodes_of(bot_pairs(WORLD, READING, 120, seed=4))
    assert len(episodes) > 10 and sum(map(len, episodes)) == 120
    for pairs in episodes:
        assert [pair.step for pair in pairs] == list(range(len(pairs)))
        assert pairs[0].layout >= TRAINING_LAYOUTS[0]
        assert [pair.prompt for pair in pairs] == replayed(WORLD, pairs, succeeds=pairs is not episodes[-1])


def test_the_originals_episodes_begin_with_the_last_observation_of_the_one_before():
    right = episodes_of(bot_pairs(WORLD, READING, 60, seed=4))
    stale = episodes_of(bot_pairs(WORLD, READING, 60, seed=4, stale_first=True))
    assert stale[0] == right[0] and [len(each) for each in stale] == [len(each) for each in right]
    differing = [ours for ours, theirs in zip(right[1:], stale[1:], strict=True) if ours[0] != theirs[0]]
    assert len(differing) > len(right) / 2
    env = worlds.GridEnv(WORLD)
    observation, _ = env.reset(seed=right[0][0].layout)
    for pair in right[0]:
        observation, *_ = env.step(text_actions(6).index(pair.action))
    last = ", ".join(describe_batch(observation["image"][None])[0])
    assert f"Observation 0: {last}, \n Action 0: " in stale[1][0].prompt


def test_mixed_worlds_are_demonstrated_kind_by_kind():
    pairs = bot_pairs("BabyAI-MixedTrainLocal-v0", ReadingSettings(), 200, seed=0)
    goals = [pairs[0].prompt.split("\n")[0] for pairs in episodes_of(pairs)[:5]]
    for goal, verb in zip(goals, ("go to", "pick up", "open", "put", "pick"), strict=True):
        assert verb in goal


def test_any_player_can_demonstrate():
    layouts, player = list(range(8)), RandomPlayer(6, np.random.default_rng(0))
    pairs = player_pairs(WORLD, READING, layouts, player)
    rows = play_layouts(WORLD, layouts, RandomPlayer(6, np.random.default_rng(0)))
    episodes = episodes_of(pairs)
    assert [len(pairs) for pairs in episodes] == [row["steps"] for row in rows]
    for pairs in episodes:
        assert [pair.prompt for pair in pairs] == replayed(WORLD, pairs)


def test_stored_pairs_come_back_and_changed_ones_are_noticed(tmp_path):
    pairs = bot_pairs(WORLD, READING, 30, seed=1)
    for folder in ("a", "b"):
        cloning.store_pairs(tmp_path / folder, pairs, {"by": "bot"})
    assert cloning.read_pairs(tmp_path / "a") == pairs
    file = cloning.PAIRS
    assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    (tmp_path / "b" / file).write_bytes((tmp_path / "b" / file).read_bytes()[:-1])
    with pytest.raises(GroundlabError, match="make it again"):
        cloning.read_pairs(tmp_path / "b")


@pytest.fixture(scope="module", params=["t5", "llama"])
def model(request, tmp_path_factory) -> Path:
    """A model of random weights that knows the words of the prompts."""
    folder = tmp_path_factory.mktemp(request.param)
    words = tokenizer.train([pair.prompt for pair in bot_pairs(WORLD, READING, 300, seed=9)] * 40, 300)
    shape = Architecture(family=request.param, width=32, feed_forward=64, heads=2, head_width=16, layers=2)
    build(shape, len(words), 0).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def small(model: Path, **changes) -> Settings:
    values = {"model": str(model), "frames": 200, "held_out": 50, "layouts": "0-4", "batch_size": 16}
    return Settings(**{**values, "steps_per_record": 4, **changes})


def spec_of(settings: Settings) -> RunSpec:
    return RunSpec(method="cloning", world=WORLD, seed=0, settings=settings.model_dump(mode="json"))


def run_of(folder: Path, settings: Settings, **options) -> Run:
    return Run(folder, spec_of(settings), **options)


def test_the_loss_is_the_mean_over_the_actions_words_and_ends(model):
    learner = CloningLearner(spec_of(small(model)))
    pairs = bot_pairs(WORLD, READING, 20, seed=2)
    words, terms = learner.scorer.tokenizer, []
    for pair in pairs:
        prompt = words(pair.prompt, add_special_tokens=False)["input_ids"]
        action = [*words(pair.action, add_special_tokens=False)["input_ids"], words.eos_token_id]
        if learner.scorer.model.config.is_encoder_decoder:
            output = learner.scorer.model(input_ids=torch.tensor([prompt]), labels=torch.tensor([action])).logits[0]
        else:
            output = learner.scorer.model(input_ids=torch.tensor([prompt + action])).logits[0, len(prompt) - 1 : -1]
        terms += [-output.log_softmax(-1)[place, token].item() for place, token in enumerate(action)]
    assert len({len(words(pair.action)["input_ids"]) for pair in pairs}) > 1 or len(terms) > len(pairs)
    assert learner.loss(pairs).item() == pytest.approx(np.mean(terms), rel=1e-4)


def test_the_original_also_learns_the_padding_behind_short_actions(model):
    if "llama" in str(model):
        pytest.skip("the original cloned encoder-decoders only")
    pairs = [Pair(0, 0, "Goal of the agent: go to the red ball", action) for action in ("turn left", "drop")]
    plain = CloningLearner(spec_of(small(model)))
    quirky = CloningLearner(spec_of(small(model, fidelity={"pad_loss": True})))
    scorer = plain.scorer
    ids = torch.tensor([scorer.tokenizer(pairs[1].prompt, add_special_tokens=False)["input_ids"]])
    drop = scorer.tokenizer("drop", add_special_tokens=False)["input_ids"]
    labels = torch.tensor([[*drop, scorer.tokenizer.eos_token_id, scorer.tokenizer.pad_token_id]])
    padding = -scorer.model(input_ids=ids, labels=labels).logits[0, -1].log_softmax(-1)[scorer.tokenizer.pad_token_id]
    counted = 5  # turn, left, end; drop, end
    expected = (plain.loss(pairs) * counted + padding) / (counted + 1)
    torch.testing.assert_close(quirky.loss(pairs), expected, rtol=1e-4, atol=1e-5)


def test_the_rate_rises_and_falls_to_nothing():
    settings = Settings(frames=64_000)
    rates = [learning_rate(settings, step) for step in range(1000)]
    assert rates[0] == pytest.approx(5e-5) and max(rates) == pytest.approx(5e-4) == rates[10]
    assert rates[10:] == sorted(rates[10:], reverse=True) and rates[-1] < 1e-6


def test_every_pair_is_read_once_an_epoch(model):
    pairs = bot_pairs(WORLD, READING, 200, seed=2)
    learner = CloningLearner(spec_of(small(model)), pairs)
    epochs = [[pair for step in range(13 * e, 13 * e + 13) for pair in learner.batch(step)] for e in (0, 1)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(pairs) and epochs[0] != epochs[1]
    ordered = CloningLearner(spec_of(small(model, fidelity={"in_order": True})), pairs)
    assert [pair for step in range(13) for pair in ordered.batch(step)] == pairs


@pytest.mark.slow
def test_cloning_raises_accuracy_on_what_it_has_not_seen(model, tmp_path):
    settings = small(model, frames=1500, held_out=300, steps_per_record=47, epochs=2, lr=3e-3, layouts="0-9")
    before = CloningLearner(spec_of(settings)).accuracy(bot_pairs(WORLD, settings, 300, seed=50))
    registry.execute(run_of(tmp_path, settings))
    first, *_, last = runs.records(tmp_path)
    assert last["frames"] == 3000 and last["loss"] < 0.6 * first["loss"]
    assert last["accuracy"] > max(before, 0.5) + 0.1


def test_stored_demonstrations_belong_to_the_runs_identity_and_too_few_are_told(tmp_path):
    cloning.store_pairs(tmp_path / "pairs", bot_pairs(WORLD, READING, 100, seed=1), {"by": "bot"})
    settings = small(Path("model"), demonstrations=str(tmp_path / "pairs"), held_out=36)
    assert {f"demonstrations/{cloning.PAIRS}", f"demonstrations/{cloning.ABOUT}"} <= settings.inputs().keys()
    with pytest.raises(GroundlabError, match="has 100 pairs, not 236"):
        cloning.load_pairs(run_of(tmp_path / "run", settings), settings)


def test_a_teacher_without_its_settings_or_beside_the_bot_is_refused(model):
    for wrong in ({"demonstrations": "agent"}, {"teacher": {}}):
        with pytest.raises(GroundlabError, match="demonstrations: agent and the teacher's settings together"):
            registry.resolve_settings("cloning", WORLD, {"model": str(model), **wrong})
