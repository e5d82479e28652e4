"""DRRN (He et al. 2016), GLAM's text baseline: Q-learning over pairs of prompt and action, read by two small GRUs.

    groundlab run drrn --world BabyAI-GoToLocalS8N4-v0 --seed 0 --out runs/drrn

    state     the whole prompt, as pieces of our own unigram tokenizer (unigram.py)
    policy    softmax of Q, in training and in tests
    learning  now and then a step of Adam on 64 remembered transitions: smooth L1 to r + 0.9 * max Q(next), by the same
              network, as there is no target network
    memory    the last 5,000,000 transitions, all alike (learning/replay.py)

Sources: spec glam-agents 3, and glam-environment 9, Q11. Time limits count as ends, as everywhere in GLAM. The state
after an end is the next episode's first; its value is never used. Read next: `stream.py`, `symbolic.py`.
"""

import json
import math
from typing import Any

import numpy as np
import torch
from pydantic import Field
from safetensors.numpy import load, save
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run
from groundlab.core.schema import Strict
from groundlab.core.seeding import generator
from groundlab.language.prompts import History, env_actions, text_actions
from groundlab.learning import checkpoints
from groundlab.learning.replay import Replay, Sequences
from groundlab.papers.episodes import one
from groundlab.papers.glam import evaluation, unigram
from groundlab.papers.glam.env_stream import Stream
from groundlab.papers.glam.policy import UNALTERED, Alteration, Reader, ReadingPlayer, sample
from groundlab.papers.glam.settings import ReadingSettings
from groundlab.papers.method import Request

__all__ = ["DRRN", "WORLDS", "Settings", "evaluate"]

WORLDS = tuple(name for name, world in worlds.WORLDS.items() if not world.is_door_key)
WIDTH = 128
FRAMES_PER_RECORD = 1024
TRANSITION = np.dtype([("state", "i4"), ("action", "i1"), ("reward", "f4"), ("next", "i4"), ("done", "f4")])


class Fidelity(Strict):
    """What the original did otherwise than it meant; the default is mended."""

    prompt_drift: bool = False
    """After an episode's end its successor's first observation is left out, so that actions stand beside the wrong
    observations until the history is full (spec glam-agents Q7; glam-environment Q11)."""


class Settings(ReadingSettings):
    """Defaults are for 20,000 frames; where the original's differ they are named (spec glam-agents 3)."""

    frames: int = Field(20_000, ge=1)
    """Steps of all environments together; the last iteration is a whole one."""
    lr: float = Field(1e-3, gt=0)
    """The original: 1e-4."""
    gamma: float = Field(0.9, ge=0, le=1)
    batch_size: int = Field(64, ge=1)
    steps_per_update: int = Field(1, ge=1)
    """Steps of all environments between two gradient steps (the original: 4, which are 128 frames)."""
    capacity: int = Field(5_000_000, ge=64)
    priority_fraction: float = Field(0.0, ge=0, lt=1)
    """The share of the memory, and of every batch, for transitions that were rewarded (the original: 0)."""
    temperature: float = Field(0.05, gt=0)
    """Of the softmax over Q (the original: 1, which with rewards of 20 is the same policy)."""
    reward_scale: float = Field(1.0, gt=0)
    """What rewards are multiplied by for learning. At the original's 20 the loss is linear in most errors, so that Q
    follows the median return, which is 0 while success is rare."""
    max_grad_norm: float = Field(5.0, gt=0)
    fidelity: Fidelity = Fidelity()

    @property
    def updates_per_iteration(self) -> int:
        """Gradient steps that one record tells of: those of about 1,024 frames."""
        return max(1, FRAMES_PER_RECORD // (self.num_envs * self.steps_per_update))

    @property
    def frames_per_iteration(self) -> int:
        """Frames that one record tells of."""
        return self.num_envs * self.steps_per_update * self.updates_per_iteration


class DRRN(nn.Module):
    """Q of every action after every prompt; 1,255,169 parameters with 8,000 pieces."""

    def __init__(self, vocabulary: int = unigram.SIZE):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.obs_encoder, self.act_encoder = nn.GRU(WIDTH, WIDTH), nn.GRU(WIDTH, WIDTH)
        self.hidden, self.act_scorer = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def _read(self, encoder: nn.GRU, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        return encoder(packed)[1][0]

    def forward(self, ids: Tensor, lengths: Tensor, action_ids: Tensor, action_lengths: Tensor) -> Tensor:
        """Q [N, A] of prompts int64 [N, L] of some lengths [N], and actions [A, K] of some lengths [A]."""
        states = self._read(self.obs_encoder, ids, lengths)
        actions = self._read(self.act_encoder, action_ids, action_lengths)
        shape = (len(states), len(actions), WIDTH)
        pairs = torch.cat([states[:, None].expand(shape), actions[None].expand(shape)], 2)
        return self.act_scorer(torch.relu(self.hidden(pairs)))[:, :, 0]


class Eye:
    """Turns prompts into numbers of token sequences, and those into Q values for a fixed list of actions."""

    def __init__(self, network: DRRN, actions: tuple[str, ...]):
        self.network, self.sequences, self._tokenizer = network, Sequences(), unigram.load()
        own = Sequences()
        ids, lengths = own.padded(np.array([own.number(self._tokens(action)) for action in actions]))
        self._actions = (torch.from_numpy(ids), torch.from_numpy(lengths))

    def _tokens(self, text: str) -> list[int]:
        return self._tokenizer.encode(text).ids

    def numbers(self, prompts: list[str]) -> np.ndarray:
        """Their numbers [N]; equal prompts have equal ones."""
        return np.array([self.sequences.number(self._tokens(prompt)) for prompt in prompts], np.int32)

    def q(self, numbers: np.ndarray) -> Tensor:
        """Q [N, A] of numbered prompts; each is read once."""
        unique, places = np.unique(numbers, return_inverse=True)
        ids, lengths = self.sequences.padded(unique)
        values = self.network(torch.from_numpy(ids), torch.from_numpy(lengths), *self._actions)
        return values[torch.from_numpy(places)]

    @torch.no_grad()
    def log_probs(self, numbers: np.ndarray, temperature: float) -> Tensor:
        """The policy's logarithms [N, A]."""
        return torch.log_softmax(self.q(numbers) / temperature, 1)


class _DriftingHistory(History):
    """Only an environment's first episode shows its first observation."""

    def __init__(self, num_envs: int, observations: int):
        super().__init__(num_envs, observations)
        self._begun: set[int] = set()

    def start(self, env: int, sentences: list[str]) -> None:
        super().start(env, sentences)
        if env in self._begun:
            self._observations[env].clear()
        self._begun.add(env)

    def load_state(self, state: list[dict[str, list]]) -> None:
        super().load_state(state)
        self._begun = set(range(len(state)))


class DriftingReader(Reader):
    """Reads as the original's DRRN did (`Fidelity.prompt_drift`)."""

    def __init__(self, num_envs: int, world: str, settings: ReadingSettings, alteration: Alteration = UNALTERED):
        super().__init__(num_envs, world, settings, alteration)
        self._history = _DriftingHistory(num_envs, settings.nbr_obs)


class Player(ReadingPlayer):
    """Plays with a network that is not learning; without `rng` it takes the action of the highest Q."""

    def __init__(
        self,
        network: DRRN,
        num_envs: int,
        world: str,
        settings: Settings,
        alteration: Alteration = UNALTERED,
        rng: np.random.Generator | None = None,
    ):
        super().__init__(num_envs, world, settings, alteration)
        space = alteration.action_space or settings.action_space
        self._eye = Eye(network, text_actions(space, worlds.find(world).language))
        self._temperature, self._rng = settings.temperature, rng

    def choose(self, prompts: list[str]) -> np.ndarray:
        log_probs = self._eye.log_probs(self._eye.numbers(prompts), self._temperature)
        return log_probs.argmax(-1).numpy() if self._rng is None else sample(log_probs, self._rng)


def build_network(seed: int) -> DRRN:
    """The network with weights drawn from the run's seed."""
    with checkpoints.seeded_construction(seed, "drrn"):
        return DRRN()


def learn(eye: Eye, optimizer: torch.optim.Optimizer, batch: np.ndarray, settings: Settings) -> float:
    """One step on a batch of TRANSITION rows; returns the loss before it."""
    loss = td_loss(eye, batch, settings.gamma)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(list(eye.network.parameters()), settings.max_grad_norm)
    optimizer.step()
    return float(loss.detach())


def td_loss(eye: Eye, batch: np.ndarray, gamma: float) -> Tensor:
    """Mean smooth L1 (beta 1) between Q of what was done and its target."""
    with torch.no_grad():
        best = eye.q(batch["next"]).max(1).values
    reward, done = (torch.from_numpy(batch[name].copy()) for name in ("reward", "done"))
    target = reward + gamma * (1 - done) * best
    actions = torch.from_numpy(batch["action"].astype(np.int64))
    return nn.functional.smooth_l1_loss(eye.q(batch["state"]).gather(1, actions[:, None])[:, 0], target)


class Learner:
    """The agent in training: what it plays, what it remembers, what it knows."""

    def __init__(self, world: str, seed: int, settings: Settings):
        self._seed, self._settings = seed, settings
        self._stream = Stream(world, settings.num_envs, seed, settings.num_dists)
        reader = DriftingReader if settings.fidelity.prompt_drift else Reader
        self.reader = reader(settings.num_envs, world, settings)
        for env in range(settings.num_envs):
            self.reader.start(env, one(self._stream.observations, env))
        self.eye = Eye(build_network(seed), text_actions(settings.action_space, worlds.find(world).language))
        self.optimizer = torch.optim.Adam(list(self.eye.network.parameters()), lr=settings.lr, fused=True)
        self.replay = Replay(settings.capacity, TRANSITION, settings.priority_fraction)

    def improve(self, iteration: int) -> dict[str, Any]:
        """Play and learn for one iteration; its record."""
        acting, drawing = (generator(self._seed, purpose, iteration) for purpose in ("actions", "replay"))
        losses, now = [], self._see()
        for _ in range(self._settings.updates_per_iteration):
            for _ in range(self._settings.steps_per_update):
                now = self._step(now, acting)
            batch = self.replay.sample(self._settings.batch_size, drawing)
            losses.append(learn(self.eye, self.optimizer, batch, self._settings))
        if not math.isfinite(loss := float(np.mean(losses))):
            raise GroundlabError(f"DRRN's loss is {loss}; lower lr (it is {self._settings.lr})")
        return {**self._stream.outcomes(), "loss": loss, "remembered": len(self.replay)}

    def _see(self) -> np.ndarray:
        everyone = np.arange(self._settings.num_envs)
        return self.eye.numbers(self.reader.prompts(self._stream.observations, everyone))

    def _step(self, now: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One step of all environments, remembered; the numbers of the prompts after it."""
        actions = sample(self.eye.log_probs(now, self._settings.temperature), rng)
        rewards, ended = self._stream.step(env_actions(actions))
        for env, over in enumerate(ended.tolist()):
            observation = one(self._stream.observations, env)
            if over:
                self.reader.start(env, observation)
            else:
                self.reader.see(env, int(actions[env]), observation)
        following, rows = self._see(), np.zeros(len(now), TRANSITION)
        rows["state"], rows["action"], rows["next"], rows["done"] = now, actions, following, ended
        rows["reward"] = self._settings.reward_scale * rewards
        self.replay.push(rows, rewards > 0)
        return following

    def state(self) -> Files:
        """The files of a checkpoint, memory included."""
        return {
            **checkpoints.pack(self.eye.network, self.optimizer, {}),
            **self._stream.state(),
            "histories.json": json.dumps(self.reader.state()).encode(),
            "replay.safetensors": save(self.replay.state()),
            "sequences.safetensors": save(self.eye.sequences.state()),
        }

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        checkpoints.unpack(files, self.eye.network, self.optimizer)
        self._stream.load_state(files)
        self.reader.load_state(json.loads(files["histories.json"]))
        self.replay.load(load(files["replay.safetensors"]))
        self.eye.sequences.load(load(files["sequences.safetensors"]))


def examine(network: DRRN, world: str, seed: int, settings: Settings) -> list[dict[str, Any]]:
    """All tests of `generalization.py`."""

    def player_for(place: str, alteration: Alteration, greedy: bool, num_envs: int, purpose: str) -> Player:
        rng = None if greedy else generator(seed, "evaluation", purpose)
        return Player(network, num_envs, place, settings, alteration, rng)

    return evaluation.examine(world, settings, player_for)


def execute(run: Run) -> None:
    """Train, one record an iteration, then store all evaluations."""
    settings = Settings(**run.spec.settings)
    list(evaluation.planned(settings))  # a misspelt test is told before training
    learner = Learner(run.spec.world, run.spec.seed, settings)
    checkpoint = run.restore()
    if checkpoint is not None:
        learner.load_state(checkpoint.files)
    frames = settings.frames_per_iteration
    total = math.ceil(settings.frames / frames)
    for iteration in range(checkpoint.step + 1 if checkpoint else 1, total + 1):
        record = learner.improve(iteration)
        run.log({"iteration": iteration, "frames": iteration * frames, **record})
        shown = {name: record[name] for name in ("success", "loss") if name in record}
        run.advance(iteration, total, learner.state, **shown)
    run.write_evaluation(examine(learner.eye.network, run.spec.world, run.spec.seed, settings))


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts."""
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    network = build_network(request.seed)
    checkpoints.unpack(request.checkpoint.files, network)
    return examine(network, request.world, request.seed, Settings(**request.settings))
