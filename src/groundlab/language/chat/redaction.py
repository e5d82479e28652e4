"""The API key is removed from what a server says: verbatim, in other case, cut short, in pieces, with signs in between.

    redact("your key SK-D0-N0T-TE11 is wrong", "sk-d0-n0t-te11")  # "your key [key] is wrong"

Servers repeat keys by accident, and this is against accidents: one that means to give a key away can encode it.
"""

import re

MARK = "[key]"
_PIECE = 8  # letters and digits in a row that give a piece of a key away
_LONG = 20  # letters of a key that is no phrase ("not-needed", "sk-no-key-required") even without a digit


def redact(text: str, key: str | None) -> str:
    """The text with the key replaced by `MARK`, and with it every piece of eight letters or digits in a row.

    A key without a digit, a word or a phrase and not a secret, is replaced only where it stands as it is, and one of
    less than eight characters nowhere.
    """
    if key is None or len(key) < _PIECE:
        return text
    text, letters = text.replace(key, MARK), re.sub("[^a-z0-9]", "", key.lower())
    if len(letters) < _LONG and not re.search("[0-9]", letters):
        return text
    pieces = {letters[start : start + _PIECE] for start in range(len(letters) - _PIECE + 1)}
    places = [found.start() for found in re.finditer("[A-Za-z0-9]", text)]
    said = "".join(text[place] for place in places).lower()
    parts, end, stop = [], 0, 0  # what stands, up to where it was copied, up to which letter it was struck
    for first in range(len(said) - _PIECE + 1):
        if said[first : first + _PIECE] in pieces:
            if first >= stop:
                parts += [text[end : places[first]], MARK]
            stop = first + _PIECE
            end = places[stop - 1] + 1
    return "".join([*parts, text[end:]])
