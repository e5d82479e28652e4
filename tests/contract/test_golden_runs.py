"""Golden runs turn every switch, and a planted change of results fails them, naming the method."""

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

import groundlab
from groundlab.papers import registry

ROOT = Path(__file__).parents[2]
SRC = Path(groundlab.__file__).parent
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


def test_a_changed_default_and_a_name_without_an_alias_are_found_and_an_added_setting_is_not(monkeypatch):
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


PLANTED = {
    "symbolic": ("learning/ppo.py", "return -torch.min(ratio", "return torch.min(ratio"),  # the sign of an advantage
    "chat": ("papers/worlds/settings.py", "history: int = Field(16", "history: int = Field(15"),
    "zero-shot": ("worlds/text_env/prompts.py", '"Goal of the agent"', '"Wish of the agent"'),
    "hard-coded": (
        "papers/mediator/skills.py",
        "(WALL, DOOR, KEY, BALL, BOX)",
        "(WALL, DOOR, KEY)",
    ),  # one quirk's branch
    "drrn": ("papers/glam/settings.py", "gamma: float = Field(0.9, ge=0", "gamma: float = Field(0.8, ge=0"),
}
"""By method: a file, and a change of results in it."""


@pytest.mark.slow
@pytest.mark.integration
def test_planted_changes_fail_and_name_their_methods(tmp_path):
    """In one copy of the package, held to the stored records of this kind of CPU."""
    records = ROOT / "tests" / "golden" / "records" / f"{golden.kind_of_cpu()}.json"
    if not records.is_file() or golden.storage.read_json(records)["packages"] != golden.run_hash.computing_versions():
        pytest.skip("no golden records of this kind of CPU with these packages")
    home = tmp_path / "groundlab"
    shutil.copytree(SRC, home, ignore=shutil.ignore_patterns("__pycache__", "models"))
    (home / "assets" / "models").symlink_to(SRC / "assets" / "models")
    for name, old, new in PLANTED.values():
        text = (home / name).read_text()
        assert text.count(old) == 1, name
        (home / name).write_text(text.replace(old, new))
    command = [sys.executable, str(ROOT / "tests" / "golden" / "golden.py")]
    command += [word for method in PLANTED for word in ("--only", method)]
    paths = {"PYTHONPATH": str(tmp_path), "GROUNDLAB_ROOT": str(ROOT), "GROUNDLAB_RESULTS": str(tmp_path / "results")}
    ended = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    for method in PLANTED.keys() - {"chat"}:  # its rule reads no history, so only the changed default shows
        assert f"golden: results of {method} changed" in ended.stdout, ended.stdout
    assert "the default of chat's history changed" in ended.stdout and "the default of drrn's gamma" in ended.stdout
    lines = [line for line in ended.stdout.splitlines() if "results of hard-coded changed" in line]
    quirk = [run for run in golden.golden_runs(["hard-coded"]) if run.spec.settings["fidelity"]["explore_avoid"]]
    assert len(lines) == len(quirk) == 1 and quirk[0].name in lines[0], "no other run takes that branch"
