"""Worlds in other processes: known before any engine is loaded, and the same with any number of threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import stories

MIXED = "BabyAI-MixedTrainLocal-v0"


def test_worlds_are_known_before_any_engine_is_loaded():
    heavy = "{'torch', 'numba', 'minigrid', 'crafter'}"
    words = f"import sys; from groundlab import worlds; worlds.names(); print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("threads", ["1", "2"])
def test_another_process_with_one_thread_or_two_tells_the_same_story(threads):
    code = f"import stories; print(stories.story({MIXED!r}, 128, 300, kinds='per-episode'))"
    path = os.pathsep.join(filter(None, (str(Path(stories.__file__).parent), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "NUMBA_NUM_THREADS": threads, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == stories.story(MIXED, 128, 300, kinds="per-episode")
