"""The names that settings choose from: estimators of credit and of the KL, quirks of shaping. Loads no torch.

`credit.py` implements the estimators of credit, `token_ppo.kl_estimate` those of the KL, and
`shaping.Shaper` the quirks: where the original's terms differ from the published formula.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Estimator = Literal["nested", "bilevel", "token-gae", "monte-carlo", "bandit", "grpo", "rloo", "gigpo"]
ESTIMATORS: tuple[str, ...] = get_args(Estimator)
CRITIC_FREE = frozenset({"grpo", "rloo", "gigpo"})
"""Estimators that need no values: train them without a value loss, and do not whiten what they give."""
WHOLE_EPISODES = frozenset({"bandit", *CRITIC_FREE})
"""Estimators that read how an episode ended: they refuse one that goes on."""
OuterValue = Literal["prompt-end", "before-last-token", "after-response"]
KLEstimator = Literal["k1", "k3"]
_LARGEST_CHANGE = 0.2  # of the KL coefficient's error, in one update


@dataclass
class KLController:
    """The coefficient of the KL penalty: fixed, or moved towards a target (Ziegler et al. 2019).

    `target` is of the KL summed over a response, mean over the batch; None keeps the coefficient. In a checkpoint,
    `coefficient` is all there is to store.
    """

    coefficient: float
    target: float | None = None
    horizon: int = 10_000

    def update(self, kl: float, responses: int) -> None:
        """After an update on so many responses whose mean KL was `kl`; moves by at most 0.2 responses / horizon."""
        if self.target is None:
            return
        error = min(max(kl / self.target - 1.0, -_LARGEST_CHANGE), _LARGEST_CHANGE)
        self.coefficient *= 1.0 + error * responses / self.horizon


@dataclass(frozen=True)
class Quirks:
    """Where the original's terms differ, by number in docs/papers/knowledge-reference.md#s11; none of them is the
    default."""

    late: bool = False
    """Q2: step t is paid the term of step t - 1; the last term of an episode is not paid within it."""
    no_boundaries: bool = False
    """Q3: an episode's first potential follows the last one of the episode before; none counts as 0 at an end."""
    running_scale: bool = False
    """Q4: potentials are divided by a standard deviation that goes on changing."""
    carried_twice: bool = False
    """Q4: the potential carried over to the next rollout is divided and counted again. Needs the two above."""
    shared_clock: bool = False
    """Q5: all environments read the last one's step number (`papers/knowledge/observations.py`)."""
