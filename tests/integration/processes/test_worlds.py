"""Worlds in other processes are the same as here."""

import os
import subprocess
import sys
from pathlib import Path

import stories

MIXED = "BabyAI-MixedTrainLocal-v0"


def test_another_process_tells_the_same_story():
    code = f"import stories; print(stories.story({MIXED!r}, 128, 300, kinds='per-episode'))"
    path = os.pathsep.join(filter(None, (str(Path(stories.__file__).parent), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == stories.story(MIXED, 128, 300, kinds="per-episode")
