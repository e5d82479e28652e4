"""A level joins a generator, what moves by itself, and what the agent is shown; the compiled steps of a batch.

`reset_envs` and `step_envs` are the two that everything above calls. Which level an environment plays is a row of
`grids.levels` (`rules.py`); all rows of a world are of one family, whose generator is loaded, and so compiled, when a
world first needs it. A new family of worlds adds a line to `_GENERATORS` and a branch to `_observe`.
"""

from importlib import import_module
from typing import Any

import numpy as np

from groundlab.core.compiled import borrowed, compiled, inlined
from groundlab.worlds.dynamics import act
from groundlab.worlds.missions import CONTINUE, SUCCESS, verify
from groundlab.worlds.pcg64 import integers
from groundlab.worlds.rules import BABYAI, CARRYING, DOOR_KEY, FAMILY, MOVING_OBSTACLE, PER_EPISODE, ROOM_GRID, VARIANT
from groundlab.worlds.state import Grids
from groundlab.worlds.view import draw_memory, draw_view, remember_view

MEMORY_VIEW = 3  # the door-key worlds: three cells across, the agent's row and two rows ahead
_GENERATORS = {
    DOOR_KEY: "groundlab.worlds.doorkey",
    BABYAI: "groundlab.worlds.babyai",
    ROOM_GRID: "groundlab.worlds.room_grid.build",
}


def _generator(levels: np.ndarray) -> Any:
    """The module that draws these levels: `draw_levels`, and what else only its family has."""
    return import_module(_GENERATORS[levels.item(FAMILY)])


@inlined
def _observe(cells, agent, carried, seen, rules, image):
    if rules[FAMILY] == DOOR_KEY:
        remember_view(cells, agent, MEMORY_VIEW, seen)
        draw_memory(cells, agent, carried, seen, image)
    else:
        draw_view(cells, agent, carried, image)


@compiled
def _observe_envs(cells, agents, carried, seen, levels, kind, mask, images):
    for env in range(mask.shape[0]):
        if mask[env]:
            _observe(cells[env], agents[env], carried[env], seen[env], levels[kind[env]], images[env])


def reset_envs(grids: Grids, mask: np.ndarray, images: np.ndarray) -> None:
    """Start new episodes where `mask` [B] is true, each from its own stream; draws into `images` [B, ...]."""
    for array in (grids.steps, grids.contents, grids.carried, grids.progress, grids.seen):
        array[mask] = 0
    levels = grids.levels
    if levels.item(PER_EPISODE):
        for env in mask.nonzero()[0].tolist():
            grids.kind[env] = integers(grids.random[env], 0, len(levels))
    generator = _generator(levels)
    generator.draw_levels(
        grids.cells, grids.contents, grids.agents, grids.missions, grids.tracked, grids.random,
        grids.max_steps, grids.sizes, levels, grids.kind, mask,
    )  # fmt: skip
    _observe_envs(grids.cells, grids.agents, grids.carried, grids.seen, levels, grids.kind, mask, images)
    if levels.item(FAMILY) == ROOM_GRID:
        for env in (mask & (levels[grids.kind, CARRYING] == 1)).nonzero()[0].tolist():
            generator.take_up(grids.cells[env], grids.contents[env], grids.tracked[env], grids.carried[env])


@inlined
def _play(
    cells, contents, agent, carried, seen, mission, progress, tracked, rules, action, image
):  # fmt: skip
    """One step of one environment, given its arrays; returns what became of its mission."""
    act(cells, contents, tracked, agent, carried, action)
    status = verify(cells, agent, carried, mission, progress, tracked, action)
    _observe(cells, agent, carried, seen, rules, image)
    return status


@compiled
def play_envs(grids, actions, mask, resets, images, rewards, terminated, truncated):
    """`step_envs` of environments that begin no episode; of those that do, what their step pays and ends: nothing."""
    grids, images = borrowed(grids), borrowed(images)
    for env in range(mask.shape[0]):
        if resets[env]:
            rewards[env], terminated[env], truncated[env] = 0.0, False, False
        elif mask[env]:
            status = _play(
                grids.cells[env], grids.contents[env], grids.agents[env], grids.carried[env], grids.seen[env],
                grids.missions[env], grids.progress[env], grids.tracked[env], grids.levels[grids.kind[env]],
                actions[env], images[env],
            )  # fmt: skip
            grids.steps[env] += 1
            # minigrid's reward, in its order of operations: equal to the last bit
            rewards[env] = 1 - 0.9 * (grids.steps[env] / grids.max_steps[env]) if status == SUCCESS else 0.0
            terminated[env] = status != CONTINUE
            truncated[env] = grids.steps[env] >= grids.max_steps[env]


def step_envs(
    grids: Grids,
    actions: np.ndarray,
    mask: np.ndarray,
    resets: np.ndarray,
    images: np.ndarray,
    rewards: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
) -> None:
    """One step of every environment where `mask` [B] is true; where `resets` [B] is, a new episode starts instead.

    Writes images [B, ...], rewards, terminated and truncated [B] in place. On the last step allowed, success is
    reported with both terminated and truncated true, as minigrid does.
    """
    if np.count_nonzero(resets):
        reset_envs(grids, resets, images)
    levels = grids.levels  # `item` counts from the first row on, and takes a tenth of the time of an index
    if levels.item(FAMILY) == DOOR_KEY and levels.item(VARIANT) == MOVING_OBSTACLE:
        _generator(levels).move_obstacles_of(grids.cells, grids.agents, grids.random, mask & ~resets)
    play_envs(grids, actions, mask, resets, images, rewards, terminated, truncated)
