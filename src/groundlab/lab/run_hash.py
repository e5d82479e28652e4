"""The name of a run: a hash over everything that its result depends on.

    its spec              method, world, seed, and the settings that differ from the method's defaults
    rows                  of the method and of each world that it plays, as data
    code                  the import closure of the method's module (import_closure.py), and the pinned versions
    files                 the text assets that its method declares, and what its settings make it read

Equal hash, equal result: a finished run is never repeated, and a change of any of these makes a new run. A move, a
comment, a docstring, a new method, world, paper or figure renames no run.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import find_root
from groundlab.core.run import RunSpec
from groundlab.core.storage import digest_bytes, digest_files, digest_json
from groundlab.lab import import_closure, machine
from groundlab.papers import registry

HASH_LENGTH = 16  # hexadecimal digits: short enough to read in a path, 64 bits
_NO_RESULT = {"module", "settings", "summary", "assets", "families", "worlds"}
"""Fields of a row that are prose, say where a method runs, or are hashed by content."""


def code_digest(method: str, world: str) -> str:
    """SHA-256 of the code that matters to a run of this method on this world, and of the pinned versions."""
    return digest_of_modules(modules_of(method, world))


def modules_of(method: str, world: str) -> tuple[str, ...]:
    """The modules whose import closure is the code of a run."""
    row = registry.get(method, world)
    family = type(worlds.family_of(world))
    return (row.module, registry.schema_of(row).__module__, registry.__name__, family.__module__)


def digest_of_modules(starts: tuple[str, ...]) -> str:
    """SHA-256 of the import closure of some modules, and of the pinned versions."""
    packages = {name: package_folder(name) for name in {start.partition(".")[0] for start in starts}}
    return digest_json([closure_digest(starts, packages), _pins_digest()])


def _pins_digest() -> str | None:
    """SHA-256 of the pinned versions, outside a clone of those that are installed."""
    root = find_root()
    if root is None:
        return digest_json(machine.package_versions())
    pins = root / "requirements" / "constraints.txt"
    return digest_bytes(pins.read_bytes()) if pins.is_file() else None


def closure_digest(starts: tuple[str, ...], packages: dict[str, Path]) -> str:
    """`import_closure.digest`, which takes seconds, kept in the user's cache folder by the content of all sources."""
    sources = {name: digest_files(home.rglob("*.py"), home) for name, home in packages.items()}
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    file = base / "groundlab" / "code" / digest_json([starts, sources])
    if file.is_file():
        return file.read_text()
    digest = import_closure.digest(starts, packages)
    with suppress(OSError, GroundlabError):  # a folder that cannot be written costs time only
        storage.write_atomic(file, digest)
    return digest


@cache
def package_folder(name: str = "groundlab") -> Path:
    """Where the source of a package is."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise GroundlabError(f"the package {name} has no __init__.py; add one, so that its code can name its runs")
    return Path(spec.origin).parent


def input_digests(method: str, world: str, settings: dict[str, Any]) -> dict[str, str]:
    """The files that a run reads (prompts, a ledger) with their SHA-256, by path.

    The path is as given, or from the package's folder: what ships has the same name in every checkout and image.
    """
    files = sorted({*registry.settings_of(method, world, settings).input_files(), *declared_assets(method, world)})
    return {_name(file): digest_bytes(file.read_bytes()) for file in files if file.is_file()}


def declared_assets(method: str, world: str) -> list[Path]:
    """The text assets that a method says it reads. Raises GroundlabError for a pattern that fits none."""
    home, found = package_folder() / "assets", []
    for pattern in registry.get(method, world).assets:
        files = sorted(home.glob(pattern))
        if not files:
            raise GroundlabError(f"{method} declares the asset {pattern!r}, but {home} has none; mend the method's row")
        found += files
    return found


def _name(file: Path) -> str:
    package = package_folder()
    return file.relative_to(package).as_posix() if file.is_relative_to(package) else str(file)


def hash_run(spec: RunSpec, code: str | None = None) -> str:
    """The hash that names a run; `code` spares the reading of the sources when their digest is known."""
    method = registry.get(spec.method, spec.world)
    settings = registry.settings_of(spec.method, spec.world, spec.settings)
    changed = settings.model_dump(mode="json", exclude_defaults=True)
    # its world and all that its settings name, as tests do ("BabyAI-GoToLocal-v0 synonyms")
    words = {word for text in _strings(spec.settings) for word in text.split()}
    world_rows = {name: _row(worlds.find(name)) for name in {spec.world, *words.intersection(worlds.names())}}
    parts = [
        {**spec.model_dump(), "settings": changed},
        _row(method),
        world_rows,
        code or code_digest(spec.method, spec.world),
        input_digests(spec.method, spec.world, spec.settings),
    ]
    return digest_json(parts)[:HASH_LENGTH]


def _row(entry: Any) -> dict[str, Any]:
    """An entry of a table as data, without its prose."""
    return {name: value for name, value in asdict(entry).items() if name not in _NO_RESULT}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)
