"""From a rollout to a gradient: what the trainer's own model says of the tokens, their credit, and PPO on it.

    figures = learn(policy, optimizer, kl, rollout, settings, rng, end=speaker.end)

The log-probabilities that PPO starts from are read once more by the model that learns, so that the first ratios are 1;
those kept from generation must agree (`drawing_gap`), else the model that speaks is not the one that learns.
Source: spec reasoning-agents 3.2 to 3.5. Called from: `learner.py`.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from groundlab.core.errors import GroundlabError
from groundlab.language.served import LARGEST_GAP
from groundlab.language.tokens import Reading, TokenPolicy
from groundlab.learning import credit, token_ppo
from groundlab.learning.token_ppo import KLController
from groundlab.methods.reasoning.rollouts import Rollout, Turn
from groundlab.methods.reasoning.settings import TrainingSettings


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
