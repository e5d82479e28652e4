"""Speed of scoring actions with a language model compared with the naive way, which reads each prompt once per action.

Prompts are as long as GLAM's (about 130 tokens); the model is a T5 of 60.5 million random weights.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, T5Config, T5ForConditionalGeneration
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from groundlab.bench.measurement import Measurement, compared
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.scoring import ActionScorer
from groundlab.learning.checkpoints import seeded_construction

_PROMPTS, _CHUNK = 8, 192  # prompts that are scored, and pairs that the naive way reads at once
_WORDS = [f"word{number}" for number in range(100)]


def random_prompt(rng: np.random.Generator) -> str:
    """Return random words, as many as GLAM's prompts have tokens: 97 to 154, 130 on average."""
    return " ".join(rng.choice(_WORDS, round(rng.triangular(97, 139, 154))))


def tokenizer_of(texts: list[str]) -> PreTrainedTokenizerFast:
    """Make a tokenizer with one token per word."""
    words = ["<pad>", "</s>", "<unk>", *dict.fromkeys(word for text in texts for word in text.split())]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


@torch.no_grad()
def plain_scores(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompts: Sequence[str], actions: Sequence[str]
) -> Tensor:
    """Compute the log-likelihoods [P, A] of a T5 the naive way: every pair of prompt and action is read on its own."""
    rows = (tokenizer(list(texts), add_special_tokens=False)["input_ids"] for texts in (prompts, actions))
    pairs = list(product(*rows))
    scores = [_pair_scores(model, pairs[start : start + _CHUNK]) for start in range(0, len(pairs), _CHUNK)]
    return torch.cat(scores).view(len(prompts), len(actions))


def _pair_scores(model: PreTrainedModel, pairs: list[tuple[list[int], list[int]]]) -> Tensor:
    prompts, actions = ([torch.tensor(row) for row in rows] for rows in zip(*pairs, strict=True))
    ids = pad_sequence(prompts, batch_first=True, padding_value=-1).to(model.device)
    targets = pad_sequence(actions, batch_first=True, padding_value=-1).to(model.device)
    real, targets = targets >= 0, targets.clamp(min=0)
    read = torch.cat([torch.zeros_like(targets[:, :1]), targets[:, :-1]], 1)
    logits = model(input_ids=ids.clamp(min=0), attention_mask=(ids >= 0).long(), decoder_input_ids=read).logits
    return (logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0] * real).sum(-1)


def measure() -> list[Measurement]:
    """Measure prompts per CPU second with BabyAI's six actions, ours and the naive way, and their ratio."""
    config = T5Config(vocab_size=32_128, d_model=512, d_ff=2048, num_layers=6, num_heads=8, dropout_rate=0.0)
    with seeded_construction(0, "benchmark", "T5"):
        model = T5ForConditionalGeneration(config).eval()
    torch.set_num_threads(1)  # rates are per CPU second of one thread
    rng = np.random.default_rng(0)
    prompts = [random_prompt(rng) for _ in range(_PROMPTS)]
    tokenizer = tokenizer_of([*prompts, *ACTIONS])
    scorer = ActionScorer(model, tokenizer, ACTIONS)

    @torch.no_grad()
    def score() -> int:
        return len(scorer(prompts).scores)

    def naive() -> int:
        return len(plain_scores(model, tokenizer, prompts, ACTIONS))

    return compared("T5, 6 actions", score, "every pair from scratch", naive, "prompts")
