"""A level joins a generator, what moves by itself, and what ends an episode; the compiled steps of a batch.

`reset_envs` and `step_envs` are the two loops that everything above calls. Levels are numbers here, names in
`registry.py`. A new family of worlds adds a branch to `_generate`, `_moves` and `_reward`.
Read next: `vector.py` (the Gymnasium front of these loops).
"""

import numpy as np
from numba import prange

from groundlab.core.compiled import compiled, compiled_parallel, inlined
from groundlab.worlds import doorkey
from groundlab.worlds.codes import DOOR, OPEN, TOGGLE
from groundlab.worlds.doorkey import MOVING_OBSTACLE
from groundlab.worlds.dynamics import act, front_of
from groundlab.worlds.view import draw_memory, remember_view

VIEW_SIZE = 3  # the door-key worlds: three cells across, the agent's row and two rows ahead


@inlined
def _generate(grids, env, level):
    doorkey.generate(grids, env, level)


@inlined
def _moves(grids, env, level):
    if level == MOVING_OBSTACLE:
        doorkey.move_obstacles(grids, env)


@inlined
def _reward(grids, env, action):
    """1 - 0.9 * steps / limit when this action leaves the faced door open, else 0; a reward ends the episode."""
    x, y = front_of(grids, env)
    cell = grids.cells[env, x, y]
    if action == TOGGLE and cell[0] == DOOR and cell[2] == OPEN:
        return 1.0 - 0.9 * grids.steps[env] / grids.max_steps[env]
    return 0.0


@inlined
def _observe(grids, env, image, visible):
    remember_view(grids, env, VIEW_SIZE, visible)
    draw_memory(grids, env, image)


@compiled  # a real call: resets are rare, and inlining them three times would treble the compile time
def _reset(grids, env, level, image, visible):
    _generate(grids, env, level)
    grids.steps[env] = 0
    grids.seen[env, :] = False
    _observe(grids, env, image, visible)


@compiled
def reset_envs(grids, level, mask, images):
    """Start new episodes where `mask` [B] is true, each from its own stream; draws `images` [B, W, H, 4]."""
    visible = np.empty(grids.seen.shape[1:], np.bool_)
    for env in range(mask.shape[0]):
        if mask[env]:
            _reset(grids, env, level, images[env], visible)


@inlined
def _step(grids, env, level, action, images, rewards, terminated, truncated, visible):
    _moves(grids, env, level)
    act(grids, env, action)
    rewards[env] = _reward(grids, env, action)
    terminated[env] = rewards[env] > 0
    truncated[env] = not terminated[env] and grids.steps[env] >= grids.max_steps[env]
    _observe(grids, env, images[env], visible)


@inlined
def _advance(grids, env, level, actions, mask, resets, images, rewards, terminated, truncated):
    if not (mask[env] or resets[env]):
        return
    visible = np.empty(grids.seen.shape[1:], np.bool_)
    if resets[env]:
        rewards[env], terminated[env], truncated[env] = 0.0, False, False
        _reset(grids, env, level, images[env], visible)
    else:
        _step(grids, env, level, actions[env], images, rewards, terminated, truncated, visible)


@compiled
def step_envs(grids, level, actions, mask, resets, images, rewards, terminated, truncated):
    """One step of every environment where `mask` [B] is true; where `resets` [B] is, a new episode starts instead.

    Writes images [B, W, H, 4], rewards, terminated and truncated [B] in place.
    """
    for env in range(mask.shape[0]):
        _advance(grids, env, level, actions, mask, resets, images, rewards, terminated, truncated)


@compiled_parallel
def step_envs_parallel(grids, level, actions, mask, resets, images, rewards, terminated, truncated):
    """`step_envs` over several threads, for large batches."""
    for env in prange(mask.shape[0]):
        _advance(grids, env, level, actions, mask, resets, images, rewards, terminated, truncated)
