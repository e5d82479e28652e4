"""How fast a language model draws replies and learns from them.

Replies of 20 tokens are drawn for 6 and 64 environments by a Llama of 58 million random weights.
The contexts are those of a real collection in `Reasoning-GoTo-v0` (three distractors, the paper's prompt and window of
5): every step adds an observation and the model's own reply. `ReplyGenerator` answers them step after step; then
`transformers.generate` answers the very same contexts as the original called it: every context is written, tokenised
and read again, in chunks of 4. Random weights end no reply before the budget, so both draw the same number of tokens.
There are two phases: while the window fills (the first five steps of every episode, where all that was read
stays), and once it is full (each step drops the oldest turn, and only the system message stays).
An update reads the replies with the policy and with a reference, then takes one epoch of gradient steps: ours against
the plain way, in which padded rows are read whole and the vocabulary head runs everywhere. Both do the same sums.
CPU seconds of one thread, because a benchmark rarely has a machine for itself; busy neighbours still cost some.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from groundlab import worlds
from groundlab.assets import read_text
from groundlab.bench.measurement import Measurement
from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.language import corpus, tokenizer
from groundlab.language.chat import Messages
from groundlab.language.chat_format import DialogueWriter
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.decoding import Decoding
from groundlab.language.generation import ReplyGenerator
from groundlab.language.token_policy import Reading, TokenPolicy
from groundlab.learning import token_ppo
from groundlab.learning.checkpoints import seeded_construction
from groundlab.papers.reasoning.settings import TrainingSettings
from groundlab.worlds import text

# the original's: docs/papers/reasoning-method.md#s1-5 and #s3-7, docs/papers/reasoning-reference.md#s0-4
WINDOW, BUDGET, CHUNK = 5, 20, 4
_STEPS = {6: 15, 64: 8}  # environment steps, by number of environments
_LEARNT, _PLAIN_CHUNK = 7, 8  # steps that are learnt from, and replies that the plain way reads at once
_CHUNKS_TIMED = 2  # of the original's chunks a step; they cost the same each


class Timed(NamedTuple):
    """Contexts answered, and the seconds that it took, of one step."""

    contexts: int
    seconds: float


class _Collection:
    """Conversations of `count` environments that act at random; replies stay in the contexts as they were drawn."""

    def __init__(self, count: int):
        self._env = worlds.make("Reasoning-GoTo-v0", count, seed=0, num_dists=3)
        self._rng = np.random.default_rng(0)
        self._told: list[Messages] = [[] for _ in range(count)]
        self._observe(self._env.reset()[0], np.ones(count, dtype=bool))

    def _observe(self, seen: Any, fresh: np.ndarray) -> None:
        """Add what is seen; a new episode begins a new conversation."""
        for index, sentences in enumerate(text.describe_batch(seen["image"])):
            if fresh[index]:
                system = read_text("prompts/reasoning/direct.txt").format(goal=seen["mission"][index])
                self._told[index] = [{"role": "system", "content": system}]
            self._told[index].append({"role": "user", "content": "\n".join(sentences)})

    def contexts(self) -> list[Messages]:
        """The system message and the last `WINDOW` observations, with the replies between them."""
        return [told if len(told) <= 2 * WINDOW else [told[0], *told[1 - 2 * WINDOW :]] for told in self._told]

    def step(self, replies: list[str]) -> None:
        """Add the replies, act at random, look again."""
        for told, reply in zip(self._told, replies, strict=True):
            told.append({"role": "assistant", "content": reply})
        seen, _, terminated, truncated, _ = self._env.step(self._rng.integers(0, len(ACTIONS), len(self._told)))
        over = terminated | truncated
        if over.any():
            seen = self._env.step(np.zeros(len(over), dtype=np.int64))[0]  # the worlds restart at the next step
        self._observe(seen, over)


def llama(name: str = "reasoning") -> PreTrainedModel:
    """58 million random weights, 33 of them in the embeddings; `name` is that of their random stream."""
    config = LlamaConfig(
        vocab_size=32_000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8
    )
    with seeded_construction(0, "benchmark", name):
        return LlamaForCausalLM(config).eval()


def words() -> Any:
    """A tokenizer with the marks of conversations, a word a token."""
    rng = generator(0, "benchmark")
    told = [" ".join(corpus.sample(rng, ["thoughts"])[:2]) for _ in range(2000)]
    return tokenizer.train([*told, *[read_text("prompts/reasoning/direct.txt")] * tokenizer.LEAST], 1500, dialogue=True)


def _as_the_original(model: Any, written: Any, contexts: list[Messages]) -> None:
    """Write, tokenise and read every context again, in chunks of 4 (docs/papers/reasoning-method.md#s3-7 and #s3-9)."""
    for start in range(0, len(contexts), CHUNK):
        batch = written.apply_chat_template(
            contexts[start : start + CHUNK],
            add_generation_prompt=True,
            padding=True,
            return_tensors="pt",
            return_dict=True,
        )
        made = model.generate(
            input_ids=batch["input_ids"].to(model.device),
            attention_mask=batch["attention_mask"].to(model.device),
            max_new_tokens=BUDGET,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            eos_token_id=None,
            pad_token_id=written.pad_token_id,
        )
        assert made.shape[1] == batch["input_ids"].shape[1] + BUDGET


def measure(
    count: int, model: Any, written: Any, clock: Callable[[], float] = time.process_time
) -> tuple[list[Timed], list[Timed], list[int]]:
    """Ours, the original's way, and the mean length of the contexts, one entry a step."""
    collection, writer = _Collection(count), DialogueWriter(written)
    replies = ReplyGenerator(model, [], Decoding(max_new_tokens=BUDGET))
    numbers = torch.Generator().manual_seed(0)
    ours, theirs, lengths = [], [], []
    for _ in range(_STEPS[count]):
        contexts = collection.contexts()
        start = clock()
        prompts = [writer.prompt(context) for context in contexts]
        drawn = replies(prompts, numbers)
        said = [writer.text(tokens) for tokens in drawn.tokens]
        ours.append(Timed(count, clock() - start))
        some, start = contexts[: CHUNK * _CHUNKS_TIMED], clock()
        _as_the_original(model, written, some)
        theirs.append(Timed(len(some), clock() - start))
        lengths.append(round(sum(map(len, prompts)) / count))
        collection.step(said)
    return ours, theirs, lengths


def throughput(steps: list[Timed]) -> float:
    """Tokens a second."""
    return BUDGET * sum(step.contexts for step in steps) / sum(step.seconds for step in steps)


Rows = list[list[int]]


class _DefaultLinear(nn.Linear):
    """A layer of another class is one that `language/cpu_inference.py` leaves to PyTorch's own products."""


class PlainPolicy(TokenPolicy):
    """The same model read the plain way: padded on the left, whole rows, all logits, PyTorch's own products."""

    def __init__(self, model: Any):
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = _DefaultLinear
        super().__init__(model)

    def _read_part(self, model: Any, head: Any, prompts: Any, responses: Any, part: list[int]) -> Reading:
        rows = [[*prompts[row], *responses[row]] for row in part]
        longest = max(map(len, rows))
        ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
        lengths, replied = (torch.tensor([len(row) for row in which]) for which in (rows, [responses[r] for r in part]))
        columns = torch.arange(longest)
        mask, answered = (columns >= (longest - count)[:, None] for count in (lengths, replied))
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        made = model(ids, mask.long(), positions, output_hidden_states=True, use_cache=False)
        log_all = made.logits[:, :-1].log_softmax(-1)
        states, own = made.hidden_states[-1], answered[:, 1:]
        log_probs = log_all.gather(2, ids[:, 1:, None])[..., 0][own]
        entropies = -(log_all.exp() * log_all).sum(-1)[own]
        values = head(states) if head else torch.zeros(ids.shape)
        return Reading(log_probs, values[:, :-1][own], entropies, values[:, -1])

    def _parts(self, prompts: Any, responses: Any) -> list[list[int]]:
        count = len(prompts)
        return [list(range(start, min(start + _PLAIN_CHUNK, count))) for start in range(0, count, _PLAIN_CHUNK)]


_GIVEN = {"lr": 1.41e-5, "epochs": 1, "minibatch_size": 8, "max_grad_norm": None, "ratio_threshold": None}
_SETTINGS = TrainingSettings.model_validate(_GIVEN)
"""Of the update that is timed: as published, but for one epoch and small steps."""


def update(policy: TokenPolicy, prompts: Rows, responses: Rows) -> dict[str, float]:
    """Policy and reference read, the KL and a reward for long replies as advantage, one epoch of Adam's steps."""
    trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=_SETTINGS.lr, fused=True)
    read, reference = policy.read(prompts, responses), policy.reference(prompts, responses)
    advantages = token_ppo.whitened(read.values - 0.2 * (read.log_probs - reference))
    lengths = torch.tensor([len(response) for response in responses])
    batch = token_ppo.Batch(lengths, read.log_probs, reference, read.values, advantages, read.values + advantages)

    def backward(index: Tensor, loss: token_ppo.Loss) -> None:
        chosen = index.tolist()
        policy.backward([prompts[row] for row in chosen], [responses[row] for row in chosen], loss)

    return token_ppo.update(backward, optimizer, batch, _SETTINGS, np.random.default_rng(0))


def _replies(model: Any, written: Any) -> tuple[Rows, Rows]:
    """What `_LEARNT` steps of 6 environments asked and were answered."""
    collection, writer = _Collection(6), DialogueWriter(written)
    draw = ReplyGenerator(model, [], Decoding(max_new_tokens=BUDGET))
    numbers, prompts, responses = torch.Generator().manual_seed(0), [], []
    for _ in range(_LEARNT):
        asked = [writer.prompt(context) for context in collection.contexts()]
        said = draw(asked, numbers).tokens
        prompts, responses = prompts + asked, responses + said
        collection.step([writer.text(tokens) for tokens in said])
    return prompts, responses


def bench_update() -> list[Measurement]:
    """Tokens of contexts and replies that an update learns from, a CPU second, ours and the plain way."""
    prompts, responses = _replies(llama(), words())
    tokens, rates, losses = sum(map(len, [*prompts, *responses])), [], []
    for kind in (TokenPolicy, PlainPolicy):
        policy = kind(llama())
        start = time.process_time()
        losses.append(update(policy, prompts, responses)["loss"])
        rates.append(tokens / (time.process_time() - start))
    if abs(losses[0] - losses[1]) > 1e-3:
        raise GroundlabError(f"the two updates differ: {losses}; groundlab.language.token_policy is wrong")
    name = f"update from {len(prompts)} replies"
    return [
        Measurement(f"{name}, tokens of contexts and replies", float(tokens), "tokens"),
        Measurement(name, rates[0], "tokens/CPU-s"),
        Measurement(f"{name}, the plain way, same run", rates[1], "tokens/CPU-s"),
        Measurement(f"{name}, ratio", rates[0] / rates[1], "x"),
    ]


def bench_generation() -> list[Measurement]:
    """Tokens a CPU second, ours and the original's way, by environments and phase; then of updates."""
    model, written = llama(), words()
    written.padding_side = "left"
    figures = []
    for count in _STEPS:
        ours, theirs, lengths = measure(count, model, written)
        for phase, steps in (("window filling", slice(0, WINDOW)), ("window full", slice(WINDOW, None))):
            name = f"{count} environments, {phase}"
            fast, slow = throughput(ours[steps]), throughput(theirs[steps])
            figures += [
                Measurement(f"{name}, tokens of a context", float(np.mean(lengths[steps])), "tokens"),
                Measurement(f"{name}, generation", fast, "tokens/CPU-s"),
                Measurement(f"{name}, transformers.generate the original's way, same run", slow, "tokens/CPU-s"),
                Measurement(f"{name}, ratio", fast / slow, "x"),
            ]
    return figures + bench_update()
