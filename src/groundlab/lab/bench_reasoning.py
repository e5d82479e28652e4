"""How fast replies are drawn: 6 and 64 environments, a Llama of 58 million random weights, 20 tokens a reply.

The contexts are those of a real collection in `Reasoning-GoTo-v0` (three distractors, the paper's prompt and window of
5): every step adds an observation and the model's own reply. `ReplyGenerator` answers them step after step; then
`transformers.generate` answers the very same contexts as the original called it: every context is written, tokenised
and read again, in chunks of 4. Random weights end no reply before the budget, so both draw the same number of tokens.
Two phases are told apart: while the window fills (the first five steps of every episode, where all that was read
stays), and once it is full (each step drops the oldest turn, and only the system message stays).
CPU seconds of one thread. Called from: `bench.py` (`groundlab bench training --only reasoning`).
"""

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from groundlab import worlds
from groundlab.assets import read_text
from groundlab.core.seeding import generator
from groundlab.lab.bench import Figure
from groundlab.language import corpus, tokenizer
from groundlab.language.chat import Messages
from groundlab.language.corpus.words import ACTIONS
from groundlab.language.dialogue import DialogueWriter
from groundlab.language.generation import Decoding, ReplyGenerator
from groundlab.language.heads import seeded_weights
from groundlab.worlds import text

WINDOW, BUDGET, CHUNK = 5, 20, 4  # the original's: spec reasoning-agents 1.5, 0.4 and 3.7
_STEPS = {6: 15, 64: 8}  # environment steps, by number of environments
_CHUNKS_TIMED = 2  # of the original's chunks a step; they cost the same each


class Timed(NamedTuple):
    """Contexts answered, and the CPU seconds that it took, of one step."""

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


def llama() -> PreTrainedModel:
    """58 million weights, 33 of them in the embeddings."""
    config = LlamaConfig(
        vocab_size=32_000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8
    )
    with seeded_weights(0, "benchmark", "reasoning"):
        return LlamaForCausalLM(config).eval()


def words() -> Any:
    """A tokenizer with the marks of conversations, a word a token."""
    rng = generator(0, "benchmark")
    told = [" ".join(corpus.sample(rng, ["thoughts"])[:2]) for _ in range(2000)]
    return tokenizer.train([*told, *[read_text("prompts/reasoning/direct.txt")] * tokenizer.LEAST], 1500, dialogue=True)


def _as_the_original(model: Any, written: Any, contexts: list[Messages]) -> None:
    """Write, tokenise and read every context again, in chunks of 4 (spec reasoning-agents 3.7 and 3.9)."""
    for start in range(0, len(contexts), CHUNK):
        batch = written.apply_chat_template(
            contexts[start : start + CHUNK],
            add_generation_prompt=True,
            padding=True,
            return_tensors="pt",
            return_dict=True,
        )
        made = model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            max_new_tokens=BUDGET,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            eos_token_id=None,
            pad_token_id=written.pad_token_id,
        )
        assert made.shape[1] == batch["input_ids"].shape[1] + BUDGET


def _measure(count: int, model: Any, written: Any) -> tuple[list[Timed], list[Timed], list[int]]:
    """Ours, the original's way, and the mean length of the contexts, one entry a step."""
    collection, writer = _Collection(count), DialogueWriter(written)
    replies = ReplyGenerator(model, [], Decoding(max_new_tokens=BUDGET))
    numbers = torch.Generator().manual_seed(0)
    ours, theirs, lengths = [], [], []
    for _ in range(_STEPS[count]):
        contexts = collection.contexts()
        start = time.process_time()
        prompts = [writer.prompt(context) for context in contexts]
        drawn = replies(prompts, numbers)
        said = [writer.text(tokens) for tokens in drawn.tokens]
        ours.append(Timed(count, time.process_time() - start))
        some = contexts[: CHUNK * _CHUNKS_TIMED]
        start = time.process_time()
        _as_the_original(model, written, some)
        theirs.append(Timed(len(some), time.process_time() - start))
        lengths.append(round(sum(map(len, prompts)) / count))
        collection.step(said)
    return ours, theirs, lengths


def _rate(steps: list[Timed]) -> float:
    """Tokens a CPU second."""
    return BUDGET * sum(step.contexts for step in steps) / sum(step.seconds for step in steps)


def bench_generation() -> list[Figure]:
    """Generated tokens a CPU second of one thread, ours and the original's way, by environments and phase."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, written = llama(), words()
    written.padding_side = "left"
    figures = []
    for count in _STEPS:
        ours, theirs, lengths = _measure(count, model, written)
        for phase, steps in (("window filling", slice(0, WINDOW)), ("window full", slice(WINDOW, None))):
            name = f"{count} environments, {phase}"
            fast, slow = _rate(ours[steps]), _rate(theirs[steps])
            figures += [
                Figure(f"{name}, tokens of a context", float(np.mean(lengths[steps])), "tokens"),
                Figure(f"{name}, generation", fast, "tokens/CPU-s"),
                Figure(f"{name}, transformers.generate the original's way, same run", slow, "tokens/CPU-s"),
                Figure(f"{name}, ratio", fast / slow, "x"),
            ]
    torch.set_num_threads(threads)
    return figures
