"""A level joins a generator, what moves by itself, and what the agent is shown; the compiled steps of a batch.

`reset_envs` and `step_envs` are the two loops that everything above calls. Which level an environment plays is a row of
`grids.levels` (`rules.py`). A new family of worlds adds a branch to `_generate`, `_observe` and `_play`.
"""

from groundlab.core.compiled import borrowed, compiled, inlined
from groundlab.worlds import babyai, doorkey
from groundlab.worlds.dynamics import act
from groundlab.worlds.missions import CONTINUE, SUCCESS, verify
from groundlab.worlds.pcg64 import integers
from groundlab.worlds.room_grid import build as room_grid
from groundlab.worlds.rules import CARRYING, DOOR_KEY, FAMILY, MOVING_OBSTACLE, PER_EPISODE, ROOM_GRID, VARIANT
from groundlab.worlds.view import draw_memory, draw_view, remember_view

MEMORY_VIEW = 3  # the door-key worlds: three cells across, the agent's row and two rows ahead


@inlined
def _generate(grids, env):
    if grids.levels[grids.kind[env], PER_EPISODE]:
        grids.kind[env] = integers(grids.random[env], 0, grids.levels.shape[0])
    rules = grids.levels[grids.kind[env]]
    if rules[FAMILY] == DOOR_KEY:
        doorkey.generate(grids, env, rules[VARIANT])
    elif rules[FAMILY] == ROOM_GRID:
        room_grid.generate(grids, env, rules)
    else:
        babyai.generate(grids, env, rules)


@inlined
def _observe(cells, agent, carried, seen, rules, image):
    if rules[FAMILY] == DOOR_KEY:
        remember_view(cells, agent, MEMORY_VIEW, seen)
        draw_memory(cells, agent, carried, seen, image)
    else:
        draw_view(cells, agent, carried, image)


@compiled  # a real call: resets are rare
def _reset(grids, env, image):
    grids.steps[env] = 0
    grids.contents[env, :] = 0
    grids.carried[env, :] = 0
    grids.progress[env, :] = 0
    grids.seen[env, :] = False
    _generate(grids, env)
    rules = grids.levels[grids.kind[env]]
    _observe(grids.cells[env], grids.agents[env], grids.carried[env], grids.seen[env], rules, image)
    if rules[CARRYING]:
        room_grid.take_up(grids.cells[env], grids.contents[env], grids.tracked[env], grids.carried[env])


@compiled
def reset_envs(grids, mask, images):
    """Start new episodes where `mask` [B] is true, each from its own stream; draws into `images` [B, ...]."""
    grids, images = borrowed(grids), borrowed(images)
    for env in range(mask.shape[0]):
        if mask[env]:
            _reset(grids, env, images[env])


@inlined
def _play(
    cells, contents, agent, carried, seen, mission, progress, tracked, rules, random, action, image
):  # fmt: skip
    """One step of one environment, given its arrays; returns what became of its mission."""
    if rules[FAMILY] == DOOR_KEY and rules[VARIANT] == MOVING_OBSTACLE:
        doorkey.move_obstacles(cells, agent, random)
    act(cells, contents, tracked, agent, carried, action)
    status = verify(cells, agent, carried, mission, progress, tracked, action)
    _observe(cells, agent, carried, seen, rules, image)
    return status


@compiled
def step_envs(grids, actions, mask, resets, images, rewards, terminated, truncated):
    """One step of every environment where `mask` [B] is true; where `resets` [B] is, a new episode starts instead.

    Writes images [B, ...], rewards, terminated and truncated [B] in place. On the last step allowed, success is
    reported with both terminated and truncated true, as minigrid does.
    """
    grids, images = borrowed(grids), borrowed(images)
    for env in range(mask.shape[0]):
        if resets[env]:
            rewards[env], terminated[env], truncated[env] = 0.0, False, False
            _reset(grids, env, images[env])
        elif mask[env]:
            status = _play(
                grids.cells[env], grids.contents[env], grids.agents[env], grids.carried[env], grids.seen[env],
                grids.missions[env], grids.progress[env], grids.tracked[env], grids.levels[grids.kind[env]],
                grids.random[env], actions[env], images[env],
            )  # fmt: skip
            grids.steps[env] += 1
            # minigrid's reward, in its order of operations: equal to the last bit
            rewards[env] = 1 - 0.9 * (grids.steps[env] / grids.max_steps[env]) if status == SUCCESS else 0.0
            terminated[env] = status != CONTINUE
            truncated[env] = grids.steps[env] >= grids.max_steps[env]
