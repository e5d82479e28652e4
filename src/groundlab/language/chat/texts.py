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
    """The text of a message's content, which may be a list of parts: thoughts and what is no text are left out."""
    parts = content if isinstance(content, list) else [content]
    said = [part for part in parts if not isinstance(part, dict) or part.get("type", "text") in ("text", "output_text")]
    texts = (part.get("text") if isinstance(part, dict) else part for part in said)
    return "".join(text for text in texts if isinstance(text, str))
