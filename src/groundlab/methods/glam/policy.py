"""A language model at play: scores that are remembered while the weights stand still, sampled or greedy.

    look = Scores(scorer)
    log_probs, values = look(prompts)                   # float32 [P, A], [P]
    player = LanguagePlayer(look, num_envs, world, settings, rng=generator(0, "play"))

Environments of few things often show what was seen before; a prompt that was read since the last update is not read
again. Called from: `rollouts.py`, `generalization.py`, `zero_shot.py`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from groundlab.language.scoring import ActionScorer
from groundlab.methods.glam.distributed import ALONE, Group
from groundlab.methods.glam.reading import UNALTERED, Alteration, ReadingPlayer
from groundlab.methods.glam.settings import ReadingSettings


class Scores:
    """Log-probabilities and values of prompts, without gradient, on the CPU. `forget` when the weights change."""

    def __init__(self, scorer: ActionScorer, temperature: float = 1.0, remember: bool = True, group: Group = ALONE):
        """`temperature` divides the scorer's scores once more; with dropout nothing may be remembered.

        All processes of a group ask for the same prompts, each reads its share.
        """
        self._scorer, self._temperature, self._remember, self._group = scorer, temperature, remember, group
        self._known: dict[str, tuple[Tensor, Tensor]] = {}

    def __call__(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(log-probabilities [P, A], values [P])."""
        if not self._remember:
            return self._read(prompts)
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._known]
        if new:
            self._known.update(zip(new, zip(*self._read(new), strict=True), strict=True))
        log_probs, values = zip(*(self._known[prompt] for prompt in prompts), strict=True)
        return torch.stack(log_probs), torch.stack(values)

    @torch.no_grad()
    def _read(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        scores, values = self._group.read(self._scorer, prompts)
        return (scores / self._temperature).log_softmax(-1).cpu(), values.cpu()

    def forget(self) -> None:
        """The weights have changed."""
        self._known.clear()


def sample(log_probs: Tensor, rng: np.random.Generator) -> np.ndarray:
    """One index [P] for each row of [P, A], by inverting the cumulative distribution at one uniform draw."""
    cumulative = log_probs.double().exp().cumsum(-1).numpy()
    draws = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.minimum((cumulative <= draws[:, None]).sum(1), cumulative.shape[1] - 1)


class LanguagePlayer(ReadingPlayer):
    """Plays with a policy that is not learning; without `rng` it takes the likeliest action."""

    def __init__(
        self,
        look: Scores,
        num_envs: int,
        world: str,
        settings: ReadingSettings,
        alteration: Alteration = UNALTERED,
        rng: np.random.Generator | None = None,
    ):
        super().__init__(num_envs, world, settings, alteration)
        self._look, self._rng = look, rng

    def choose(self, prompts: list[str]) -> np.ndarray:
        log_probs, _ = self._look(prompts)
        return log_probs.argmax(-1).numpy() if self._rng is None else sample(log_probs, self._rng)
