"""The estimators that settings choose from by name, of credit and of the KL, and the KL's coefficient. Loads no torch.

`credit.py` implements the estimators of credit, `token_ppo.kl_estimate` those of the KL.
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
KLEstimator = Literal["k1", "k2", "k3"]
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
