"""How good a Crafter agent is, in the scoreboard's terms; for orientation.

The scoreboard is about the public game ("Crafter-Reward") and all training episodes within a million steps: figures of
the text variant compare with none of it. Source: Hafner 2022; docs/papers/knowledge.md#s1-3.
"""

import numpy as np

SCOREBOARD = {  # (score in percent, return), after a million steps of the public game
    "human": (50.5, 14.3),
    "SPRING": (27.3, 12.3),
    "PPO (ResNet)": (15.6, 10.3),
    "DreamerV3": (14.5, 11.7),
    "PPO": (4.6, 4.2),
    "Rainbow": (4.3, 6.0),
    "RND": (2.0, 0.7),
    "random": (1.6, 2.1),
}


def crafter_score(unlocked: np.ndarray) -> float:
    """exp(mean ln(1 + s_i)) - 1 over success rates s_i in percent; unlocked: bool [episodes, 22]."""
    rates = 100 * unlocked.mean(0)
    return float(np.expm1(np.log1p(rates).mean()))
