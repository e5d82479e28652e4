"""How a world begins: Crafter's landscape and first creatures, compiled, the same world as the package's for a seed.

The noise is the opensimplex package's own function, called from a compiled loop instead of once a cell from Python,
and draws come in the package's order. Source: crafter 1.8.3, `worldgen.py`.
"""

import numpy as np
from opensimplex.constants import GRADIENTS3
from opensimplex.internals import _noise3

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.crafter import mersenne
from groundlab.worlds.crafter.mersenne import below, uniform
from groundlab.worlds.crafter.rules import (
    COAL,
    COW,
    DIAMOND,
    GRASS,
    IRON,
    LAVA,
    PATH,
    SAND,
    SIZE,
    SKELETON,
    STONE,
    TREE,
    WATER,
    ZOMBIE,
)
from groundlab.worlds.crafter.state import Lives, add, be_born, walkable

_NOISE_SEEDS = 2**31 - 1
_MIDDLE = SIZE // 2
_CUBE_EDGES = len(GRADIENTS3) // 3
LIVES = {COW: 3, ZOMBIE: 5, SKELETON: 3}
_COW_LIFE, _ZOMBIE_LIFE, _SKELETON_LIFE = LIVES[COW], LIVES[ZOMBIE], LIVES[SKELETON]


@compiled_for("void(int64, int64[::1], int64[::1])")
def permute(seed, permutation, gradients):
    """OpenSimplex's tables for a seed: a permutation [256] and each one's gradient [256]."""
    source = np.arange(256)
    for _ in range(3):
        seed = seed * 6364136223846793005 + 1442695040888963407
    for i in range(255, -1, -1):
        seed = seed * 6364136223846793005 + 1442695040888963407
        drawn = (seed + 31) % (i + 1)
        permutation[i] = source[drawn]
        gradients[i] = (permutation[i] % _CUBE_EDGES) * 3
        source[drawn] = source[i]


@compiled_for("float64(float64, float64, float64, int64[::1], int64[::1])")
def noise(x, y, z, permutation, gradients):
    """opensimplex's noise3."""
    return _noise3(x, y, z, permutation, gradients)


@inlined
def _from_middle(x, y):
    return np.sqrt(np.float64((x - _MIDDLE) ** 2 + (y - _MIDDLE) ** 2))


@compiled_for("void(int64[::1], int64[::1], float64[:, ::1])")
def _draw_clearing(permutation, gradients, clearing):
    for x in range(SIZE):
        for y in range(SIZE):
            clearing[x, y] = 4 - _from_middle(x, y) + 2 * noise(x / 3, y / 3, 8, permutation, gradients)


@compiled_for("int64(int64, int64, float64, float64, uint32[::1], int64[::1], int64[::1])")
def _rock(x, y, mountain, start, random, permutation, gradients):
    """The material of a cell in the mountains; negative for a path in a tunnel."""
    if noise(x / 7, y / 7, 6, permutation, gradients) > 0.15 and mountain > 0.3:  # a cave
        return PATH
    if noise(2 * x / 3, y / 5 / 3, 7, permutation, gradients) > 0.4:
        return -PATH
    if noise(x / 5 / 3, 2 * y / 3, 7, permutation, gradients) > 0.4:
        return -PATH
    if noise(x / 8, y / 8, 1, permutation, gradients) > 0 and uniform(random) > 0.85:
        return COAL
    if noise(x / 6, y / 6, 2, permutation, gradients) > 0.4 and uniform(random) > 0.75:
        return IRON
    if mountain > 0.18 and uniform(random) > 0.994:
        return DIAMOND
    if mountain > 0.3 and noise(x / 5, y / 5, 6, permutation, gradients) > 0.35:
        return LAVA
    return STONE


@compiled_for("int64(int64, int64, float64, uint32[::1], int64[::1], int64[::1])")
def _material(x, y, start, random, permutation, gradients):
    """The material of a cell, `start` near 1 close to where the player begins; negative for a path in a tunnel."""
    water = noise(x / 15, y / 15, 3, permutation, gradients)
    water = water + 0.15 * noise(x / 5, y / 5, 3, permutation, gradients) + 0.1 - 2 * start
    mountain = noise(x / 15, y / 15, 0, permutation, gradients)
    mountain = (mountain + 0.3 * noise(x / 5, y / 5, 0, permutation, gradients)) / 1.3
    mountain -= 4 * start + 0.3 * water
    if start > 0.5:
        return GRASS
    if mountain > 0.15:
        return _rock(x, y, mountain, start, random, permutation, gradients)
    if 0.25 < water <= 0.35 and noise(x / 9, y / 9, 4, permutation, gradients) > -0.2:
        return SAND
    if water > 0.3:
        return WATER
    if noise(x / 7, y / 7, 5, permutation, gradients) > 0 and uniform(random) > 0.8:
        return TREE
    return GRASS


@compiled_for("void(uint8[:, ::1], bool_[:, ::1], float64[:, ::1], uint32[::1], int64[::1], int64[::1])")
def _draw_materials(materials, tunnels, starts, random, permutation, gradients):
    for x in range(SIZE):
        for y in range(SIZE):
            material = _material(x, y, starts[x, y], random, permutation, gradients)
            materials[x, y], tunnels[x, y] = abs(material), material < 0


@compiled_for(
    "void(uint8[:, ::1], bool_[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[:, ::1], uint32[::1])"
)
def _draw_creatures(materials, tunnels, occupants, objects, counters, chunks, random):
    for x in range(SIZE):
        for y in range(SIZE):
            material, far = materials[x, y], _from_middle(x, y)
            if not walkable(material, COW):
                continue
            if far > 3 and material == GRASS and uniform(random) > 0.985:
                add(occupants, objects, counters, chunks, COW, x, y, _COW_LIFE)
            elif far > 10 and uniform(random) > 0.993:
                add(occupants, objects, counters, chunks, ZOMBIE, x, y, _ZOMBIE_LIFE)
            elif material == PATH and tunnels[x, y] and uniform(random) > 0.95:
                add(occupants, objects, counters, chunks, SKELETON, x, y, _SKELETON_LIFE)


def generate(lives: Lives, env: int, seed: int) -> None:
    """Begin an episode in one environment: the world that the package draws from `RandomState(seed)`."""
    be_born(lives, env)
    random, materials = lives.random[env], lives.materials[env]
    mersenne.seed_row(random, seed)
    permutation, gradients = np.empty((2, 256), np.int64)
    permute(below(random, _NOISE_SEEDS), permutation, gradients)
    clearing, tunnels = np.empty((SIZE, SIZE)), np.empty((SIZE, SIZE), np.bool_)
    _draw_clearing(permutation, gradients, clearing)
    starts = 1 / (1 + np.exp(-clearing))  # by NumPy, whose exp can differ from a compiled one in its last bit
    _draw_materials(materials, tunnels, starts, random, permutation, gradients)
    where = (lives.occupants[env], lives.objects[env], lives.counters[env], lives.chunks[env])
    _draw_creatures(materials, tunnels, *where, random)
