"""Behavioural cloning: a language model learns, prompt by prompt, to say what the bot (or another agent) did.

    groundlab run cloning --world BabyAI-GoToLocalS8N4-v0 --seed 0 --out runs/cloning

    teacher    BabyAI's bot; with `demonstrations: agent` a GLAM agent that the run trains first, inside its own folder
    learning   cross-entropy of the action's words and the end token, AdamW, all weights; a rate that rises shortly and
               then falls to nothing along a cosine
    test       as the agent that learnt by PPO: the softmax over actions of how likely their words are (episodes.py)

The file reads from the top: the learner, the demonstrations and their makers, the files that keep them.
Source: docs/papers/glam-method.md#agents-5 and #env-7-3.
"""

import gzip
import io
import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run, RunSpec
from groundlab.core.seeding import generator
from groundlab.core.storage import digest_bytes
from groundlab.learning import checkpoints
from groundlab.learning.devices import send
from groundlab.learning.master_weights import make_optimizer, parameters_of
from groundlab.papers import training
from groundlab.papers.episodes import Player, play_layouts
from groundlab.papers.glam import ppo
from groundlab.papers.glam.episodes import evaluate_scorer, plan_tests
from groundlab.papers.glam.policy import (
    VARIANTS,
    CachedPolicy,
    Reader,
    TextPlayer,
    build_scorer,
    trainable_parameters,
    watched_reader,
)
from groundlab.papers.glam.settings import (
    ABOUT,
    PAIRS,
    CloningSettings,
    ReadingSettings,
    TrainingSettings,
)
from groundlab.papers.watching import WatchedPlayer
from groundlab.worlds.adapters.minigrid_bot import Bot
from groundlab.worlds.text_env.prompts import text_actions

__all__ = ["Settings", "make_learner"]

Settings = CloningSettings
_WARM_UP = 0.01  # share of all steps in which the rate rises
IGNORED = -100  # the label that cross-entropy leaves out


class Pair(NamedTuple):
    """One decision: where it was taken, which prompt was read, which action it led to."""

    layout: int
    step: int
    prompt: str
    action: str


def make_learner(spec: RunSpec, run: Run | None = None) -> training.Learner:
    """The clone of a run before its first step; its demonstrations are made, or read, first.

    Without a run there are none: it can take weights and be evaluated.
    Raises GroundlabError for a misspelt test or too few demonstrations, Unfinished for a stop while a teacher learns.
    """
    settings = Settings(**spec.settings)
    plan_tests(settings)  # so that a misspelt test is refused before training
    return CloningLearner(spec, *(load_pairs(run, settings) if run else ()))


class CloningLearner(training.Learner):
    """A language model while it imitates."""

    shown = ("loss", "accuracy")

    def __init__(self, spec: RunSpec, pairs: Sequence[Pair] = (), held_out: Sequence[Pair] = ()):
        self._spec, self._pairs, self._held_out = spec, pairs, held_out
        self.settings = settings = Settings(**spec.settings)
        self.updates = math.ceil(settings.steps / settings.steps_per_record)
        names = text_actions(settings.action_space)
        actions = text_actions(settings.action_space, worlds.find(spec.world).language)
        self._translation = dict(zip(names, actions, strict=True))
        self.scorer = build_scorer(VARIANTS["glam"], settings, actions, spec.seed, value_head=False)
        self.optimizer = make_optimizer(
            torch.optim.AdamW,
            trainable_parameters(self.scorer),
            lr=settings.lr,
            weight_decay=0.0,
            fused=settings.device == "cpu",
        )

    def train_step(self, number: int) -> dict[str, Any]:
        """`steps_per_record` gradient steps; the record has their mean loss, and the accuracy after them."""
        settings = self.settings
        first, end = (min(each * settings.steps_per_record, settings.steps) for each in (number - 1, number))
        self.scorer.model.train()
        with checkpoints.seeded_construction(self._spec.seed, "dropout", first):
            losses = [self._gradient_step(step) for step in range(first, end)]
        self.scorer.model.eval()
        if not math.isfinite(loss := float(np.mean(torch.stack(losses).tolist()))):
            raise GroundlabError(f"the loss is no number any more; use an lr below {settings.lr:g}")
        frames = min(end * settings.batch_size, settings.frames * settings.epochs)
        return {"frames": frames, "loss": loss, "accuracy": self.accuracy(self._held_out)}

    def _gradient_step(self, step: int) -> Tensor:
        """The gradient step of this number (from 0); its loss []."""
        self.optimizer.param_groups[0]["lr"] = learning_rate(self.settings, step)
        loss = self.loss(self.batch(step))
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters_of(self.optimizer), self.settings.max_grad_norm)
        self.optimizer.step()
        return loss.detach()

    def batch(self, step: int) -> list[Pair]:
        """The pairs that a gradient step (from 0) learns from; each pair is in one batch of an epoch."""
        epoch, number = divmod(step, self.settings.steps_per_epoch)
        size, count = self.settings.batch_size, len(self._pairs)
        in_order = self.settings.fidelity.in_order
        order = range(count) if in_order else generator(self._spec.seed, "order", epoch).permutation(count)
        return [self._pairs[index] for index in order[number * size : (number + 1) * size]]

    def loss(self, pairs: Sequence[Pair]) -> Tensor:
        """Mean cross-entropy over the tokens of the actions and their ends."""
        words = self.scorer.tokenizer
        read = self.scorer.tokens([pair.prompt for pair in pairs], [self._text(pair) for pair in pairs])
        prompts, actions = [prompt for prompt, _ in read], [[*action, words.eos_token_id] for _, action in read]
        labels = _padded(actions, words.pad_token_id if self.settings.fidelity.pad_loss else IGNORED)
        model: Any = self.scorer.model
        if not model.config.is_encoder_decoder:
            rows = [prompt + action for prompt, action in zip(prompts, actions, strict=True)]
            hidden = [[IGNORED] * len(prompt) for prompt in prompts]
            labels = _padded([mask + action for mask, action in zip(hidden, actions, strict=True)], IGNORED)
            prompts = rows
        ids, mask = _padded(prompts, words.pad_token_id), _padded([[1] * len(row) for row in prompts], 0)
        inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        return model(**{name: send(tensor, model.device) for name, tensor in inputs.items()}).loss

    def accuracy(self, pairs: Sequence[Pair]) -> float:
        """The share of decisions in which the demonstrated action is the policy's likeliest."""
        log_probs, _ = CachedPolicy(self.scorer)([pair.prompt for pair in pairs])
        actions = [self.scorer.actions.index(self._text(pair)) for pair in pairs]
        return float((log_probs.argmax(-1) == torch.tensor(actions)).float().mean())

    def _text(self, pair: Pair) -> str:
        """The pair's action in the language of the world."""
        return self._translation.get(pair.action, pair.action)

    def evaluate(self) -> list[training.Evaluation]:
        """Evaluations on the test layouts."""
        return evaluate_scorer(self.scorer, self._spec.world, self._spec.seed, self.settings)

    def watched(self, rng: np.random.Generator) -> WatchedPlayer:
        """The agent over the action texts that it is trained on."""
        self.scorer.train(False)
        return watched_reader(CachedPolicy(self.scorer), self._spec.world, self.settings, rng)

    def state(self) -> Files:
        """The files of a checkpoint."""
        return checkpoints.pack(self.scorer, self.optimizer, {})

    def load_state(self, files: Files) -> None:
        """Go on from a checkpoint."""
        checkpoints.unpack(files, self.scorer, self.optimizer)

    def load_weights(self, files: Files) -> None:
        """Take the network from a checkpoint."""
        checkpoints.unpack(files, self.scorer)


def _padded(rows: list[list[int]], value: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def learning_rate(settings: Settings, step: int) -> float:
    """The rate of a gradient step (from 0): a linear rise, then a cosine to 0 at the end."""
    rise = math.ceil(_WARM_UP * settings.steps)
    if step < rise:
        return settings.lr * (step + 1) / rise
    return settings.lr * 0.5 * (1 + math.cos(math.pi * (step - rise) / (settings.steps - rise)))


# The demonstrations: of the bot, of any agent, of one that is trained for it.


def load_pairs(run: Run, settings: Settings) -> tuple[list[Pair], list[Pair]]:
    """(training, held-out) pairs; those that the run makes are stored in it. Raises GroundlabError for too few."""
    spec, count = run.spec, settings.frames + settings.held_out
    folder = run.folder / "demonstrations" if settings.makes_its_own else Path(settings.demonstrations)
    if settings.makes_its_own and not (folder / ABOUT).is_file():
        if settings.teacher is None:
            pairs = bot_pairs(spec.world, settings, count, spec.seed, settings.fidelity.stale_first_observation)
        else:
            pairs = teacher_pairs(run, settings.teacher, settings, count)
        store_pairs(folder, pairs, {"world": spec.world, "by": settings.demonstrations, "seed": spec.seed})
    pairs = read_pairs(folder)
    if len(pairs) < count:
        raise GroundlabError(f"{folder} has {len(pairs)} pairs, not {count}; lower frames or held_out")
    return pairs[: settings.frames], pairs[settings.frames : count]


def bot_pairs(world: str, settings: ReadingSettings, count: int, seed: int, stale_first: bool = False) -> list[Pair]:
    """The first `count` decisions of the bot on random levels, none of them a test layout; mixed worlds turn by turn.

    stale_first: each episode's first prompt shows the last observation of the one before
    (docs/papers/glam-reference.md#env-q12).
    """
    return list(islice(_bot_episodes(world, settings, seed, stale_first), count))


def _bot_episodes(world: str, settings: ReadingSettings, seed: int, stale_first: bool) -> Iterator[Pair]:
    kinds = worlds.find(world).kinds
    names = [f"{world}/{kind}" for kind in kinds] if len(kinds) > 1 else [world]
    envs = [worlds.GridEnv(name, num_dists=settings.num_dists) for name in names]
    rng, reader, last, episode = generator(seed, "demonstrations"), Reader(1, world, settings), None, 0
    while True:
        layout = int(rng.integers(*TRAINING_LAYOUTS))
        env = envs[episode % len(envs)]
        observation, _ = env.reset(seed=layout)
        reader.start(0, last if stale_first and last is not None else observation)
        last = yield from _bot_episode(env, layout, reader, observation["mission"])
        episode += 1


def _bot_episode(env: worlds.GridEnv, layout: int, reader: Reader, mission: str) -> Any:
    """The pairs of one episode; returns its last observation."""
    bot, first, step, over, observation = Bot(env), np.zeros(1, np.int64), 0, False, {}
    while not over:
        action = bot.act()
        prompt = reader.prompts({"mission": [mission]}, first)[0]
        yield Pair(layout, step, prompt, reader.action_texts[_text_action(action)])
        observation, _, terminated, truncated, _ = env.step(action)
        bot.observe(action)
        over, step = terminated or truncated, step + 1
        if not over:
            reader.observe(0, _text_action(action), observation)
    return observation


def _text_action(action: int) -> int:
    """The text action of an action of the environment: the bot's `done`, a no-operation, has none."""
    if action > 5:
        raise GroundlabError("the bot did nothing, for which the six text actions have no word; use another world")
    return action


class _Recorder:
    """A player, and beside it the prompts that a student would read; `episodes` has the pairs of each layout."""

    def __init__(self, player: Player, reader: Reader, layouts: Sequence[int]):
        self._player, self._reader, self._layouts = player, reader, layouts
        self.episodes: list[list[Pair]] = [[] for _ in layouts]

    def start(self, env: int, observation: dict[str, Any]) -> None:
        self._player.start(env, observation)
        self._reader.start(env, observation)

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        actions = self._player.act(observations, active)
        prompts = self._reader.prompts(observations, active)
        for env, prompt, action in zip(active.tolist(), prompts, actions.tolist(), strict=True):
            text = self._reader.action_texts[_text_action(action)]
            self.episodes[env].append(Pair(self._layouts[env], len(self.episodes[env]), prompt, text))
        return actions

    def observe(self, env: int, action: int, observation: dict[str, Any]) -> None:
        self._player.observe(env, action, observation)
        self._reader.observe(env, _text_action(action), observation)


def player_pairs(world: str, settings: ReadingSettings, layouts: Sequence[int], player: Player) -> list[Pair]:
    """Return all decisions of an agent of six text actions on the layouts, in their order."""
    recorder = _Recorder(player, Reader(len(layouts), world, settings), layouts)
    play_layouts(world, layouts, recorder, settings.num_dists)
    return [pair for pairs in recorder.episodes for pair in pairs]


def teacher_pairs(run: Run, teacher: TrainingSettings, student: ReadingSettings, count: int) -> list[Pair]:
    """Train GLAM in the run's folder `teacher` (or go on there), then the first `count` decisions that it takes.

    Prompts are as the student reads them; none of the levels is a test layout.
    Raises Unfinished when a stop is asked for while it learns.
    """
    spec = RunSpec(method="glam", world=run.spec.world, seed=run.spec.seed, settings=teacher.model_dump(mode="json"))
    learner = ppo.PPOLearner(spec)
    training.fit(run.part("teacher", spec), learner)
    learner.scorer.train(False)
    return list(islice(_teacher_episodes(CachedPolicy(learner.scorer), spec, teacher, student), count))


def _teacher_episodes(
    policy: CachedPolicy, spec: RunSpec, teacher: TrainingSettings, student: ReadingSettings
) -> Iterator[Pair]:
    rng, actions = generator(spec.seed, "demonstrations"), generator(spec.seed, "demonstrated actions")
    while True:
        layouts = rng.integers(*TRAINING_LAYOUTS, teacher.num_envs).tolist()
        player = TextPlayer(policy, len(layouts), spec.world, teacher, rng=actions)
        yield from player_pairs(spec.world, student, layouts, player)
        policy.clear()  # only so that memory does not grow


# Demonstrations as files.


def store_pairs(folder: Path, pairs: Sequence[Pair], about: dict[str, Any]) -> None:
    """Store pairs and what they are; the same pairs give the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        for pair in pairs:
            file.write((json.dumps(pair._asdict(), ensure_ascii=False) + "\n").encode())
    content = buffer.getvalue()
    storage.write_atomic(folder / PAIRS, content)
    counts = {"pairs": len(pairs), "episodes": len({pair.layout for pair in pairs})}
    storage.write_json(folder / ABOUT, {**about, **counts, "sha256": digest_bytes(content)})


def read_pairs(folder: Path) -> list[Pair]:
    """The pairs of a folder. Raises GroundlabError when there are none, or not those that were written."""
    facts = storage.read_json(folder / ABOUT)
    content = (folder / PAIRS).read_bytes() if (folder / PAIRS).is_file() else b""
    if digest_bytes(content) != facts.get("sha256"):
        raise GroundlabError(f"{folder / PAIRS} is not what {ABOUT} describes; delete the folder and make it again")
    return [Pair(**json.loads(line)) for line in gzip.decompress(content).splitlines()]
