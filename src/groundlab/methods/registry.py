"""The methods by name: what a plan may run, with which settings, on which worlds.

A method's module offers `Settings` (a pydantic schema), `WORLDS` (the worlds it runs on), `execute(run)` (the whole
run: restore, train, evaluate, store) and `evaluate(request)` (play test layouts). `Settings.input_files()` lists what
a run reads. Modules are imported when needed,
so listing methods costs nothing. Called from: lab/ and cli.py. Read next: `mediator/asking.py`, as an example of one.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from groundlab import worlds
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Checkpoint, Run
from groundlab.core.schema import parse


@dataclass(frozen=True)
class Method:
    """A method as the plan knows it."""

    name: str
    paper: str
    module: str
    summary: str
    learns: bool = False


@dataclass(frozen=True)
class Request:
    """An evaluation that was asked for: `settings` are resolved, `watch` follows episodes (recordings, dialogue)."""

    method: str
    world: str
    seed: int
    settings: dict[str, Any]
    checkpoint: Checkpoint | None = None
    watch: Callable[[str, list], Any] | None = None  # called with (policy, active episodes) before each step


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("mediator", "mediator", "mediator.asking", "learns by PPO when to ask the planner", learns=True),
        Method("hard-coded", "mediator", "mediator.baselines", "asks when the plan is exhausted"),
        Method("always", "mediator", "mediator.baselines", "asks at every step"),
        Method("random", "mediator", "mediator.baselines", "asks with probability one half"),
        Method("on-change", "mediator", "mediator.baselines", "asks when the text has changed (our control)"),
        Method("never", "mediator", "mediator.options_rl", "learns by PPO which option to run", learns=True),
    )
}


def get(name: str) -> Method:
    """The method of that name. Raises GroundlabError naming the nearest one."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def load(name: str) -> ModuleType:
    """The module that implements a method."""
    return importlib.import_module(f"groundlab.methods.{get(name).module}")


def resolve_settings(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """All settings of a method, defaults filled in. Raises GroundlabError for an unknown or ill-typed key."""
    return parse(load(name).Settings, given, f"settings of {name}").model_dump(mode="json")


def input_files(name: str, settings: dict[str, Any]) -> list[Path]:
    """The files that a run with these settings reads, such as a ledger of recorded replies."""
    return load(name).Settings(**settings).input_files()


def source_files(name: str) -> list[Path]:
    """The source files whose content decides what a method computes."""
    home = Path(__file__).parent / get(name).paper
    return [Path(__file__), *sorted(home.rglob("*.py"))]


def check_world(name: str, world: str) -> None:
    """Raises GroundlabError for an unknown world, or one that the method does not run on."""
    supported = load(name).WORLDS
    if worlds.find(world).name not in supported:
        raise GroundlabError(f"{name} does not run on {world}; it runs on {', '.join(supported)}")


def execute(run: Run) -> None:
    """Do a whole run: continue from its checkpoint, train, evaluate, store."""
    load(run.spec.method).execute(run)


def evaluate(request: Request) -> list[dict[str, Any]]:
    """Play the test layouts: [{"policy", "mean", "rows"}, ...], one for each way the method can be played."""
    return load(request.method).evaluate(request)
