"""Symbolic PPO, GLAM's baseline that sees codes instead of text: BabyAI's ACModel trained by recurrent PPO.

    groundlab run symbolic --world BabyAI-GoToLocalS8N4-v0 --seed 0 --out runs/symbolic

    input      the 7 x 7 view as raw numbers (type, colour, state), and the mission's words
    network    `expert_filmcnn`: convolutions, two FiLM blocks steered by a GRU over the mission, an LSTM as memory
    learning   PPO; each minibatch is unrolled for 20 steps from remembered memories, through time
    BatchNorm  by the batch at hand in rollouts and updates, as in the original (docs/papers/glam-reference.md#q22:
    first ratios
               are not 1); tests use the running averages, so that an episode does not depend on its neighbours
    unrolling  only the memory goes step by step; the views of all steps are read together, each step normed by itself

Source: docs/papers/glam-method.md#agents-4 and #env-7-2.
"""

import math
import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Files, Run, RunSpec
from groundlab.core.seeding import generator
from groundlab.learning import checkpoints, ppo
from groundlab.learning.devices import check_device, send
from groundlab.learning.ppo import sample_actions
from groundlab.learning.returns import gae
from groundlab.papers import training
from groundlab.papers.glam import episodes
from groundlab.papers.glam.episodes import episode_stats, training_stream
from groundlab.papers.glam.policy import Alteration
from groundlab.papers.glam.settings import SymbolicSettings
from groundlab.papers.watching import WatchedPlayer
from groundlab.worlds.text_env.prompts import env_actions, text_actions

__all__ = ["Settings", "make_learner"]

Settings = SymbolicSettings
WIDTH = 128
MEMORY = 2 * WIDTH  # hidden state and cell
VOCABULARY = 100  # rows of the word embedding; 0 is padding
WORDS = (
    *("go", "to", "the", "a", "red", "green", "blue", "purple", "yellow", "grey", "key", "ball", "box", "door"),
    *("pick", "up", "open", "put", "next", "then", "after", "you"),
    *("and", "object", "in", "front", "of", "behind", "on", "your", "left", "right"),  # in levels of BabyAI's own list
)
METRICS = {"total": "loss", "policy": "policy_loss", "value": "value_loss", "entropy": "entropy"}


class StepNorm(nn.BatchNorm2d):
    """Batch norm of several steps at once, each by its own moments: what `steps` calls, one a step, would give.

    A copy of torch's, held equal by `test_steps_read_together_are_what_they_are_one_after_the_other`.
    """

    steps = 1

    def forward(self, input: Tensor) -> Tensor:
        """Features [N * steps, C, H, W], the steps of a sequence behind one another, to features of the same shape."""
        if not self.training or self.steps == 1:
            return super().forward(input)
        apart = input.reshape(len(input) // self.steps, -1, *input.shape[2:])  # [N, steps * C, H, W]
        means, variances = input.new_zeros(2, apart.shape[1])
        scale, shift = self.weight.repeat(self.steps), self.bias.repeat(self.steps)
        normed = nn.functional.batch_norm(apart, means, variances, scale, shift, True, 1.0, self.eps)
        self._average(means.view(self.steps, -1), variances.view(self.steps, -1))
        return normed.reshape(input.shape)

    @torch.no_grad()
    def _average(self, means: Tensor, variances: Tensor) -> None:
        """Take the steps' moments [steps, C] into the running averages, one after the other."""
        assert self.momentum and self.running_mean is not None and self.running_var is not None
        for mean, variance in zip(means, variances, strict=True):
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance, self.momentum)
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += len(means)


class ACModel(nn.Module):
    """Policy and value of a view, a mission and a memory; 1,068,103 parameters with six actions."""

    def __init__(self, actions: int = 6):
        super().__init__()
        self.image_conv = nn.Sequential(
            # the original pools what is rectified: the same numbers and gradients, from four times as many of them
            *(nn.Conv2d(3, WIDTH, 2, padding=1), StepNorm(WIDTH), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), StepNorm(WIDTH), nn.MaxPool2d(2), nn.ReLU()),
        )
        self.word_embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.instr_rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.film = nn.ModuleList([FilmBlock(), FilmBlock()])
        self.memory_rnn = nn.LSTMCell(WIDTH, WIDTH)
        self.actor = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, actions))
        self.critic = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, 1))
        self.apply(_unit_rows)

    def forward(self, images: Tensor, words: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Views [N, 7, 7, 3], word numbers int64 [N, L] (0: none; on the CPU), memories [N, 256] = hidden and cell.

        Returns (log-probabilities [N, A], values [N], new memories [N, 256]).
        """
        hidden, cell = self.memory_rnn(self.features(images, words), (memory[:, :WIDTH], memory[:, WIDTH:]))
        return *self.heads(hidden), torch.cat([hidden, cell], 1)

    def features(self, images: Tensor, words: Tensor, steps: int = 1) -> Tensor:
        """What the memory is given [N, 128]; of several `steps`, those of a sequence stand behind one another."""
        for module in self.modules():
            if isinstance(module, StepNorm):
                module.steps = steps
        instruction = self._read(words)
        x = self.image_conv(images.float().permute(0, 3, 1, 2))
        for block in self.film:
            x = block(x, instruction)
        return torch.relu(nn.functional.max_pool2d(x, 2)).flatten(1)

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(log-probabilities [N, A], values [N]) of hidden states [N, 128]."""
        return self.actor(hidden).log_softmax(-1), self.critic(hidden)[:, 0]

    def _read(self, words: Tensor) -> Tensor:
        """The GRU's output [N, 128] at each mission's last word; equal missions are read once."""
        unique, index = torch.unique(words, dim=0, return_inverse=True)  # how many, a GPU would have to say
        device, last = self.word_embedding.weight.device, (unique != 0).sum(1) - 1
        outputs, _ = self.instr_rnn(self.word_embedding(send(unique, device)))
        return outputs[torch.arange(len(unique), device=device), send(last, device)][send(index, device)]


_CELLS = [(row, column) for row in range(2) for column in range(2)]
_TAPS = [3 * (row - i + 1) + column - j + 1 for i, j in _CELLS for row, column in _CELLS]
_DENSE_FROM = 128  # frames: with fewer, laying out the weights takes longer than it saves


def convolved(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """A padded 3 x 3 convolution of features [N, C, 2, 2].

    A copy of `layer`, held equal by `test_a_convolution_of_two_by_two_is_a_convolution`: every cell reads all four, so
    that of many frames it is one product, without the taps that see padding alone. A training step takes 1.23 times as
    long without.
    """
    if len(x) < _DENSE_FROM:
        return layer(x)
    assert layer.bias is not None
    taps = layer.weight.flatten(2).index_select(2, send(torch.tensor(_TAPS), x.device))  # [O, C, to x from]
    weight = taps.unflatten(2, (4, 4)).transpose(1, 2).flatten(2).flatten(0, 1)  # [O x to, C x from]
    return nn.functional.linear(x.flatten(1), weight, layer.bias.repeat_interleave(4)).unflatten(1, (-1, 2, 2))


class FilmBlock(nn.Module):
    """Two convolutions whose channels the instruction scales and shifts (Perez et al. 2018)."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        self.bn1, self.bn2 = StepNorm(WIDTH), StepNorm(WIDTH)
        self.weight, self.bias = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, instruction: Tensor) -> Tensor:
        """Features [N, 128, H, W] and instructions [N, 128] to features of the same shape."""
        x = convolved(self.conv2, torch.relu(self.bn1(convolved(self.conv1, x))))
        scale, shift = self.weight(instruction), self.bias(instruction)
        return torch.relu(self.bn2(x * scale[:, :, None, None] + shift[:, :, None, None]))


def _unit_rows(module: nn.Module) -> None:
    """BabyAI's start of linear layers: normal rows of length one, no bias."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight)
        with torch.no_grad():
            module.weight /= module.weight.norm(dim=1, keepdim=True)
        nn.init.zeros_(module.bias)


def build_network(seed: int, actions: int) -> ACModel:
    """The network with weights drawn from the run's seed."""
    with checkpoints.seeded_construction(seed, "symbolic"):
        return ACModel(actions)


@lru_cache(maxsize=65536)
def _word_numbers(mission: str) -> tuple[int, ...]:
    words = re.findall("[a-z]+", mission.lower())
    for word in words:
        if word not in WORDS:
            raise unknown_name("word in a mission", word, WORDS, "the symbolic agent reads only these")
    return tuple(WORDS.index(word) + 1 for word in words)


def word_numbers(missions: list[str]) -> Tensor:
    """Word numbers int64 [N, longest], padded on the right with 0. Raises GroundlabError for an unknown word."""
    rows = [_word_numbers(mission) for mission in missions]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


def make_learner(spec: RunSpec, run: Run | None = None) -> training.Learner:
    """The agent of a run, before its first update. Raises GroundlabError as `check`."""
    return SymbolicLearner(spec)


def check(settings: Settings) -> None:
    """Raises GroundlabError for settings that contradict each other, and for tests of words that it never reads."""
    if settings.frames_per_env % settings.recurrence:
        raise GroundlabError(
            f"recurrence {settings.recurrence} does not divide frames_per_env {settings.frames_per_env}; "
            f"set recurrence to a divisor"
        )
    for test, _ in episodes.plan_tests(settings):
        if test.alteration.action_space or test.alteration.modifier != Alteration.modifier:
            raise GroundlabError(f"the symbolic agent reads no prompt, so {test.name!r} changes nothing; test a world")


class Experience(NamedTuple):
    """A rollout of T steps in B environments, flat: all steps of environment 0 first, N = B * T."""

    images: Tensor  # uint8 [N, 7, 7, 3]
    words: Tensor  # int64 [N, L], on the CPU
    memories: Tensor  # [N, 256], before the step; of a new episode not yet cleared
    masks: Tensor  # [N, 1], 0 where a new episode begins
    actions: Tensor  # int64 [N]
    log_probs: Tensor  # [N]
    values: Tensor  # [N]
    advantages: Tensor  # [N]
    returns: Tensor  # [N]


class SymbolicLearner(training.Learner):
    """The agent while it learns: network, environments, and the memory that runs from rollout to rollout."""

    def __init__(self, spec: RunSpec):
        self._spec = spec
        self.settings = settings = Settings(**spec.settings)
        check(settings)
        check_device(settings.device)
        self.updates = math.ceil(settings.frames / settings.frames_per_update)
        self._stream = training_stream(spec.world, settings.num_envs, spec.seed, settings.num_dists)
        self._device = torch.device(settings.device)
        self.network = build_network(spec.seed, len(text_actions(settings.action_space))).to(self._device)
        self.optimizer = torch.optim.Adam(
            list(self.network.parameters()), lr=settings.lr, eps=settings.adam_eps, fused=settings.device == "cpu"
        )
        self._memory = torch.zeros(settings.num_envs, MEMORY, device=self._device)
        self._mask = torch.ones(settings.num_envs, 1, device=self._device)

    def train_step(self, number: int) -> dict[str, Any]:
        """Update `number` (from 1): collect a rollout and learn from it; the record of both."""
        self.network.train()
        experience = self.collect(generator(self._spec.seed, "actions", number))
        rng = generator(self._spec.seed, "minibatches", number)
        losses = update(self.network, self.optimizer, experience, self.settings, rng)
        stats = episode_stats(self._stream.pop_episodes())
        figures = {METRICS[name]: value for name, value in losses._asdict().items()}
        return {"frames": number * self.settings.frames_per_update, **stats, **figures}

    @torch.no_grad()
    def collect(self, rng: np.random.Generator) -> Experience:
        """The next steps of all environments."""
        steps = [self._step(rng) for _ in range(self.settings.frames_per_env)]
        last_values = self._forward()[2]
        images, missions, memories, masks, actions, log_probs, values, rewards, dones = zip(*steps, strict=True)
        stacked_rewards, stacked_values, ends = (torch.stack(field) for field in (rewards, values, dones))
        credit = gae(stacked_rewards, stacked_values, ends, last_values, self.settings.gamma, self.settings.lam)
        words = word_numbers([missions[t][env] for env in range(self.settings.num_envs) for t in range(len(steps))])
        stacked = [torch.stack(field) for field in (images, memories, masks, actions, log_probs, values)]
        views, *fields = (field.transpose(0, 1).flatten(0, 1) for field in (*stacked, *credit))
        return Experience._make([views, words, *fields])

    def _forward(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The views [B, 7, 7, 3], and what the network makes of them: log-probabilities, values, memories."""
        observations = self._stream.observations
        images = send(torch.from_numpy(observations["image"]), self._device)
        words = word_numbers(observations["mission"])
        return images, *self.network(images, words, self._memory * self._mask)

    def _step(self, rng: np.random.Generator) -> tuple:
        missions, memory, mask = self._stream.observations["mission"], self._memory, self._mask
        images, log_probs, values, self._memory = self._forward()
        chosen = sample_actions(log_probs.cpu(), rng)
        actions = send(torch.from_numpy(chosen), self._device)
        step = self._stream.step(env_actions(chosen))
        done = send(torch.from_numpy(step.ended), self._device)
        self._mask = 1.0 - done.float()[:, None]
        rewards = send(torch.from_numpy(step.rewards * self.settings.reward_scale).float(), self._device)
        own_log_probs = log_probs.gather(1, actions[:, None])[:, 0]
        return images, missions, memory, mask, actions, own_log_probs, values, rewards, done

    def evaluate(self) -> list[training.Evaluation]:
        """Evaluations on the test layouts."""

        def player_for(world: str, alteration: Alteration, num_envs: int, rng: np.random.Generator | None):
            return SymbolicPlayer(self.network, num_envs, alteration.mission, rng)

        return episodes.evaluate(self._spec.world, self._spec.seed, self.settings, player_for)

    def watched(self, rng: np.random.Generator) -> WatchedPlayer:
        """The agent over the actions that it is trained on, named as texts."""
        texts = text_actions(self.settings.action_space)
        return WatchedPlayer(
            SymbolicPlayer(self.network, 1, None, None), texts, env_actions(np.arange(len(texts))), rng
        )

    def state(self) -> Files:
        """The files of a checkpoint."""
        facts = {"memory": self._memory.tolist(), "mask": self._mask.tolist()}  # floats survive JSON to the last bit
        return {**checkpoints.pack(self.network, self.optimizer, facts), **self._stream.state()}

    def load_state(self, files: Files) -> None:
        """Go on from what `state` gave."""
        facts = checkpoints.unpack(files, self.network, self.optimizer)
        self._memory = torch.tensor(facts["memory"], device=self._device)
        self._mask = torch.tensor(facts["mask"], device=self._device)
        self._stream.load_state(files)

    def load_weights(self, files: Files) -> None:
        """Take the network from a checkpoint."""
        checkpoints.unpack(files, self.network)


def update(
    network: ACModel,
    optimizer: torch.optim.Optimizer,
    experience: Experience,
    settings: Settings,
    rng: np.random.Generator,
) -> ppo.Losses:
    """Some epochs over a rollout, in sequences of `recurrence` steps; means over all minibatches."""
    if settings.normalise_advantages:
        experience = experience._replace(advantages=ppo.normalised(experience.advantages))
    starts = torch.arange(len(experience.actions))[:: settings.recurrence]
    indices = ppo.minibatches(len(starts), max(1, settings.batch_size // settings.recurrence), rng, settings.epochs)

    def backward(index: Tensor) -> Tensor:
        losses = unroll(network, experience, starts[index], settings)
        losses[0].backward()
        return losses.detach()

    *means, _ = ppo.descend(optimizer, indices, backward, settings.max_grad_norm, wait=False)
    return ppo.Losses._make(means)


def unroll(network: ACModel, experience: Experience, starts: Tensor, settings: Settings) -> Tensor:
    """Losses [4] of the sequences that begin at `starts`, means over their steps; later memories are renewed.

    starts: int64, on the CPU.
    """
    steps = settings.recurrence
    places = starts[:, None] + torch.arange(steps)  # [sequences, steps]
    at = send(places, experience.actions.device)
    words = experience.words[places.flatten()]
    own = Experience._make(field[at.flatten()] for field in experience._replace(words=experience.actions))
    own = own._replace(words=words)
    features = network.features(own.images, own.words, steps).unflatten(0, at.shape)
    memory, masks, hiddens = experience.memories[at[:, 0]], experience.masks[at], []
    for step in range(steps):
        hidden, cell = (memory * masks[:, step]).chunk(2, 1)
        hidden, cell = network.memory_rnn(features[:, step], (hidden, cell))
        memory = torch.cat([hidden, cell], 1)
        hiddens.append(hidden)
        if step + 1 < steps:
            experience.memories[at[:, step] + 1] = memory.detach()
    log_probs, values = network.heads(torch.stack(hiddens, 1).flatten(0, 1))
    batch = ppo.Batch(own.images, own.actions, own.log_probs, own.values, own.returns)
    return torch.stack(ppo.losses_of(log_probs, values, batch, own.advantages, settings))


class SymbolicPlayer:
    """A Player (episodes.py) that does not learn; without `rng` it takes the likeliest action."""

    def __init__(self, network: ACModel, num_envs: int, mission: str | None, rng: np.random.Generator | None):
        self._network, self._mission, self._rng = network, mission, rng
        self._device = next(network.parameters()).device
        self._memory = torch.zeros(num_envs, MEMORY, device=self._device)

    def start(self, env: int, observation: dict[str, Any]) -> None:
        self._memory[env] = 0

    def observe(self, env: int, action: int, observation: dict[str, Any]) -> None:
        """The memory was renewed when it acted."""

    @torch.no_grad()
    def scores(self, observations: dict[str, Any], active: np.ndarray) -> Tensor:
        """Log-probabilities [len(active), A]; the memory is renewed."""
        self._network.eval()
        index = torch.from_numpy(active).to(self._device)
        words = word_numbers([self._mission or observations["mission"][env] for env in active.tolist()])
        images = torch.from_numpy(observations["image"][active]).to(self._device)
        log_probs, _, memory = self._network(images, words, self._memory[index])
        self._memory[index] = memory
        return log_probs.cpu()

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        log_probs = self.scores(observations, active)
        return env_actions(log_probs.argmax(-1).numpy() if self._rng is None else sample_actions(log_probs, self._rng))
