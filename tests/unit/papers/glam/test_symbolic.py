"""The symbolic agent: BabyAI's network and its start, coherent experience, and learning."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import runs
import torch
from torch import nn

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec
from groundlab.learning import ppo
from groundlab.papers import registry
from groundlab.papers.episodes import play_layouts
from groundlab.papers.glam import symbolic
from groundlab.papers.glam.symbolic import ACModel, Settings, SymbolicLearner, SymbolicPlayer, word_numbers

GOLDEN = Path(__file__).parents[3] / "golden" / "symbolic_acmodel"
DRAWN = 19.774086  # the sum of the memory's weights, whose last bits depend on the CPU
WORLD = "BabyAI-GoToLocalS5N2-v0"
SMALL = {"num_envs": 4, "frames_per_env": 6, "recurrence": 3, "batch_size": 12, "frames": 96, "layouts": "0-4"}


def spec(world=WORLD, **settings) -> RunSpec:
    return registry.resolve("symbolic", world, 0, SMALL | settings)


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((GOLDEN / "golden.json").read_text())


@pytest.fixture(scope="module")
def recorded_network(golden) -> ACModel:
    """The weights that were recorded, drawn again: seed 0, in the order in which BabyAI's constructor draws.

    Its running statistics are those of one pass in training mode over the recorded batch.
    """
    network = ACModel(6)
    head = [layer for part in (network.actor, network.critic) for layer in part if isinstance(layer, nn.Linear)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        convolutions = [layer for layer in network.image_conv if isinstance(layer, nn.Conv2d)]
        for layer in (*convolutions, network.word_embedding, network.instr_rnn, network.memory_rnn):
            layer.reset_parameters()
        drawn = sum(weights.double().sum().item() for weights in network.memory_rnn.parameters())
        for block in network.film:
            for layer in (block.conv1, block.conv2, block.weight, block.bias):
                layer.reset_parameters()
            block.apply(symbolic._unit_rows)
        for layer in head:
            layer.reset_parameters()
        for part in (network.film, *head):
            part.apply(symbolic._unit_rows)
    assert drawn == pytest.approx(DRAWN, abs=1e-3), "this torch draws other weights from a seed than 2.13 does"
    with torch.no_grad():
        network.train()(*inputs_of(golden))
    return network


def inputs_of(golden):
    return torch.tensor(golden["image"]), torch.tensor(golden["instr"]), torch.tensor(golden["memory"])


@pytest.mark.parametrize("mode", ["eval_mode", "train_mode"])
def test_policy_value_and_memory_are_the_originals(golden, recorded_network, mode):
    network = copy.deepcopy(recorded_network).train(mode == "train_mode")
    with torch.no_grad():
        log_probs, values, memory = network(*inputs_of(golden))
    expected = golden[mode]
    torch.testing.assert_close(log_probs, torch.tensor(expected["logits"]), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(values, torch.tensor(expected["value"]).flatten(), atol=1e-4, rtol=1e-4)
    if mode == "eval_mode":
        torch.testing.assert_close(memory, torch.tensor(expected["memory"]), atol=1e-4, rtol=1e-4)
    else:
        torch.testing.assert_close(memory.sum(1), torch.tensor(expected["memory_sum"]), atol=1e-3, rtol=1e-4)


def test_linear_layers_begin_with_rows_of_length_one():
    for module in symbolic.build_network(0, 6).modules():
        if isinstance(module, nn.Linear):
            torch.testing.assert_close(module.weight.norm(dim=1), torch.ones(module.out_features))
            assert not module.bias.any()


def test_missions_are_read_to_their_last_word_whatever_their_neighbours():
    network = symbolic.build_network(0, 6)
    missions = ["open the door", "go to a red ball after you pick up the grey key"]
    with torch.no_grad():
        together = network._read(word_numbers(missions))
        alone = torch.cat([network._read(word_numbers([mission])) for mission in missions])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("world", registry.worlds_of(registry.get("symbolic", WORLD)))
def test_every_mission_has_numbers(world):
    env = worlds.GridVectorEnv(worlds.find(world), 20, seed=0)
    missions = env.reset()[0]["mission"]
    assert (word_numbers(missions)[:, 0] > 0).all()


def test_an_unknown_word_is_named():
    with pytest.raises(GroundlabError, match="unknown word in a mission 'gren'; did you mean 'green'"):
        word_numbers(["go to the gren ball"])


def test_experience_is_each_environments_own_and_continues_its_memory():
    learner = SymbolicLearner(spec(frames_per_env=80, recurrence=20))
    learner.network.eval()  # so that a step can be repeated alone
    experience = learner.collect(np.random.default_rng(0))
    assert len(experience.actions) == 4 * 80 and (experience.masks == 0).sum() > 2
    read = experience.images, experience.words, experience.memories * experience.masks
    log_probs, values, memory = learner.network(*read)
    torch.testing.assert_close(values, experience.values, atol=1e-5, rtol=1e-4)
    chosen = log_probs.gather(1, experience.actions[:, None])[:, 0]
    torch.testing.assert_close(chosen, experience.log_probs, atol=1e-5, rtol=1e-4)
    inside = torch.tensor([index for index in range(4 * 80) if index % 80 < 79])
    torch.testing.assert_close(memory[inside], experience.memories[inside + 1], atol=1e-5, rtol=1e-4)


def unrolled_step_by_step(network, experience, starts, settings):
    """The losses of `symbolic.unroll` as the original takes them: the whole network at each step."""
    memory, losses = experience.memories[starts], []
    for at in (starts + step for step in range(settings.recurrence)):
        own = symbolic.Experience._make(field[at] for field in experience)
        log_probs, values, memory = network(own.images, own.words, memory * own.masks)
        batch = ppo.Batch(own.images, own.actions, own.log_probs, own.values, own.returns)
        losses.append(torch.stack(ppo.losses_of(log_probs, values, batch, own.advantages, settings)))
        if len(losses) < settings.recurrence:
            experience.memories[at + 1] = memory.detach()
    return torch.stack(losses).mean(0)


def test_steps_read_together_are_what_they_are_one_after_the_other():
    learner = SymbolicLearner(spec(num_envs=16, frames_per_env=40, recurrence=20, batch_size=320))
    experience, starts, results = learner.collect(np.random.default_rng(0)), torch.arange(16) * 40, []
    for unroll in (unrolled_step_by_step, symbolic.unroll):
        network = symbolic.build_network(0, 6).train().double()
        own = symbolic.Experience._make(f.double() if f.is_floating_point() else f.clone() for f in experience)
        network.image_conv.register_forward_pre_hook(lambda _, images: images[0].double())
        losses = unroll(network, own, starts, learner.settings)
        losses[0].backward()
        gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
        averages = dict(network.named_buffers())
        results.append({"losses": losses.detach(), "memories": own.memories, **gradients, **averages})
    assert len(results[0]) > 40
    for name, expected in results[0].items():
        assert torch.allclose(results[1][name], expected, rtol=1e-9, atol=1e-9), name


@pytest.mark.parametrize("frames", [3, 200])
def test_a_convolution_of_two_by_two_is_a_convolution(frames):
    layer, x = nn.Conv2d(5, 7, 3, padding=1), torch.randn(frames, 5, 2, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(symbolic.convolved(layer, x), layer(x))


def test_tests_do_not_depend_on_how_many_are_played_together():
    network = symbolic.build_network(0, 6)
    together = play_layouts(WORLD, range(6), SymbolicPlayer(network, 6, None, None))
    alone = [row for seed in range(6) for row in play_layouts(WORLD, [seed], SymbolicPlayer(network, 1, None, None))]
    assert together == alone


@pytest.mark.slow
def test_it_learns_to_face_the_only_object_of_a_small_room():
    sizes = {name: Settings.model_fields[name].default for name in ("frames_per_env", "recurrence", "batch_size")}
    runs.learns_the_smallest_room(lambda *world, **given: SymbolicLearner(spec(*world, **given)), 8, **sizes)


def test_settings_that_contradict_each_other_are_told(tmp_path):
    for given, line in (({"recurrence": 4}, "recurrence 4 does not divide"), ({"tests": ["synonyms"]}, "no prompt")):
        with pytest.raises(GroundlabError, match=line):
            runs.executed(tmp_path / line, "symbolic", WORLD, **SMALL | given)
