"""What an environment shows, as a digest: two that tell the same story showed the same."""

import hashlib

import numpy as np

from groundlab import worlds


def story(world: str, count: int, steps: int, **options) -> str:
    """A digest of all that the first environment of a batch of `count` is told in `steps` steps."""
    env, digest = worlds.make(world, count, seed=17, **options), hashlib.sha256()
    actions = np.random.default_rng(1).integers(0, 7, (steps, 1)).repeat(count, axis=1)
    results = [(env.reset()[0], [0.0], [False], [False]), *(env.step(row)[:4] for row in actions)]
    for observation, reward, terminated, truncated in results:
        told = (observation["mission"][0], int(observation["direction"][0]), float(reward[0]))
        digest.update(repr((*told, bool(terminated[0]), bool(truncated[0]))).encode())
        digest.update(observation["image"][0].tobytes())
    return digest.hexdigest()
