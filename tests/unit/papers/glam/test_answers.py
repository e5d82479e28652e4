"""A pretrained model's own answers, joined into a policy without training."""

import pytest
import torch

from groundlab.core.errors import GroundlabError
from groundlab.papers.glam.answers import AnswersSettings, OwnAnswers
from groundlab.papers.glam.policy import VARIANTS, load_model
from groundlab.worlds.text_env.prompts import glam_prompt, text_actions

ACTIONS = text_actions(6)


def policy(model: str, **settings: float) -> OwnAnswers:
    chosen = AnswersSettings(model=model, **settings)  # pyright: ignore[reportArgumentType]
    return OwnAnswers(*load_model(VARIANTS["glam"], chosen, 0), ACTIONS, chosen)


@pytest.mark.parametrize(
    ("model", "mission", "view", "action"),
    [
        ("quick-t5-s0", "go to the red ball", "You see a red ball 2 steps left", "turn left"),
        ("quick-t5-s0", "go to the red ball", "You see a red ball 3 steps right", "turn right"),
        ("quick-t5-s0", "go to the blue box", "You see a blue box 2 steps left and 3 steps forward", "go forward"),
        ("tasks-t5-s0", "pick up the grey key", "You see a grey key 1 step forward", "pick up"),
        ("tasks-t5-s0", "go to the grey key", "You see a grey key 2 steps forward", "go forward"),
    ],
)
def test_answers_to_questions_of_the_corpus_lead_to_the_goal(model: str, mission: str, view: str, action: str) -> None:
    log_probs, values = policy(model, random_moves=0.06)([glam_prompt(mission, (), [[view]], [])])
    assert ACTIONS[int(log_probs.argmax())] == action
    assert log_probs.exp().sort().values[0, :-1] == pytest.approx(0.01)
    assert log_probs.exp().sum().item() == pytest.approx(1)
    assert values.tolist() == [0.0]


def test_other_prompts_are_refused_in_one_line() -> None:
    two = glam_prompt("go to the red ball", ACTIONS, [["You see a red ball"]], [])
    with pytest.raises(GroundlabError, match=r"one observation, got 'Possible action.*set nbr_obs=1"):
        policy("quick-t5-s0")([two])


def test_what_a_prompt_gets_does_not_depend_on_the_others() -> None:
    views = [f"You see a red ball {steps} steps {side}" for steps in (2, 3) for side in ("left", "right", "forward")]
    prompts = [glam_prompt("go to the red ball", (), [[view]], []) for view in views]
    together, _ = policy("quick-t5-s0")(prompts)
    alone = torch.cat([policy("quick-t5-s0")([prompt])[0] for prompt in prompts])
    assert together.equal(alone)
