"""The options that several commands share, each defined once, and `--set KEY=VALUE` as nested settings."""

import inspect
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundlab.core.bounds import LAST_SEED
from groundlab.core.errors import GroundlabError, clip, shown_value
from groundlab.core.numerics import ask_for_portable
from groundlab.core.yaml_files import parse_yaml

if TYPE_CHECKING:
    from groundlab.core.run import Checkpoint

Method = Annotated[str, typer.Argument(help="A method; `groundlab methods` lists all.")]
World = Annotated[str, typer.Option("--world", help="A world; `groundlab worlds` lists all.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=LAST_SEED, help="Seed of every random draw.")]
Set = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; `groundlab methods METHOD` lists a method's."),
]


def _named_folder(value: str) -> Path:
    if not value:
        raise typer.BadParameter("is empty; name a folder, or leave it out (is a shell variable not set?)")
    return Path(value)


Only = Annotated[list[str], typer.Option("--only", metavar="PAPER", help="Only these papers.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, max=1024, help="Processes; one a core by default.")]
Results = Annotated[
    Path | None, typer.Option("--results", parser=_named_folder, help="Results folder, or one version in it.")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Sums in one order on GPUs too, slower: torch's settings.")
]
Portable = Annotated[
    bool, typer.Option("--portable", help="Round alike on every x86-64 CPU, Intel's and AMD's; up to 1.6 times slower.")
]
Track = Annotated[str | None, typer.Option("--track", help="Also mirror what runs write: wandb.")]

# What the mediator's methods are asked for most; it is a setting too.
Planner = Annotated[
    str | None, typer.Option("--planner", help="As --set planner=: scripted, recorded, openai or local.")
]

# A language model that is really asked: which one, where it is, what it may cost.
Model = Annotated[str | None, typer.Option("--model", help="The language model that is asked.")]
LedgerFile = Annotated[str | None, typer.Option("--ledger", help="File where its replies are kept.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Its OpenAI-compatible server, http://HOST:PORT/v1.")]
Prices = Annotated[str | None, typer.Option("--prices", help="Per million tokens: PROMPT,COMPLETION.")]
Budget = Annotated[str | None, typer.Option("--budget", help="What the ledger may come to hold: tokens=N,cost=X.")]


def takes_method_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options that set a method's settings; it gets what they say as its parameter `settings`."""
    own = inspect.signature(command).parameters.values()
    shared = inspect.signature(method_settings).parameters

    @wraps(command)
    def with_options(**values: Any) -> None:
        settings = method_settings(**{name: values.pop(name) for name in shared})
        command(**values, settings=settings)

    parameters = [*(each for each in own if each.name != "settings"), *shared.values()]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] - what typer reads
    return with_options


def method_settings(
    set_: Set = [],  # noqa: B006
    planner: Planner = None,
    model: Model = None,
    ledger: LedgerFile = None,
    base_url: BaseUrl = None,
    prices: Prices = None,
    budget: Budget = None,
) -> dict[str, Any]:
    """Settings by --set and by options of their own; where a language model is goes to the environment."""
    connect(base_url, prices, budget)
    return parse_settings(set_, **{"planner": planner, "ledger": ledger, "chat.model": model})


def parse_settings(pairs: list[str], **named: Any) -> dict[str, Any]:
    """`["lr=0.1", "fidelity.explore_avoid=true"]` as nested settings, with the named options that are not None.

    Raises GroundlabError for a pair without a value, a value that is no YAML, a key inside a plain value, and one that
    is given twice.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator:
            raise GroundlabError(f"--set {shown_value(pair)} has no value; write --set key=value")
        _put(settings, key, parse_yaml(text, f"--set {shown_value(pair)}", fix="quote the value"))
    for key, value in named.items():
        if value is not None:
            _put(settings, key, value)
    return settings


def _put(settings: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        settings = settings.setdefault(part, {})
        if not isinstance(settings, dict):
            raise GroundlabError(f"--set {key} reaches into {part}, which another --set gives a plain value; drop one")
    if last in settings:
        raise GroundlabError(f"{clip(key)} is given twice; drop one --set, or the option that sets it too")
    settings[last] = value


def overlay(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Settings with changes laid over them; of nested settings only what the changes name is replaced."""
    result = dict(base)
    for key, new in changes.items():
        old = result.get(key)
        result[key] = overlay(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return result


def load_agent(
    folder: Path | None, method: str, settings: dict[str, Any], seed: int | None, world: str | None = None
) -> tuple["Checkpoint | None", dict[str, Any], int]:
    """(the agent that `--checkpoint` names, its settings under those given, and its seed where none is given).

    Raises GroundlabError where it is of another method, or of another world.
    """
    from groundlab.papers import registry

    if folder is None:
        return None, settings, seed or 0
    trained = registry.trained(folder)
    for name, wanted in (("method", method), ("world", world)):
        actual = getattr(trained.spec, name)
        if wanted not in (None, actual):
            fix = f"name that {name}, or another --checkpoint"
            raise GroundlabError(f"{folder} is a checkpoint of {name} {actual}, not {wanted}; {fix}")
    return trained, overlay(trained.spec.settings, settings), trained.spec.seed if seed is None else seed


def connect(base_url: str | None, prices: str | None, budget: str | None) -> None:
    """Hand where a language model is and what it may cost to this process and its workers, by the environment."""
    from groundlab.language.chat import connection

    variables = {connection.ADDRESS: base_url, connection.PRICES: prices, connection.BUDGET: budget}
    os.environ.update({name: value for name, value in variables.items() if value is not None})


def ask_for(track: str | None, deterministic: bool, portable: bool) -> None:
    """Hand how runs are made to this process and its workers, by the environment; what is set there stays."""
    from groundlab.lab import machine, tracking

    tracking.ask_for(track)
    if deterministic:
        os.environ[machine.DETERMINISTIC_VARIABLE] = "1"
    ask_for_portable(portable)
