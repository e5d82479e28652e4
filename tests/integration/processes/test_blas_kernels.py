"""BK-Goal's numbers do not depend on the kernels that numpy's BLAS picks for a CPU.

OpenBLAS reads OPENBLAS_CORETYPE when it is loaded, so each choice of kernels is a process of its own. By numpy's `@`
the last bits would be others with each: on a CPU with AVX-512 by default, on one with AVX2 (Haswell), and on neither.
"""

import os
import subprocess
import sys

import pytest

PLAYED = """
import hashlib
import numpy as np
from groundlab.assets import resolve_model
from groundlab.language.sentence_embedding import Embedder, load_encoder
from groundlab.papers.knowledge import bk_goal, labelling, settings
from groundlab.papers.knowledge.dataset import windows_of

data = labelling.dataset()
long = [number for number, length in enumerate(data.lengths) if length >= 30]
parts = [data.segment(number, start, bk_goal.HORIZON) for number in long for start in range(0, 26, 2)][:600]
windows = windows_of(parts)
encoder = Embedder(load_encoder(resolve_model("quick-t5-s0")))
goals = bk_goal.GoalPotential(bk_goal.load(settings.HOME / "goals"), encoder, pooling="sentences")
bk_goal.calibrate(goals, data, 0.3)
phi = goals(windows)
paid = bk_goal.EllmBonus(goals)(windows, np.zeros((len(phi) // 8, 8), bool))
assert len(phi) == 600 and 0.1 < np.mean(phi > 0) < 0.6 and paid.any()
for values in (phi, goals.similarities(windows), paid):
    print(hashlib.sha256(values.tobytes()).hexdigest())
"""


def digests(kernels: str | None) -> list[str]:
    """SHA-256 of phi, of the nearness to every goal and of ELLM's reward, with the kernels of one kind of CPU."""
    given = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    given |= {"OPENBLAS_CORETYPE": kernels} if kernels else {}
    done = subprocess.run([sys.executable, "-c", PLAYED], env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def by_default():
    return digests(None)


@pytest.mark.parametrize("kernels", ["Haswell", "Nehalem"])
def test_potential_and_bonus_have_the_same_bytes_with_the_kernels_of_every_cpu(by_default, kernels):
    assert digests(kernels) == by_default
