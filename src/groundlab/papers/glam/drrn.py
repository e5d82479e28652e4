"""DRRN (He et al. 2016), GLAM's text baseline: Q-learning over pairs of prompt and action, read by two small GRUs.

    groundlab run drrn --world BabyAI-GoToLocalS8N4-v0 --seed 0 --out runs/drrn

    state     the whole prompt, as pieces of our own unigram tokenizer (unigram.py)
    policy    softmax of Q, in training and in tests
    learning  now and then a step of Adam on 64 remembered transitions: smooth L1 to r + 0.9 * max Q(next), by the same
              network, as there is no target network
    memory    the last 5,000,000 transitions, all alike (learning/replay.py)

Sources: docs/papers/glam-method.md#agents-3 and docs/papers/glam-reference.md#env-q11. Time limits count as ends, as
everywhere in GLAM. The state after an end is the next episode's first; its value is never used.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load, save
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run, RunSpec
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints
from groundlab.learning.devices import check_device, send
from groundlab.learning.ppo import sample_actions
from groundlab.learning.replay import Replay, Sequences
from groundlab.papers import training
from groundlab.papers.episodes import select_env
from groundlab.papers.glam import episodes, unigram
from groundlab.papers.glam.episodes import episode_stats, training_stream
from groundlab.papers.glam.policy import Alteration, Reader, TextPlayer, watched_reader
from groundlab.papers.glam.settings import DRRNSettings, ReadingSettings
from groundlab.papers.watching import WatchedPlayer
from groundlab.worlds.text_env.prompts import History, env_actions, text_actions

__all__ = ["DRRN", "Settings", "make_learner"]

Settings = DRRNSettings
WIDTH = 128
MEMORY = 5_000_000  # transitions
TRANSITION = np.dtype([("state", "i4"), ("action", "i1"), ("reward", "f4"), ("next", "i4"), ("done", "f4")])


class DRRN(nn.Module):
    """Q of every action after every prompt; 1,255,169 parameters with 8,000 pieces."""

    def __init__(self, vocabulary: int = unigram.SIZE):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.obs_encoder, self.act_encoder = nn.GRU(WIDTH, WIDTH), nn.GRU(WIDTH, WIDTH)
        self.hidden, self.act_scorer = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def _read(self, encoder: nn.GRU, ids: Tensor, lengths: Tensor) -> Tensor:
        return last_states(
            encoder, pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        )

    def forward(self, ids: Tensor, lengths: Tensor, action_ids: Tensor, action_lengths: Tensor) -> Tensor:
        """Q [N, A] of prompts int64 [N, L] of some lengths [N], and actions [A, K] of some lengths [A]."""
        states = self._read(self.obs_encoder, ids, lengths)
        actions = self._read(self.act_encoder, action_ids, action_lengths)
        shape = (len(states), len(actions), WIDTH)
        pairs = torch.cat([states[:, None].expand(shape), actions[None].expand(shape)], 2)
        return self.act_scorer(torch.relu(self.hidden(pairs)))[:, :, 0]


def last_states(gru: nn.GRU, packed: PackedSequence) -> Tensor:
    """The hidden state [N, H] after each sequence's last token: `gru(packed)[1][0]` and its gradient, up to rounding.

    A copy of torch's GRU, held equal by `test_our_recurrence_is_torchs_own_with_its_gradient`: torch's own gradient
    makes zeros for all tokens at every token, and a training step takes 1.7 times as long by it.
    """
    input_weight, memory_weight, input_bias, memory_bias = gru.all_weights[0]
    inputs = nn.functional.linear(packed.data, input_weight, input_bias).split(packed.batch_sizes.tolist())
    hidden, ended = inputs[0].new_zeros(len(inputs[0]), gru.hidden_size), []
    for own in inputs:  # the longest sequences come first, so those that end are the last rows
        if len(own) < len(hidden):
            ended.append(hidden[len(own) :])
            hidden = hidden[: len(own)]
        before = nn.functional.linear(hidden, memory_weight, memory_bias)
        (reset, update, new), (reset_before, update_before, new_before) = own.chunk(3, 1), before.chunk(3, 1)
        new = (new + (reset + reset_before).sigmoid() * new_before).tanh()
        hidden = new + (update + update_before).sigmoid() * (hidden - new)
    return torch.cat([hidden, *reversed(ended)])[packed.unsorted_indices]


class QFunction:
    """Turns prompts into numbers of token sequences, and those into Q values for a fixed list of actions."""

    def __init__(self, network: DRRN, actions: tuple[str, ...], temperature: float = 1.0):
        self.network, self.sequences, self._tokenizer = network, Sequences(), unigram.load()
        self._temperature = temperature
        own = Sequences()
        ids, lengths = own.padded(np.array([own.number(self._tokenizer.encode(action).ids) for action in actions]))
        self._device = network.act_scorer.weight.device
        # Lengths stay on the CPU, where packing wants them.
        self._actions = (send(torch.from_numpy(ids), self._device), torch.from_numpy(lengths))

    def numbers(self, prompts: Sequence[str]) -> np.ndarray:
        """Their numbers [N]; equal prompts have equal ones."""
        tokens = (self._tokenizer.encode(prompt).ids for prompt in prompts)
        return np.array([self.sequences.number(ids) for ids in tokens], np.int32)

    def __call__(self, numbers: np.ndarray) -> Tensor:
        """Q [N, A] of numbered prompts; each is read once."""
        unique, index = np.unique(numbers, return_inverse=True)
        ids, lengths = self.sequences.padded(unique)
        values = self.network(send(torch.from_numpy(ids), self._device), torch.from_numpy(lengths), *self._actions)
        return values[send(torch.from_numpy(index), self._device)]

    @torch.no_grad()
    def policy(self, numbers: np.ndarray) -> tuple[Tensor, Tensor]:
        """(log-probabilities [N, A], values [N]) of numbered prompts, on the CPU: the softmax of Q, and the best Q."""
        values = self(numbers).cpu()
        return torch.log_softmax(values / self._temperature, 1), values.max(1).values


def make_learner(spec: RunSpec, run: Run | None = None) -> training.Learner:
    """The agent of a run, before its first update. Raises GroundlabError for a misspelt test."""
    return DRRNLearner(spec)


class DRRNLearner(training.Learner):
    """The agent while it learns: environments, replay memory, Q."""

    shown = ("success", "loss")

    def __init__(self, spec: RunSpec):
        self._spec = spec
        self.settings = settings = Settings(**spec.settings)
        self.updates = math.ceil(settings.frames / settings.frames_per_iteration)
        episodes.plan_tests(settings)  # so that a misspelt test is refused before training
        check_device(settings.device)
        self._stream = training_stream(spec.world, settings.num_envs, spec.seed, settings.num_dists)
        reader = DriftingReader if settings.fidelity.prompt_drift else Reader
        self._reader = reader(settings.num_envs, spec.world, settings)
        for env in range(settings.num_envs):
            self._reader.start(env, select_env(self._stream.observations, env))
        with checkpoints.seeded_construction(spec.seed, "drrn"):
            self.network = DRRN().to(settings.device)
        actions = text_actions(settings.action_space, worlds.find(spec.world).language)
        self._q = QFunction(self.network, actions, settings.temperature)
        weights, fused = list(self.network.parameters()), settings.device == "cpu"
        self.optimizer = torch.optim.Adam(weights, lr=settings.lr, fused=fused)
        self._replay = Replay(MEMORY, TRANSITION)

    def train_step(self, number: int) -> dict[str, Any]:
        """Iteration `number` (from 1): play and learn by turns; its record."""
        settings = self.settings
        acting, drawing = (generator(self._spec.seed, purpose, number) for purpose in ("actions", "replay"))
        losses, states = [], self._read()
        for _ in range(settings.updates_per_iteration):
            for _ in range(settings.steps_per_update):
                states = self._step(states, acting)
            batch = self._replay.sample(settings.batch_size, drawing)
            losses.append(update(self._q, self.optimizer, batch, settings))
        if not math.isfinite(loss := float(np.mean(torch.stack(losses).tolist()))):
            raise GroundlabError(f"DRRN's loss is {loss}; lower lr (it is {settings.lr})")
        stats = episode_stats(self._stream.pop_episodes())
        return {
            "frames": number * settings.frames_per_iteration,
            **stats,
            "loss": loss,
            "remembered": len(self._replay),
        }

    def _read(self) -> np.ndarray:
        """The numbers [B] of the prompts of all environments."""
        everyone = np.arange(self.settings.num_envs)
        return self._q.numbers(self._reader.prompts(self._stream.observations, everyone))

    def _step(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One step of all environments, remembered; the numbers of the prompts after it."""
        log_probs, _ = self._q.policy(states)
        actions = sample_actions(log_probs, rng)
        step = self._stream.step(env_actions(actions))
        self._reader.step(actions, step.ended, self._stream.observations)
        next_states, rows = self._read(), np.zeros(len(states), TRANSITION)
        rows["state"], rows["action"], rows["next"], rows["done"] = states, actions, next_states, step.ended
        rows["reward"] = self.settings.reward_scale * step.rewards
        self._replay.push(rows)
        return next_states

    def evaluate(self) -> list[training.Evaluation]:
        """Evaluations on the test layouts."""
        settings = self.settings

        def player_for(world: str, alteration: Alteration, num_envs: int, rng: np.random.Generator | None):
            space = alteration.action_space or settings.action_space
            q = QFunction(self.network, text_actions(space, worlds.find(world).language), settings.temperature)
            return TextPlayer(lambda prompts: q.policy(q.numbers(prompts)), num_envs, world, settings, alteration, rng)

        return episodes.evaluate(self._spec.world, self._spec.seed, settings, player_for)

    def watched(self, rng: np.random.Generator) -> WatchedPlayer:
        """The agent: the softmax of Q over the action texts that it is trained on."""

        def read(prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
            return self._q.policy(self._q.numbers(prompts))

        return watched_reader(read, self._spec.world, self.settings, rng)

    def state(self) -> Files:
        """The files of a checkpoint, memory included."""
        return {
            **checkpoints.pack(self.network, self.optimizer, {}),
            **self._stream.state(),
            "histories.json": json.dumps(self._reader.state()).encode(),
            "replay.safetensors": save(self._replay.state()),
            "sequences.safetensors": save(self._q.sequences.state()),
        }

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        checkpoints.unpack(files, self.network, self.optimizer)
        self._stream.load_state(files)
        self._reader.load_state(json.loads(files["histories.json"]))
        self._replay.load(load(files["replay.safetensors"]))
        self._q.sequences.load(load(files["sequences.safetensors"]))

    def load_weights(self, files: Files) -> None:
        """Take the network from a checkpoint."""
        checkpoints.unpack(files, self.network)


def update(q: QFunction, optimizer: torch.optim.Optimizer, batch: np.ndarray, settings: Settings) -> Tensor:
    """One step on a batch of TRANSITION rows; returns the loss [] before it."""
    loss = td_loss(q, batch, settings.gamma)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(list(q.network.parameters()), settings.max_grad_norm)
    optimizer.step()
    return loss.detach()


def td_loss(q: QFunction, batch: np.ndarray, gamma: float) -> Tensor:
    """Mean smooth L1 (beta 1) between Q of what was done and its target."""
    with torch.no_grad():
        best = q(batch["next"]).max(1).values
    reward, done = (send(torch.from_numpy(batch[name].copy()), best.device) for name in ("reward", "done"))
    target = reward + gamma * (1 - done) * best
    actions = send(torch.from_numpy(batch["action"].astype(np.int64)), best.device)
    return nn.functional.smooth_l1_loss(q(batch["state"]).gather(1, actions[:, None])[:, 0], target)


class DriftingReader(Reader):
    """Reads as the original's DRRN did (`Fidelity.prompt_drift`)."""

    def __init__(self, num_envs: int, world: str, settings: ReadingSettings):
        super().__init__(num_envs, world, settings)
        self._history = _DriftingHistory(num_envs, settings.nbr_obs)


class _DriftingHistory(History):
    """Only an environment's first episode shows its first observation."""

    def __init__(self, num_envs: int, observations: int):
        super().__init__(num_envs, observations)
        self._has_begun: set[int] = set()

    def start(self, env: int, sentences: list[str]) -> None:
        super().start(env, sentences)
        if env in self._has_begun:
            self._observations[env].clear()
        self._has_begun.add(env)

    def load_state(self, state: list[dict[str, list]]) -> None:
        super().load_state(state)
        self._has_begun = set(range(len(state)))
