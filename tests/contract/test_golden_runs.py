"""Golden runs turn every switch, and a change of results or of defaults fails them, naming the method."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from groundlab.papers import registry

ROOT = Path(__file__).parents[2]
NEEDS = {
    "device": "a GPU",
    "tf32": "a GPU",
    "quantization": "a GPU",
    "openai": "a server",
    "float16": "a GPU: no operation of it is exact on CPUs",
}
"""Switches and values that no golden run turns, and what they need."""


def _load() -> Any:
    place = spec_from_file_location("golden_runs", ROOT / "tests" / "golden" / "golden.py")
    assert place and place.loader
    module = module_from_spec(place)
    sys.modules["golden_runs"] = module
    place.loader.exec_module(module)
    return module


golden = _load()


def _values(annotation: Any) -> list[Any]:
    """The values of a switch: of a bool, a Literal, or a choice among these and others; none for a number or a text."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is bool:
        return [False, True]
    if origin is Literal:
        return list(parts)
    if origin is Annotated:
        return _values(parts[0])
    return [value for part in parts for value in _values(part)] if origin in (Union, UnionType) else []


def _switches(settings: BaseModel) -> Iterator[tuple[tuple[str, str], list[Any], Any]]:
    """((class that declares it, name), values, value) of every switch, nested ones too."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from _switches(value)
        if values := _values(field.annotation):
            owners = (each for each in reversed(type(settings).__mro__) if name in getattr(each, "__annotations__", {}))
            owner = next(owners)
            yield (f"{owner.__module__}.{owner.__qualname__}", name), values, value


def test_golden_runs_and_smoke_turn_every_switch():
    known, turned = {}, defaultdict(set)
    for _, method in registry.methods():
        known |= {key: values for key, values, _ in _switches(registry.schema_of(method)())}
    for run in golden.golden_runs():
        settings = registry.settings_of(run.spec.method, run.spec.world, run.spec.settings)
        for key, values, value in _switches(settings):
            known[key] = values
            turned[key].add(value)
    missing = {
        f"{name}={value} ({owner})"
        for (owner, name), values in known.items()
        for value in values
        if value not in turned[owner, name] and name not in NEEDS and value not in NEEDS
    }
    assert not missing, "add a run to tests/golden/runs, or say in NEEDS why none can be"


def test_every_method_is_golden_and_one_run_of_each_learner_is_resumed():
    runs = golden.golden_runs()
    assert {run.spec.method for run in runs} == {method.name for _, method in registry.methods()}
    resumed = {run.spec.method for run in runs if run.stop}
    kinds = {method.module for _, method in registry.methods() if method.learns}
    assert kinds == {registry.get(run.spec.method, run.spec.world).module for run in runs if run.stop}, resumed


def test_defaults_and_names_are_those_that_are_stored():
    stored = golden.storage.read_json(golden.INTERFACE)
    assert golden.interface_problems(stored, golden.interface()) == ([], [])


def test_a_changed_record_names_the_method_unless_its_number_went_up():
    stored = {"run": {"method": "drrn", "behaviour": 1, "metrics": "a", "evaluation": "b"}}
    fresh = {"run": stored["run"] | {"metrics": "c"}}
    (line,) = golden.changed(stored, fresh)
    assert "results of drrn changed (run: metrics a, now c)" in line and not golden.changed(stored, stored)
    assert not golden.changed(stored, {"run": fresh["run"] | {"behaviour": 2}})


def test_a_changed_default_and_a_name_without_an_alias_are_found_and_an_added_setting_is_not():
    today = golden.interface()
    stored = golden.storage.read_json(golden.INTERFACE)
    changed = golden.json.loads(golden.json.dumps(today))
    changed["methods"]["mediator/mediator"]["settings"]["ask_lambda"] = 0.5
    changed["methods"]["glam/glam"]["settings"]["another"] = 1
    changed["methods"]["reasoning/direct"]["settings"]["fidelity"]["untempered"] = True
    broken, gone = golden.interface_problems(stored, changed)
    assert len(broken) == 2 and not gone and "mediator" in broken[0] and "direct" in broken[1]
    changed["methods"]["mediator/mediator"]["behaviour"] = changed["methods"]["reasoning/direct"]["behaviour"] = 2
    assert golden.interface_problems(stored, changed) == ([], [])
    del changed["methods"]["glam/glam"]["settings"]["lam"]
    stored["families"]["grid"]["worlds"].append("BabyAI-Gone-v0")
    stored["records"]["glam"]["metrics"].append("gone")
    stored["methods"]["glam/gone"] = {"behaviour": 1, "settings": {}}
    broken, gone = golden.interface_problems(stored, changed)
    assert not broken and len(gone) == 4
