"""What a page shows of the language model is drawn from the corpus and said by the model, now."""

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.language import corpus
from groundlab.pages import language_model


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
