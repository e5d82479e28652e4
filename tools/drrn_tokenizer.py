"""Train DRRN's tokenizer: the likeliest pieces of the words of its worlds and of the corpus. Half a minute.

    python tools/drrn_tokenizer.py        # writes src/groundlab/assets/tokenizers/drrn.json, the same bytes each time

The trainers of the `tokenizers` library do not repeat themselves, and cut our few words to letters. This one counts all
pieces of all words, lets expectation maximisation share the words among them, and keeps the likeliest.
"""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from groundlab import assets, worlds
from groundlab.core import storage
from groundlab.core.seeding import generator
from groundlab.language import corpus
from groundlab.language.corpus import Breadth
from groundlab.language.tokenizer import CHARACTERS
from groundlab.papers.glam.unigram import FILE, SIZE, SPECIAL, START, WORD, Pieces
from groundlab.worlds.text import describe_batch
from groundlab.worlds.text_env.prompts import glam_prompt, text_actions

LONGEST = 16  # characters of a piece
_ROUNDS = 3
_FLOOR = 1e-3  # expected count of a piece that no word needs: it serves words that were never read
_WORLDS = ("BabyAI-GoToLocal-v0", "BabyAI-MixedTrainLocal-v0", "BabyAI-PickUpSeqPickUpLocal-v0", "BabyAI-GoToFrench-v0")


def texts(steps: int = 40, samples: int = 20_000) -> Iterator[str]:
    """Prompts of randomly played worlds, English and French, and sentences of the grid-world corpus."""
    for world in _WORLDS:
        yield from _prompts(world, steps)
    rng, breadth = generator(0, "drrn tokenizer corpus"), Breadth(rare=0.25, styles=0.25)
    for _ in range(samples):
        sample = corpus.sample(rng, breadth=breadth)
        yield f"{sample.input} {sample.target}"


def _prompts(world: str, steps: int) -> Iterator[str]:
    language = worlds.find(world).language
    envs, rng = worlds.GridVectorEnv(worlds.find(world), 32, 10_000), generator(0, "drrn tokenizer", world)
    actions = text_actions(6 if language == "french" else 9, language)
    observations, _ = envs.reset()
    for _ in range(steps):
        captions = describe_batch(observations["image"], language)
        for mission, sentences in zip(observations["mission"], captions, strict=True):
            yield glam_prompt(mission, actions, [sentences], [], language)
        observations, *_ = envs.step(rng.integers(0, 6, 32))


def train(lines: Iterable[str], size: int = SIZE) -> Pieces:
    """The likeliest `size` pieces of the words in `lines`, special ones first.

    Single characters always stay, also those of the alphabet that no line has.
    """
    words: Counter[str] = Counter()
    for line in lines:
        text = re.sub(r"\s+", START, unicodedata.normalize("NFKC", line.strip()))
        words.update(re.findall(WORD, START + text))
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for start, end in _spans(len(word)):
            counts[word[start:end]] += count * (end - start)  # long pieces first, as SentencePiece begins
    alphabet = dict.fromkeys([START, *CHARACTERS.replace("\n", "")], _FLOOR)
    expected = alphabet | {piece: float(count) for piece, count in counts.items()}
    for _ in range(_ROUNDS):
        expected = _share(words, _logarithms(expected))
    likeliest = sorted(expected, key=lambda piece: (len(piece) > 1, -expected[piece], -counts[piece], piece))
    scores = _logarithms({piece: expected[piece] for piece in likeliest[: size - len(SPECIAL)]})
    ordered = sorted(scores, key=lambda piece: (-round(scores[piece], 4), piece))
    return [*((piece, 0.0) for piece in SPECIAL), *((piece, round(scores[piece], 4)) for piece in ordered)]


def _spans(length: int) -> Iterator[tuple[int, int]]:
    """Start and end of all pieces of a word of some length."""
    return ((start, end) for start in range(length) for end in range(start + 1, min(length, start + LONGEST) + 1))


def _logarithms(counts: dict[str, float]) -> dict[str, float]:
    total = math.fsum(counts.values())
    return {piece: math.log(count / total) for piece, count in counts.items()}


def _share(words: Counter[str], scores: dict[str, float]) -> dict[str, float]:
    """How often each piece is expected to be used, over all ways to cut each word (one round of EM)."""
    expected = dict.fromkeys(scores, _FLOOR)
    for word, count in words.items():
        cuts = [(start, end, word[start:end]) for start, end in _spans(len(word))]
        before, after = _sums(len(word), cuts, scores)
        for start, end, piece in cuts:
            expected[piece] += count * math.exp(before[start] + scores[piece] + after[end] - after[0])
    return expected


def _sums(length: int, cuts: list[tuple[int, int, str]], scores: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities of all ways to cut what lies before, and after, each place of a word."""
    before, after = np.full(length + 1, -np.inf), np.full(length + 1, -np.inf)
    before[0] = after[length] = 0.0
    for start, end, piece in cuts:
        before[end] = np.logaddexp(before[end], before[start] + scores[piece])
    for start, end, piece in reversed(cuts):
        after[start] = np.logaddexp(after[start], scores[piece] + after[end])
    return before, after


def main() -> None:
    """Write the pieces to the file that ships, one a line."""
    lines = ",\n".join(json.dumps(piece, ensure_ascii=False) for piece in train(texts()))
    storage.write_atomic(Path(assets.__file__).parent / FILE, f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
