"""A GLAM agent as teacher: trained inside the run that is to imitate it, then playing random levels (spec E10).

    pairs = demonstrate(run.part("teacher", spec), settings, student, count=20_000)

So one run holds the whole experiment, from the language model to the clone, and needs no other run's weights. The
actions are sampled from the policy, and all episodes count, won or lost, as in the original (spec glam-agents 5).
Called from: `cloning.py`. Read next: `demonstrations.py`, which writes down what was read and done.
"""

from collections.abc import Iterator
from itertools import islice

from groundlab.core.run import Run
from groundlab.core.seeding import generator
from groundlab.methods.glam import demonstrations, lm_ppo
from groundlab.methods.glam.demonstrations import Pair
from groundlab.methods.glam.policy import LanguagePlayer, Scores
from groundlab.methods.glam.settings import TRAINING_LAYOUTS_FROM, ReadingSettings, TrainingSettings


def demonstrate(run: Run, settings: TrainingSettings, student: ReadingSettings, count: int) -> list[Pair]:
    """Train GLAM in `run` (or go on there), then the first `count` decisions it takes, as the student would read them.

    None of the levels is a test layout. Raises Unfinished when a stop is asked for while it learns.
    """
    learner = lm_ppo.Learner(run.spec.method, run.spec.world, run.spec.seed, settings)
    lm_ppo.train(run, learner, settings)
    learner.scorer.train(False)
    return list(islice(_played(Scores(learner.scorer), run, settings, student), count))


def _played(look: Scores, run: Run, settings: TrainingSettings, student: ReadingSettings) -> Iterator[Pair]:
    world, seed = run.spec.world, run.spec.seed
    rng, actions = generator(seed, "demonstrations"), generator(seed, "demonstrated actions")
    while True:
        layouts = rng.integers(TRAINING_LAYOUTS_FROM, lm_ppo.LAYOUTS_END, settings.num_envs).tolist()
        player = LanguagePlayer(look, len(layouts), world, settings, rng=actions)
        yield from demonstrations.of_player(world, student, layouts, player)
        look.forget()  # only so that memory does not grow
