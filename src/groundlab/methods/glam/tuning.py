"""PPO on all weights of a language-model policy: the clipped update, in pieces that bound memory.

    figures = update(scorer, optimizer, rollout, settings, rng)

The losses are `learning/ppo.py`'s; a minibatch is dealt out to the processes of a group (`distributed.py`) and cut by
prompt length (`ActionScorer.backward`), its gradient is that of the whole. Source: spec glam-agents 2.3 and 2.4.
Called from: `lm_ppo.py`.
"""

import numpy as np
import torch
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError
from groundlab.language.scoring import ActionScorer
from groundlab.learning import ppo
from groundlab.methods.glam.distributed import ALONE, Group
from groundlab.methods.glam.rollouts import Rollout
from groundlab.methods.glam.settings import TrainingSettings

FIGURES = ("loss", "policy_loss", "value_loss", "entropy", "kl", "grad_norm")


def trained(scorer: ActionScorer) -> list[nn.Parameter]:
    """The weights that are tuned: all, or adapters and heads."""
    return [parameter for parameter in scorer.parameters() if parameter.requires_grad]


def broadcast_value_loss(values: Tensor, part: ppo.Batch, minibatch: ppo.Batch, clip: float) -> Tensor:
    """Every value [p] against every return of the minibatch [B], clipped likewise: the original's bug (Q1)."""
    row = values[:, None]
    near = minibatch.values + (row - minibatch.values).clamp(-clip, clip)
    return torch.max((row - minibatch.returns) ** 2, (near - minibatch.returns) ** 2).mean()


def losses_of(
    scores: Tensor,
    values: Tensor,
    part: ppo.Batch,
    advantages: Tensor,
    minibatch: ppo.Batch,
    settings: TrainingSettings,
) -> Tensor:
    """[total, policy, value, entropy, kl] of a part of a minibatch, means over the part.

    kl is the estimate E[ratio - 1 - log ratio] of how far the policy has moved from the one that acted.
    """
    total, policy, value, entropy = ppo.losses_of(scores, values, part, advantages, settings)
    if settings.fidelity.value_loss_broadcast:
        value = broadcast_value_loss(values, part, minibatch, settings.clip)
        total = policy - settings.entropy_coefficient * entropy + settings.value_coefficient * value
    ratio = scores.log_softmax(-1).gather(1, part.actions[:, None])[:, 0].detach() - part.log_probs
    return torch.stack([total, policy, value, entropy, (ratio.exp() - 1 - ratio).mean()])


def step(
    scorer: ActionScorer,
    optimizer: torch.optim.Optimizer,
    prompts: list[str],
    minibatch: ppo.Batch,
    advantages: Tensor,
    settings: TrainingSettings,
    group: Group = ALONE,
) -> Tensor:
    """One gradient step on B prompts; returns `FIGURES` [6], grad_norm before clipping.

    Each process of a group reads its share of the prompts; all take the same step.
    Raises GroundlabError, before any weight is changed, when loss or gradient is not a number.
    """
    seen = torch.zeros(len(FIGURES) - 1, device=advantages.device)
    mine = torch.tensor(group.share(prompts), dtype=torch.int64, device=advantages.device)

    def loss(own: Tensor, scores: Tensor, values: Tensor) -> Tensor:
        index = mine[own]
        part = ppo.Batch._make(field[index] for field in minibatch)
        share = len(index) / len(prompts) * losses_of(scores, values, part, advantages[index], minibatch, settings)
        seen.add_(share.detach())
        return share[0]

    optimizer.zero_grad()
    if len(mine):
        scorer.backward([prompts[place] for place in mine.tolist()], loss)
    seen = group.add_gradients(trained(scorer), seen)
    norm = nn.utils.clip_grad_norm_(trained(scorer), settings.max_grad_norm)
    if not (seen.isfinite().all() and norm.isfinite()):
        raise GroundlabError(f"the loss is no number any more (loss {seen[0]:.3g}); use an lr below {settings.lr:g}")
    optimizer.step()
    return torch.cat([seen, norm.detach()[None]]).cpu()


def update(
    scorer: ActionScorer,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    settings: TrainingSettings,
    rng: np.random.Generator,
    group: Group = ALONE,
) -> dict[str, float]:
    """Some epochs over a rollout; returns the mean of each of `FIGURES` over all gradient steps."""
    device = trained(scorer)[0].device
    advantages = ppo.normalised(rollout.advantages) if settings.normalise_advantages else rollout.advantages
    size = len(rollout.prompts)
    batch = ppo.Batch(torch.arange(size), rollout.actions, rollout.log_probs, rollout.values, rollout.returns)
    history = []
    for _ in range(settings.epochs):
        for index in ppo.minibatches(size, settings.batch_size, rng):
            prompts = [rollout.prompts[place] for place in index.tolist()]
            minibatch = ppo.Batch._make(field[index].to(device) for field in batch)
            history.append(step(scorer, optimizer, prompts, minibatch, advantages[index].to(device), settings, group))
    return dict(zip(FIGURES, torch.stack(history).mean(0).tolist(), strict=True))
