"""How fast actions are scored, and how that grows with their number.

32 GLAM-shaped prompts of about 132 tokens, 6 actions. Two models with random weights, T5 (60.5 million parameters) and
Llama (58.1 million), are each timed scoring and training (scores, values and their gradients) with `ActionScorer`,
against a loop in the same run that reads every prompt-action pair from scratch, 192 pairs at a time.

Then 2 to 42 actions, prompts of the same kind: the loop reads a prompt once an action, `ActionScorer` once. `draw`
shows both as curves. CPU seconds of one thread.
"""

import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedModel, T5Config, T5ForConditionalGeneration
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from groundlab.bench.generation import llama
from groundlab.bench.measurement import Measurement, cpu_seconds
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.scoring import ActionScorer
from groundlab.learning.checkpoints import seeded_construction
from groundlab.report import style

_PROMPTS, _CHUNK, _REPEATS = 32, 192, 3
_COUNTS = (2, 6, 12, 21, 42)  # of actions
_FEW_PROMPTS = 8  # the loop reads each of them once an action
_SHARED, _LOOP = "shared prefixes", "every pair from scratch"
_COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
_OBJECTS = ("ball", "box", "key", "door", "wall")
_SIDES = ("left", "right", "forward")


def random_prompt(rng: np.random.Generator) -> str:
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


def _actions(count: int) -> list[str]:
    """The six of BabyAI, then further ones of four words."""
    more = [f"go to {colour} {thing}" for colour, thing in product(_COLOURS, _OBJECTS)]
    more += [f"pick up {colour} {thing}" for colour, thing in product(_COLOURS, _OBJECTS)]
    return [*ACTIONS, *more][:count]


def tokenizer_of(texts: list[str]) -> PreTrainedTokenizerFast:
    """A word each; the vocabulary is filled up to the size that the models project to."""
    words = ["<pad>", "</s>", "<unk>", *dict.fromkeys(word for text in texts for word in text.split())]
    words += [f"<{number}>" for number in range(32_000 - len(words))]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def _t5(name: str) -> PreTrainedModel:
    config = T5Config(vocab_size=32_128, d_model=512, d_ff=2048, num_layers=6, num_heads=8, dropout_rate=0.0)
    with seeded_construction(0, "benchmark", name):
        return T5ForConditionalGeneration(config)


def _padded(rows: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids.to(device), (torch.arange(ids.shape[1]) < lengths[:, None]).long().to(device)


def _summed(logits: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    return (logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0] * real).sum(-1)


def _pairs_t5(model: PreTrainedModel, pairs: list[tuple[list[int], list[int]]]) -> Tensor:
    ids, mask = _padded([prompt for prompt, _ in pairs], model.device)
    targets, real = _padded([action for _, action in pairs], model.device)
    inputs = torch.cat([torch.zeros_like(targets[:, :1]), targets[:, :-1]], 1)
    return _summed(model(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs).logits, targets, real)


def _pairs_causal(model: PreTrainedModel, pairs: list[tuple[list[int], list[int]]]) -> Tensor:
    ids, mask = _padded([prompt + action for prompt, action in pairs], model.device)
    targets, real = _padded([action for _, action in pairs], model.device)
    logits = model(input_ids=ids, attention_mask=mask).logits
    first = torch.tensor([len(prompt) - 1 for prompt, _ in pairs], device=model.device)
    place = (first[:, None] + torch.arange(targets.shape[1], device=model.device)).clamp(max=ids.shape[1] - 1)
    return _summed(logits[torch.arange(len(pairs))[:, None], place], targets, real)


Rows = list[list[int]]


@torch.no_grad()
def plain_scores(model: PreTrainedModel, prompts: Rows, actions: Rows) -> Tensor:
    """Scores [P, A] by the plain loop: each pair is read on its own, nothing is shared."""
    pairs = [(prompt, action) for prompt in prompts for action in actions]
    read = _pairs_t5 if model.config.is_encoder_decoder else _pairs_causal
    scores = [read(model, pairs[start : start + _CHUNK]) for start in range(0, len(pairs), _CHUNK)]
    return torch.cat(scores).view(len(prompts), len(actions))


def _seconds(work: Callable[[], object]) -> float:
    """CPU seconds, the median of some repeats."""
    return median(cpu_seconds(work) for _ in range(_REPEATS))


def tokens_of(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> Rows:
    return tokenizer(list(texts), add_special_tokens=False)["input_ids"]  # type: ignore[return-value]


def _six_actions(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompts: list[str]
) -> list[Measurement]:
    scorer = ActionScorer(model, tokenizer, ACTIONS)
    rows, actions = tokens_of(tokenizer, prompts), tokens_of(tokenizer, ACTIONS)

    @torch.no_grad()
    def score() -> Tensor:
        return scorer(prompts).scores

    def train() -> None:
        scorer.zero_grad()
        scorer.backward(prompts, lambda index, scores, values: scores.log_softmax(-1)[:, 0].sum() + values.sum())

    score()
    train()
    scoring, training = (len(prompts) / _seconds(work) for work in (score, train))
    loop = len(prompts) / cpu_seconds(lambda: plain_scores(model, rows, actions))
    difference = (score() - plain_scores(model, rows, actions)).abs().max().item()
    return [
        Measurement(f"{name}, scoring", scoring, "prompts/CPU-s"),
        Measurement(f"{name}, training (scores, values, gradients)", training, "prompts/CPU-s"),
        Measurement(f"{name}, every pair from scratch, same run", loop, "prompts/CPU-s"),
        Measurement(f"{name}, scoring / from scratch", scoring / loop, "x"),
        Measurement(f"{name}, largest difference of the two scores", difference, "nats"),
    ]


def scaling(
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: list[str],
    counts: Sequence[int] = _COUNTS,
) -> list[Measurement]:
    """CPU milliseconds a prompt by the number of actions, with shared prefixes and by the plain loop, and the ratio."""
    rows, figures = tokens_of(tokenizer, prompts), []
    for count in counts:
        actions = _actions(count)
        scorer, listed = ActionScorer(model, tokenizer, actions), tokens_of(tokenizer, actions)

        @torch.no_grad()
        def score(scorer: ActionScorer = scorer) -> Tensor:
            return scorer(prompts).scores

        score()
        shared = 1000 * _seconds(score) / len(prompts)
        loop = 1000 * cpu_seconds(lambda listed=listed: plain_scores(model, rows, listed)) / len(prompts)
        figures += [
            Measurement(f"{name}, {count} actions, {_SHARED}", shared, "CPU-ms/prompt"),
            Measurement(f"{name}, {count} actions, {_LOOP}", loop, "CPU-ms/prompt"),
            Measurement(f"{name}, {count} actions, ratio", loop / shared, "x"),
        ]
    return figures


def draw(measured: list[Measurement], folder: Path) -> list[Path]:
    """Time against the number of actions, a panel a model, from the measurements that `scaling` makes; the files."""
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for each in measured:
        if parts := re.fullmatch(rf"(.+), (\d+) actions, ({_SHARED}|{_LOOP})", each.name):
            model, count, way = parts.groups()
            curves.setdefault(model, {}).setdefault(way, []).append((int(count), each.value))
    with style.house_style():
        figure, axes = style.new_figure(7.2, 3.2, 1, len(curves), sharey=True)
        for axis, (model, ways) in zip(axes[0], curves.items(), strict=True):
            for (way, points), colour, marker in zip(ways.items(), style.PALETTE, "os", strict=False):
                axis.plot(*zip(*points, strict=True), color=colour, marker=marker, label=way)
            style.plain_log(axis, "x")
            style.plain_log(axis, "y")
            axis.set(title=model, xlabel="actions")
        axes[0, 0].set(ylabel="CPU time a prompt [ms]")
        axes[0, 0].legend()
    return style.save(figure, folder, "scoring-actions")


def bench_scoring() -> list[Measurement]:
    """Both models: six actions and the ratios to the two comparisons, then 2 to 42 actions."""
    rng = np.random.default_rng(0)
    prompts = [random_prompt(rng) for _ in range(_PROMPTS)]
    tokenizer = tokenizer_of([*prompts, *_actions(max(_COUNTS))])
    figures = [
        Measurement("tokens of a prompt, mean of 32", float(np.mean([len(p.split()) for p in prompts])), "tokens")
    ]
    for name, build in (("T5", _t5), ("Llama", llama)):
        model = build(name)
        figures += _six_actions(name, model, tokenizer, prompts)
        figures += scaling(name, model, tokenizer, prompts[:_FEW_PROMPTS])
    return figures
