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

    A key that is no secret, a word or a phrase without a digit, is replaced only where it stands as it is.
    """
    if not key:
        return text
    text = text.replace(key, MARK)
    letters = re.sub("[^a-z0-9]", "", key.lower())
    if len(letters) <= _PIECE or (len(letters) < _LONG and not re.search("[0-9]", letters)):
        return text
    pieces = {letters[start : start + _PIECE] for start in range(len(letters) - _PIECE + 1)}
    said = re.sub("[^a-z0-9]", "", text.lower())
    if not any(piece in said for piece in pieces):
        return text
    return _strike(text, pieces)


def _strike(text: str, pieces: set[str]) -> str:
    """The text with `MARK` for each run of letters and digits that pieces cover, and for the signs within it."""
    places = [found.start() for found in re.finditer("[A-Za-z0-9]", text)]
    letters = "".join(text[place] for place in places).lower()
    parts, end, stop = [], 0, 0  # what stands, up to where it was copied, up to which letter it was struck
    for first in range(len(letters) - _PIECE + 1):
        if letters[first : first + _PIECE] in pieces:
            if first >= stop:
                parts += [text[end : places[first]], MARK]
            stop = first + _PIECE
            end = places[stop - 1] + 1
    return "".join([*parts, text[end:]])
