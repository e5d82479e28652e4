OBJ = (5, 6, 7)  # key, ball, box


def free(o):
    return o[0, 3, 5] in (1, 3)


def seen(o, pose):  # place -> type
    x, y, h, k = pose
    return {(x + f * h + r * k, y + f * k - r * h): o[0, r + 3, 6 - f]
            for f in range(7) for r in range(-3, 4)
            if o[0, r + 3, 6 - f] != 0 and (f or r)}


def cost(c, pose):  # steps and turns to c
    x, y, h, k = pose
    f = (c[0] - x) * h + (c[1] - y) * k
    r = (c[0] - x) * k - (c[1] - y) * h
    return abs(f) + abs(r) + (2 if f < 0 else int(r != 0))


def compute_reward(obs: np.ndarray, past_obs: np.ndarray, past_actions: np.ndarray) -> Tuple[float, Dict[str, float]]:
    parts = {n: 0.0 for n in ("explore", "discover", "progress", "reach", "waste", "repeat")}
    # Back in time from (0, 0), looking to +y
    path, views, known = [(0, 0, 0, 1)], [obs], {}
    for o, b in zip(past_obs[::-1], past_actions[::-1]):
        if not np.any(o[0]):  # padding
            break
        x, y, h, k = path[-1]
        if b == 0:
            h, k = k, -h
        elif b == 1:
            h, k = -k, h
        elif b == 2 and free(o):
            x, y = x - h, y - k
        path.append((x, y, h, k))
        views.append(o)
        known = {**seen(o, path[-1]), **known}
    if len(path) == 1:
        return 0.0, parts
    fronts = [(x + h, y + k) if o[0, 3, 5] in OBJ else None
              for o, (x, y, h, k) in zip(views, path)]

    def vain(i):  # no effect, or back to an old pose
        same = [j for j in range(i + 1, len(path)) if path[j] == path[i]]
        if not same:
            return False
        j = same[0]
        if j == i + 1:
            return not np.any(views[i] != views[j])
        # a short turn to a new object is fine
        return j > i + 3 or not [c for c in fronts[i + 1:j] if c and c not in fronts[j:]]

    w = [vain(i) for i in range(min(len(path) - 1, 5))] + [False]
    todo = [c for c in known if known[c] in OBJ and c not in fronts[1:]]
    gain = max([cost(c, path[1]) - cost(c, path[0]) for c in todo] or [0])
    moved = path[0] != path[1]

    if w[0] and moved and gain > 0:
        parts["waste"] = -0.1  # a mistake mended
    elif w[0]:
        parts["waste"] = -0.4
        parts["repeat"] = 0.1 - 0.1 * min([i for i in range(len(w)) if not w[i]])
    elif not moved:
        if past_actions[-1] == 5 or (path[0] in path[2:3] and not w[1]):
            parts["waste"] = -0.3  # box lost, juggling
    else:
        now = seen(obs, path[0])
        new = [now[c] for c in now if c not in known]
        n = sum(t in OBJ for t in new)
        parts["discover"] = 0.15 * min(n, 2)
        parts["explore"] = (0.01 if todo else 0.02) * min(sum(t != 2 for t in new), 10)
        if gain > 0:
            parts["progress"] = 0.2
        elif gain < 0 and n == 0 and all(free(o) for o in views[1:4]):
            parts["progress"] = -0.2
        if fronts[0] and fronts[0] not in fronts[1:]:
            parts["reach"] = 0.5
    return float(sum(parts[n] for n in parts)), parts
