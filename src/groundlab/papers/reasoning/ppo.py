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
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Files, Run
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.token_policy import Reading, TokenPolicy
from groundlab.language.vllm_backend import LARGEST_GAP
from groundlab.learning import checkpoints, credit, token_ppo
from groundlab.learning.token_ppo import KLController
from groundlab.papers.method import Request
from groundlab.papers.reasoning.evaluation import WORLDS, examine, open_talks, play_layouts, told
from groundlab.papers.reasoning.policy import (
    ChatPolicy,
    dropping,
    evaluation_speaker,
    open_engine,
    open_policy,
    save_policy,
)
from groundlab.papers.reasoning.rollouts import Collector, Rollout, Turn
from groundlab.papers.reasoning.settings import DONOR_LAYOUTS, TrainingSettings
from groundlab.papers.reasoning.thoughts import first_prompts, measures, play_swapped, probe, probe_numbers


class Read(NamedTuple):
    """What the model that learns says of a rollout, on the CPU: N tokens of S replies."""

    reading: Reading
    reference: Tensor  # [N]; the policy's own where no reference is asked for
    last_values: list[float]  # of each strand's following observation; 0 where the episode ended


def read(policy: TokenPolicy, rollout: Rollout, settings: TrainingSettings, end: int) -> Read:
    """Read all replies, and the observations after the open strands, in one go."""
    turns = [turn for strand in rollout.strands for turn in strand.turns]
    following = [strand.following for strand in rollout.strands if strand.following is not None]
    prompts, responses = _rows(turns)
    # The value of an observation is that of the state before a reply, whatever its first token is.
    whole = policy.read([*prompts, *following], [*responses, *([end] for _ in following)])
    whole = Reading(*(field.cpu() for field in whole))
    tokens = sum(map(len, responses))
    reading = Reading(
        whole.log_probs[:tokens], whole.values[:tokens], whole.entropies[:tokens], whole.after[: len(turns)]
    )
    reference = reading.log_probs if settings.kl == "none" else policy.reference(prompts, responses).cpu()
    values = iter(whole.values[tokens:].tolist())
    return Read(reading, reference, [next(values) if strand.following else 0.0 for strand in rollout.strands])


def _rows(turns: list[Turn]) -> tuple[list[list[int]], list[list[int]]]:
    return [turn.prompt for turn in turns], [turn.reply.tokens for turn in turns]


def assigned(rollout: Rollout, said: Read, coefficient: float, settings: TrainingSettings) -> token_ppo.Batch:
    """The batch that PPO learns from; `coefficient` is that of the KL in the rewards."""
    lengths = torch.tensor([len(turn.reply.tokens) for strand in rollout.strands for turn in strand.turns])
    penalties = -coefficient * token_ppo.kl_estimate(said.reading.log_probs, said.reference, settings.kl_estimator)
    counts = [len(strand.turns) for strand in rollout.strands]
    tokens = [int(part.sum()) for part in lengths.split(counts)]
    parts = (
        lengths.split(counts),
        said.reading.values.split(tokens),
        said.reading.after.split(counts),
        penalties.split(tokens),
    )
    episodes = [
        credit.Episode(
            torch.tensor([turn.reward for turn in strand.turns]),
            *own,
            done=strand.following is None,
            last_value=last_value,
            group=strand.group,
            anchors=[turn.anchor for turn in strand.turns],
        )
        for strand, last_value, *own in zip(rollout.strands, said.last_values, *parts, strict=True)
    ]
    credits = credit.assign(episodes, settings)
    advantages, returns, _ = (torch.cat(field) for field in zip(*credits, strict=True))
    return token_ppo.Batch(
        lengths,
        said.reading.log_probs,
        said.reference,
        said.reading.values,
        advantages,
        returns,
    )


def drawing_gap(rollout: Rollout, reading: Reading, settings: TrainingSettings) -> float | None:
    """The mean difference between a token's log-probability when it was drawn and when it is learnt from, in nats.

    None where they are of different distributions by intent: truncated sampling, or dropout while drawing.
    """
    plain = settings.learning_temperature == 1
    if settings.fidelity.dropout or not (plain or (settings.top_k == 0 and settings.top_p == 1)):
        return None
    replies = [turn.reply for strand in rollout.strands for turn in strand.turns]
    kept = [number for reply in replies for number in (reply.log_probs if plain else reply.drawn_log_probs)]
    return float((torch.tensor(kept) - reading.log_probs).abs().mean())


def check_gap(gap: float | None, settings: TrainingSettings) -> None:
    """Raises GroundlabError when generation and training do not speak of the same model."""
    if gap is not None and gap > LARGEST_GAP[settings.dtype]:
        raise GroundlabError(
            f"tokens were drawn with other probabilities than they are learnt from (by {gap:.2g} nats);"
            " give attention that takes a mask (sdpa or eager), or dtype=float32"
        )


def learn(
    policy: TokenPolicy,
    optimizer: torch.optim.Optimizer,
    kl: KLController,
    rollout: Rollout,
    settings: TrainingSettings,
    rng: np.random.Generator,
    end: int,
    checked: bool = False,
) -> dict[str, Any]:
    """One update from a rollout; its figures. checked: generation has to agree with training, or it raises."""
    policy.eval()  # turns gradient checkpointing on again, which generation has turned off
    said = read(policy, rollout, settings, end)
    gap = drawing_gap(rollout, said.reading, settings)
    if checked:
        check_gap(gap, settings)
    batch = assigned(rollout, said, kl.coefficient, settings)
    prompts, responses = _rows([turn for strand in rollout.strands for turn in strand.turns])
    if settings.fidelity.drop_unfinished:
        kept = torch.from_numpy(rng.permutation(len(prompts))[: settings.steps])
        batch = token_ppo.select(batch, kept)
        prompts, responses = ([rows[place] for place in kept.tolist()] for rows in (prompts, responses))
    if not settings.compares:
        batch = batch._replace(advantages=token_ppo.whitened(batch.advantages))
    per_reply = float((batch.log_probs - batch.reference).sum()) / len(prompts)
    figures = {"drawing_gap": gap} if gap is not None else {}
    figures |= {"kl": per_reply, "kl_coefficient": kl.coefficient, "value": float(batch.values.mean())}
    batch = token_ppo.Batch(*(field.to(policy.device) for field in batch))

    def backward(index: Tensor, loss: token_ppo.Loss) -> None:
        places = index.tolist()
        policy.backward([prompts[place] for place in places], [responses[place] for place in places], loss)

    figures |= token_ppo.update(backward, optimizer, batch, settings, rng)
    kl.update(per_reply, len(prompts))
    return figures


__all__ = ["WORLDS", "Settings", "evaluate"]

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
        self._speaker = ChatPolicy(self.policy.model, self.tokenizer, settings, engine=self._engine)
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
