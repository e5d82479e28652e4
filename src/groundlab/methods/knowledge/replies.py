"""What a language model's replies say: a preference, a list of goals, a program. None for a reply that says nothing.

Strict by default: a reply that repeats the choices, names two of them or gives two programs does not count. `strict`
off reads as the original does, with its leanings (spec background-knowledge, quirks Q12 and Q14). Callers count what
is None. Called from: the labelling of all three forms.
"""

import re

FIRST, SECOND, TIE = 0.0, 1.0, 0.5  # 1: the second segment is preferred
_RANKS = {"A>B": FIRST, "B>A": SECOND, "A=B": TIE, "B<A": FIRST, "A<B": SECOND, "B=A": TIE}
_RANK = re.compile(r"\b[AB]\s*[<>=]\s*[AB]\b")
_BLOCK = re.compile(r"^```(?:python|py)[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_GREEDY_BLOCK = re.compile(r"```python\n(.*)```", re.DOTALL)
_GOAL = re.compile(r"\s*(?:[-*•]|\d+[.)])\s*(.*\S)")


def preference(reply: str, strict: bool = True) -> float | None:
    """Which of two segments a reply ranks first: 0.0 (A), 1.0 (B), 0.5 (a tie), or None.

    strict: after the last "[Rank]" exactly one ranking stands, however often; spaces and "<" are no matter. Otherwise,
    after the first "[Rank]", "B > A" counts before "A > B" before "A = B", letter by letter.
    """
    if strict:
        _, mark, rest = reply.rpartition("[Rank]")
        said = {_RANKS.get(re.sub(r"\s", "", found)) for found in _RANK.findall(rest)}
        return said.pop() if mark and len(said) == 1 else None
    parts = reply.split("[Rank]")
    if len(parts) < 2:
        return None
    order = {"B > A": SECOND, "A > B": FIRST, "A = B": TIE}
    return next((label for words, label in order.items() if words in parts[1]), None)


def goals(reply: str, strict: bool = True) -> list[str] | None:
    """The goals of an unordered list, in order, or None when there is none.

    strict: any bullet or number at the start of a line, without empty and repeated goals. Otherwise lines that begin
    with "- ", as they are.
    """
    if not strict:
        found = [line[2:] for line in reply.split("\n") if line.startswith("- ")]
        return found or None
    lines = (_GOAL.fullmatch(line.rstrip()) for line in reply.split("\n"))
    return list(dict.fromkeys(match[1] for match in lines if match)) or None


def code(reply: str, strict: bool = True) -> str | None:
    """The program in a reply's fenced Python block, or None.

    strict: the last block that defines compute_reward. Otherwise everything from the first fence to the last.
    """
    if not strict:
        found = _GREEDY_BLOCK.search(reply)
        return found[1] if found else None
    blocks = [block for block in _BLOCK.findall(reply) if re.search(r"^def compute_reward\(", block, re.MULTILINE)]
    return blocks[-1] if blocks else None
