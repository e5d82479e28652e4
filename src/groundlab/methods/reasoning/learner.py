"""The reasoning and the direct agent: a causal language model answers in words, and nested PPO tunes it.

    groundlab run reasoning --world Reasoning-GoTo-v0 --seed 0 --set iterations=100 --out runs/reasoning
    groundlab run direct --world Reasoning-GoTo-v0 --seed 0 --set num_dists=0 --out runs/direct

    policy     the model itself, token by token: "turn left", or a thought and then "final answer: turn left"
    value      a head on the state before each token
    learning   replies in many environments, credit over steps and over tokens (`learning/credit.py`), a KL to the model
               before training, some epochs of clipped updates
    test       a fixed list of layouts, each to its end (`evaluation.py`)

Everything random is drawn from a generator of (seed, purpose, update), so a resumed run is the uninterrupted one bit
for bit on CPU. What was trained is also left in peft's format, in the run's folder `model`. Source: Gandhi et al. 2025;
spec reasoning-agents. Read next: `rollouts.py`, `credits.py`.
"""

from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.methods.reasoning.credits import learn
from groundlab.methods.reasoning.evaluation import WORLDS, examine, open_talks, play_layouts, told
from groundlab.methods.reasoning.model import (
    Speaker,
    dropping,
    evaluation_speaker,
    open_engine,
    open_policy,
    save_policy,
)
from groundlab.methods.reasoning.probing import first_prompts, play_swapped, probe, probe_numbers
from groundlab.methods.reasoning.rollouts import Collector, Rollout
from groundlab.methods.reasoning.settings import DONOR_LAYOUTS, TrainingSettings
from groundlab.methods.reasoning.thoughts import measures
from groundlab.methods.registry import Request
from groundlab.methods.settings import parse_layouts

__all__ = ["WORLDS", "Settings", "evaluate", "execute"]

Settings = TrainingSettings
MODEL = "model"
"""Where, in a run's folder, the trained model is left."""


class Learner:
    """An agent while it learns: model, value head, optimizer, open episodes. Checkpoints as files."""

    def __init__(self, method: str, world: str, seed: int, settings: TrainingSettings):
        self._thinks, self._world, self._seed, self._settings = method.startswith("reasoning"), world, seed, settings
        self.policy, self.tokenizer = open_policy(settings, seed)
        trained = [parameter for parameter in self.policy.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=settings.lr, fused=settings.device == "cpu")
        self.kl = settings.kl_controller()
        self._engine = open_engine(self.policy.model, settings)
        self._speaker = Speaker(self.policy.model, self.tokenizer, settings, engine=self._engine)
        talks = open_talks(world, settings.num_envs, self._thinks, settings)
        self._collector = Collector(talks, self._speaker, settings, seed)

    def improve(self, number: int) -> dict[str, Any]:
        """Update `number` (from 1): collect, learn; returns its record."""
        drops = self._settings.fidelity.dropout
        with dropping(self.policy.model, self._seed, "dropout", number) if drops else nullcontext():
            rollout = self._collector.collect(number)
        rng = generator(self._seed, "minibatches", number)
        end, checked = self._speaker.end, number == 1
        figures = learn(self.policy, self.optimizer, self.kl, rollout, self._settings, rng, end, checked)
        return {**_outcomes(rollout), **_replies(rollout, self._thinks), **figures}

    def test(self) -> list[dict[str, Any]]:
        """The test layouts; see `evaluation.py`, and `probing.py` for swapped thoughts."""
        speaker = evaluation_speaker(self.policy.model, self.tokenizer, self._settings, self._engine)
        results = examine(speaker, self._world, self._thinks, self._settings, self._seed)
        if self._thinks and self._settings.swapped:
            results += play_swapped(speaker, self._world, self._settings, self._seed)
        return results

    def progress(self) -> dict[str, Any]:
        """A test in the course of training: means over its layouts as `test_*`, and what thoughts tell and decide."""
        settings = self._settings
        speaker = evaluation_speaker(self.policy.model, self.tokenizer, settings, self._engine)
        layouts = parse_layouts(settings.curve_layouts)
        plain = settings.model_copy(update={"transcripts": 0})
        mean = told("", play_layouts(speaker, self._world, layouts, self._thinks, plain, self._seed))["mean"]
        record = {f"test_{name}": mean[name] for name in ("success", "return", "length", "invalid")}
        if not self._thinks:
            return record
        prompts = first_prompts(self._world, parse_layouts(DONOR_LAYOUTS), speaker, settings)
        return record | probe(self.policy, speaker, prompts, probe_numbers(len(prompts), settings, self._seed))

    def state(self, facts: dict[str, Any]) -> Files:
        """The files of a checkpoint."""
        facts = {**facts, "kl_coefficient": self.kl.coefficient}
        return {**checkpoints.pack(self.policy, self.optimizer, facts), **self._collector.state()}

    def load_state(self, files: Files) -> dict[str, Any]:
        """Go on from a checkpoint; returns its facts."""
        facts = checkpoints.unpack(files, self.policy, self.optimizer)
        self.kl.coefficient = facts["kl_coefficient"]
        self._collector.load_state(files)
        return facts


def _outcomes(rollout: Rollout) -> dict[str, Any]:
    """What the episodes that ended came to: their number and means, which a rollout may be without."""
    rows = rollout.episodes
    names = ("success", "return", "length", "invalid") if rows else ()
    return {"episodes": len(rows), **{name: float(np.mean([row[name] for row in rows])) for name in names}}


def _replies(rollout: Rollout, thinks: bool) -> dict[str, Any]:
    """What the replies were like: shares of valid ones and of those cut off, tokens, thoughts; one is told whole."""
    turns = [turn for strand in rollout.strands for turn in strand.turns]
    return {
        "replies": len(turns),
        "valid": float(np.mean([turn.valid for turn in turns])),
        "cut_off": float(np.mean([not turn.reply.ended for turn in turns])),
        "reply_tokens": float(np.mean([len(turn.reply.tokens) for turn in turns])),
        **(measures(turns) if thinks else {}),
        "said": turns[0].reply.text,
    }


def execute(run: Run) -> None:
    """Train, then store the evaluation and the model."""
    spec = run.spec
    settings = TrainingSettings(**spec.settings)
    learner = Learner(spec.method, spec.world, spec.seed, settings)
    checkpoint = run.restore()
    frames = learner.load_state(checkpoint.files)["frames"] if checkpoint else 0
    if settings.test_every and not checkpoint:
        run.log({"iteration": 0, "frames": 0, **learner.progress()})
    for number in range(checkpoint.step + 1 if checkpoint else 1, settings.iterations + 1):
        record = learner.improve(number)
        frames += record["replies"]
        tested = learner.progress() if settings.test_every and number % settings.test_every == 0 else {}
        run.log({"iteration": number, "frames": frames, **record, **tested})
        shown = {name: record[name] for name in ("success", "valid") if name in record}
        run.advance(number, settings.iterations, lambda: learner.state({"frames": frames}), **shown)  # noqa: B023
    run.write_evaluation(learner.test())
    save_policy(learner.policy, learner.tokenizer, run.folder / MODEL)


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts."""
    if request.watch:
        raise GroundlabError(f"{request.method} asks nobody; to read it, give --set transcripts=3, not --show")
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    learner = Learner(request.method, request.world, request.seed, TrainingSettings(**request.settings))
    checkpoints.unpack(request.checkpoint.files, learner.policy)
    return learner.test()
