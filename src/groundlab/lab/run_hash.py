"""The name of a run: a hash over what was asked for, and over nothing that says how the code is written.

    spec        method, world, seed, and the settings that differ from the method's defaults
    rows        of the method and of each world that it plays, without fields at their defaults
    inputs      what its settings name outside the package, and the assets that its method declares: SHA-256 by role
    packages    the public versions of the packages that compute (`machine.COMPUTE`)
    behaviour   of the method and of its family of worlds: numbers that go up when results change

A finished run is never repeated while its name stays. So a change of results needs a higher `behaviour`, which golden
records watch (docs/artifact.md). Methods and worlds of other packages are watched by none: the digest of their package
is in the name instead.
"""

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import find_root
from groundlab.core.run import RunSpec
from groundlab.core.sources import digest_of, package_folder
from groundlab.core.storage import digest_bytes, digest_json
from groundlab.lab.machine import COMPUTE, package_versions
from groundlab.papers import registry
from groundlab.worlds.family import package_of

HASH_LENGTH = 16  # hexadecimal digits: short enough to read in a path, 64 bits
_NO_RESULT = {"name", "module", "settings", "summary", "assets", "families", "worlds", "formerly"}
"""Fields of a row that are prose, say where a method runs, or are hashed elsewhere."""


def hash_run(spec: RunSpec) -> str:
    """Return the hash that names a run. Raises GroundlabError for unknown names and settings, and missing assets."""
    return hash_seeds(spec, [spec.seed])[0]


def hash_seeds(spec: RunSpec, seeds: Iterable[int]) -> list[str]:
    """Return the hashes of runs that differ from `spec` in their seed alone. Raises as `hash_run`."""
    method, family = registry.get(spec.method, spec.world), worlds.family_of(spec.world)
    # its world and all that its settings name, as tests do ("BabyAI-GoToLocal-v0 synonyms")
    words = {word for text in _strings(spec.settings) for word in text.split()}
    inputs = input_digests(spec.method, spec.world, spec.settings)
    parts = {
        "method": (method.formerly or (method.name,))[0],
        "world": spec.world,
        "settings": _without(registry.changed_settings(spec), {role.partition("/")[0] for role in inputs}),
        "rows": {
            "method": row_of(method),
            "worlds": {name: row_of(worlds.find(name)) for name in {spec.world, *words.intersection(worlds.names())}},
        },
        "inputs": inputs,
        "packages": computing_versions(),
        "behaviour": [method.behaviour, family.behaviour],
        "plugins": {
            name: digest_of(name)
            for name in {method.module.partition(".")[0], package_of(spec.world)}
            if name != "groundlab"
        },
    }
    return [digest_json({**parts, "seed": seed})[:HASH_LENGTH] for seed in seeds]


@cache
def computing_versions() -> dict[str, str | None]:
    """Return the public versions of the packages that compute: as installed, else as pinned, else None.

    `2.13.0`, whether torch is built for a CPU or a GPU.
    """
    here, pinned = package_versions(), pinned_versions()
    return {name: here[name].partition("+")[0] if name in here else pinned.get(name) for name in COMPUTE}


def pinned_versions() -> dict[str, str]:
    """Return the versions that the clone's constraints pin; none outside a clone."""
    file = (root := find_root()) and root / "requirements" / "constraints.txt"
    text = file.read_text(encoding="utf-8") if file and file.is_file() else ""
    pairs = (line.split("==", 1) for line in text.splitlines() if "==" in line and not line.startswith("#"))
    return {name.strip().lower(): version.split()[0] for name, version in pairs}


def input_digests(method: str, world: str, settings: dict[str, Any]) -> dict[str, str]:
    """Return SHA-256 by role of all that a run reads: what its settings name, and the assets that its method declares.

    No path is in it: what ships has the same digests in every checkout and image.
    """
    named = registry.settings_of(method, world, settings).inputs()
    contents = {
        role: each.read_bytes() if isinstance(each, Path) else each for role, each in named.items() if _is_there(each)
    }
    home = package_folder() / "assets"
    contents |= {
        f"assets/{file.relative_to(home).as_posix()}": file.read_bytes() for file in declared_assets(method, world)
    }
    return {role: each if isinstance(each, str) else digest_bytes(each) for role, each in sorted(contents.items())}


def _is_there(each: Path | bytes | str) -> bool:
    return not isinstance(each, Path) or each.is_file()


def declared_assets(method: str, world: str) -> list[Path]:
    """Return the text assets that a method says it reads. Raises GroundlabError for a pattern that fits none."""
    home, matches = package_folder() / "assets", []
    for pattern in registry.get(method, world).assets:
        files = sorted(home.glob(pattern))
        if not files:
            raise GroundlabError(
                f"expected the asset {pattern!r} of {method} in {home}, got none; fix the method's row"
            )
        matches += files
    return matches


def row_of(entry: Any) -> Any:
    """Return an entry of a table as data: dictionaries without prose and without fields at their defaults."""
    if is_dataclass(entry):
        defaults = {each.name: _default(each) for each in fields(entry)}
        values = {name: getattr(entry, name) for name in defaults if name not in _NO_RESULT}
    elif hasattr(entry, "_field_defaults"):  # a NamedTuple
        values, defaults = entry._asdict(), entry._field_defaults
    else:
        return [row_of(each) for each in entry] if isinstance(entry, list | tuple) else entry
    return {name: row_of(value) for name, value in values.items() if name not in defaults or value != defaults[name]}


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _without(settings: dict[str, Any], roles: set[str]) -> dict[str, Any]:
    """Return settings without those that roles name (`model`, `chat.model`): their content is hashed instead."""
    inner = {name: {role.partition(".")[2] for role in roles if role.startswith(f"{name}.")} for name in settings}
    return {
        name: _without(value, inner[name]) if inner[name] else value
        for name, value in settings.items()
        if name not in roles
    }


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)
