"""The tokenizer of our own language models: words, pieces of unknown words, single digits, newlines.

Text is lower-cased and split into words, so a word is one token wherever it stands ("turn" after a space or at the
start), and an invented word falls into pieces, longest first (WordPiece). `train` counts words and pieces in a stream
of texts; equal counts are ordered by the alphabet, so the same texts give the same ids (the trainers of the
`tokenizers` library break ties at random). `load` reads a stored one.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from groundlab.language.chat_format import FORMATS, ROLE_TOKENS

PAD, END, UNKNOWN, BLANK = "<pad>", "</s>", "<unk>", "<blank>"
SPECIAL = [PAD, END, UNKNOWN, BLANK]  # ids 0, 1, 2, 3: T5's padding and end
CHARACTERS = "abcdefghijklmnopqrstuvwxyzàâçèéêëîïôùûü0123456789\n.,:;!?'\"()-/_*+=<>"
LEAST = 30  # how often a word must have been read to be a token of its own

_MARKS = re.compile("|".join((BLANK, END, *ROLE_TOKENS)))
_WORD = r"\n|\d|[^\W\d_]+|[^\w\s]|_"


def train(texts: Iterable[str], pieces: int, dialogue: bool = False) -> PreTrainedTokenizerFast:
    """A tokenizer of at most `pieces` pieces, special ones included, learnt from `texts`.

    dialogue: the roles of conversations are special tokens too, and decoded text is spaced as agents' parsers expect.
    """
    roles = ROLE_TOKENS if dialogue else ()
    tokenizer = Tokenizer(WordPiece(_vocabulary(texts, pieces, roles), unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"[^\S\n]+"), "removed"), pre_tokenizers.Split(Regex(_WORD), "isolated")]
    )
    tokenizer.decoder = _spaced() if dialogue else WordPieceDecoder()
    words = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        extra_special_tokens=[BLANK, *roles],
    )
    if dialogue:
        words.chat_template = FORMATS["groundlab"].template
    return words


def _spaced() -> decoders.Decoder:
    """Words are set apart by spaces, but for marks and new lines: "final answer: turn left"."""
    marks = [decoders.Replace(f" {mark}", mark) for mark in ".,:;!?\n"]
    return decoders.Sequence([WordPieceDecoder(cleanup=False), decoders.Fuse(), *marks, decoders.Replace("\n ", "\n")])


def _vocabulary(texts: Iterable[str], pieces: int, roles: Iterable[str]) -> dict[str, int]:
    """Piece -> id: special tokens, characters, words read often, then the commonest pieces of two and three letters."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(re.findall(_WORD, unicodedata.normalize("NFC", _MARKS.sub(" ", text)).lower()))
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for size in (2, 3):
            for start in range(len(word) - size + 1):
                parts["##" * (start > 0) + word[start : start + size]] += count
    often = [word for word in _by_count(words) if words[word] >= LEAST]
    known = [*SPECIAL, *roles, *CHARACTERS, *(f"##{character}" for character in CHARACTERS if character.isalpha())]
    ordered = dict.fromkeys([*known, *often, *_by_count(parts)])
    return {piece: index for index, piece in enumerate(list(ordered)[:pieces])}


def _by_count(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda piece: (-counts[piece], piece))


def load(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer stored in a model's folder."""
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
