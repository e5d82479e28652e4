"""A pretrained model's own answers as a policy, without training: what its corpus asked, asked about every view.

    groundlab evaluate own-answers --world BabyAI-GoToLocalS8N4-v0 --layouts 0-99

The text that our models read about rooms asks where the thing is that a mission names, what it is for, and whether that
can be done now; and which words lead left, right or forward. No sample has a mission, a view and an action together
(`language/corpus/topics.py`). Here the model answers these questions one after the other, and the ten lines of
`OwnAnswers._decide` join its answers into an action. So this shows how much of a policy the weights hold before PPO.

What the join itself knows: to walk while the place lies forward and only then to turn, to turn left where nothing is in
sight, and to move at random in a share of the steps, because a policy of one answer to each view can stand still.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from groundlab import worlds
from groundlab.assets import pretraining_facts
from groundlab.core.errors import GroundlabError, clip
from groundlab.language.corpus.tasks import BE, NOW
from groundlab.language.corpus.topics import UNSEEN
from groundlab.papers.glam.episodes import evaluate as play_tests
from groundlab.papers.glam.policy import VARIANTS, TextPlayer, load_model
from groundlab.papers.glam.settings import AnswersSettings
from groundlab.papers.method import Request
from groundlab.papers.training import Evaluation
from groundlab.worlds.text_env.prompts import text_actions

__all__ = ["evaluate"]

_PROMPT = re.compile(r"Goal of the agent: (.+?) \n Observation 0: (.+), *\n Action 0: ", re.DOTALL)
_LONGEST_ANSWER = 12  # tokens


class OwnAnswers:
    """A `PolicyFn`: prompts of one observation to the action that the model's answers lead to."""

    def __init__(self, model: Any, tokenizer: Any, actions: Sequence[str], settings: AnswersSettings):
        self._model, self._tokenizer, self._actions = model, tokenizer, list(actions)
        self._random_moves = settings.random_moves
        stages = pretraining_facts(settings.model).get("recipe", {}).get("stages", [])
        self._knows_purposes = any("purposes" in stage["topics"] for stage in stages)
        self._answers: dict[str, str] = {}
        self._chosen: dict[str, str] = {}

    def __call__(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(log-probabilities [P, A], zeros [P])."""
        self._decide([prompt for prompt in dict.fromkeys(prompts) if prompt not in self._chosen])
        count = len(self._actions)
        probabilities = torch.full((len(prompts), count), 1 / count)  # where its answer is not an action
        for row, prompt in enumerate(prompts):
            if self._chosen[prompt] in self._actions:
                probabilities[row] *= self._random_moves
                probabilities[row, self._actions.index(self._chosen[prompt])] += 1 - self._random_moves
        return probabilities.log(), torch.zeros(len(prompts))

    def _decide(self, prompts: Sequence[str]) -> None:
        """Join the model's answers into the text of an action for each prompt."""
        read = {prompt: _PROMPT.fullmatch(prompt) for prompt in prompts}
        if other := next((prompt for prompt, found in read.items() if not found), None):
            fix = "set nbr_obs=1 and action_list=false, in an English world, without tests that change the intro"
            raise GroundlabError(f"expected prompts of a goal and one observation, got {clip(other, 60)!r}; {fix}")
        views = [" \n ".join(found.groups()) for found in read.values() if found]
        places = self._ask([f"{view}, \n where?" for view in views])
        if self._knows_purposes:
            purposes = self._ask([f"{view}, \n what for?" for view in views])
            reached = self._ask([f"{view}, \n now or not yet?" for view in views])
        else:
            purposes, reached = [BE] * len(views), [""] * len(views)
        cues = []
        for place, purpose, reach in zip(places, purposes, reached, strict=True):
            side = next((word for word in ("forward", "left", "right") if word in place and place != UNSEEN), "left")
            cues.append(f"{purpose}, {NOW}" if reach == NOW and purpose != BE else f"it is {side}")
        moves = self._ask([f"{cue}, \n action:" for cue in cues])
        self._chosen |= zip(prompts, moves, strict=True)

    @torch.no_grad()
    def _ask(self, questions: Sequence[str]) -> list[str]:
        """The likeliest answer to each question, read together and padded on the right, as an encoder reads them."""
        new = [question for question in dict.fromkeys(questions) if question not in self._answers]
        if new:
            batch = self._tokenizer(new, add_special_tokens=False, padding=True, return_tensors="pt")
            read = {name: batch[name].to(self._model.device) for name in ("input_ids", "attention_mask")}
            said = self._model.generate(**read, max_new_tokens=_LONGEST_ANSWER, do_sample=False, num_beams=1)
            texts = self._tokenizer.batch_decode(said, skip_special_tokens=True)
            self._answers |= zip(new, map(str.strip, texts), strict=True)
        return [self._answers[question] for question in questions]


def evaluate(request: Request) -> list[Evaluation]:
    """All tests of GLAM's agents: sampled with random moves, greedy without, and with one mission for all."""
    settings = AnswersSettings(**request.settings)
    model, tokenizer = load_model(VARIANTS["glam"], settings, request.seed)
    actions = text_actions(settings.action_space, worlds.find(request.world).language)
    policy = OwnAnswers(model, tokenizer, actions, settings)
    return play_tests(
        request.world,
        request.seed,
        settings,
        lambda world, alteration, num_envs, rng: TextPlayer(policy, num_envs, world, settings, alteration, rng),
    )
