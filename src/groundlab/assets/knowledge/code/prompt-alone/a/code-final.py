import numpy as np
from typing import Dict, Tuple

DIRS = ((1, 0), (0, 1), (-1, 0), (0, -1))
FREE, THINGS = (1, 3), (5, 6, 7)

def place(pose, a, s):  # a cells ahead, s to the right
    x, y, d = pose
    (fx, fy), (rx, ry) = DIRS[d], DIRS[(d + 1) % 4]
    return (x + a * fx + s * rx, y + a * fy + s * ry)

def spots(pose, view, kinds):
    return {place(pose, 6 - j, i - 3) for i in range(7) for j in range(7)
            if view[0, i, j] in kinds and (i, j) != (3, 6)}

def compute_reward(obs: np.ndarray, past_obs: np.ndarray, past_actions: np.ndarray) -> Tuple[float, Dict[str, float]]:
    names = ("step", "wasted", "fiddle", "undo", "revisit", "spin", "discovery",
             "aim", "lost", "approach", "astray", "face")
    parts = {m: 0.0 for m in names}
    n = 0
    for k in range(1, min(len(past_obs), len(past_actions), 32) + 1):
        if past_actions[-k] < 0 or not np.any(past_obs[-k][0]):
            break
        n = k
    if n == 0:
        return 0.0, parts
    views = [v for v in past_obs[-n:]] + [obs]

    pose, start, old, done, fails = (0, 0, 0), 0, [], [], []
    known, things, faced = set(), set(), set()
    for k in range(n):
        act, v, (x, y, d) = int(past_actions[k - n]), views[k], pose
        old.append(pose)
        seen, free = spots(pose, v, THINGS), spots(pose, v, FREE)
        front = place(pose, 1, 0)
        known = known | seen | free | {(x, y)}
        things = (things - free) | seen
        faced = faced | ({front} & seen)
        works = True
        if act < 2:
            pose = (x, y, (d + 2 * act - 1) % 4)
        elif act == 2:
            works = front in free
            pose = front + (d,) if works else pose
        else:
            works = not np.array_equal(v, views[k + 1])
            start = k + 1 if works else start
        fails.append(not works)
        if works:
            done.append(act)

    turn = act < 2
    todo = things - faced  # remembered, not yet visited
    now = spots(pose, obs, THINGS)
    floor = len(spots(pose, obs, FREE) - known)
    again = pose in old[start:]
    undo = turn and done[-2:-1] == [1 - act]
    spin = turn and done[-3:] == [act] * 3 and (todo or again or not floor)
    parts["step"] = -0.1
    if fails[-1]:
        parts["wasted"] = -(0.2 if act == 2 else 0.3) - 0.1 * sum(fails[-5:-1])
    elif act > 2:
        if set(done[-2:]) == {3, 4}:
            parts["fiddle"] = -0.3
        elif act == 5:
            parts["fiddle"] = -0.15
    elif again or undo or spin:
        parts["revisit"] = -0.2 if again else 0.0
        parts["undo"] = -0.2 if undo else 0.0
        parts["spin"] = -0.2 if spin else 0.0
    else:
        new = len(now - known)
        parts["discovery"] = (0.06 if todo else 0.15) * min(floor / 12, 1) + 0.06 * min(new, 2)
        (fx, fy), (rx, ry) = DIRS[d], DIRS[(d + 1) % 4]
        rel = [((p - x) * fx + (q - y) * fy, (p - x) * rx + (q - y) * ry)
               for p, q in todo]  # (ahead, right) before the action
        if turn:
            if [1 for a, s in rel if (s == 0 and a < 0) or
                    s * (2 * act - 1) >= max(a if front in free else 1, 1)]:
                parts["aim"] = 0.12
            elif seen & todo and not now:
                parts["lost"] = -0.15
        else:
            near = [1 - (a + abs(s)) / 12 for a, s in rel if a > 0]
            if near:
                been = pose[:2] in [p[:2] for p in old]
                parts["approach"] = (0.1 if been else 0.2) * max(near + [0])
            elif rel and not new:
                parts["astray"] = -0.12
            elif not rel and not floor and obs[0, 3, 5] == 2:
                parts["astray"] = -0.1
        if place(pose, 1, 0) in now - faced:
            parts["face"] = 0.2

    return float(sum(parts[m] for m in names)), parts
