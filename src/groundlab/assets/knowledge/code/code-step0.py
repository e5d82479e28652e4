def compute_reward(obs: np.ndarray, past_obs: np.ndarray, past_actions: np.ndarray) -> Tuple[float, Dict[str, float]]:
    kinds = obs[0]
    things = (kinds == OBJECT_TO_IDX["key"]) | (kinds == OBJECT_TO_IDX["ball"]) | (kinds == OBJECT_TO_IDX["box"])
    columns, rows = np.nonzero(things)

    # how near the nearest thing is, in steps to the cell beside it
    near = 0.0
    if len(columns) > 0:
        distance = np.min(np.abs(columns - 3) + (6 - rows))
        near = 1.0 - 0.1 * float(distance)

    # things in view give something to walk to
    seen = 0.1 * min(len(columns), 3)

    # the latest action: did it do anything?
    last = int(past_actions[-1])
    unchanged = bool(np.array_equal(obs, past_obs[-1]))
    effect = 0.0
    if last == Actions.forward:
        effect = -0.3 if unchanged else 0.1
    elif last not in (Actions.left, Actions.right):
        effect = -0.3

    # turning back at once is wasted
    before = int(past_actions[-2])
    dithering = -0.2 if {last, before} == {int(Actions.left), int(Actions.right)} else 0.0

    reward = near + seen + effect + dithering
    return reward, {"near a thing": near, "things in view": seen, "effect": effect, "dithering": dithering}
