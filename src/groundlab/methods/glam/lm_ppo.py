"""GLAM's agent: the policy is the language model itself, and online PPO tunes all of its weights.

    groundlab run glam --world BabyAI-GoToLocalS8N4-v0 --seed 0 --set frames=20000 --out runs/glam

    policy     the softmax, over actions, of how likely their words are after the prompt (or an action head's)
    value      a head on the state that predicts an action's first word
    learning   rollouts of 32 environments, generalised advantages, a few epochs of clipped updates
    test       a fixed list of layouts, sampled and greedy, as it is and with one mission for all (generalization.py)

The five variants of the pretraining study are five method names (`variants.py`); they share every line and every
default. Everything random is drawn from a generator of (seed, purpose, update), so a resumed run is the uninterrupted
one bit for bit on CPU. Several processes may train one agent (`distributed.py`). Source: Carta et al. 2023; spec
glam-agents 1 and 2. Read next: `rollouts.py`, `tuning.py`.
"""

from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run
from groundlab.core.seeding import generator
from groundlab.language.prompts import probe_prompts, text_actions
from groundlab.language.scoring import ActionScorer
from groundlab.learning import checkpoints
from groundlab.methods.glam import generalization, tuning
from groundlab.methods.glam.distributed import ALONE, Group, joined
from groundlab.methods.glam.policy import LanguagePlayer, Scores
from groundlab.methods.glam.reading import Alteration, Reader
from groundlab.methods.glam.rollouts import Collector, Rollout
from groundlab.methods.glam.settings import TRAINING_LAYOUTS_FROM, ModelSettings, TrainingSettings
from groundlab.methods.glam.variants import VARIANTS, build_scorer, published_name
from groundlab.methods.registry import Request
from groundlab.worlds import GridVectorEnv

__all__ = ["DISTRIBUTED", "WORLDS", "Settings", "evaluate", "execute"]

Settings = TrainingSettings
WORLDS = tuple(name for name, world in worlds.WORLDS.items() if not world.is_door_key)
LAYOUTS_END = 2**31
DISTRIBUTED = True  # `accelerate launch` may start several processes that train one agent


class Learner:
    """An agent while it learns: network, optimizer, environments. Checkpoints as files."""

    def __init__(self, method: str, world: str, seed: int, settings: TrainingSettings, group: Group = ALONE):
        self._world, self._seed, self._settings, self._group = world, seed, settings, group
        self._variant = VARIANTS[method]
        for _ in generalization.planned(settings):
            pass  # a misspelt test is told before training
        self._texts = text_actions(settings.action_space, worlds.find(world).language)
        self._drops = settings.fidelity.dropout and not self._variant.pretrained
        self.scorer = build_scorer(self._variant, settings, self._texts, seed, dropout=self._drops)
        self._look = Scores(self.scorer, remember=not self._drops, group=group)
        self.optimizer = torch.optim.Adam(
            tuning.trained(self.scorer), lr=settings.lr, eps=settings.adam_eps, fused=settings.device == "cpu"
        )
        self._collector = self._new_collector()

    def _new_collector(self) -> Collector:
        settings = self._settings
        envs = GridVectorEnv(
            worlds.find(self._world), settings.num_envs, autoreset="same-step", num_dists=settings.num_dists
        )
        collector = Collector(envs, Reader(settings.num_envs, self._world, settings), settings)
        rng = generator(self._seed, "training layouts")
        collector.start(rng.integers(TRAINING_LAYOUTS_FROM, LAYOUTS_END, settings.num_envs).tolist())
        return collector

    def improve(self, number: int) -> dict[str, Any]:
        """Update `number` (from 1): collect, tune; returns its record."""
        own = (self._group.rank,) if self._group.rank else ()  # processes read different prompts, with different masks
        drop = checkpoints.seeded_construction(self._seed, "dropout", number, *own) if self._drops else nullcontext()
        with drop:
            self.scorer.train(self._drops)
            record = self._probe()
            rollout = self._collector.collect(self._look, generator(self._seed, "actions", number))
            rng = generator(self._seed, "minibatches", number)
            figures = tuning.update(self.scorer, self.optimizer, rollout, self._settings, rng, self._group)
        self._look.forget()
        return {**record, **_outcomes(rollout), **figures}

    def _probe(self) -> dict[str, Any]:
        """The policy on the paper's probe prompts, prompt by prompt; with action heads there is none."""
        if not self._settings.probe_template or self._variant.use_action_heads:
            return {}
        log_probs, _ = self._look(probe_prompts(self._texts, self._settings.probe_template))
        return {"probe": [round(p, 6) for p in log_probs.exp().flatten().tolist()]}

    def test(self) -> list[dict[str, Any]]:
        """Evaluations on the test layouts; see `generalization.py`."""
        self.scorer.train(False)
        return examine(self.scorer, self._world, self._seed, self._settings, group=self._group)

    def state(self, facts: dict[str, Any]) -> Files:
        """The files of a checkpoint."""
        return {**checkpoints.pack(self.scorer, self.optimizer, facts), **self._collector.state()}

    def load_state(self, files: Files) -> dict[str, Any]:
        """Go on from a checkpoint; returns its facts."""
        facts = checkpoints.unpack(files, self.scorer, self.optimizer)
        self._collector.load_state(files)
        return facts


def _outcomes(rollout: Rollout) -> dict[str, Any]:
    """What the episodes that ended in a rollout came to: their number and means, which a rollout may be without."""
    rows = rollout.episodes
    means = {name: float(np.mean([row[name] for row in rows])) for name in ("success", "return", "length") if rows}
    return {"episodes": len(rows), **means}


def with_actions(scorer: ActionScorer, actions: tuple[str, ...], settings: ModelSettings) -> ActionScorer:
    """The same network over other action texts; an action head keeps its outputs, whatever they are called."""
    if list(actions) == scorer.actions or scorer.action_head is not None:
        return scorer
    options = {"rule": settings.rule, "temperature": scorer.temperature, "token_budget": settings.token_budget}
    return ActionScorer(scorer.model, scorer.tokenizer, actions, value_head=False, **options)


def examine(
    scorer: ActionScorer,
    world: str,
    seed: int,
    settings: ModelSettings,
    temperature: float = 1.0,
    group: Group = ALONE,
) -> list[dict[str, Any]]:
    """All tests of a language-model policy; equal prompts are read once in all of them."""
    looks: dict[tuple[str, ...], Scores] = {}

    def player_for(place: str, alteration: Alteration, greedy: bool, num_envs: int, purpose: str) -> LanguagePlayer:
        space = alteration.action_space or settings.action_space
        actions = text_actions(space, worlds.find(place).language)
        if actions not in looks:
            looks[actions] = Scores(with_actions(scorer, actions, settings), temperature, group=group)
        rng = None if greedy else generator(seed, "evaluation", purpose)
        return LanguagePlayer(looks[actions], num_envs, place, settings, alteration, rng)

    return generalization.examine(world, settings, player_for)


def execute(run: Run) -> None:
    """Train, then store all evaluations."""
    settings = TrainingSettings(**run.spec.settings)
    learner = Learner(run.spec.method, run.spec.world, run.spec.seed, settings, joined())
    train(run, learner, settings)
    run.write_evaluation(learner.test())


def train(run: Run, learner: Learner, settings: TrainingSettings) -> None:
    """Train to the end (or to a stop), logging one record an update."""
    checkpoint = run.restore()
    if checkpoint is None:
        spec = run.spec
        run.say(f"by the original's naming: {published_name(spec.method, spec.world, settings, spec.seed)}")
    else:
        learner.load_state(checkpoint.files)
    for number in range(checkpoint.step + 1 if checkpoint else 1, settings.updates + 1):
        frames = number * settings.num_envs * settings.frames_per_env
        record = {"iteration": number, "frames": frames, **learner.improve(number)}
        run.log(record)
        shown = {name: record[name] for name in ("success", "entropy") if name in record}
        run.advance(number, settings.updates, lambda: learner.state({"frames": frames}), **shown)  # noqa: B023


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts."""
    if request.watch:
        raise GroundlabError(f"{request.method} asks nobody, so there is no dialogue; leave out --show and --record")
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    settings = TrainingSettings(**request.settings)
    learner = Learner(request.method, request.world, request.seed, settings)
    checkpoints.unpack(request.checkpoint.files, learner.scorer)
    return learner.test()
