"""Options of later papers: without them an agent is GLAM's to the bit, and each does what its paper says."""

import numpy as np
import pytest
import runs
import torch

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec
from groundlab.papers import registry
from groundlab.papers.glam.extended import ExtendedLearner
from groundlab.papers.glam.ppo import PPOLearner
from groundlab.papers.glam.prompt_formats import FORMATS, rewrite
from groundlab.worlds.text_env.prompts import glam_prompt, modify, text_actions

from .conftest import WORLD

VIEWS = [["You see a wall", "You see a red ball"], ["You see a box"]]
LONG = glam_prompt("go to the box", ["turn left", "go forward"], VIEWS, ["turn left"])
SHORT = glam_prompt("go to the box", [], VIEWS[:1], [])


@pytest.fixture
def learner(resolved):
    def make(method="glam-extended", world=WORLD, **given):
        spec = RunSpec(method=method, world=world, seed=3, settings=resolved(method, world, **given))
        return (ExtendedLearner if method == "glam-extended" else PPOLearner)(spec)

    return make


def test_without_options_a_run_is_glams(resolved, tmp_path):
    for method in ("glam", "glam-extended"):
        settings = resolved(method, tests=["synonyms"], first_finished=4)
        registry.execute(Run(tmp_path / method, RunSpec(method=method, world=WORLD, seed=3, settings=settings)))
    assert runs.records(tmp_path / "glam") == runs.records(tmp_path / "glam-extended")
    assert runs.evaluations(tmp_path / "glam") == runs.evaluations(tmp_path / "glam-extended")


@pytest.mark.parametrize(("normalisation", "lengths"), [("word", [2, 2, 2, 2, 1, 1]), ("token", None)])
def test_a_score_is_divided_by_the_length_of_its_action(normalisation, lengths, learner):
    plain = learner().scorer
    lengths = lengths or [len(row) for row in plain.tokenizer(plain.actions, add_special_tokens=False)["input_ids"]]
    divided = learner(normalisation=normalisation).scorer
    prompts = [LONG, SHORT]
    torch.testing.assert_close(divided(prompts).scores, plain(prompts).scores / torch.tensor(lengths))
    assert torch.equal(divided(prompts).values, plain(prompts).values)


def test_every_format_tells_the_same_and_ends_where_the_action_begins():
    assert rewrite("glam", LONG) == LONG
    for name in FORMATS:
        written, first = rewrite(name, LONG), rewrite(name, SHORT)
        told = [
            "go to the box",
            "turn left, go forward",
            "You see a wall, You see a red ball",
            "turn left",
            "You see a box",
        ]
        assert all(each in written for each in told), name
        assert written.index(told[2]) < written.index(told[4]), "oldest first"
        assert "turn left" not in first and "You see a red ball" in first, "neither a list nor a past"
    assert rewrite("xml", LONG).splitlines()[-3:] == [
        "<action>turn left</action>", "<observation>You see a box</observation>", "<action>",
    ]  # fmt: skip
    assert rewrite("prose", SHORT).endswith("You see a wall, You see a red ball. So it chooses to ")
    assert rewrite("reordered", SHORT).endswith("Goal of the agent: go to the box \n Action 0: ")


def test_mixed_prompts_come_in_all_formats_and_each_always_in_its_own():
    prompts = [glam_prompt("go to the box", [], [[f"You see a ball {k} steps forward"]], []) for k in range(40)]
    written = [rewrite("mixed", prompt) for prompt in prompts]
    assert written == [rewrite("mixed", prompt) for prompt in prompts]
    own = {name: [rewrite(name, prompt) for prompt in prompts] for name in FORMATS}
    for name, texts in own.items():
        assert any(one == other for one, other in zip(written, texts, strict=True)), name


def test_gradients_are_those_of_the_rewritten_prompt(learner):
    def gradient(scorer, prompt):
        scorer.zero_grad()
        scorer.backward([prompt], lambda index, scores, values: scores[:, 0].sum() + values.sum())
        return [p.grad.clone() for p in scorer.parameters() if p.grad is not None]

    xml, plain = learner(prompt_format="xml").scorer, learner().scorer
    same = zip(gradient(xml, SHORT), gradient(plain, rewrite("xml", SHORT)), strict=True)
    assert all(torch.equal(*pair) for pair in same)
    other = zip(gradient(xml, SHORT), gradient(plain, SHORT), strict=True)
    assert not all(torch.equal(*pair) for pair in other)


def test_options_go_through_a_checkpoint(learner):
    runs.goes_on(lambda: learner(prompt_format="mixed", normalisation="token", nbr_obs=2))


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"probe_template": 1}, "set probe_template=0"),
        ({"prompt_format": "toml"}, "prompt_format"),
        ({"normalisation": "word", "rule": "logit_sum"}, "set rule=logprob"),
        ({"prompt_format": "mixed", "tests": ["change_intro_first_personne_agent"]}, "leave that test"),
        ({"prompt_format": "xml", "tests": ["BabyAI-GoToFrench-v0"]}, "is not in English"),
        ({"world": "BabyAI-GoToFrench-v0", "prompt_format": "xml"}, "is not in English"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(given, line, learner):
    with pytest.raises(GroundlabError, match=line) as refused:
        learner(**given)
    assert "\n" not in str(refused.value)


def test_a_prompt_of_another_make_is_refused():
    for prompt in ("But de l'agent: aller à la balle \n Observation 0: \n Action 0: ", "Goal of the agent: go"):
        with pytest.raises(GroundlabError, match="made of English ones"):
            rewrite("xml", prompt)


def test_an_intro_in_other_words_stays_where_the_format_has_one():
    prompt = modify(LONG, "change_intro_first_personne_agent")
    assert "You have to: go to the box" in rewrite("reordered", prompt)


def test_watched_it_shows_the_actions_that_it_has(learner):
    assert tuple(learner().watched(np.random.default_rng(0)).decisions) == text_actions(6)
