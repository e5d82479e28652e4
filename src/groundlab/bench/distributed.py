"""What a second process gives GLAM: updates of the shipped model's agent by one process and by two, a thread each.

By the clock, so on an otherwise idle machine with a core for each. An update is collected and learnt from: 1,024 frames
of GoToLocalS8N4, 24 gradient steps of 128 prompts. Called from: `bench.py` (`groundlab bench training --only glam`).
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from groundlab.bench import Figure
from groundlab.core.errors import GroundlabError
from groundlab.lab.worker import ONE_THREAD

_UPDATES = 4  # the first warms up
_RUN = ("run", "glam", "--world=BabyAI-GoToLocalS8N4-v0", f"--set=iterations={_UPDATES}")
_SHORT = ("--set=layouts=0-0", "--set=fixed_mission=''")
_LAUNCH = ("--multi_gpu", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0")


def bench_distributed() -> list[Figure]:
    """Seconds an update takes one process and two, and how much faster two are."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = (_seconds(count, Path(folder) / str(count)) for count in (1, 2))
    return [
        Figure("glam, an update of 1,024 frames, one process", one, "s"),
        Figure("glam, the same, two processes", two, "s"),
        Figure("glam, one process / two", one / two, "x"),
    ]


def _seconds(processes: int, folder: Path) -> float:
    """The mean over all updates of a run but the first."""
    launcher = ["-m", "accelerate.commands.launch", *_LAUNCH, f"--num_processes={processes}", "--module", "groundlab"]
    command = [sys.executable, *(launcher if processes > 1 else ["-m", "groundlab"]), *_RUN, *_SHORT, f"--out={folder}"]
    ended = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True)
    if ended.returncode:
        raise GroundlabError(f"the timed run failed: {(ended.stderr.strip().splitlines() or ['no message'])[-1]}")
    lines = (folder / "timing.jsonl").read_text().splitlines()
    marks = [json.loads(line)["seconds"] for line in lines]
    return (marks[-1] - marks[0]) / (len(marks) - 1)
