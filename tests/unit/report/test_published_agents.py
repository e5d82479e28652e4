"""The exhibits of published language-model agents, drawn from the replay of one episode of each kind and submission."""

import made_up
import numpy as np
import pandas as pd
import pytest

from groundlab.papers import registry
from groundlab.papers.method import Request
from groundlab.papers.worlds.balrog_exhibits import EFFECTS, KINDS, WORLD, agents
from groundlab.papers.worlds.balrog_replay import EFFECTS as REPLAYED
from groundlab.report.exhibits import draw
from groundlab.report.judging import judge
from groundlab.report.records import load


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """A results folder with the run `balrog`, one episode of each kind and submission."""
    folder = tmp_path_factory.mktemp("results") / "0.1.0-quick-20260101-abcdef1"
    settings = registry.resolve_settings("balrog", WORLD, {"episodes": 1})
    evaluations = registry.evaluate(Request("balrog", WORLD, 0, settings))
    made_up.store_run(folder, "worlds", "balrog", WORLD, 0, evaluations, settings=settings)
    return folder


def test_the_page_knows_the_classes_of_steps_that_the_replay_counts():
    assert sorted(EFFECTS) == sorted(REPLAYED)


def test_seventeen_agents_best_first_then_ours_and_who_was_treated_differently_says_so(replayed):
    every = agents(load(replayed))
    assert len(every) == 20 and [each.policy for each in every[17:]] == ["bot", "reflex", "random"]
    values = [each.success().value for each in every[:17]]
    assert values == sorted(values, reverse=True)
    names = {each.policy: each.name for each in every}
    assert [name for name in names.values() if "distractors" in name] == ["Qwen2.5-7B (8 distractors)"]
    assert sum("+ pictures" in name for name in names.values()) == 2
    assert not [name for name in names.values() if "/" in name or name[:8].isdigit()]


def test_shares_are_of_their_episodes_and_intervals_hold_them(replayed):
    for agent in agents(load(replayed)):
        whole, kinds = agent.success(), [agent.success(kind) for kind in KINDS]
        assert whole.low <= whole.value <= whole.high
        assert np.isclose(whole.value, np.mean([each.value for each in kinds]))


def test_table_and_figures_are_drawn_with_the_facts_below(replayed):
    for name in ("worlds-published-success", "worlds-published-failures"):
        assert all(path.stat().st_size > 1000 for path in draw(name, replayed).paths)
    drawn = draw("worlds-published", replayed)
    text, data = drawn.path("md").read_text(), pd.read_csv(drawn.path("csv"))
    assert "85 episodes" in text and "0 differ" in text and "of 16 episodes" in text
    submissions = data.dropna(subset=["new"])
    assert len(submissions) == 17 and (submissions["prompt_tokens"] > 0).all()


def test_a_replay_of_fewer_episodes_is_judged_by_equality_and_refutes_what_it_does_not_hold(replayed):
    verdicts = {each.claim.id: each for each in judge(replayed, "worlds")}
    assert verdicts["worlds-parity-balrog"].verdict == "supported"
    assert verdicts["worlds-later-balrog-episodes"].verdict == "contradicted"
    assert verdicts["worlds-later-balrog-gemini-2.5-pro"].by_metric["goto"] == "matches"
