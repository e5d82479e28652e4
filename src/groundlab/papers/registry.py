"""Papers and methods by name, groundlab's own and those that other packages add (entry points `groundlab.papers`)."""

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from groundlab import worlds
from groundlab.assets import unshipped
from groundlab.core import plugins
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Checkpoint, Run, RunSpec, load_checkpoint
from groundlab.core.schema import Strict, first_names, known_part, parse
from groundlab.core.seeding import generator
from groundlab.papers.method import Method, Paper, Request
from groundlab.papers.training import Evaluation, evaluate_once, train

if TYPE_CHECKING:
    from groundlab.papers.watching import Watched


def papers() -> dict[str, Paper]:
    """All papers by name."""
    return plugins.load(plugins.PAPERS)


@cache
def methods() -> tuple[tuple[str, Method], ...]:
    """(paper's name, method) of every paper, in their order."""
    return tuple((name, method) for name, paper in papers().items() for method in paper.methods)


def named(name: str) -> list[tuple[str, Method]]:
    """(paper's name, method) of that name. Raises GroundlabError for an unknown one, naming the nearest."""
    known = [(paper, method) for paper, method in methods() if name in (method.name, *method.formerly)]
    if not known:
        hint = "groundlab methods lists all"
        raise unknown_name("method", name, {method.name for _, method in methods()}, hint)
    return known


def get(name: str, world: str) -> Method:
    """The method of that name on that world. Raises GroundlabError for unknown ones, naming the nearest."""
    known, family = [method for _, method in named(name)], worlds.family_of(world).name
    return next((method for method in known if family in method.families), known[0])


def paper_of(name: str, world: str) -> str:
    """The name of the paper that a method on a world belongs to."""
    method = get(name, world)
    return next(paper for paper, each in methods() if each is method)


def worlds_of(method: Method) -> tuple[str, ...]:
    """The names of the worlds that a method runs on."""
    left_out = [pattern[1:] for pattern in method.worlds if pattern.startswith("!")]
    only = [pattern for pattern in method.worlds if not pattern.startswith("!")] or ["*"]
    names = (name for family in worlds.families() if family in method.families for name in worlds.names(family))
    return tuple(name for name in names if _fits(name, only) and not _fits(name, left_out))


def _fits(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def load(name: str, world: str) -> ModuleType:
    """The module that implements a method on a world."""
    return importlib.import_module(get(name, world).module)


def schema_of(method: Method) -> type[Strict]:
    """The schema of a method's settings."""
    module, _, name = (method.settings or f"{method.module}:Settings").partition(":")
    return getattr(importlib.import_module(module), name)


def settings_of(name: str, world: str, given: dict[str, Any]) -> Strict:
    """The settings of a method, checked and completed. Raises GroundlabError for an unknown or ill-typed key."""
    return parse(schema_of(get(name, world)), given, f"settings of {name}")


def resolve_settings(name: str, world: str, given: dict[str, Any]) -> dict[str, Any]:
    """All settings of a method as data, defaults filled in. Raises GroundlabError as `settings_of`."""
    return settings_of(name, world, given).model_dump(mode="json")


def changed_settings(spec: RunSpec) -> dict[str, Any]:
    """The settings of a run that differ from their defaults, by the names that they first had."""
    settings = settings_of(spec.method, spec.world, spec.settings)
    return first_names(settings, settings.model_dump(mode="json", exclude_defaults=True))


def stored_spec(spec: RunSpec, changed: dict[str, Any] | None) -> RunSpec:
    """A stored run as today's code knows it, with its settings completed.

    changed: the settings that differed from their defaults when it was made (`manifests.changed_settings`). A setting
    that is gone is left out if it was at its default. Raises GroundlabError for a run that today's code cannot make.
    """
    schema = schema_of(get(spec.method, spec.world))
    known = spec.settings if changed is None else known_part(schema, spec.settings, changed)
    return resolve(spec.method, spec.world, spec.seed, known)


def trained(folder: Path) -> Checkpoint:
    """The checkpoint of a run folder (`load_checkpoint`), its spec as today's code knows it."""
    checkpoint = load_checkpoint(folder)
    return replace(checkpoint, spec=stored_spec(checkpoint.spec, checkpoint.changed))


def resolve(method: str, world: str, seed: int, given: dict[str, Any]) -> RunSpec:
    """The spec of a run with its settings completed by the method's defaults.

    Raises GroundlabError for an unknown method, world or setting, naming the nearest.
    """
    check_world(method, world)
    method, world = get(method, world).name, worlds.find(world).name
    return RunSpec(method=method, world=world, seed=seed, settings=resolve_settings(method, world, given))


@cache
def check_world(name: str, world: str) -> None:
    """Raises GroundlabError for an unknown world, or one that the method does not run on."""
    known = worlds_of(get(name, world))
    if world in known or worlds.find(world).name in known:
        return
    listed = ", ".join(known) if len(known) <= 8 else f"{len(known)} others (groundlab methods {name})"
    raise GroundlabError(f"{name} does not run on {world}; it runs on {listed}")


def check_names(name: str, world: str, settings: Mapping[str, Any], kind: str | None = None) -> None:
    """Raises GroundlabError for an unknown method, world, kind, setting or word in a setting, naming the nearest."""
    check_world(name, world)
    if kind not in (None, *(kinds := getattr(worlds.find(world), "kinds", ()))):
        raise unknown_name(f"kind of {world}", str(kind), kinds)
    known = schema_of(get(name, world)).model_fields
    for setting, wanted in settings.items():
        if setting not in known:
            raise unknown_name(f"setting of {name}", setting, known)
        words = get_args(known[setting].annotation) if get_origin(known[setting].annotation) is Literal else ()
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if words and value not in words:
                raise unknown_name(f"{setting} of {name}", str(value), words)


def provide_models(settings: dict[str, Any], around: Callable[[], AbstractContextManager] = nullcontext) -> None:
    """Pretrain the models of ours that settings name, that do not ship, and that are not in the results folder yet."""
    for model in unshipped(settings):
        from groundlab.language import pretraining  # loads torch

        with around():
            pretraining.provide(model)


def execute(run: Run) -> None:
    """Do a whole run: pretrain its model where none ships, continue from its checkpoint, train, evaluate, store."""
    provide_models(run.spec.settings, around=run.abandonable)
    module = load(run.spec.method, run.spec.world)
    if hasattr(module, "make_learner"):
        train(run, module.make_learner(run.spec, run))
    else:
        evaluate_once(run, module.evaluate)


def evaluate(request: Request) -> list[Evaluation]:
    """Play the test layouts, one evaluation for each way the method can be played.

    Raises GroundlabError for a method that learns and was given neither a checkpoint nor a model that is an agent.
    """
    provide_models(request.settings)
    module = load(request.method, request.world)
    if not hasattr(module, "make_learner"):
        return module.evaluate(request)
    if request.checkpoint is None and not getattr(module, "comes_trained", lambda settings: False)(request.settings):
        fix = f"give --checkpoint FOLDER of `groundlab run {request.method}`"
        raise GroundlabError(f"{request.method} needs a trained agent; {fix}")
    spec = RunSpec(method=request.method, world=request.world, seed=request.seed, settings=request.settings)
    learner = module.make_learner(spec)
    try:
        if request.checkpoint is not None:
            learner.load_weights(request.checkpoint.files)
        return learner.evaluate()
    finally:
        learner.close()


def watched(folder: Path, seed: int = 0) -> "tuple[RunSpec, Watched]":
    """The agent of a run folder, to be watched one decision at a time, and what it was trained as.

    seed: of its draws. Raises GroundlabError for a folder without a checkpoint, and a method that cannot be watched.
    """
    checkpoint = trained(folder)
    spec, module = checkpoint.spec, load(checkpoint.spec.method, checkpoint.spec.world)
    if hasattr(module, "make_learner"):
        provide_models(spec.settings)
        learner = module.make_learner(spec)
        learner.load_weights(checkpoint.files)
        agent = learner.watched(generator(seed, "watched"))
        if agent is not None:
            return spec, agent
    fix = f"record it: groundlab evaluate {spec.method} --world {spec.world} --checkpoint {folder} --record DIR"
    raise GroundlabError(f"{spec.method} cannot be watched step by step; {fix}")
