"""DRRN's own tokenizer: 8,000 pieces of a unigram language model (Kudo 2018), learned from texts of the worlds.

    tokenizer = load()                     # the shipped one; tools/drrn_tokenizer.py made it

The original's tokenizer is not available. Like SentencePiece's it knows no case folding, marks the start of a word by
"▁", and takes every run of white space for one blank. Words are cut at digits and marks.
"""

import json
from functools import cache

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from groundlab.assets import read_text

SIZE = 8_000
SPECIAL = ("<unk>", "<s>", "</s>")  # ids 0, 1, 2, as in the original's; no padding, no beginning, no end
FILE = "tokenizers/drrn.json"
START = "▁"
WORD = rf"{START}?\d|{START}?[^\W\d_]+|{START}?[^\w\s{START}]|{START}?_"

Pieces = list[tuple[str, float]]  # piece, natural logarithm of its probability


@cache
def load() -> Tokenizer:
    """The shipped tokenizer."""
    return build([(piece, score) for piece, score in json.loads(read_text(FILE))])


def build(pieces: Pieces) -> Tokenizer:
    """A tokenizer of these pieces, in the order of their ids."""
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
    metaspace = pre_tokenizers.Metaspace(replacement=START, prepend_scheme="always", split=True)
    split = pre_tokenizers.Split(Regex(WORD), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([metaspace, split])
    return tokenizer
