"""Speed of the hot paths on a GPU: scoring and learning, the small networks; one process, one table.

    python benchmarks/gpu.py > table.md                 # 5 minutes on an H200; --only scoring: one part of it

Models have the published shapes and random weights, in the package's own way and in that of the originals, in the same
run. Seconds are of the wall, with all work on the device waited for; the CPU's are of one thread of the same machine.
"""

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import T5Config, T5ForConditionalGeneration

from groundlab.bench import scoring
from groundlab.core.run import Run
from groundlab.lab.plan import plan
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.scoring import ActionScorer
from groundlab.learning.devices import arithmetic
from groundlab.papers import registry

READ, LEARNT, STEPS, EPOCHS = 32, 64, 40, 4  # as GLAM is published: environments, prompts a batch, steps, epochs
CHECKED = 4  # prompts whose scores the CPU reads as well
SMALL_BATCHES = ("float32, batches as a CPU's", (torch.float32, False), 32.0)
PRECISIONS = {
    "float32": (torch.float32, False),
    "float32, TF32": (torch.float32, True),
    "bfloat16": (torch.bfloat16, False),
}
SMALL = ("mediator", "knowledge", "rnd", "drrn", "symbolic", "glam", "direct", "reasoning")
Row = tuple[str, str, float, str]
FLAN_T5_LARGE = T5Config(
    **{"vocab_size": 32128, "d_model": 1024, "d_ff": 2816, "d_kv": 64, "num_heads": 16, "num_layers": 24},
    **{"num_decoder_layers": 24, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
)
"""Sizes of the published models (their config.json on the hub); weights are random."""


def clock() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The median of some repeats, after one that warms up."""
    work()
    taken = []
    for _ in range(times):
        start = clock()
        work()
        taken.append(clock() - start)
    return median(taken)


def scores() -> Iterator[Row]:
    """Flan-T5-large scores six actions for prompts of 132 tokens and learns from them, by precision."""
    rng = np.random.default_rng(0)
    prompts = [scoring.random_prompt(rng) for _ in range(LEARNT)]
    tokenizer = scoring.tokenizer_of([*prompts, *ACTIONS])
    with torch.device("cuda"):
        fresh: Any = T5ForConditionalGeneration(FLAN_T5_LARGE).eval()
    with torch.no_grad():
        here = ActionScorer(copy.deepcopy(fresh).cpu(), tokenizer, ACTIONS)(prompts[:CHECKED]).scores
    for name, (dtype, tf32), pass_tokens in [*((*each, None) for each in PRECISIONS.items()), SMALL_BATCHES]:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        model = copy.deepcopy(fresh).to("cuda", dtype)
        scorer = ActionScorer(model, tokenizer, ACTIONS, pass_tokens=pass_tokens)

        def learn(scorer: ActionScorer = scorer) -> None:
            scorer.zero_grad()
            scorer.backward(prompts, lambda index, scores, values: scores.log_softmax(-1)[:, 0].sum() + values.sum())

        with torch.no_grad():
            there = scorer(prompts[:CHECKED]).scores.float().cpu()
            read = seconds(lambda scorer=scorer: scorer(prompts[:READ]).scores)
            plain = seconds(partial(scoring.plain_scores, model, tokenizer, prompts[:READ], ACTIONS))
        learnt = seconds(learn)
        update = STEPS * read + EPOCHS * READ * STEPS / LEARNT * learnt
        subject = f"Flan-T5-large, {name}"
        yield from [
            (subject, f"scoring, {READ} prompts at once", READ / read, "prompts/s"),
            (subject, "every pair from scratch, same run", READ / plain, "prompts/s"),
            (subject, "ratio", plain / read, "x"),
            (subject, f"learning, {LEARNT} prompts at once", LEARNT / learnt, "prompts/s"),
            (subject, f"so an update of {READ * STEPS} frames and {EPOCHS} epochs, without the worlds", update, "s"),
            (subject, "largest difference of a score to the CPU's", (there - here).abs().max().item(), "nats"),
            (subject, "spread of those scores", here.std().item(), "nats"),
        ]
        del scorer, model
        torch.cuda.empty_cache()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def small() -> Iterator[Row]:
    """An update of each method of scale `quick`, on the GPU and on one thread of the CPU."""
    planned = plan(scale="quick").runs
    torch.set_num_threads(1)
    for method in SMALL:
        spec = next(run.spec for run in planned if run.spec.method == method)
        took = {}
        for device in ("cpu", "cuda"):
            own = registry.resolve(method, spec.world, spec.seed, spec.settings | {"device": device})
            with tempfile.TemporaryDirectory() as folder, arithmetic():
                learner = registry.load(method, spec.world).make_learner(own, Run(Path(folder) / "run", own))
                numbers = iter(range(1, 100))
                took[device] = seconds(lambda learner=learner, numbers=numbers: learner.train_step(next(numbers)))
        subject = f"{method}, scale quick"
        yield from ((subject, f"an update on {device}", each, "s") for device, each in took.items())
        yield subject, "the CPU's / the GPU's", took["cpu"] / took["cuda"], "x"


def main() -> None:
    parts = {"scoring": scores, "small": small}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=parts, action="append", help="part to measure; all by default")
    chosen = parser.parse_args().only or list(parts)
    if not torch.cuda.is_available():
        parser.exit(1, "torch finds no GPU here; nothing was measured\n")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| what | how | number | unit |\n|---|---|---|---|", flush=True)
    for name in chosen:
        for subject, how, number, unit in parts[name]():
            print(f"| {subject} | {how} | {number:.4g} | {unit} |", flush=True)


if __name__ == "__main__":
    main()
