def thing_map(kinds):
    return (kinds == OBJECT_TO_IDX["key"]) | (kinds == OBJECT_TO_IDX["ball"]) | (kinds == OBJECT_TO_IDX["box"])


def effort(things):
    """Actions to face the nearest thing from the cell beside it, 10 when there is none."""
    columns, rows = np.nonzero(things)
    if len(columns) == 0:
        return 10.0
    side = np.abs(columns - 3)
    ahead = 6 - rows
    return float(np.min(side + ahead + (side > 0))) - 1.0


def compute_reward(obs: np.ndarray, past_obs: np.ndarray, past_actions: np.ndarray) -> Tuple[float, Dict[str, float]]:
    things = thing_map(obs[0])
    now = effort(things)
    before = effort(thing_map(past_obs[0, 0]))

    near = max(0.0, 1.0 - 0.1 * now)
    facing = 0.3 if things[3, 5] else 0.0
    progress = 0.05 * min(max(before - now, -4.0), 4.0)

    # actions that a walk through the room has no use for, and steps that changed nothing
    useless = -0.1 * float(np.sum(past_actions > Actions.forward))
    blocked = -0.2 if past_actions[-1] == Actions.forward and np.array_equal(obs, past_obs[-1]) else 0.0

    # turning back at once is wasted
    dithering = -0.1 if past_actions[-1] + past_actions[-2] == 1 else 0.0

    # different views in the window: the room is being searched
    new = 0.05 * float(np.sum(np.any(past_obs[1:] != past_obs[:-1], axis=(1, 2, 3))))

    parts = {
        "near a thing": near,
        "facing it": facing,
        "progress": progress,
        "useless actions": useless,
        "blocked": blocked,
        "dithering": dithering,
        "new views": new,
    }
    return sum(parts.values()), parts
