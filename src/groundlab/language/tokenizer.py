"""The tokenizer of our own language models: words, pieces of unknown words, single digits, newlines.

Text is lower-cased and split into words, so a word is one token wherever it stands ("turn" after a space or at the
start), and an invented word falls into pieces. `train` learns the pieces from a stream of texts; `load` reads a stored
one. Read next: `corpus/__init__.py`, the texts; `methods/pretraining.py`, who trains both.
"""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.trainers import WordPieceTrainer
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

PAD, END, UNKNOWN, BLANK = "<pad>", "</s>", "<unk>", "<blank>"
SPECIAL = [PAD, END, UNKNOWN, BLANK]  # ids 0, 1, 2, 3: T5's padding and end


def train(texts: Iterable[str], pieces: int) -> PreTrainedTokenizerFast:
    """A tokenizer of at most `pieces` pieces, special ones included, learnt from `texts`."""
    tokenizer = Tokenizer(WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    words = Regex(r"<blank>|\n|\d|[^\W\d_]+|[^\w\s]|_")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"[^\S\n]+"), "removed"), pre_tokenizers.Split(words, "isolated")]
    )
    tokenizer.decoder = WordPieceDecoder()
    alphabet = [*"abcdefghijklmnopqrstuvwxyzàâçèéêëîïôùûü0123456789", "\n", *".,:;!?'\"()-/_*+="]
    trainer = WordPieceTrainer(
        vocab_size=pieces, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, unk_token=UNKNOWN, extra_special_tokens=[BLANK]
    )


def load(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer stored in a model's folder."""
    return AutoTokenizer.from_pretrained(folder)
