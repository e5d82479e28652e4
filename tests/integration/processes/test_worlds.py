"""Worlds in other processes: known before any engine is loaded, and the same as here."""

import os
import subprocess
import sys
from pathlib import Path

import stories

MIXED = "BabyAI-MixedTrainLocal-v0"


def test_worlds_are_known_before_any_engine_is_loaded():
    heavy = "{'torch', 'numba', 'minigrid', 'crafter'}"
    words = f"import sys; from groundlab import worlds; worlds.names(); print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_another_process_tells_the_same_story():
    code = f"import stories; print(stories.story({MIXED!r}, 128, 300, kinds='per-episode'))"
    path = os.pathsep.join(filter(None, (str(Path(stories.__file__).parent), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == stories.story(MIXED, 128, 300, kinds="per-episode")
