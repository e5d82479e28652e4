"""Actions scored by a language model: how likely are its words after the prompt?

    scores = score_actions(model, tokenizer, prompts, ["turn left", "toggle"])  # [P, A], softmax over A is the policy

    scorer = ActionScorer(model, tokenizer, actions, seed=0)                    # what an agent trains
    scores, values = scorer(prompts)                                            # [P, A], [P]
    scorer.backward(prompts, lambda index, scores, values: ...)                 # gradients, memory bounded

Three published rules (docs/papers/glam-method.md#agents-0), for a prompt and an action of tokens w_1 .. w_T:
  logprob        sum of log p(w_t): the default, and what the method means
  prob_softmax   GLAM of February 2023: the product of p(w_t), end token included, divided by the largest product of
                 the prompt; the policy cannot become greedy
  logit_sum      GLAM's repository since May 2023: the sum of raw logits, plus one for each token that the action is
                 shorter than the longest one
The scores of a prompt do not depend on the other prompts or on the order of anything, up to rounding.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.language import t5_forward
from groundlab.language.chat_format import beginning
from groundlab.language.kept_states import KeptStates
from groundlab.language.models import base_of
from groundlab.language.plain_passes import Pairs, Plainness, checkpointing, kept_modes, plain_pass, start_token
from groundlab.language.prefix_batching import (
    ActionTree,
    Tokens,
    batches,
    branch,
    packed_batches,
    pass_cost,
    prefix_states,
)
from groundlab.learning.checkpoints import seeded_construction
from groundlab.learning.devices import send

HIDDEN_SIZE = 1024


class Head(nn.Module):
    """States [P, d] of any float type to float32 [P, outputs]."""

    def __init__(self, size: int, outputs: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(size, HIDDEN_SIZE),
            nn.Sigmoid(),
            nn.Linear(HIDDEN_SIZE, HIDDEN_SIZE),
            nn.Sigmoid(),
            nn.Linear(HIDDEN_SIZE, outputs),
        )

    def forward(self, states: Tensor) -> Tensor:
        return self.layers(states.float())


RULES = ("logprob", "prob_softmax", "logit_sum")
TOKEN_BUDGET = 8_192  # padded tokens read at once; in training a T5 of 60 million weights holds 0.34 GB per 1,000
_CACHED_PROMPTS = 50_000
_LEAST, _BY_WEIGHTS = 32.0, 1e8  # of `pass_cost` on a CPU
_SMALLEST_LOG = -103.28  # log of float32's smallest number: GLAM's rule is uniform when every product is below it


class Scored(NamedTuple):
    """What a scorer says of P prompts."""

    scores: Tensor  # float32 [P, A], the policy's logits
    values: Tensor  # float32 [P], zeros where there is no value head


class _Row(NamedTuple):
    """A prompt as it is read, and the actions as they go on from it."""

    tokens: Tokens
    actions: tuple[Tokens, ...]


Tokenizer = Any  # a Hugging Face tokenizer
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def score_actions(
    model: nn.Module,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    actions: Sequence[str],
    rule: str = "logprob",
    **options: Any,
) -> Tensor:
    """Scores float32 [P, A]; softmax over A is the policy. Without dropout; differentiable where gradients are on.

    options: further ones of `ActionScorer`. Raises GroundlabError as `ActionScorer` does.
    """
    with kept_modes(model):
        return ActionScorer(model, tokenizer, actions, rule=rule, value_head=False, **options)(prompts).scores


class ActionScorer(nn.Module):
    """A language model as policy and value function over a fixed list of actions.

    `forward` takes P prompts and returns (scores [P, A], values [P]).
    rule: one of RULES; temperature divides the scores.
    move_blanks: whether "Action: " and "turn left" are read as "Action:" and " turn left", as models know them;
    None: of causal models with byte-level BPE (GPT-2, Llama 3, Qwen), under logprob. BOS is as the tokenizer adds it.
    value_head, action_head: whether it has such a `Head`; scores then come from the action head, and no rule is used.
    dropout: False keeps the language model in eval mode even in training, so that first PPO ratios are 1.
    pass_tokens: what one more forward pass is worth, in tokens, when prompts are cut into batches (`pass_cost`).
    frozen_layers: the first layers of a causal model, so many, are never trained: their states are kept for each
    different prompt (kept_states.py). features: both heads read these states, and no layer above them runs; with
    `stored` other runs find them in the user's cache.
    Raises GroundlabError for an unknown rule, for actions that are empty, double or unknown to the tokenizer, for a
    prompt without a token or longer than the model's positions, and for models whose plain passes say nothing
    certain. The model is compared with these at construction, and read by them where no faster way gives the same.
    `state_dict` holds each trained tensor once: no frozen weights, no tied copies (safetensors refuses those).
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        actions: Sequence[str],
        *,
        rule: str = "logprob",
        temperature: float = 1.0,
        move_blanks: bool | None = None,
        value_head: bool = True,
        action_head: bool = False,
        dropout: bool = False,
        token_budget: int = TOKEN_BUDGET,
        pass_tokens: float | None = None,
        frozen_layers: int = 0,
        features: bool = False,
        stored: bool = False,
        seed: int = 0,
    ):
        super().__init__()
        if frozen_layers and dropout:
            raise GroundlabError("expected frozen layers that drop nothing, got dropout; give fidelity.dropout=false")
        if rule not in RULES:
            raise unknown_name("scoring rule", rule, RULES)
        if not actions or not all(action.strip() for action in actions):
            raise GroundlabError(f"empty action in {list(actions)}; give every action a text")
        self.model, self.tokenizer, self.actions = model, tokenizer, list(actions)
        self.rule, self.temperature, self.dropout, self.token_budget = rule, temperature, dropout, token_budget
        # on actions, and on an encoder's prompts
        self._end = [tokenizer.eos_token_id] if rule == "prob_softmax" else []
        base = base_of(self.model)
        self._overhead = pass_cost(base, _LEAST, _BY_WEIGHTS, pass_tokens)
        is_encoder_decoder = base.config.is_encoder_decoder
        self._start = start_token(base) if is_encoder_decoder else None
        self.kept, self._features = KeptStates(model, frozen_layers, stored) if frozen_layers else None, features
        self._plainness = Plainness(model, f"scores above {frozen_layers} layers", self._logits_of)
        self.value_head = self._head(base, 1, seed, "value head") if value_head else None
        self.action_head = self._head(base, len(self.actions), seed, "action head") if action_head else None
        self._token_ids: dict[str, _Row] = {}
        self._beginning, self._prompt_end = beginning(tokenizer), self._end if is_encoder_decoder else []
        if move_blanks is None:
            pieces = tokenizer.convert_ids_to_tokens(tokenizer("a a", add_special_tokens=False)["input_ids"])
            joined = any(str(piece).startswith("Ġ") for piece in pieces)  # a blank, as byte-level BPE writes it
            move_blanks = joined and rule == "logprob" and not is_encoder_decoder
        self._move_blanks = move_blanks and not action_head
        own = [[0]] if action_head else tokenizer(self.actions, add_special_tokens=False)["input_ids"]
        self._plain: tuple[Tokens, ...] = tuple(map(tuple, own))
        self._trees: dict[tuple[Tokens, ...], Any] = {}
        self.branches = self._tree(self._plain)
        self.train(False)
        self.register_state_dict_post_hook(keep_trained_once)
        self.register_load_state_dict_pre_hook(fill_untrained)

    def _head(self, base: Any, outputs: int, seed: int, purpose: str) -> Head:
        with seeded_construction(seed, purpose):
            return Head(base.get_output_embeddings().in_features, outputs).to(base.device)

    def _tree(self, actions: tuple[Tokens, ...]) -> Any:
        """Return the tree of actions that go on with these tokens after a prompt."""
        if actions not in self._trees:
            named, end = ([], []) if self.action_head else (self.actions, self._end)
            for position, (action, tokens) in enumerate(zip(named, actions, strict=False)):
                if not tokens or self.tokenizer.unk_token_id in tokens:
                    raise GroundlabError(f"the tokenizer has no word for action {action!r}; name it in words it knows")
                if tokens in actions[:position]:
                    other = self.actions[actions.index(tokens)]
                    raise GroundlabError(f"actions {other!r} and {action!r} are the same tokens; keep one of them")
            tree = branch([[*tokens, *end] for tokens in actions], self._start)
            self._trees[actions] = tree.to(base_of(self.model).device)
        return self._trees[actions]

    def train(self, mode: bool = True) -> "ActionScorer":
        """Training mode for the heads; the language model follows only with `dropout`."""
        super().train(mode)
        if not self.dropout:
            self.model.eval()
        return self

    def _rows(self, prompts: Sequence[str]) -> list[_Row]:
        """Return the token ids of each prompt, and of the actions after it."""
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._token_ids]
        if len(self._token_ids) + len(new) > _CACHED_PROMPTS:
            self._token_ids.clear()
            new = list(dict.fromkeys(prompts))
        if new:
            stems = [prompt.rstrip() or prompt if self._move_blanks else prompt for prompt in new]
            ids = self.tokenizer(stems, add_special_tokens=False)["input_ids"]
            for prompt, stem, tokens in zip(new, stems, ids, strict=True):
                actions = self._plain
                if stem != prompt:
                    texts = [prompt + action for action in self.actions]
                    whole = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
                    # Llama 3 joins a colon and a line's end: what differs from the stem goes to the actions.
                    columns = zip(tokens, *whole, strict=False)
                    alike = len([*takewhile(lambda column: len({*column}) == 1, columns)])
                    tokens, actions = tokens[:alike], tuple(tuple(row[alike:]) for row in whole)
                first = () if tuple(tokens[:1]) == self._beginning else self._beginning
                self._token_ids[prompt] = _Row((*first, *tokens, *self._prompt_end), actions)
        return [self._token_ids[prompt] for prompt in prompts]

    def tokens(self, prompts: Sequence[str], actions: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Return the token ids of each prompt, and of its action after it, as they are scored, without end tokens."""
        pairs = zip(self._rows(prompts), map(self.actions.index, actions), strict=True)
        return [([*row.tokens[: len(row.tokens) - len(self._prompt_end)]], [*row.actions[n]]) for row, n in pairs]

    def forward(self, prompts: Sequence[str]) -> Scored:
        """(scores [P, A], values [P]); equal prompts are read once."""
        rows = self._rows(prompts)
        unique = list(dict.fromkeys(rows))
        if not rows or not all(row.tokens for row in rows):
            raise GroundlabError("a prompt without any token cannot be scored; give it a text")
        base, deepest = base_of(self.model), max(len(tokens) for row in rows for tokens in row.actions) - 1
        behind = 0 if base.config.is_encoder_decoder else deepest + len(self._end)
        by_passes = self._plainness.needed(max(len(row.tokens) for row in rows) + behind)
        if by_passes and self.kept:
            raise GroundlabError("states of this model are not kept, or not of such long prompts; give lora_layers=0")
        is_plain = t5_forward.serves(base)
        parts = self._batches(unique, is_plain)
        scored = []
        for part in parts:
            self.branches = self._tree(unique[part[0]].actions)
            scored.append(self._score([unique[row].tokens for row in part], is_plain, by_passes))
        place = {unique[row]: position for position, row in enumerate(row for part in parts for row in part)}
        index = send(torch.tensor([place[row] for row in rows]), scored[0].scores.device)
        return Scored(*(torch.cat(field)[index] for field in zip(*scored, strict=True)))

    def _batches(self, rows: Sequence[_Row], is_plain: bool) -> list[list[int]]:
        """Which rows are read together: of like length where they are padded, as they come where nothing is."""
        found = []
        for actions in dict.fromkeys(row.actions for row in rows):
            places = [place for place, row in enumerate(rows) if row.actions == actions]
            own = [rows[place].tokens for place in places]
            packed = packed_batches(own, self.token_budget) if is_plain else None
            parts = packed or batches([len(row) for row in own], self.token_budget, self._overhead)
            found += [[places[index] for index in part] for part in parts]
        return found

    def _score(self, rows: Sequence[Tokens], is_plain: bool, by_passes: bool) -> Scored:
        with checkpointing(self.model):
            if self.kept and self._features:
                logits = states = self.kept.features(rows, self.branches)
            else:
                states, logits = self._passes(rows) if by_passes else self._read(rows, self.branches, is_plain)
        first = states[:, 0]
        values = self.value_head(first)[:, 0] if self.value_head else first.new_zeros(len(rows), dtype=torch.float32)
        scores = self.action_head(first) if self.action_head else self._rule(logits)
        return Scored(scores / self.temperature, values)

    def _read(self, rows: Sequence[Sequence[int]], branches: ActionTree, is_plain: bool) -> tuple[Tensor, Tensor]:
        """States [P, U, d] and logits [P, U, V] at each distinct prefix."""
        base = base_of(self.model)
        if self.kept:
            states = self.kept.read(list(map(tuple, rows)), branches)
        else:
            states = (t5_forward.prefix_states if is_plain else prefix_states)(base, rows, branches)
        scaled = getattr(base.config, "scale_decoder_outputs", base.config.model_type == "umt5")
        return states, base.get_output_embeddings()(states * base.config.d_model**-0.5 if scaled else states).float()

    def _passes(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """The same by one plain pass for each prompt and action."""
        tree = self.branches
        actions = [target[real].tolist() for target, real in zip(tree.targets, tree.real, strict=True)]
        places = tree.prefixes[tree.real].tolist()
        firsts = [places.index(prefix) for prefix in range(len(tree.columns))]
        read = [
            list(zip(*(plain_pass(self.model, row, action[:-1]) for action in actions), strict=True)) for row in rows
        ]
        return [torch.stack([torch.cat(row[part])[firsts] for row in read]) for part in (0, 1)]

    def _logits_of(self, pairs: Pairs) -> Tensor:
        """Return the logits that `Plainness` compares."""
        (rows, actions), base = zip(*pairs, strict=True), base_of(self.model)
        tree = branch(actions, self._start).to(base.device)
        return self._read(rows, tree, t5_forward.serves(base))[1][[[0], [1]], tree.prefixes]

    def _rule(self, logits: Tensor) -> Tensor:
        """Scores [P, A] from the logits at each distinct prefix [P, U, V]."""
        picked = logits[:, self.branches.prefixes, self.branches.targets]
        if self.rule == "logit_sum":
            return torch.where(self.branches.real, picked, 1.0).sum(-1)  # one for each missing token
        picked = picked - logits.logsumexp(-1)[:, self.branches.prefixes]
        log_probs = torch.where(self.branches.real, picked, 0.0).sum(-1)
        if self.rule == "logprob":
            return log_probs
        best = log_probs.max(-1, keepdim=True).values
        return torch.where(best < _SMALLEST_LOG, 0.0, (log_probs - best).exp())

    def backward(self, prompts: Sequence[str], loss: Loss) -> Tensor:
        """Add the gradient of a loss that is a sum over prompts; only one batch of activations lives at a time.

        loss(index, scores, values): the part of the loss that prompts `index` [p] make, given their scores [p, A] and
        values [p]; for a mean over P prompts it divides by P, not by p. Returns the whole loss, without gradient.
        The gradient is the same for every `token_budget`, up to rounding.
        """
        rows = self._rows(prompts)
        total = torch.zeros((), device=self.branches.tokens.device)
        for part in self._batches(rows, t5_forward.serves(base_of(self.model))):
            index = torch.tensor(part)
            scores, values = self([prompts[row] for row in part])
            share = loss(send(index, scores.device), scores, values)
            share.backward()
            total += share.detach()
        return total


def keep_trained_once(module: nn.Module, state: dict[str, Tensor], prefix: str, _: Any) -> None:
    """Leave in a state what is trained, tied weights once: what a checkpoint of adapters and heads needs.

    What a frozen weight stores besides itself goes too: scales of 4 bits (`weight.absmax`, `weight.quant_map`, ...).
    """
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    left_out = {prefix + name for name, _ in module.named_parameters(remove_duplicate=False) if name not in trained}
    owners = {name: name.partition(".weight.")[0] + ".weight" for name in state}  # of scales
    for name, owner in owners.items():
        if name in left_out or owner in left_out:
            del state[name]


def fill_untrained(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Undo `keep_trained_once` before loading: tied copies from their original, frozen weights from the module."""
    originals: dict[nn.Parameter, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        original = state.get(prefix + originals.setdefault(parameter, name))
        if original is not None or not parameter.requires_grad:
            state.setdefault(prefix + name, parameter.detach() if original is None else original)
