"""The names of estimators that settings can hold: of credit (credit.py) and of the KL (token_ppo.py). No torch."""

from typing import Literal, get_args

Estimator = Literal["nested", "bilevel", "token-gae", "monte-carlo", "bandit", "grpo", "rloo", "gigpo"]
ESTIMATORS: tuple[str, ...] = get_args(Estimator)
CRITIC_FREE = frozenset({"grpo", "rloo", "gigpo"})
"""Estimators that need no values: train them without a value loss, and do not whiten what they give."""
WHOLE_EPISODES = frozenset({"bandit", *CRITIC_FREE})
"""Estimators that read how an episode ended: they refuse one that goes on."""
OuterValue = Literal["prompt-end", "before-last-token", "after-response"]
KLEstimator = Literal["k1", "k2", "k3"]
