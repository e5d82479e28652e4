"""The methods by name: what a plan may run, with which settings, on which worlds.

A method's module offers `Settings` (a pydantic schema), `WORLDS` (the worlds it runs on), `execute(run)` (the whole
run: restore, train, evaluate, store) and `evaluate(request)` (play test layouts). `Settings.input_files()` lists what
a run reads. Modules are imported when needed, so listing methods costs nothing. A name may mean two methods, one for
the door-key worlds and one for the others (`random`).
Called from: lab/ and cli.py. Read next: `mediator/asking.py`, as an example of one.
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
    door_key: bool = True
    """For the door-key worlds, or for all others."""
    uses: tuple[str, ...] = ()
    """Modules of other methods whose code decides what it computes."""


@dataclass(frozen=True)
class Request:
    """An evaluation that was asked for: `settings` are resolved, `watch` follows episodes (recordings, dialogue)."""

    method: str
    world: str
    seed: int
    settings: dict[str, Any]
    checkpoint: Checkpoint | None = None
    watch: Callable[[str, list], Any] | None = None  # called with (policy, active episodes) before each step


_METHODS = (
    Method("mediator", "mediator", "mediator.asking", "learns by PPO when to ask the planner", learns=True),
    Method("hard-coded", "mediator", "mediator.baselines", "asks when the plan is exhausted"),
    Method("always", "mediator", "mediator.baselines", "asks at every step"),
    Method("random", "mediator", "mediator.baselines", "asks with probability one half"),
    Method("on-change", "mediator", "mediator.baselines", "asks when the text has changed (our control)"),
    Method("never", "mediator", "mediator.options_rl", "learns by PPO which option to run", learns=True),
    Method("random", "worlds", "random", "acts uniformly at random", door_key=False),
    Method("bot", "worlds", "bot", "minigrid's planner", door_key=False),
    Method("glam", "glam", "glam.lm_ppo", "a language model tuned by PPO", learns=True, door_key=False),
    Method("npae", "glam", "glam.lm_ppo", "its embeddings only, action head, PPO", learns=True, door_key=False),
    Method("npe", "glam", "glam.lm_ppo", "its embeddings only, PPO", learns=True, door_key=False),
    Method("npa", "glam", "glam.lm_ppo", "its architecture only, action head, PPO", learns=True, door_key=False),
    Method("aflan", "glam", "glam.lm_ppo", "a language model with an action head, PPO", learns=True, door_key=False),
    Method("zero-shot", "glam", "glam.zero_shot", "a language model as it is", door_key=False),
    Method("drrn", "glam", "glam.drrn", "text Q-learning from scratch", learns=True, door_key=False),
    Method("symbolic", "glam", "glam.symbolic", "recurrent PPO on the view's codes", learns=True, door_key=False),
    Method(
        "cloning",
        "glam",
        "glam.cloning",
        "a language model that imitates the bot",
        learns=True,
        door_key=False,
        uses=("bot",),
    ),
    Method(
        "reasoning", "reasoning", "reasoning.learner", "thinks, then acts; tuned by PPO", learns=True, door_key=False
    ),
    Method("direct", "reasoning", "reasoning.learner", "answers in words; tuned by PPO", learns=True, door_key=False),
    Method("reasoning-zero-shot", "reasoning", "reasoning.zero_shot", "thinks, then acts, untuned", door_key=False),
    Method("direct-zero-shot", "reasoning", "reasoning.zero_shot", "answers in words, untuned", door_key=False),
    Method("knowledge", "knowledge", "knowledge.shaped", "PPO, shaped by knowledge", learns=True, door_key=False),
    Method("rnd", "knowledge", "knowledge.collect", "curious PPO, records episodes", learns=True, door_key=False),
    Method("facts", "worlds", "facts", "counts differences from minigrid", door_key=False),
)


def get(name: str, world: str) -> Method:
    """The method of that name on that world. Raises GroundlabError for unknown ones, naming the nearest."""
    known = [method for method in _METHODS if method.name == name]
    if not known:
        raise unknown_name("method", name, {method.name for method in _METHODS})
    door_key = world not in worlds.CRAFTER_WORLDS and worlds.find(world).is_door_key
    return next((method for method in known if method.door_key == door_key), known[0])


def load(name: str, world: str) -> ModuleType:
    """The module that implements a method on a world."""
    return importlib.import_module(f"groundlab.methods.{get(name, world).module}")


def resolve_settings(name: str, world: str, given: dict[str, Any]) -> dict[str, Any]:
    """All settings of a method, defaults filled in. Raises GroundlabError for an unknown or ill-typed key."""
    return parse(load(name, world).Settings, given, f"settings of {name}").model_dump(mode="json")


def input_files(name: str, world: str, settings: dict[str, Any]) -> list[Path]:
    """The files that a run with these settings reads, such as a ledger of recorded replies."""
    return load(name, world).Settings(**settings).input_files()


def source_files(name: str, world: str) -> list[Path]:
    """The source files whose content decides what a method computes: its own and those that all methods share."""
    home = Path(__file__).parent
    method = get(name, world)
    first = method.module.split(".")[0]
    own = sorted((home / first).rglob("*.py")) if (home / first).is_dir() else [home / f"{first}.py"]
    return [*(home / f"{shared}.py" for shared in ("registry", "settings", "playing", *method.uses)), *own]


def check_world(name: str, world: str) -> None:
    """Raises GroundlabError for an unknown world, or one that the method does not run on."""
    supported = load(name, world).WORLDS
    if world not in supported and (world in worlds.CRAFTER_WORLDS or worlds.find(world).name not in supported):
        raise GroundlabError(f"{name} does not run on {world}; it runs on {', '.join(supported)}")


def execute(run: Run) -> None:
    """Do a whole run: continue from its checkpoint, train, evaluate, store."""
    load(run.spec.method, run.spec.world).execute(run)


def evaluate_once(run: Run) -> None:
    """The whole run of a method that follows a rule: evaluate; there is nothing to train and nothing to resume."""
    run.restore()
    spec = run.spec
    results = evaluate(Request(spec.method, spec.world, spec.seed, spec.settings))
    mean = results[0]["mean"]
    run.log({"iteration": 1, **mean})
    run.write_evaluation(results)
    run.advance(1, 1, dict, **{name: mean[name] for name in ("success", "mismatches") if name in mean})


def evaluate(request: Request) -> list[dict[str, Any]]:
    """Play the test layouts: [{"policy", "mean", "rows"}, ...], one for each way the method can be played."""
    return load(request.method, request.world).evaluate(request)
