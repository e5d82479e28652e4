"""The one way in which a policy's actions are drawn: the inverse of the cumulative distribution, one number a row."""

import numpy as np
from torch import Tensor


def sample_actions(logits: Tensor, rng: np.random.Generator) -> np.ndarray:
    """Actions int64 [N] from logits [N, A], normalised or not; takes N uniform numbers from `rng`."""
    cumulative = logits.double().softmax(-1).cumsum(-1).numpy()
    numbers = rng.random(len(cumulative))
    return np.minimum((cumulative <= numbers[:, None]).sum(1), cumulative.shape[1] - 1)
