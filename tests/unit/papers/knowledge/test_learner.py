"""The knowledge agents learn as the formulas say, and go on from where they stopped."""

import numpy as np
import pytest
import runs
import torch

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.papers import registry
from groundlab.papers.knowledge import agent
from groundlab.papers.knowledge.networks import RandomDistillation, TwoHeadedAgent
from groundlab.papers.knowledge.potentials import Constant, OraclePotential
from groundlab.papers.knowledge.ppo import PPO, IntrinsicReward
from groundlab.papers.knowledge.rnd import record_episodes, schedule
from groundlab.papers.knowledge.settings import COLLECTION, Fidelity, PPOSettings

pytestmark = pytest.mark.usefixtures("own_cache")

WORLD = "BabyAI-GoToLocalS5N2-v0"
SMALL = {"num_envs": 4, "frames_per_env": 8, "epochs": 1, "minibatches": 2}
ALL_QUIRKS = Fidelity.model_validate(dict.fromkeys(Fidelity.model_fields, True))


def small(**given):
    return PPOSettings.model_validate({**SMALL, **given})


@pytest.mark.parametrize(
    "settings",
    [small(**COLLECTION), small(fidelity=ALL_QUIRKS), small(network="small", timeouts="bootstrap")],
    ids=["curiosity", "quirks", "small"],
)
def test_quirks_curiosity_and_bootstrapped_ends_go_through_a_checkpoint(settings):
    potential = OraclePotential([("ball", "red"), ("key", "grey")])
    runs.goes_on(lambda: PPO(WORLD, 0, settings, potential, scale=2.0))


@pytest.mark.parametrize("method", ["knowledge", "rnd"])
def test_worlds_in_which_a_failure_ends_an_episode_are_refused_since_an_end_counts_as_success(method):
    failing = [name for name in worlds.names() if "fails" in worlds.find(name).summary]
    assert len(failing) == 5
    for name in failing:
        with pytest.raises(GroundlabError, match=f"{method} does not run on {name}"):
            registry.check_world(method, name)


def test_the_paper_records_eleven_times():
    grids, images = schedule(5_000_000, 8 * 128, 500_000), schedule(5_000_000, 16 * 256, 500_000)
    assert grids == [1, 490, 979, 1468, 1957, 2446, 2935, 3424, 3913, 4402, 4883]
    assert images[:3] == [1, 124, 247] and images[-2:] == [1108, 1221] and len(images) == 11


def test_what_was_learnt_is_no_longer_new():
    torch.manual_seed(0)
    novelty = RandomDistillation((3, 7, 7))
    curiosity = IntrinsicReward(novelty, 1, 0.99)
    known, new = torch.rand(8, 3, 7, 7), torch.rand(8, 3, 7, 7)
    before = curiosity.novelty(known).mean()
    optimizer = torch.optim.Adam(novelty.predictor.parameters(), lr=1e-3)
    for _ in range(60):
        predicted, true = novelty(curiosity.standardise(known))
        optimizer.zero_grad()
        (predicted - true).pow(2).mean().backward()
        optimizer.step()
    assert curiosity.novelty(known).mean() < 0.2 * before
    assert curiosity.novelty(new).mean() > 2 * curiosity.novelty(known).mean()


def test_recorded_episodes_are_what_the_world_shows_when_they_are_played_again():
    torch.manual_seed(0)
    layouts = [3, 5, 8]
    episodes = record_episodes(TwoHeadedAgent((3, 7, 7), 7), WORLD, layouts, 0, np.random.default_rng(0))
    for episode, layout in zip(episodes, layouts, strict=True):
        envs = worlds.GridVectorEnv(worlds.find(WORLD), 1, autoreset="disabled")
        views = [envs.reset(seed=[layout])[0]["image"][0]]
        for step, action in enumerate(episode.actions):
            seen, rewards, terminated, truncated, _ = envs.step(np.array([action]))
            views.append(seen["image"][0])
            assert rewards[0] == pytest.approx(float(episode.rewards[step]))
        np.testing.assert_array_equal(np.stack(views), episode.views)
        assert (bool(terminated[0]), bool(truncated[0])) == (episode.terminated, episode.truncated)
        assert episode.terminated or episode.truncated


def collected(timeouts, potential=None):
    """A rollout of agents that value everything at 5, and the episodes that ended in it."""
    settings = small(num_envs=32, frames_per_env=80, timeouts=timeouts, gamma=0.9, lam=0.0, reward_scale=1.0)
    learner = PPO("BabyAI-GoToRedBallNoDists-v0", 0, settings, potential)
    torch.nn.init.zeros_(learner.agent.critic_ext.weight)
    torch.nn.init.constant_(learner.agent.critic_ext.bias, 5.0)
    experience, figures = learner._collect(np.random.default_rng(0))
    return experience, figures, learner._episodes


def test_what_follows_a_time_limit_is_estimated_and_what_follows_success_is_nothing():
    (cut, _, episodes), (ended, _, same) = collected("bootstrap"), collected("terminal")
    assert episodes == same
    limits = sum(not episode["success"] for episode in episodes)
    assert 0 < limits < len(episodes)
    # with lambda = 0 an advantage is reward + 0.9 value of what follows - value
    estimated = cut.advantages - ended.advantages
    assert int((estimated.abs() > 1e-6).sum()) == limits
    np.testing.assert_allclose(estimated[estimated.abs() > 1e-6], 0.9 * 5.0, rtol=1e-5)
    assert int((ended.advantages < -1e-6).sum()) >= limits


def losses_of_every_row(learner, part, rng):
    """The losses of a minibatch, each row read by itself, as if no two observations were the same."""
    settings, observations = learner._settings, part.seen[part.numbers]
    output = learner.agent(observations)
    log_all = output.logits.log_softmax(-1)
    entropy = -(log_all.exp() * log_all).sum(-1).mean()
    ratio = (log_all.gather(1, part.actions[:, None])[:, 0] - part.log_probs).exp()
    credit = part.advantages
    if not settings.curiosity or settings.advantage_norm == "minibatch":
        credit = (credit - credit.mean()) / (credit.std() + 1e-8)
    policy = -torch.min(ratio * credit, ratio.clamp(1 - settings.clip, 1 + settings.clip) * credit).mean()
    near = part.values + (output.value - part.values).clamp(-settings.clip, settings.clip)
    value = 0.5 * torch.max((output.value - part.returns) ** 2, (near - part.returns) ** 2).mean()
    prediction = torch.zeros(())
    if settings.curiosity:
        value = value + 0.5 * (output.curiosity_value - part.intrinsic_returns).pow(2).mean()
        predicted, true = learner._novelty(learner._intrinsic.standardise(observations))
        subset = torch.from_numpy(rng.random(len(part.actions)) < settings.predicted_share)
        prediction = ((predicted - true).pow(2).mean(1) * subset).sum() / subset.sum()
    loss = policy - settings.entropy_coefficient * entropy + settings.value_coefficient * value + prediction
    return [loss, policy, value, entropy, prediction]


@pytest.mark.parametrize("given", [{}, {**COLLECTION, "network": "small"}], ids=["paper", "small"])
def test_reading_each_distinct_observation_once_is_the_same_update(given):
    once, each = (PPO(WORLD, 0, small(frames_per_env=32, **given)) for _ in range(2))
    experience, _ = once._collect(np.random.default_rng(0))
    each._collect(np.random.default_rng(0))
    assert len(experience.seen) < len(experience.numbers)
    each._losses = lambda part, seen, lessons, rng: losses_of_every_row(each, part, rng)
    losses, expected = (learner._update(experience, np.random.default_rng(1)) for learner in (once, each))
    assert losses == pytest.approx(expected, rel=1e-5, abs=1e-6)
    for one, other in zip(once.networks.parameters(), each.networks.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_a_potential_goes_on_over_a_time_limit_only_where_the_learner_does():
    for timeouts in ("bootstrap", "terminal"):
        experience, figures, episodes = collected(timeouts, Constant())
        steps = len(experience.actions)
        over = sum(episode["success"] if timeouts == "bootstrap" else 1.0 for episode in episodes)
        expected = (over * 1.0 + (steps - over) * 0.1) / steps  # |0 - 1| where phi ends, |0.9 - 1| elsewhere
        assert figures["shaping"] == pytest.approx(expected, rel=1e-5)


def test_curiosity_on_equal_terms_without_weight_has_the_advantages_of_plain_ppo():
    curious = {"curiosity": 1e-9, "advantage_norm": "minibatch"}
    plain, equal, running = (
        PPO(WORLD, 0, small(**given))._collect(np.random.default_rng(0))[0].advantages
        for given in ({}, curious, {"curiosity": 1e-9})
    )
    torch.testing.assert_close(plain, equal)
    assert not torch.allclose(plain, running), "by running moments they are normalised before the minibatches"


def test_a_test_on_the_way_changes_nothing_that_is_learnt():
    given = {**SMALL, "frames": 160, "test_every": 2, "curve_layouts": "200-203", "layouts": "0-1"}
    learner = agent.make_learner(registry.resolve("knowledge", WORLD, 0, given))
    records = {number: learner.train_step(number) for number in range(1, learner.updates + 1)}
    assert any("test" in record for record in records.values())
    untested = agent.make_learner(registry.resolve("knowledge", WORLD, 0, {**given, "test_every": 0}))
    for number, record in records.items():
        assert untested.train_step(number) == {key: value for key, value in record.items() if key != "test"}


def test_carrying_twice_needs_what_it_is_about():
    with pytest.raises(ValueError, match="needs late and running_scale"):
        Fidelity(carried_twice=True)
