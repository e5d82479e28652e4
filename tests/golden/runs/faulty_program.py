import math
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.actions import Actions
from typing import Dict, Tuple

DEEDS = [Actions.left, Actions.right, Actions.forward]


def count(view, name="wall"):
    """How many cells show such a thing."""
    return int((view[0].astype(np.int64) == OBJECT_TO_IDX[name]).sum(dtype=np.int64))


def compute_reward(obs: np.ndarray, past_obs: np.ndarray, past_actions: np.ndarray) -> Tuple[float, Dict[str, float]]:
    # Golden runs ask it: it works on most windows and fails on others, in three ways.
    walls = count(obs)
    print("walls", walls)
    if int(past_actions[-1]) == 4:
        return 1 / (walls - walls), {}
    if int(past_actions[-1]) == 5:
        return 5000.0, {}
    if walls > 40:
        return math.nan, {}
    seen = np.divide(obs[0], 10.0, out=np.zeros_like(obs[0], dtype=float), where=obs[0] > 1)
    moves = sum(int(action) in DEEDS for action in past_actions)
    return np.float32(seen.mean()) + 0.05 * moves, {"moves": moves}
