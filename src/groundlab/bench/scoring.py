"""How fast actions are scored: 32 GLAM-shaped prompts of about 132 tokens, 6 actions, one thread, CPU seconds.

Two models with random weights, T5 (60.5 million parameters) and Llama (58.1 million). Each is timed scoring and
training (scores, values and their gradients) with `ActionScorer`, against a loop in the same run that reads every
prompt-action pair from scratch, 192 pairs at a time, and against what was recorded for Lamorel's own code on the same
shapes. CPU seconds of one thread, because a benchmark rarely has a machine for itself; busy neighbours still cost some.
"""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, T5Config, T5ForConditionalGeneration
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from groundlab.bench.measurement import Measurement
from groundlab.language.scoring import ActionScorer
from groundlab.learning.checkpoints import seeded_construction

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
LAMOREL = {"T5": (4.74, 1.72), "Llama": (3.57, 1.04)}  # prompts per CPU second, scoring and training
_PROMPTS, _CHUNK, _REPEATS = 32, 192, 3
_VOCABULARY = 32_128
_COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
_OBJECTS = ("ball", "box", "key", "door", "wall")
_SIDES = ("left", "right", "forward")


def _prompt(rng: np.random.Generator) -> str:
    """A mission, three observations and two actions; 97 to 154 words and marks, 132 on average."""
    length = rng.triangular(95, 139, 157)
    text = f"Possible action of the agent : {' , '.join(ACTIONS)} \n Goal of the agent : go to the {_thing(rng)} \n"
    for step in range(3):
        text += f" Observation {step} :"
        while len(text.split()) < 36 + (length - 36) * (step + 1) / 3 - 9:
            side = f" {rng.integers(1, 7)} steps {rng.choice(_SIDES)}"
            text += f" You see a {_thing(rng)}{side if rng.random() < 0.8 else ''} ,"
        text += f" Action {step} : " + (str(rng.choice(ACTIONS)) + " \n" if step < 2 else "")
    return text


def _thing(rng: np.random.Generator) -> str:
    return f"{rng.choice(_COLOURS)} {rng.choice(_OBJECTS)}"


def _tokenizer(prompts: list[str]) -> PreTrainedTokenizerFast:
    """A word each; the vocabulary is filled up to the size that the models project to."""
    words = ["<pad>", "</s>", "<unk>", *dict.fromkeys(word for prompt in prompts for word in prompt.split())]
    words += [f"<{number}>" for number in range(32_000 - len(words))]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def _t5() -> PreTrainedModel:
    config = T5Config(vocab_size=_VOCABULARY, d_model=512, d_ff=2048, num_layers=6, num_heads=8, dropout_rate=0.0)
    return T5ForConditionalGeneration(config)


def _llama() -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=32_000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8
    )
    return LlamaForCausalLM(config)


def _from_scratch(model: PreTrainedModel, prompts: list[list[int]], actions: list[list[int]]) -> Tensor:
    """Scores [P, A] by the plain loop: each pair is read on its own, nothing is shared."""
    pairs = [(prompt, action) for prompt in prompts for action in actions]
    read = _pairs_t5 if model.config.is_encoder_decoder else _pairs_causal
    scores = [read(model, pairs[start : start + _CHUNK]) for start in range(0, len(pairs), _CHUNK)]
    return torch.cat(scores).view(len(prompts), len(actions))


def _padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def _summed(logits: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    return (logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0] * real).sum(-1)


def _pairs_t5(model: PreTrainedModel, pairs: list[tuple[list[int], list[int]]]) -> Tensor:
    ids, mask = _padded([prompt for prompt, _ in pairs])
    targets, real = _padded([action for _, action in pairs])
    inputs = torch.cat([torch.zeros(len(pairs), 1, dtype=torch.long), targets[:, :-1]], 1)
    return _summed(model(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs).logits, targets, real)


def _pairs_causal(model: PreTrainedModel, pairs: list[tuple[list[int], list[int]]]) -> Tensor:
    ids, mask = _padded([prompt + action for prompt, action in pairs])
    targets, real = _padded([action for _, action in pairs])
    logits = model(input_ids=ids, attention_mask=mask).logits
    first = torch.tensor([len(prompt) - 1 for prompt, _ in pairs])
    place = (first[:, None] + torch.arange(targets.shape[1])).clamp(max=ids.shape[1] - 1)
    return _summed(logits[torch.arange(len(pairs))[:, None], place], targets, real)


def _rate(work: Callable[[], object], repeats: int) -> float:
    """Prompts a CPU second, the median of some repeats."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return _PROMPTS / median(seconds)


def _figures(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompts: list[str]
) -> list[Measurement]:
    scorer = ActionScorer(model, tokenizer, ACTIONS)
    rows: list[list[int]] = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    actions: list[list[int]] = tokenizer(list(ACTIONS), add_special_tokens=False)["input_ids"]

    @torch.no_grad()
    def score() -> Tensor:
        return scorer(prompts).scores

    def train() -> None:
        scorer.zero_grad()
        scorer.backward(prompts, lambda index, scores, values: scores.log_softmax(-1)[:, 0].sum() + values.sum())

    @torch.no_grad()
    def plain() -> Tensor:
        return _from_scratch(model, rows, actions)

    score()
    train()
    scoring, training, loop = _rate(score, _REPEATS), _rate(train, _REPEATS), _rate(plain, 1)
    return [
        Measurement(f"{name}, scoring", scoring, "prompts/CPU-s"),
        Measurement(f"{name}, training (scores, values, gradients)", training, "prompts/CPU-s"),
        Measurement(f"{name}, every pair from scratch, same run", loop, "prompts/CPU-s"),
        Measurement(f"{name}, scoring / from scratch", scoring / loop, "x"),
        Measurement(f"{name}, scoring / Lamorel as recorded", scoring / LAMOREL[name][0], "x"),
        Measurement(f"{name}, training / Lamorel as recorded", training / LAMOREL[name][1], "x"),
        Measurement(f"{name}, largest difference of the two scores", (score() - plain()).abs().max().item(), "nats"),
    ]


def bench_scoring() -> list[Measurement]:
    """Prompts a CPU second of one thread for both models, and the ratios to the two comparisons."""
    rng = np.random.default_rng(0)
    prompts = [_prompt(rng) for _ in range(_PROMPTS)]
    tokenizer = _tokenizer(prompts)
    figures = [
        Measurement("tokens of a prompt, mean of 32", float(np.mean([len(p.split()) for p in prompts])), "tokens")
    ]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for name, build in (("T5", _t5), ("Llama", _llama)):
        with seeded_construction(0, "benchmark", name):
            model = build()
        figures += _figures(name, model, tokenizer, prompts)
    torch.set_num_threads(threads)
    return figures
