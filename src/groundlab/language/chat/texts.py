"""The text that counts of what a model wrote: its parts joined, its thoughts cut off."""

import re
from typing import Any

_TAG = re.compile(  # of a thought; a group where it ends one
    r"<(/)?(?:\w+:)?(?:ant_?)?(?:think(?:ing)?|thoughts?|reasoning)(?:\s[^<>]*)?>|(?-i:\[(/)?THINK\])|◁(/)?think▷"
    r"|<\|(?:START|(END))_THINKING\|>|<\|channel\|>(?:analysis|commentary|(final))[^<]*<\|message\|>",
    re.IGNORECASE,
)


def without_thoughts(text: str) -> str:
    """`<think>{explore}?</think> {go to the key}` is `{go to the key}`; a text without thoughts is left as it is.

    An end without a beginning ends a thought that begins with the text, a beginning without an end lasts to its end.
    """
    kept, said_from, thinks = [], 0, False
    for tag in _TAG.finditer(text):
        ends = tag.lastindex is not None
        if ends and not thinks:
            kept.clear()
        elif not thinks:
            kept.append(text[said_from : tag.start()])
        said_from, thinks = tag.end(), not ends
    return "".join([*kept, "" if thinks else text[said_from:]]).strip() if said_from else text


def joined(content: Any) -> str:
    """Return the text of a message's content, which may be a list of parts: only parts of text count."""
    listed = content if isinstance(content, list) else [content]
    parts = (part if isinstance(part, dict) else {"text": part} for part in listed)
    texts = (part.get("text") for part in parts if part.get("type", "text") in ("text", "output_text"))
    return "".join(text for text in texts if isinstance(text, str))
