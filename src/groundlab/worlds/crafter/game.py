"""A step of Crafter, of one environment and of a batch: the player, the creatures near it, the picture, the reward.

`draw_lives` and `step_lives` are the two loops that the front calls. Source: crafter 1.8.3, `env.py`; the text
variant: docs/papers/knowledge.md#s1-2.
"""

from typing import NamedTuple

import numpy as np

from groundlab.core.compiled import compiled, compiled_for, inlined
from groundlab.worlds.crafter.creatures import balance, update_creature
from groundlab.worlds.crafter.picture import CODES, PIXELS, draw, draw_codes
from groundlab.worlds.crafter.player import act
from groundlab.worlds.crafter.rules import HEALTH, VIEW_WIDTH
from groundlab.worlds.crafter.state import OBJECTS_USED, PAID_HEALTH, REMOVED, X, Y, close_gaps, distance

_NEAR = 2 * VIEW_WIDTH  # steps from the player within which anything happens
_BALANCED_EVERY = 10  # steps


class Shown(NamedTuple):
    """What a batch hands out; written in place."""

    images: np.ndarray  # uint8 [B, 64, 64, 3]
    codes: np.ndarray  # uint8 [B, 83]
    rewards: np.ndarray  # float64 [B]
    dead: np.ndarray  # bool [B]
    over: np.ndarray  # bool [B]: time is up
    done: np.ndarray  # bool [B]: everything that is paid for was done


def empty_shown(count: int) -> Shown:
    """Zeroed arrays of `count` environments."""
    images, codes = np.zeros((count, PIXELS, PIXELS, 3), np.uint8), np.zeros((count, CODES), np.uint8)
    return Shown(images, codes, np.zeros(count), *np.zeros((3, count), np.bool_))


@compiled_for(
    "void(uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[:, ::1], uint32[::1], int64[::1], "
    "int64[::1], int64[::1], int64, float64, int64, bool_)"
)
def _play(
    materials, occupants, objects, counters, chunks, random, inventory, body, achievements, step, daylight, action, text
):  # fmt: skip
    """What happens in one step; objects that appear in it wait for the next."""
    before = counters[OBJECTS_USED]
    act(materials, occupants, objects, counters, chunks, random, inventory, body, achievements, action, text)
    for row in range(1, before):
        if distance(objects, row, objects[0, X], objects[0, Y]) < _NEAR:
            update_creature(materials, occupants, objects, counters, chunks, random, inventory, body, row)
    if step % _BALANCED_EVERY == 0:
        balance(materials, occupants, objects, counters, chunks, random, daylight)
    if counters[REMOVED]:
        close_gaps(occupants, objects, counters)


@compiled_for("float64(int64[::1], int64[::1], int64[::1], bool_[::1], bool_[::1])")
def _pay(inventory, body, achievements, unlocked, paid):
    """One for anything new that is paid for; where everything is, also a tenth of the change in health."""
    new, everything = False, True
    for number in range(paid.shape[0]):
        if achievements[number] > 0 and not unlocked[number]:
            unlocked[number] = True
            new = new or paid[number]
        everything = everything and paid[number]
    change = inventory[HEALTH] - body[PAID_HEALTH]
    body[PAID_HEALTH] = inventory[HEALTH]
    return (change / 10 if everything else 0.0) + (1.0 if new else 0.0)


@compiled_for("bool_(bool_[::1], bool_[::1])")
def _all_done(unlocked, paid):
    missing = 0
    for number in range(paid.shape[0]):
        missing += paid[number] and not unlocked[number]
    return missing == 0


@inlined
def _show(lives, env, daylight, drawings, shown):
    draw(
        lives.materials[env], lives.occupants[env], lives.objects[env], lives.random[env], lives.inventory[env],
        lives.body[env], daylight, drawings.tiles, drawings.items, drawings.pale, drawings.vignette, shown.images[env],
    )  # fmt: skip
    draw_codes(
        lives.materials[env], lives.occupants[env], lives.objects[env], lives.inventory[env], lives.body[env],
        shown.codes[env],
    )  # fmt: skip


@compiled
def draw_lives(lives, mask, daylights, drawings, shown):
    """Show the environments where `mask` [B] is true as they are."""
    for env in range(mask.shape[0]):
        if mask[env]:
            _show(lives, env, daylights[lives.steps[env]], drawings, shown)
            shown.rewards[env] = 0.0
            shown.dead[env], shown.over[env], shown.done[env] = False, False, False


@compiled
def step_lives(lives, actions, mask, daylights, text, paid, drawings, shown):
    """One step where `mask` [B] is true; actions [B] are the game's, `paid` bool [22], `text`: which variant."""
    for env in range(mask.shape[0]):
        if mask[env]:
            lives.steps[env] += 1
            step, inventory, body = lives.steps[env], lives.inventory[env], lives.body[env]
            achievements, unlocked = lives.achievements[env], lives.unlocked[env]
            _play(
                lives.materials[env], lives.occupants[env], lives.objects[env], lives.counters[env], lives.chunks[env],
                lives.random[env], inventory, body, achievements, step, daylights[step], actions[env], text,
            )  # fmt: skip
            _show(lives, env, daylights[step], drawings, shown)
            shown.rewards[env] = _pay(inventory, body, achievements, unlocked, paid)
            shown.dead[env], shown.over[env] = inventory[HEALTH] <= 0, step >= daylights.shape[0] - 1
            shown.done[env] = _all_done(unlocked, paid)
