"""A causal language model as policy and critic of its own tokens: log-probabilities of tokens, values of states.

    policy = TokenPolicy(model, value_head="linear", seed=0)
    reading = policy.read(prompts, responses)            # token ids in, (log_probs, values, entropies [N], after [S])
    reference = policy.reference(prompts, responses)     # log-probabilities [N] of the model before training
    policy.backward(prompts, responses, loss)            # gradients, memory bounded by a token budget

Prompts and responses are lists of token ids, as generation leaves them: nothing is tokenised twice, and the end token
is a token like others. N tokens of S responses come one response after the other, without padding. The state before a
token predicts it and holds its value; the vocabulary head runs only there. What a token gets does not depend on
padding, on its side, or on the rest of the batch, up to rounding. Everything is read in evaluation mode, so that the
first PPO ratios are 1 (docs/papers/reasoning-method.md#s3-6).
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.language import llama_forward
from groundlab.language.cpu_inference import onednn_linears
from groundlab.language.models import base_of
from groundlab.language.plain_passes import Pairs, Plainness, checkpointing, plain_pass
from groundlab.language.prefix_batching import Rows, batches, pass_cost, row_states
from groundlab.language.scoring import TOKEN_BUDGET, fill_untrained, keep_trained_once
from groundlab.learning.checkpoints import seeded_construction
from groundlab.learning.devices import send

VALUE_HEADS = ("linear", "mlp", "none")
_LEAST, _BY_WEIGHTS = 32.0, 2e8  # of `pass_cost` on a CPU


class Reading(NamedTuple):
    """What a model says of N tokens of S responses; float32."""

    log_probs: Tensor  # [N]
    values: Tensor  # [N], of the state before each token; zeros without a value head
    entropies: Tensor  # [N], of the distribution that each token was drawn from, in nats
    after: Tensor  # [S], value of the state after each response's last token


Loss = Callable[[Tensor, Reading], Tensor]


class ValueHead(nn.Module):
    """States [..., d] of any float type to float32 values [...].

    "linear" is trl's layer without its dropout, "mlp" the original's unpublished option
    (docs/papers/reasoning-method.md#s3-6).
    """

    def __init__(self, size: int, kind: Literal["linear", "mlp"] = "linear"):
        super().__init__()
        hidden = [nn.Linear(size, size), nn.Tanh(), nn.Linear(size, size), nn.ReLU()] if kind == "mlp" else []
        self.layers = nn.Sequential(*hidden, nn.Linear(size, 1))

    def forward(self, states: Tensor) -> Tensor:
        return self.layers(states.float()).squeeze(-1)


def token_log_probs(
    model: Any,
    prompts: Rows,
    responses: Rows,
    value_head: nn.Module | None = None,
    temperature: float = 1.0,
    overhead: float = _LEAST,
    by_passes: bool = False,
) -> Reading:
    """Read the responses after their prompts; differentiable where gradients are on.

    What rows begin with alike is read once, by `llama_forward.row_states` where it serves the model, and otherwise by
    `prefix_batching.row_states`. temperature divides the logits, as in sampling. overhead: tokens that a forward pass
    of the latter is worth. by_passes: read every row by a plain pass instead. Raises ValueError when a
    prompt or a response has no token: a response ends with its end token at least.
    """
    if not all(map(len, prompts)) or not all(map(len, responses)):
        raise ValueError("a prompt or a response has no token; keep the end token of an empty reply")
    before, after, logits = _read_rows(model, prompts, responses, overhead, by_passes)
    targets = _index([token for response in responses for token in response], before)
    log_all = (logits / temperature).log_softmax(-1)
    log_probs = log_all.gather(1, targets[:, None])[:, 0]
    entropies = -(log_all.exp() * log_all).sum(-1)
    if value_head is None:
        return Reading(log_probs, torch.zeros_like(log_probs), entropies, log_probs.new_zeros(len(after)))
    return Reading(log_probs, value_head(before), entropies, value_head(after))


def _read_rows(
    model: Any, prompts: Rows, responses: Rows, overhead: float, by_passes: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """States [N, d] before each token and [S, d] after each response, and the logits [N, V] of the former."""
    base = base_of(model)
    rows = [[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)]
    if by_passes:
        read = [plain_pass(model, *pair) for pair in zip(prompts, responses, strict=True)]
        before, logits = (torch.cat([passed[part][:-1] for passed in read]) for part in (0, 1))
        return before, torch.stack([states[-1] for states, _ in read]), logits
    firsts = [len(prompt) - 1 for prompt in prompts]
    if llama_forward.serves(model):
        states = llama_forward.row_states(base, rows, firsts)
    else:
        states = row_states(base, rows, firsts, overhead)
    lasts = [end - 1 for end in accumulate(len(response) + 1 for response in responses)]
    before = states[_index(sorted({*range(len(states))}.difference(lasts)), states)]
    after = states[_index(lasts, states)]
    return before, after, base.get_output_embeddings()(before).float()


def _index(numbers: list[int], like: Tensor) -> Tensor:
    return send(torch.tensor(numbers), like.device)


class TokenPolicy(nn.Module):
    """A causal model and a value head on its last states, trained together.

    model: a Hugging Face causal model, or one with peft's adapters, which are then all that is trained of it, and
    without which it is the reference. Otherwise the reference is a copy, made where `keep_reference`.
    value_head: "linear", "mlp" or "none", drawn from the seed. temperature: of the logits, everywhere.
    token_budget: padded tokens read at once; pass_tokens: as `ActionScorer`'s. Nothing is dropped in training mode
    either. Move the model to its device before it comes here. `state_dict` holds each trained tensor once, as
    `ActionScorer`'s does: no frozen weights.
    """

    def __init__(
        self,
        model: Any,
        value_head: str = "linear",
        *,
        temperature: float = 1.0,
        token_budget: int = TOKEN_BUDGET,
        pass_tokens: float | None = None,
        keep_reference: bool = True,
        seed: int = 0,
    ):
        super().__init__()
        if value_head not in VALUE_HEADS:
            raise unknown_name("value head", value_head, VALUE_HEADS)
        self.model, self.temperature, self.token_budget = model, temperature, token_budget
        self._overhead = pass_cost(model, _LEAST, _BY_WEIGHTS, pass_tokens)
        self.value_head = self._head(value_head, seed)
        copied = keep_reference and not hasattr(model, "disable_adapter")
        # In a list, so that it is no submodule: it is neither trained nor stored.
        self._reference = [copy.deepcopy(model).eval().requires_grad_(False)] if copied else []
        self.eval()
        self._plainness = Plainness(model, "tokens", self._logits_of)
        self.register_state_dict_post_hook(keep_trained_once)
        self.register_load_state_dict_pre_hook(fill_untrained)

    def train(self, mode: bool = True) -> "TokenPolicy":
        """The language model stays in evaluation mode."""
        super().train(mode)
        self.model.eval()
        return self

    def _logits_of(self, pairs: Pairs) -> Tensor:
        """Return the logits that `Plainness` compares."""
        prompts, responses = zip(*pairs, strict=True)
        return _read_rows(self.model, prompts, responses, 0.0, False)[2].unflatten(0, (len(pairs), -1))

    def _head(self, kind: Any, seed: int) -> ValueHead | None:
        if kind == "none":
            return None
        with seeded_construction(seed, "value head"):
            return ValueHead(base_of(self.model).get_output_embeddings().in_features, kind).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return base_of(self.model).device

    def read(self, prompts: Rows, responses: Rows) -> Reading:
        """What policy and critic say of the responses, in their order; without gradient."""
        return self._read(self.model, self.value_head, prompts, responses)

    def reference(self, prompts: Rows, responses: Rows) -> Tensor:
        """Log-probabilities [N] under the model before training: adapters off, or the copy; without gradient.

        Raises GroundlabError when there is neither.
        """
        with self._as_reference() as model:
            return self._read(model, None, prompts, responses).log_probs

    @contextmanager
    def _as_reference(self) -> Iterator[Any]:
        if self._reference:
            yield self._reference[0]
        elif hasattr(self.model, "disable_adapter"):
            with self.model.disable_adapter():
                yield self.model
        else:
            raise GroundlabError("there is no reference to compare with; build the policy with keep_reference=True")

    @torch.no_grad()
    def _read(self, model: Any, head: nn.Module | None, prompts: Rows, responses: Rows) -> Reading:
        parts = self._parts(prompts, responses)
        with onednn_linears(model):
            read = [self._read_part(model, head, prompts, responses, part) for part in parts]
        log_probs, values, entropies, after = (torch.cat(field) for field in zip(*read, strict=True))
        order = torch.tensor([row for part in parts for row in part])
        lengths = torch.tensor([len(responses[row]) for row in order.tolist()])
        tokens = send(order.repeat_interleave(lengths).argsort(stable=True), after.device)
        return Reading(log_probs[tokens], values[tokens], entropies[tokens], after[send(order.argsort(), after.device)])

    def _parts(self, prompts: Rows, responses: Rows) -> list[list[int]]:
        lengths = [len(prompt) + len(response) for prompt, response in zip(prompts, responses, strict=True)]
        return batches(lengths, self.token_budget, sum(lengths))  # the fewest: rows of one part share their beginnings

    def _read_part(
        self, model: Any, head: nn.Module | None, prompts: Rows, responses: Rows, part: list[int]
    ) -> Reading:
        own = [prompts[row] for row in part], [responses[row] for row in part]
        by_passes = self._plainness.needed(max(len(prompts[row]) + len(responses[row]) for row in part))
        with checkpointing(model):
            return token_log_probs(model, *own, head, self.temperature, self._overhead, by_passes)

    def backward(self, prompts: Rows, responses: Rows, loss: Loss) -> Tensor:
        """Add the gradient of a loss that is a sum over tokens; only one part of the activations lives at a time.

        loss(places, reading): what responses `places` [s] contribute, given the reading of their tokens (places in
        reading order, on the CPU). For a mean it divides by the tokens of all, not of the part. Returns the whole loss,
        without gradient. The gradient is the same for every token budget, up to rounding.
        """
        total = torch.zeros((), device=self.device)
        for part in self._parts(prompts, responses):
            with onednn_linears(self.model):
                reading = self._read_part(self.model, self.value_head, prompts, responses, part)
                share = loss(torch.tensor(part), reading)
                share.backward()
            total += share.detach()
        return total
