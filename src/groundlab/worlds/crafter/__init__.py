"""Crafter: an open world to survive in, compiled, and the knowledge paper's text variant of it.

    env = groundlab.worlds.make("Crafter-Text-EatCow", num_envs=16, seed=0)
    view.describe(env.reset()[0]["codes"][0])

The rules, worlds and pictures are those of the public crafter package (MIT licence), with which tests compare it step
for step. A step is, from below, `rules.py`, `state.py`, `terrain.py`, `creatures.py`, `player.py`, `view.py`
and `vector.py`; `mersenne.py` draws the package's random numbers.
"""
