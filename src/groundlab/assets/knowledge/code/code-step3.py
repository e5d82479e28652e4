def thing_map(kinds):
    things = (kinds == OBJECT_TO_IDX["key"]) | (kinds == OBJECT_TO_IDX["ball"]) | (kinds == OBJECT_TO_IDX["box"])
    things[3, 6] = False  # what is carried is nothing to walk to
    return things


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

    # a thing that can be reached soon, a little; to have come nearer to one, more
    near = 0.05 * (10.0 - now)
    progress = 0.1 * min(max(before - now, -4.0), 4.0)

    # facing a thing for the first time is what walking up to it was for; staying there is not
    facing = 0.0
    if things[3, 5]:
        same = (past_obs[:, 0, 3, 5] == obs[0, 3, 5]) & (past_obs[:, 1, 3, 5] == obs[1, 3, 5])
        facing = 0.5 - 0.2 * float(np.sum(same))

    # distinct views in the window mean that the room is being searched, but not by turning on the spot
    views = np.concatenate([past_obs, obs[None]]).reshape(len(past_obs) + 1, -1)
    differs = np.any(views[:, None] != views[None], axis=2)
    distinct = sum(bool(np.all(differs[row, :row])) for row in range(1, len(views)))
    turns = int(np.sum(past_actions < Actions.forward))
    searching = 0.1 * distinct - 0.2 * max(0, turns - 3)

    # actions without effect; the latest one counts twice
    idle = ~np.any(views[1:] != views[:-1], axis=1)
    idle_actions = -0.1 * float(np.sum(idle) + idle[-1])

    # a wall right ahead is a dead end
    wall = -0.2 if obs[0, 3, 5] == OBJECT_TO_IDX["wall"] else 0.0

    parts = {
        "near a thing": near,
        "progress": progress,
        "facing a new thing": facing,
        "searching": searching,
        "actions without effect": idle_actions,
        "wall ahead": wall,
    }
    return sum(parts.values()), parts
