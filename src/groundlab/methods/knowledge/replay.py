"""Lives in Crafter played again from their seeds and actions: their pictures, and how far they went.

    draw_again("Crafter-Text-Reward", seeds, actions, codes, pictures)

A picture takes 150 times the room of the codes beside it, and by night it holds noise that no code knows. Both follow
from the seed and the actions, so a dataset keeps those and draws its pictures once a machine; each step's codes must
be the stored ones, or the world is not the one that was played. Called from: `dataset.py`, `collect.py`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from groundlab.core.errors import GroundlabError
from groundlab.methods.knowledge.senses import CRAFTER
from groundlab.methods.knowledge.windows import PICTURE
from groundlab.worlds.crafter.rules import ACHIEVEMENTS, SIZE
from groundlab.worlds.crafter.state import X, Y

_AT_ONCE = 64  # lives


class Moment(NamedTuple):
    """What M of the lives show at one step."""

    lives: np.ndarray  # int64 [M], numbers of those that are still going on
    step: int
    views: np.ndarray  # uint8 [M, bytes]
    places: np.ndarray  # int16 [M, 2], where the players stand
    unlocked: np.ndarray  # bool [M, 22]


def played_again(world: str, seeds: Sequence[int], actions: Sequence[np.ndarray]) -> Iterator[Moment]:
    """Every step of lives that begin from reset seeds and take these actions, some lives at a time."""
    for first in range(0, len(seeds), _AT_ONCE):
        here = slice(first, first + _AT_ONCE)
        for moment in _together(world, list(seeds[here]), actions[here]):
            yield moment._replace(lives=moment.lives + first)


def _together(world: str, seeds: list[int], actions: Sequence[np.ndarray]) -> Iterator[Moment]:
    envs, lengths = CRAFTER.make(world, len(seeds), "disabled"), np.array([len(taken) for taken in actions])
    observations, info = envs.reset(seed=seeds)
    for step in range(int(lengths.max()) + 1):
        lives = np.flatnonzero(step <= lengths)
        places = envs.lives.objects[lives, 0][:, [X, Y]]
        yield Moment(lives, step, CRAFTER.view(observations)[lives], places, info["unlocked"][lives])
        last = [taken[min(step, len(taken) - 1)] for taken in actions]
        observations, _, _, _, info = envs.step(np.array(last, np.int64))


def draw_again(
    world: str, seeds: Sequence[int], actions: Sequence[np.ndarray], codes: Sequence[np.ndarray], pictures: np.ndarray
) -> None:
    """Write the pictures of all steps, life after life, to `pictures` uint8 [steps + lives, PICTURE].

    codes: [T + 1, 83] of each life. Raises GroundlabError when the world shows something else.
    """
    starts = np.cumsum([0, *(len(taken) + 1 for taken in actions)])
    for moment in played_again(world, seeds, actions):
        for life, view in zip(moment.lives.tolist(), moment.views, strict=True):
            if not np.array_equal(view[PICTURE:], codes[life][moment.step]):
                where = f"episode {life} is not what {world} shows at step {moment.step}"
                raise GroundlabError(f"{where}; collect the dataset again")
            pictures[starts[life] + moment.step] = view[:PICTURE]


class Reached(NamedTuple):
    """What lives came to."""

    cells: float
    """The share of the map on which any of them stood."""
    achievements: dict[str, float]
    """The share of lives with each achievement; those that none has are left out."""


def reached(world: str, seeds: Sequence[int], actions: Sequence[np.ndarray]) -> Reached:
    """What lives that begin from these reset seeds and take these actions come to."""
    stood, done = np.zeros((SIZE, SIZE), np.bool_), np.zeros((len(seeds), len(ACHIEVEMENTS)), np.bool_)
    for moment in played_again(world, seeds, actions):
        stood[moment.places[:, 0], moment.places[:, 1]] = True
        done[moment.lives] = moment.unlocked
    shares = dict(zip(ACHIEVEMENTS, done.mean(0).tolist(), strict=True))
    return Reached(float(stood.mean()), {name: share for name, share in shares.items() if share})
