"""How fast the hot paths are, on this machine, now: worlds, scoring, training. A benchmark, never a test.

    groundlab bench worlds
    groundlab bench training --only mediator --json speed.json

Each number is taken in the same run as the thing it is compared with; quote ratios, not absolutes.
"""

from groundlab.bench.measurement import Measurement
from groundlab.core.errors import unknown_name

SUBJECTS = ("worlds", "scoring", "training")
PAPERS = ("mediator", "glam", "reasoning", "knowledge")  # whose training is timed


def bench(subject: str = "all", paper: str | None = None, first_use: bool = False) -> list[Measurement]:
    """Measure one subject, or all; `first_use` adds what compiling the worlds costs, which takes up to a minute.

    Raises GroundlabError for an unknown subject or paper.
    """
    if subject not in (*SUBJECTS, "all"):
        raise unknown_name("benchmark", subject, (*SUBJECTS, "all"))
    if paper not in (None, *PAPERS):
        raise unknown_name("paper", str(paper), PAPERS)
    measured: list[Measurement] = []
    if subject != "worlds":
        import torch

        torch.set_num_threads(1)  # seconds are the CPU's, of one thread
    if subject in ("worlds", "all"):
        from groundlab.bench import worlds

        measured += worlds.bench_worlds()
        if first_use:
            measured.append(Measurement("compiling all worlds at first use", worlds.first_use_seconds(), "CPU-s"))
    if subject in ("scoring", "all"):
        from groundlab.bench.scoring import bench_scoring

        measured += bench_scoring()
    if subject in ("training", "all"):
        from groundlab.bench import generation, training, updates

        works = {
            "mediator": (updates.bench_mediator, training.bench_mediator),
            "glam": (updates.bench_glam, training.bench_glam),
            "reasoning": (generation.bench_generation,),
            "knowledge": (updates.bench_knowledge, training.bench_knowledge),
        }
        measured += [each for name in works if paper in (None, name) for work in works[name] for each in work()]
    return measured
