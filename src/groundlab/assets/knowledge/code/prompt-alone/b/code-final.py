from typing import Dict, Tuple
import numpy as np


def step(pose, a, free):
    # A pose is a place and a direction; y grows downwards.
    x, y, dx, dy = pose
    if a == 0:
        return (x, y, dy, -dx)
    if a == 1:
        return (x, y, -dy, dx)
    return (x + dx, y + dy, dx, dy) if a == 2 and free else pose


def scan(pose, o):
    x, y, dx, dy = pose
    cells, things = set(), set()
    for c in range(7):
        for r in range(7):
            t = o[0, c, r]
            if t not in (0, 2):
                f, s = 6 - r, c - 3  # ahead, to the right
                w = (x + f * dx - s * dy, y + f * dy + s * dx)
                cells.add(w)
                if 5 <= t <= 7 and w != (x, y):
                    things.add(w)
    return cells, things


def cost(pose, w):
    # Steps and turns needed to get to w.
    x, y, dx, dy = pose
    vx, vy = w[0] - x, w[1] - y
    f, s = vx * dx + vy * dy, vy * dx - vx * dy
    return abs(f) + abs(s) + (2 if f < 0 else int(s != 0))


def compute_reward(obs: np.ndarray, past_obs: np.ndarray, past_actions: np.ndarray) -> Tuple[float, Dict[str, float]]:
    p = {"wasted": 0.0, "turning": 0.0, "repeat": 0.0, "explore": 0.0,
         "found": 0.0, "approach": 0.0, "reached": 0.0, "handling": 0.0}
    n = min(len(past_obs), len(past_actions))
    if n == 0 or not np.any(past_obs[-1]):
        return 0.0, p

    frames = list(past_obs[-n:]) + [obs]
    pose, poses, handled = (0, 0, 0, -1), [], []
    seen, known, faced = set(), set(), set()
    turns = stale = 0
    for i in range(n):
        o, a = frames[i], past_actions[i - n]
        if not np.any(o):  # padding
            continue
        if pose not in poses[-1:]:
            poses.append(pose)
        cells, things = scan(pose, o)
        seen = seen | cells
        known = (known - cells) | things
        faced = faced | (things & {step(pose, 2, True)[:2]})
        free = o[0, 3, 5] in (1, 3)
        last, pose = pose, step(pose, a, free)
        again = idle = False
        if pose != last:
            again = pose in poses
            turns = 0 if a == 2 else turns + 1
        elif a == 2 or np.array_equal(o, frames[i + 1]):
            idle = True
        else:
            again = pose in handled
            handled.append(pose)
            poses, turns = [], 0  # the world has changed
        stale += int(again or idle)

    if idle:
        # Worse the less was achieved in all the last steps.
        p["wasted"] = -0.3 - 0.1 * min(stale, 5)
    elif pose == last:
        if a == 5 and o[0, 3, 5] == 7:
            p["handling"] = -0.4  # an opened box is gone
        elif again:
            p["handling"] = -0.3  # taking and dropping in turn
    else:
        cells, things = scan(pose, obs)
        targets = ((known - cells) | things) - faced
        if turns > 3 or (turns == 3 and known - faced):
            p["turning"] = -0.15 * min(turns - 2, 4)
        elif turns and not again:
            # Turning away from a blocked cell is sensible.
            p["turning"] = -0.05 if free else 0.05
        if again:
            p["repeat"] = -0.4 if pose in poses[-2:] else -0.2
        # Look around most while there is nothing to go to.
        p["explore"] = (0.01 if targets else 0.02) * min(10, len(cells - seen))
        p["found"] = 0.05 * min(3, len(things - known))
        gains = [cost(last, w) - cost(pose, w) for w in targets]
        best = max(gains) if gains else 0
        if best > 0:
            p["approach"] = 0.15
        elif best < 0 and free:
            p["approach"] = -0.1
        if step(pose, 2, True)[:2] in targets:
            p["reached"] = 0.35

    return float(sum(p.values())), p
