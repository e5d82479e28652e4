"""Behavioural cloning: a language model learns, prompt by prompt, to say what the bot (or another agent) did.

    groundlab run cloning --world BabyAI-GoToLocalS8N4-v0 --seed 0 --out runs/cloning

Cross-entropy of the action's words and the end token, AdamW, a cosine that falls to nothing after a short warm-up; all
weights are tuned. It is then tested as the agent that learnt by PPO is: the softmax over actions of how likely their
words are. With `demonstrations: agent` the bot's place is taken by a GLAM agent that the run trains first (teacher.py).
Source: spec glam-agents 5, glam-environment 7.3. Read next: `demonstrations.py`, `lm_ppo.py`.
"""

import gzip
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.hashing import digest_bytes
from groundlab.core.run import Run, RunSpec
from groundlab.core.schema import Strict
from groundlab.core.seeding import generator
from groundlab.language.prompts import text_actions
from groundlab.language.scoring import ActionScorer
from groundlab.learning import checkpoints
from groundlab.papers.episodes import Player, one, play_layouts
from groundlab.papers.glam import evaluation, ppo
from groundlab.papers.glam.policy import VARIANTS, LanguagePlayer, Reader, Scores, load_model, temperature
from groundlab.papers.glam.ppo import trained
from groundlab.papers.glam.settings import TRAINING_LAYOUTS_FROM, ModelSettings, ReadingSettings, TrainingSettings
from groundlab.papers.method import Request
from groundlab.worlds import find
from groundlab.worlds.bot import Bot

PAIRS, ABOUT = "pairs.jsonl.gz", "demonstrations.json"


class Pair(NamedTuple):
    """One decision: where it was taken, what was read, what was done."""

    layout: int
    step: int
    prompt: str
    action: str


def of_bot(world: str, settings: ReadingSettings, count: int, seed: int, stale_first: bool = False) -> list[Pair]:
    """The first `count` decisions of the bot on random levels, none of them a test layout; mixed worlds turn by turn.

    stale_first: each episode's first prompt shows the last observation of the one before (Q12).
    """
    return list(islice(_bot_pairs(world, settings, seed, stale_first), count))


def _bot_pairs(world: str, settings: ReadingSettings, seed: int, stale_first: bool) -> Iterator[Pair]:
    kinds = worlds.find(world).kinds
    names = [f"{world}/{kind}" for kind in kinds] if len(kinds) > 1 else [world]
    envs = [worlds.GridEnv(name, num_dists=settings.num_dists) for name in names]
    rng, reader, last, episode = generator(seed, "demonstrations"), Reader(1, world, settings), None, 0
    while True:
        layout = int(rng.integers(TRAINING_LAYOUTS_FROM, 2**31))
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
        yield Pair(layout, step, reader.prompts({"mission": [mission]}, first)[0], reader.action_texts[_text(action)])
        observation, _, terminated, truncated, _ = env.step(action)
        bot.observe(action)
        over, step = terminated or truncated, step + 1
        if not over:
            reader.see(0, _text(action), observation)
    return observation


def _text(action: int) -> int:
    """The text action of an action of the environment: the bot's `done`, a no-operation, has none."""
    if action > 5:
        raise GroundlabError("the bot did nothing, for which the six text actions have no word; use another world")
    return action


class _Recorder:
    """A player that is watched: what it did goes to `take`."""

    def __init__(self, player: Player, take: Callable[[np.ndarray, np.ndarray], None]):
        self._player, self._take = player, take
        self.start, self.see = player.start, player.see

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        actions = self._player.act(observations, active)
        self._take(active, actions)
        return actions


def of_player(
    world: str, settings: ReadingSettings, layouts: Sequence[int], player: Player, successes_only: bool = False
) -> list[Pair]:
    """All decisions of an agent of six text actions on the layouts, in their order; optionally of solved ones only."""
    reader, episodes = Reader(len(layouts), world, settings), [[] for _ in layouts]
    seen: dict[str, Any] = {}
    last = np.full(len(layouts), -1)

    def watch(observations: dict[str, Any], active: np.ndarray) -> None:
        seen.update(observations)
        for env in active.tolist():
            if last[env] < 0:
                reader.start(env, one(observations, env))
            else:
                reader.see(env, int(last[env]), one(observations, env))

    def take(active: np.ndarray, actions: np.ndarray) -> None:
        for env, prompt, action in zip(
            active.tolist(), reader.prompts(seen, active), map(_text, actions.tolist()), strict=True
        ):
            pair = Pair(layouts[env], len(episodes[env]), prompt, reader.action_texts[action])
            episodes[env].append(pair)
            last[env] = action

    rows = play_layouts(world, layouts, _Recorder(player, take), settings.num_dists, watch)
    kept = (pairs for pairs, row in zip(episodes, rows, strict=True) if row["success"] or not successes_only)
    return [pair for pairs in kept for pair in pairs]


def write(folder: Path, pairs: Sequence[Pair], about: dict[str, Any]) -> None:
    """Store pairs and what they are; the same pairs give the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        for pair in pairs:
            file.write((json.dumps(pair._asdict(), ensure_ascii=False) + "\n").encode())
    content = buffer.getvalue()
    episodes = len({pair.layout for pair in pairs})
    storage.write_atomic(folder / PAIRS, content)
    facts = {**about, "pairs": len(pairs), "episodes": episodes, "sha256": digest_bytes(content)}
    storage.write_json(folder / ABOUT, facts)


def read(folder: Path) -> list[Pair]:
    """The pairs of a folder. Raises GroundlabError when there are none, or not those that were written."""
    facts = storage.read_json(folder / ABOUT)
    content = (folder / PAIRS).read_bytes() if (folder / PAIRS).is_file() else b""
    if digest_bytes(content) != facts.get("sha256"):
        raise GroundlabError(f"{folder / PAIRS} is not what {ABOUT} describes; delete the folder and make it again")
    return [Pair(**json.loads(line)) for line in gzip.decompress(content).splitlines()]


def demonstrate(run: Run, settings: TrainingSettings, student: ReadingSettings, count: int) -> list[Pair]:
    """Train GLAM in `run` (or go on there), then the first `count` decisions it takes, as the student would read them.

    None of the levels is a test layout. Raises Unfinished when a stop is asked for while it learns.
    """
    learner = ppo.Learner(run.spec.method, run.spec.world, run.spec.seed, settings)
    ppo.train(run, learner, settings)
    learner.scorer.train(False)
    return list(islice(_played(Scores(learner.scorer), run, settings, student), count))


def _played(look: Scores, run: Run, settings: TrainingSettings, student: ReadingSettings) -> Iterator[Pair]:
    world, seed = run.spec.world, run.spec.seed
    rng, actions = generator(seed, "demonstrations"), generator(seed, "demonstrated actions")
    while True:
        layouts = rng.integers(TRAINING_LAYOUTS_FROM, ppo.LAYOUTS_END, settings.num_envs).tolist()
        player = LanguagePlayer(look, len(layouts), world, settings, rng=actions)
        yield from of_player(world, student, layouts, player)
        look.forget()  # only so that memory does not grow


__all__ = ["WORLDS", "Settings", "evaluate"]

WORLDS = ppo.WORLDS
IGNORED = -100  # the label that cross-entropy leaves out


class Fidelity(Strict):
    """Quirks of the original, mended by default."""

    pad_loss: bool = False
    """The padding behind short actions is learnt as well (spec glam-agents Q21)."""
    in_order: bool = False
    """Pairs come in the order in which they were made, never shuffled (Q21)."""
    stale_first_observation: bool = False
    """The bot's episodes begin with the last observation of the one before (spec glam-environment Q12)."""


class Settings(ModelSettings):
    """Defaults are for 20,000 pairs; where the original's differ they are named (spec glam-agents 5)."""

    demonstrations: str = "bot"
    """Whose: "bot", "agent", or a folder that `demonstrations.write` made, such as that of another run."""
    teacher: TrainingSettings | None = None
    """The settings of "agent": GLAM, trained first, inside this run."""
    frames: int = Field(20_000, ge=1)
    """Decisions to learn from (the original: 400,000)."""
    held_out: int = Field(1_000, ge=1)
    """The decisions after those, on which accuracy is measured."""
    lr: float = Field(5e-4, gt=0)
    batch_size: int = Field(64, ge=1)
    epochs: int = Field(1, ge=1)
    warm_up: float = Field(0.01, ge=0, lt=1)
    """Share of all steps in which the rate rises."""
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    steps_per_record: int = Field(50, ge=1)
    """Gradient steps between two looks at the held-out decisions (the original: 250)."""
    fidelity: Fidelity = Fidelity()

    @model_validator(mode="after")
    def _one_teacher(self) -> Self:
        if (self.demonstrations == "agent") != (self.teacher is not None):
            raise ValueError("needs demonstrations: agent and the teacher's settings together, or neither")
        return self

    @property
    def steps_per_epoch(self) -> int:
        """Gradient steps; the last batch of an epoch may be smaller."""
        return math.ceil(self.frames / self.batch_size)

    def input_files(self) -> list[Path]:
        """The model's files and the stored demonstrations."""
        folder, teacher = Path(self.demonstrations), self.teacher.input_files() if self.teacher else []
        stored = [] if self.makes_its_own else [folder / PAIRS, folder / ABOUT]
        return [*super().input_files(), *stored, *teacher]

    @property
    def makes_its_own(self) -> bool:
        """Whether the run makes its demonstrations, and does not find them."""
        return self.demonstrations in ("bot", "agent")


def load_pairs(run: Run, settings: Settings) -> tuple[list[Pair], list[Pair]]:
    """(training, held-out) pairs; those that the run makes are kept in it. Raises GroundlabError for too few."""
    needed = settings.frames + settings.held_out
    folder = run.folder / "demonstrations" if settings.makes_its_own else Path(settings.demonstrations)
    if settings.makes_its_own and not (folder / ABOUT).is_file():
        about = {"world": run.spec.world, "by": settings.demonstrations, "seed": run.spec.seed}
        write(folder, _make_pairs(run, settings, needed), about)
    pairs = read(folder)
    if len(pairs) < needed:
        raise GroundlabError(f"{folder} has {len(pairs)} pairs, not {needed}; lower frames or held_out")
    return pairs[: settings.frames], pairs[settings.frames : needed]


def _make_pairs(run: Run, settings: Settings, count: int) -> list[Pair]:
    spec = run.spec
    if settings.teacher is None:
        stale = settings.fidelity.stale_first_observation
        return of_bot(spec.world, settings, count, spec.seed, stale)
    learning = RunSpec(
        method="glam", world=spec.world, seed=spec.seed, settings=settings.teacher.model_dump(mode="json")
    )
    return demonstrate(run.part("teacher", learning), settings.teacher, settings, count)


class Learner:
    """A language model while it imitates."""

    def __init__(self, world: str, seed: int, settings: Settings):
        self._seed, self._settings = seed, settings
        actions = text_actions(settings.action_space, find(world).language)
        self._texts = dict(zip(text_actions(settings.action_space), actions, strict=True))
        self.scorer = build_scorer(actions, settings, seed)
        self.optimizer = torch.optim.AdamW(
            trained(self.scorer), lr=settings.lr, weight_decay=settings.weight_decay, fused=settings.device == "cpu"
        )

    def improve(self, pairs: list[Pair], steps: range) -> float:
        """The gradient steps of these numbers (from 0); their mean loss."""
        losses = []
        self.scorer.model.train()
        with checkpoints.seeded_construction(self._seed, "dropout", steps.start):
            for step in steps:
                losses.append(self._step(self._batch(pairs, step), learning_rate(self._settings, step)))
        self.scorer.model.eval()
        if not math.isfinite(loss := float(np.mean(losses))):
            raise GroundlabError(f"the loss is no number any more; use an lr below {self._settings.lr:g}")
        return loss

    def _batch(self, pairs: list[Pair], step: int) -> list[Pair]:
        epoch, place = divmod(step, self._settings.steps_per_epoch)
        size, in_order = self._settings.batch_size, self._settings.fidelity.in_order
        order = range(len(pairs)) if in_order else generator(self._seed, "order", epoch).permutation(len(pairs))
        return [pairs[index] for index in order[place * size : (place + 1) * size]]

    def _step(self, pairs: list[Pair], rate: float) -> float:
        self.optimizer.param_groups[0]["lr"] = rate
        loss = self.loss(pairs)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained(self.scorer), self._settings.max_grad_norm)
        self.optimizer.step()
        return float(loss.detach())

    def loss(self, pairs: list[Pair]) -> Tensor:
        """Mean cross-entropy over the tokens of the actions and their ends."""
        words = self.scorer.tokenizer
        prompts = words([pair.prompt for pair in pairs], add_special_tokens=False)["input_ids"]
        said = [self._texts.get(pair.action, pair.action) for pair in pairs]
        actions = [[*ids, words.eos_token_id] for ids in words(said, add_special_tokens=False)["input_ids"]]
        labels = _padded(actions, words.pad_token_id if self._settings.fidelity.pad_loss else IGNORED)
        model: Any = self.scorer.model
        if not model.config.is_encoder_decoder:
            rows = [prompt + action for prompt, action in zip(prompts, actions, strict=True)]
            hidden = [[IGNORED] * len(prompt) for prompt in prompts]
            labels = _padded([mask + action for mask, action in zip(hidden, actions, strict=True)], IGNORED)
            prompts = rows
        ids, mask = _padded(prompts, words.pad_token_id), _padded([[1] * len(row) for row in prompts], 0)
        inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        return model(**{name: tensor.to(model.device) for name, tensor in inputs.items()}).loss

    def accuracy(self, pairs: list[Pair]) -> float:
        """The share of decisions in which the demonstrated action is the policy's likeliest."""
        log_probs, _ = Scores(self.scorer)([pair.prompt for pair in pairs])
        wanted = [self.scorer.actions.index(self._texts.get(pair.action, pair.action)) for pair in pairs]
        return float((log_probs.argmax(-1) == torch.tensor(wanted)).float().mean())


def build_scorer(actions: tuple[str, ...], settings: Settings, seed: int) -> ActionScorer:
    """The pretrained language model as policy, without a value head."""
    model, tokenizer = load_model(VARIANTS["glam"], settings, seed)
    options = {"rule": settings.rule, "temperature": temperature(settings), "token_budget": settings.token_budget}
    return ActionScorer(model, tokenizer, actions, value_head=False, seed=seed, **options)


def _padded(rows: list[list[int]], value: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def learning_rate(settings: Settings, step: int) -> float:
    """The rate of a gradient step (from 0): a linear rise, then a cosine to 0 at the end."""
    total = settings.steps_per_epoch * settings.epochs
    rise = math.ceil(settings.warm_up * total)
    if step < rise:
        return settings.lr * (step + 1) / rise
    return settings.lr * 0.5 * (1 + math.cos(math.pi * (step - rise) / (total - rise)))


def execute(run: Run) -> None:
    """Imitate, one record every `steps_per_record` steps, then store all evaluations."""
    settings = Settings(**run.spec.settings)
    list(evaluation.planned(settings))  # a misspelt test is told before training
    pairs, held_out = load_pairs(run, settings)
    learner = Learner(run.spec.world, run.spec.seed, settings)
    checkpoint = run.restore()
    if checkpoint is not None:
        checkpoints.unpack(checkpoint.files, learner.scorer, learner.optimizer)
    steps, each = settings.steps_per_epoch * settings.epochs, settings.steps_per_record
    total = math.ceil(steps / each)
    for number in range(checkpoint.step + 1 if checkpoint else 1, total + 1):
        done = min(number * each, steps)
        loss = learner.improve(pairs, range((number - 1) * each, done))
        seen = min(done * settings.batch_size, settings.frames * settings.epochs)
        record = {"iteration": number, "frames": seen, "loss": loss, "accuracy": learner.accuracy(held_out)}
        run.log(record)
        state = lambda: checkpoints.pack(learner.scorer, learner.optimizer, {})  # noqa: E731
        run.advance(number, total, state, loss=loss, accuracy=record["accuracy"])
    run.write_evaluation(ppo.examine(learner.scorer, run.spec.world, run.spec.seed, settings))


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts."""
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    settings = Settings(**request.settings)
    learner = Learner(request.world, request.seed, settings)
    checkpoints.unpack(request.checkpoint.files, learner.scorer)
    return ppo.examine(learner.scorer, request.world, request.seed, settings)
