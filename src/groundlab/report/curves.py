"""Learning curves: running success of training episodes."""

import numpy as np
import pandas as pd

WINDOW = 100  # finished training episodes in a running success rate: some 3,000 frames of an agent that fails


def running_success(curve: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(frames, success in percent) of one run, each point over the updates that hold the last `WINDOW` episodes.

    Points before there are so many episodes are left out. Short episodes finish first, so early points flatter.
    """
    curve = curve.sort_values("frames")
    counts = curve["episodes"].to_numpy(dtype=float)
    totals = np.nan_to_num(curve["success"].to_numpy(dtype=float)) * counts
    ended, won = np.cumsum(counts), np.cumsum(totals)
    first = np.searchsorted(ended, ended - WINDOW, side="right") - 1  # the last update that is not needed
    before = np.where(first >= 0, ended[first], 0.0), np.where(first >= 0, won[first], 0.0)
    full = ended >= WINDOW
    return curve["frames"].to_numpy()[full], ((won - before[1]) / np.maximum(ended - before[0], 1))[full]
