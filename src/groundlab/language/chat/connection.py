"""How this machine reaches a chat server. All of it comes from the environment, none of it is part of a run.

    OPENAI_BASE_URL         where the server is, e.g. http://127.0.0.1:8000/v1
    OPENAI_API_KEY          its key, where it wants one; read here and nowhere else
    GROUNDLAB_LLM_TIMEOUT   seconds of silence after which an attempt is given up, 60
    GROUNDLAB_LLM_ATTEMPTS  times that one question is put before the run stops, 5
    GROUNDLAB_LLM_PRICES    "0.15,0.60": per million prompt and completion tokens, in any currency
    GROUNDLAB_LLM_BUDGET    "tokens=200000", "cost=2.5" or both, with a comma: what the ledger may come to hold

A run is named by the model and the sampling, so it continues when its server has moved to another port or its budget
was raised. The command line's --base-url, --prices and --budget set these variables.
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.language.chat.interface import Tokens
from groundlab.language.chat.ledger import Budget

ADDRESS, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
TIMEOUT, ATTEMPTS = "GROUNDLAB_LLM_TIMEOUT", "GROUNDLAB_LLM_ATTEMPTS"
PRICES, BUDGET = "GROUNDLAB_LLM_PRICES", "GROUNDLAB_LLM_BUDGET"
_HERE = re.compile(r"(.+\.)?localhost\.?|127(\.\d+){1,3}|0\.0\.0\.0|::1?|(0+:)+0*1|::ffff:(127\..*|7f.*)")
_MILLION = 1e6
_DEAREST = 1e9  # per million tokens: a sum of such costs is still a number
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Prices:
    """Per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    def cost(self, tokens: Tokens) -> float:
        """What these tokens cost."""
        return (tokens.prompt * self.prompt + tokens.completion * self.completion) / _MILLION


@dataclass(frozen=True)
class Connection:
    """Address, key, patience and prices of one server. The key is never shown, printed or stored."""

    base_url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    """Seconds of silence after which an attempt is given up."""
    attempts: int = 5
    prices: Prices = Prices()

    def __post_init__(self):
        _check_address(self.base_url)
        if self.key is not None and (not self.key.isascii() or not self.key.isprintable() or " " in self.key):
            raise GroundlabError(f"{KEY} holds characters that no key has (a line break, perhaps); set it again")

    @property
    def is_local(self) -> bool:
        """True for a server on this machine, which is reached without a proxy."""
        return bool(_HERE.fullmatch(urlsplit(self.base_url).hostname or ""))


def connection(environment: Mapping[str, str] = os.environ) -> Connection:
    """The connection that the environment describes. Raises GroundlabError, which never repeats a key."""
    address = environment.get(ADDRESS, "").strip()
    if not address:
        raise GroundlabError(f"no server is named; give --base-url http://HOST:PORT/v1 or set {ADDRESS}")
    return Connection(
        base_url=address,
        key=environment.get(KEY, "").strip() or None,
        timeout=_positive(environment, TIMEOUT, float, 60.0),
        attempts=_positive(environment, ATTEMPTS, int, 5),
        prices=prices(environment),
    )


def prices(environment: Mapping[str, str] = os.environ) -> Prices:
    """The prices that the environment sets. Raises GroundlabError for broken ones."""
    text = environment.get(PRICES, "")
    if not text.strip():
        return Prices()
    try:
        given = Prices(*map(float, text.split(",")))
    except (TypeError, ValueError):
        given = Prices(-1.0)
    if not (0 <= given.prompt <= _DEAREST and 0 <= given.completion <= _DEAREST):
        raise GroundlabError(f"{text!r} are no prices; give PROMPT,COMPLETION per million tokens, as in 0.15,0.60")
    return given


def budget(environment: Mapping[str, str] = os.environ) -> Budget:
    """The budget that the environment sets. Raises GroundlabError for a broken one."""
    limits: dict[str, Any] = {}
    for part in filter(None, environment.get(BUDGET, "").replace(" ", "").split(",")):
        name, _, value = part.partition("=")
        kinds: dict[str, Callable[[str], float]] = {"tokens": int, "cost": float}
        if name not in kinds:
            raise unknown_name("budget", name, kinds, hint="as in --budget tokens=200000,cost=2.5")
        limits[name] = _number(value, kinds[name], f"the budget {part!r}")
    if limits.get("cost") is not None and prices(environment) == Prices():
        raise GroundlabError(f"a budget of cost needs prices; give --prices PROMPT,COMPLETION or set {PRICES}")
    return Budget(**limits)


def _positive(environment: Mapping[str, str], name: str, kind: Callable[[str], Number], default: Number) -> Number:
    text = environment.get(name, "").strip()
    return _number(text, kind, f"{name}={text}") if text else default


def _number(text: str, kind: Callable[[str], Number], where: str) -> Number:
    try:
        value = kind(text)
    except ValueError:
        value = kind("0")
    if not 0 < value < float("inf"):
        raise GroundlabError(f"{where} is no number above 0")
    return value


def _check_address(address: str) -> None:
    """Refuse what is no plain address, without repeating it: a secret may be in it."""
    with suppress(ValueError):
        parts = urlsplit(address)
        plain = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
        if plain and not (parts.username or parts.password or parts.query or parts.fragment):
            return
    what = "the server's address cannot be read, or holds a password or a query"
    raise GroundlabError(f"{what}; give http://HOST:PORT/v1, and its key in {KEY}")
