"""DRRN: the original's network, its targets and its prompts; training that resumes and learns."""

import json
from pathlib import Path

import numpy as np
import pytest
import runs
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import drrn_tokenizer
from groundlab.core.run import RunSpec
from groundlab.learning.replay import Sequences
from groundlab.papers import registry
from groundlab.papers.episodes import select_env
from groundlab.papers.glam import drrn, unigram
from groundlab.papers.glam import settings as glam_settings
from groundlab.papers.glam.drrn import DRRN, TRANSITION, DriftingReader, DRRNLearner, QFunction, Settings, last_states
from groundlab.papers.glam.episodes import training_stream
from groundlab.papers.glam.policy import Reader
from groundlab.worlds.text_env.prompts import text_actions

GOLDEN = Path(__file__).parents[3] / "golden" / "drrn"
DRAWN = -0.918804  # the sum of the hidden layer; the last bits of weights depend on the CPU
WORLD = "BabyAI-GoToLocalS5N2-v0"
SMALL = {"num_envs": 4, "frames": 192, "layouts": "0-4", "batch_size": 16}


@pytest.fixture(autouse=True)
def short_iterations(monkeypatch):
    """Records of 48 frames instead of 1,024."""
    monkeypatch.setattr(glam_settings, "FRAMES_PER_RECORD", 48)


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((GOLDEN / "golden.json").read_text())


@pytest.fixture(scope="module")
def original(golden) -> QFunction:
    """The recorded weights, drawn again from seed 0, reading recorded ids: states are numbers 0 to 4."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = DRRN()
    drawn = sum(weights.double().sum().item() for weights in network.hidden.parameters())
    assert drawn == pytest.approx(DRAWN, abs=1e-3), "this torch draws other weights from a seed than 2.13 does"
    q = QFunction(network, text_actions(6))
    for ids in golden["state_token_ids"]:
        q.sequences.number(ids)
    actions = Sequences()
    numbers = np.array([actions.number(ids) for ids in golden["action_token_ids"]])
    q._actions = tuple(map(torch.from_numpy, actions.padded(numbers)))  # type: ignore[assignment]
    return q


def test_q_values_are_the_originals(original, golden):
    with torch.no_grad():
        torch.testing.assert_close(original(np.arange(5)), torch.tensor(golden["q_values"]), atol=1e-5, rtol=1e-4)


def test_q_values_do_not_depend_on_the_batch(original):
    with torch.no_grad():
        together = original(np.array([3, 1, 4, 1, 0]))
        alone = torch.cat([original(np.array([state])) for state in (3, 1, 4, 1, 0)])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)


def test_the_loss_of_an_update_is_the_originals(original, golden):
    recorded = golden["update"]
    batch = np.zeros(5, TRANSITION)
    batch["state"], batch["next"] = np.arange(5), (np.arange(5) + 1) % 5
    batch["action"], batch["reward"], batch["done"] = recorded["actions"], recorded["reward"], recorded["done"]
    loss = drrn.td_loss(original, batch, gamma=0.9)
    assert loss.item() == pytest.approx(recorded["smooth_l1_loss"], rel=1e-5)


def read_along(reader: Reader, actions: np.ndarray) -> list[str]:
    """The prompts of one environment that is played with these actions."""
    stream, prompts, first = training_stream(WORLD, 1, seed=3), [], np.arange(1)
    reader.start(0, select_env(stream.observations, 0))
    for action in actions:
        prompts += reader.prompts(stream.observations, first)
        ended = stream.step(np.array([action])).ended
        observation = select_env(stream.observations, 0)
        if ended[0]:
            prompts.append("end")
            reader.start(0, observation)
        else:
            reader.observe(0, int(action), observation)
    return prompts


def test_after_an_end_the_original_drifts_for_three_prompts():
    """The first has a goal and no observation, the next show actions behind what they led to, the fourth is right."""
    settings, actions = Settings(nbr_obs=3, action_list=True), np.random.default_rng(1).integers(0, 6, 200)
    right = read_along(Reader(1, WORLD, settings), actions)
    drifting = read_along(DriftingReader(1, WORLD, settings), actions)
    end = right.index("end")
    assert end == drifting.index("end") and right[:end] == drifting[:end]
    assert "Observation" not in drifting[end + 1] and "Observation 0" in right[end + 1]
    for later in (2, 3):
        assert not drifting[end + later].endswith(": ")
        assert right[end + later].endswith(f"Action {later - 1}: ")
    assert drifting[end + 4] == right[end + 4]


def test_the_tokenizer_keeps_the_words_of_captions_whole_and_knows_every_letter():
    tokenizer = unigram.load()
    assert tokenizer.get_vocab_size() == 8000
    assert [tokenizer.encode(action).tokens for action in text_actions(6)] == [
        ["▁turn", "▁left"], ["▁turn", "▁right"], ["▁go", "▁forward"], ["▁pick", "▁up"], ["▁drop"], ["▁toggle"],
    ]  # fmt: skip
    tokens = tokenizer.encode("You see a grey key 12 steps left, \n Action 0: ").tokens
    assert "|".join(tokens) == "▁You|▁see|▁a|▁grey|▁key|▁1|2|▁steps|▁left|,|▁Action|▁0|:|▁"
    assert 0 not in tokenizer.encode("Tu vois une boîte verte; the dax and the xolo").ids


def test_training_the_tokenizer_repeats_itself_and_keeps_frequent_words():
    lines = ["go to the red ball"] * 50 + ["go to the blue key, ready"] * 20
    pieces = drrn_tokenizer.train(lines, 120)
    assert pieces == drrn_tokenizer.train(lines, 120) and len(pieces) == 120
    tokenizer = unigram.build(pieces)
    assert tokenizer.encode("the red  key").tokens == ["▁the", "▁red", "▁key"]
    assert "".join(tokenizer.encode("ballet").tokens) == "▁ballet"


def spec(world=WORLD, **settings) -> RunSpec:
    return registry.resolve("drrn", world, 0, SMALL | settings)


def test_histories_and_drifting_prompts_go_through_a_checkpoint():
    changes = {"nbr_obs": 3, "fidelity": {"prompt_drift": True}}
    runs.goes_on(lambda: DRRNLearner(spec(**changes)), updates=1)


@pytest.mark.slow
def test_it_learns_to_face_the_only_object_of_a_small_room():
    runs.learns_the_smallest_room(
        lambda *world, **given: DRRNLearner(spec(*world, **given)), 69, layouts="0-49", batch_size=64
    )


def test_our_recurrence_is_torchs_own_with_its_gradient():
    torch.manual_seed(0)
    gru, tokens, lengths = nn.GRU(5, 4), torch.randn(3, 6, 5), torch.tensor([4, 6, 1])
    packed = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
    results = []
    for states in (gru(packed)[1][0], last_states(gru, packed)):
        gradient = torch.autograd.grad(states.pow(2).sum(), list(gru.parameters()))
        results.append((states, *gradient))
    for expected, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
