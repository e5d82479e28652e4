"""The learning agents: the network, what it sees, the batch it learns from, and that learning resumes and works."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rooms import room_image
from runs import evaluations, records

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec, load_checkpoint
from groundlab.papers import recording, registry
from groundlab.papers.mediator.agent import make_learner
from groundlab.papers.mediator.network import FrameNetwork
from groundlab.papers.mediator.options_rl import OptionEpisode
from groundlab.papers.mediator.settings import TRAINING_LAYOUTS, TrainingSettings
from groundlab.papers.mediator.skills import SkillSettings
from groundlab.papers.mediator.training import FrameDifference, learning_rate, make_batch, training_layouts

SMALL = {"trajectories": 3, "layouts": "0-4", "test_every": 2}


def spec(method="mediator", world="SimpleDoorKey", seed=0, **settings) -> RunSpec:
    return registry.resolve(method, world, seed, SMALL | settings)


def test_the_network_is_the_originals(mediator_golden):
    network = FrameNetwork(outputs=2)
    shapes = {name: list(parameter.shape) for name, parameter in network.named_parameters()}
    assert shapes == mediator_golden["network"]["params"]
    assert sum(parameter.numel() for parameter in network.parameters()) == 43_699
    assert network.image_conv(torch.zeros(1, 4, 10, 10)).shape == (1, 256)


def test_channels_lead_and_x_stays_before_y():
    network, frames = FrameNetwork(outputs=2), torch.rand(3, 10, 10, 4)
    expected = network.actor(network.image_conv(torch.stack([frame.permute(2, 0, 1) for frame in frames])))
    torch.testing.assert_close(network(frames)[0], expected)


def test_frame_differences_wrap_as_bytes_and_start_at_zero(mediator_golden):
    episode = next(e for e in mediator_golden["episodes"] if "uint8_frame_diffs_first3" in e)
    from groundlab.worlds import GridEnv

    env = GridEnv(episode["task"])
    images = [env.reset(seed=episode["seed"])[0]["image"]]
    images += [env.step(int(action))[0]["image"] for action in episode["actions"][:3]]
    frames, first = FrameDifference(), np.array([0])
    frames.begin(images[0][None])
    assert not frames.inputs(images[0][None], first).any()
    for record, image in zip(episode["uint8_frame_diffs_first3"], images[1:], strict=True):
        difference = frames.inputs(image[None], first)[0]
        nonzero = [[*map(int, at), int(difference[tuple(at)])] for at in np.argwhere(difference)]
        assert sorted(nonzero) == sorted(record["nonzero"])


def test_signed_differences_are_what_they_say():
    before, after = np.full((2, 10, 10, 4), 3, np.uint8), np.full((2, 10, 10, 4), 1, np.uint8)
    signed = FrameDifference("signed")
    signed.begin(before)
    assert np.allclose(signed.inputs(after, np.array([1])), -2 / 10)


def test_training_never_sees_a_test_layout():
    layouts = [layout for iteration in range(1, 200) for layout in training_layouts(0, iteration, 11)]
    assert min(layouts) >= TRAINING_LAYOUTS[0] and len(set(layouts)) == len(layouts)
    assert training_layouts(0, 5, 11) == training_layouts(0, 5, 11) != training_layouts(1, 5, 11)


@pytest.mark.parametrize("advantage", ["monte-carlo", "gae"])
def test_a_batch_holds_every_decision_with_its_return(advantage):
    settings = TrainingSettings(trajectories=3, fidelity={"advantage": advantage}, lam=1.0)
    learner = make_learner(RunSpec(method="mediator", world="ColoredDoorKey", seed=0, settings=settings.model_dump()))
    paths, test_episode = learner.collect(training_layouts(0, 1, 4), 1)
    batch, advantages = make_batch(paths, settings)
    assert len(batch.actions) == sum(path.episode.steps for path in paths)
    assert test_episode.layout == training_layouts(0, 1, 4)[-1]
    start = 0
    for path in paths:  # Monte-Carlo returns, written out; with lambda = 1 GAE gives the same
        end, value = start + path.episode.steps, path.last_value
        for t in reversed(range(path.episode.steps)):
            value = path.episode.rewards[t] + 0.99 * value
            assert batch.returns[start + t].item() == pytest.approx(value, abs=1e-4)
        start = end
    torch.testing.assert_close(advantages, batch.returns - batch.values, atol=1e-5, rtol=1e-5)
    logits, values = learner.network(batch.inputs)
    log_probs = torch.log_softmax(logits, -1).gather(1, batch.actions[:, None])[:, 0]
    torch.testing.assert_close(log_probs, batch.log_probs, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(values, batch.values, atol=1e-5, rtol=1e-4)


def test_an_open_door_ends_the_return_and_a_time_limit_does_not():
    learner = make_learner(spec(world="ColoredDoorKey", trajectories=10))
    paths, _ = learner.collect(training_layouts(0, 1, 11), 1)
    opened = [path for path in paths if path.episode.finished]
    limited = [path for path in paths if not path.episode.finished]
    assert opened and limited
    assert all(path.last_value == 0 for path in opened)
    assert all(path.last_value != 0 and path.episode.steps == 100 for path in limited)


def test_the_learning_rate_is_constant_until_its_share_of_the_run_and_then_falls_to_nothing():
    constant, falling = TrainingSettings(iterations=400), TrainingSettings(iterations=400, anneal_from=0.75)
    assert {learning_rate(constant, iteration) for iteration in range(1, 401)} == {1e-3}
    assert {learning_rate(falling, iteration) for iteration in range(1, 302)} == {1e-3}
    assert learning_rate(falling, 351) == pytest.approx(0.5e-3)
    assert learning_rate(falling, 400) == pytest.approx(1e-5)


def test_options_that_go_to_an_object_work_once_it_was_seen_and_cost_a_no_op_before():
    """The released code never fills in coordinates, so its agent cannot go anywhere (Q9)."""

    def first_action(objects, choice, carry=None) -> int:
        image = room_image(objects, carry=carry)
        return OptionEpisode(0, image, np.random.default_rng(0), SkillSettings()).act(choice)

    key, door = ("key", "red", 7, 3), ("door", "red", 9, 3, 2)
    assert first_action([key], 1) == 2 and first_action([door], 2) == 2
    assert first_action([], 1) == 6 and first_action([], 2) == 6
    assert first_action([key], 1, carry=("key", "red")) == 6


@pytest.mark.parametrize("method", ["mediator", "never"])
def test_who_watches_an_evaluation_changes_nothing_and_an_untrained_agent_is_refused(method, tmp_path):
    run = Run(tmp_path, spec(method, iterations=2))
    registry.execute(run)
    stored = evaluations(tmp_path)
    checkpoint = load_checkpoint(tmp_path)
    request = registry.Request(method, run.spec.world, 0, run.spec.settings, checkpoint)
    with recording.recorded() as kept:
        results = registry.evaluate(request)
    assert results == stored
    if method == "never":
        with pytest.raises(GroundlabError, match="not recorded; leave out --record and --show"):
            recording.by_policy(kept, results, method)
    else:
        assert "--- layout 4, argmax ---" in recording.transcript(recording.by_policy(kept, results, method))
    with pytest.raises(GroundlabError, match="needs a trained agent; give --checkpoint"):
        registry.evaluate(replace(request, checkpoint=None))


def test_tensorboard_has_the_originals_tags(tmp_path):
    registry.execute(Run(tmp_path, spec(iterations=2)))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "Test/Return", "Test/Game Return", "Test/Mean Eplen", "Test/Comm",
        "Train/Return Mean", "Train/Return Std", "Train/Game Return Mean", "Train/Game Return Std",
        "Train/Eplen", "Train/Success Rate", "Train/Loss", "Train/Mean Entropy",
    }  # fmt: skip


@pytest.mark.slow
def test_learning_makes_asking_rarer(tmp_path):
    """Sixty iterations on SimpleDoorKey: interactions fall well below the untrained policy's at full success."""
    registry.execute(Run(tmp_path, spec(iterations=60, trajectories=10, test_every=60, layouts="0-49")))
    told = records(tmp_path)
    early, late = (np.mean([record["interactions"] for record in part]) for part in (told[:5], told[-5:]))
    assert late < 0.75 * early
    assert told[-1]["test"]["sampled"]["success"] >= 0.95
