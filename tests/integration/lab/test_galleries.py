"""Maps of potentials are those of walks that can be taken; what a page shows is what the runs were shaped by.

What a page shows of the language model is drawn from the corpus and said by the model, now.
"""

import numpy as np
import pytest
import torch

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec
from groundlab.lab import page_records
from groundlab.lab.config import Estimate
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.language import corpus
from groundlab.pages import knowledge, language_model
from groundlab.papers import registry
from groundlab.papers.knowledge import agent, labelling
from groundlab.papers.knowledge.observations import History
from groundlab.papers.knowledge.potentials import OraclePotential, targets
from groundlab.papers.knowledge.settings import HOME
from groundlab.report.style import new_figure
from groundlab.worlds import codes, view
from groundlab.worlds.codes import EMPTY, FORWARD

WORLD = "BabyAI-Text-GoToLocal-RedBall-S10"
HORIZON = 5


@pytest.fixture(scope="module")
def cells() -> np.ndarray:
    return knowledge.room(WORLD, layout=0)


def walked(start: tuple[int, int, int], steps: int, horizon: int):
    """The window of an agent that begins an episode there and takes some steps forward."""
    envs = worlds.GridVectorEnv(worlds.find(WORLD), 1, autoreset="disabled")
    envs.reset(seed=[0])
    envs.grids.agents[0] = start
    image = np.zeros((7, 7, 3), np.uint8)
    view.draw_view(envs.grids.cells[0], envs.grids.agents[0], np.zeros(4, np.uint8), image)
    history = History(1, horizon)
    history.start(image[None])
    for _ in range(steps):
        history.act(np.array([FORWARD]))
        history.observe(envs.step(np.array([FORWARD]))[0]["image"], np.array([False]))
    assert tuple(envs.grids.agents[0, :2]) == tuple(np.array(start[:2]) + steps * np.array([1, 0])), "the way is free"
    return history.windows()


@pytest.mark.parametrize("horizon", [1, 4, HORIZON])
def test_a_place_on_the_map_has_the_window_of_an_agent_that_walked_there(cells, horizon):
    free = cells[..., 0] == EMPTY
    y = next(row for row in range(1, 9) if free[1:9, row].all())
    for x in range(1, 9):
        steps = min(x - 1, horizon)
        found = knowledge.arrivals(cells, np.array([[x, y, 0]]), horizon)
        real = walked((x - steps, y, 0), steps, horizon)
        assert np.array_equal(found.views, real.views)
        assert np.array_equal(found.actions, real.actions) and np.array_equal(found.times, real.times)


def test_every_free_cell_has_four_values_and_no_other_cell_has_any(cells):
    phi = knowledge.potential_map(OraclePotential(targets(WORLD)), cells)
    free = cells[..., 0] == EMPTY
    assert np.isfinite(phi[free]).all() and not np.isfinite(phi[~free]).any()
    assert set(np.unique(phi[free])) == {0.0, 1.0}


def test_the_oracle_is_high_on_the_side_from_which_the_target_is_seen(cells):
    ((kind, colour),) = targets(WORLD)
    assert (kind, colour) == ("ball", "red")
    ((x, y),) = np.argwhere((cells[..., 0] == codes.BALL) & (cells[..., 1] == codes.RED)).tolist()
    phi = knowledge.potential_map(OraclePotential([(kind, colour)]), cells)
    east, south, west, north = range(4)
    beside = {east: (x - 1, y), west: (x + 1, y), south: (x, y - 1), north: (x, y + 1)}
    for heading, place in beside.items():
        if np.isfinite(phi[place][heading]):
            assert phi[place][heading] == 1 and phi[place][(heading + 2) % 4] == 0


def test_a_triangle_lies_on_the_side_that_the_agent_looks_to(cells):
    phi = np.full((*cells.shape[:2], 4), np.nan)
    x, y = np.argwhere(cells[..., 0] == EMPTY)[0].tolist()
    sides = ((1, 0), (0, 1), (-1, 0), (0, -1))
    for heading, side in enumerate(sides):
        phi[:] = np.nan
        phi[x, y, heading] = 1.0
        axes = new_figure(2, 2)[1][0, 0]
        drawn = knowledge.draw_map(axes, phi, cells, [])
        (path,) = drawn.get_paths()
        middle = np.asarray(path.vertices)[:3].mean(axis=0) - (x, y)
        assert np.sign(np.round(middle, 6)).tolist() == list(side)


def planned(tmp_path, *settings: dict) -> Plan:
    def run(number: int, given: dict) -> PlannedRun:
        spec = RunSpec(method="knowledge", world=WORLD, seed=0, settings=agent.Settings(**given).model_dump())
        return PlannedRun(spec, "knowledge", f"hash{number}", Estimate(seconds=1, megabytes=1), "finished")

    return Plan("quick", (), tuple(run(*each) for each in enumerate(settings)), tmp_path)


def test_the_program_on_the_page_is_the_one_that_a_run_reads(tmp_path):
    plan = planned(tmp_path, {"form": "code", "source": str(HOME / "code" / "code-final.py")})
    page = knowledge.program(plan)
    assert str(page) == (HOME / "code" / "code-final.py").read_text()
    assert f"Source: {labelling.LABEL}" in page._repr_html_()


def test_goals_on_the_page_are_those_of_the_library_and_differ_by_the_seed(tmp_path):
    plan = planned(tmp_path, {"form": "goals", "source": str(HOME / "goals")})
    page = knowledge.goals(plan, count=3, seed=1)
    assert page._repr_html_().count("<tr>") == 4
    assert "Go to the" in str(page) and "Agent history" in str(page)
    assert str(page) != str(knowledge.goals(plan, count=3, seed=2))


def test_knowledge_that_no_run_has_yet_is_asked_for(tmp_path):
    plan = planned(tmp_path, {"form": "code", "maker": "recorded"})
    with pytest.raises(GroundlabError, match="run the plan first"):
        knowledge.program(plan)
    with pytest.raises(GroundlabError, match="no run of form=goals"):
        knowledge.goals(plan)


def test_potentials_are_drawn_for_the_forms_that_the_plan_has(tmp_path):
    code = {"form": "code", "source": str(HOME / "code" / "code-final.py")}
    unkept = {"form": "preference", "source": str(tmp_path)}  # a folder without its network
    page = knowledge.potentials(planned(tmp_path, code, unkept, {"form": "oracle"}))
    assert page._repr_html_().startswith("<img") and WORLD in str(page)


def test_what_the_goals_find_is_told_with_how_often(tmp_path):
    goals = {"form": "goals", "source": str(HOME / "goals"), "pooling": "sentences", "share": 0.5}
    rates, _, *found = str(knowledge.matches(planned(tmp_path, goals), count=3)).splitlines()
    assert " of 1,024 random steps and " in rates and not rates.startswith("0.0%")
    values = [float(line.rpartition("  ")[2]) for line in found]
    assert len(values) == 3 and values == sorted(values, reverse=True) and values[-1] > 0


def test_attacks_on_the_page_harm_nothing_and_are_counted():
    page = knowledge.attacks(every=20)
    last = str(page).splitlines()[-2].split("  ")  # the last line is the note on what ended them
    assert last[0] == "all" and last[-1] == "0" and int(last[1]) >= 5


def rows(page) -> list[list[str]]:
    return [line.split("  ") for line in str(page).splitlines()[1:]]


def test_every_topic_is_shown_with_pairs_that_differ_by_the_seed():
    page = language_model.topics(seed=0, examples=1)
    assert [row[0] for row in rows(page)] == list(corpus.TOPICS)
    assert str(language_model.topics(seed=1, examples=1)) != str(page)


def test_the_rule_refuses_an_action_for_a_goal_in_a_scene_and_allows_its_parts():
    verdicts = [row[-1].partition(":")[0] for row in rows(language_model.rule())]
    assert verdicts == ["allowed", "allowed", "refused", "refused"]


def test_the_count_of_refused_pairs_is_that_of_the_rule(monkeypatch):
    assert language_model.leaks(500).startswith("0 of 500 pairs")
    monkeypatch.setattr(corpus, "leaks", lambda text, target: "an answer" if target == "left" else None)
    assert not language_model.leaks(500).startswith("0 of 500 pairs")


def test_the_curriculum_is_that_of_the_recipe():
    first, _, last = rows(language_model.curriculum("quick-t5"))
    assert first[1:4] == ["1,600, or until the loss is below 0.15", "2 to 3", "places 50%, sides 50%"]
    assert last[2] == "2 to 8" and "french 14%" in last[3]


def test_the_shipped_model_answers_questions_that_it_never_read():
    found = rows(language_model.answers("quick-t5-s0", asked=("sides",) * 6))
    assert len(found) == 12
    assert all((row[-1] == "right") == (row[-2] == row[-3]) for row in found)
    assert sum(row[-1] == "right" for row in found) >= 10, "98 % of 400 by the probes"


def test_the_stored_temperature_starves_no_action_and_temperature_1_does():
    shares = [
        [float(cell.rstrip("%")) for cell in row[1:]] for row in rows(language_model.action_shares("quick-t5-s0"))
    ]
    assert [sum(column) for column in zip(*shares, strict=True)] == pytest.approx([100, 100], abs=0.3)
    assert min(own for _, own in shares) >= 100 / 12 > min(plain for plain, _ in shares)


def test_an_unknown_model_is_answered_with_the_nearest():
    with pytest.raises(GroundlabError, match="did you mean 'quick-t5-s0'"):
        language_model.answers("quick-t5-s00")


def test_an_agent_that_prefers_to_turn_is_stuck_the_more_the_less_random_it_is(monkeypatch, tmp_path):
    learner = agent.make_learner(registry.resolve("knowledge", WORLD, 0, {"network": "small", "num_envs": 1}))
    with torch.no_grad():
        learner.agent.actor.bias += torch.tensor([2.0, 0, 0, 0, 0, 0, 0])  # left
    kept = page_records.Agent(registry.resolve("knowledge", WORLD, 0, {"network": "small"}), learner, tmp_path)
    monkeypatch.setattr(knowledge, "load_agent", lambda paper, folder: kept)
    told = [line.split("  ") for line in knowledge.stuck(tmp_path, layouts=40).plain.splitlines()[1:6]]
    turning = [int(line[3].rstrip(" %")) for line in told]
    assert [line[0] for line in told] == ["1", "0.5", "0.25", "0.1", "0 (likeliest)"]
    assert turning == sorted(turning) and turning[0] < 20 and turning[-1] == 100
    assert told[-1][2] == "1", "at the end of a failure it stands in one cell"
    success, cells = knowledge._endings(kept, 40, 1.0)
    assert success.any() and cells.min() >= 1 and cells.max() > 1
