"""What a run is named by: a hash over everything that its result depends on.

That is the spec with resolved settings, the code that matters (core, worlds, language, learning, the method's own
files, the pinned versions) and the content of input files. Equal hash, equal result: a finished run is never repeated,
and a change of any of these makes a new run. The laboratory itself and the report are not part of it.
Read next: `plan.py` and `worker.py`, the two users.
"""

from pathlib import Path
from typing import Any

import groundlab
from groundlab.core.hashing import digest_bytes, digest_files, digest_json
from groundlab.core.paths import repository_root
from groundlab.core.run import RunSpec
from groundlab.papers import registry

HASH_LENGTH = 16  # hexadecimal digits: short enough to read in a path, 64 bits
_FLOORS = ("core", "worlds", "language", "learning")


def resolve(method: str, world: str, seed: int, given: dict[str, Any]) -> RunSpec:
    """The spec of a run with its settings completed by the method's defaults.

    Raises GroundlabError for an unknown method, world or setting, naming the nearest.
    """
    registry.check_world(method, world)
    return RunSpec(method=method, world=world, seed=seed, settings=registry.resolve_settings(method, world, given))


def code_digest(method: str, world: str) -> str:
    """SHA-256 of the code that matters to a run of this method on this world."""
    package = Path(groundlab.__file__).parent
    shared = [file for floor in _FLOORS for file in (package / floor).rglob("*.py")]
    own = sorted((package / "papers").rglob("*.py"))
    pins = repository_root() / "requirements" / "constraints.txt"
    pinned = digest_bytes(pins.read_bytes()) if pins.is_file() else None
    return digest_json([digest_files({*shared, *own}, package), pinned])


def input_digests(method: str, world: str, settings: dict[str, Any]) -> dict[str, str]:
    """The files that a run reads (a ledger, say) with their SHA-256, by path: as given, or from the package's folder.

    So what ships has the same name in every checkout, image and cluster.
    """
    files = sorted(registry.input_files(method, world, settings))
    return {_name(file): digest_bytes(file.read_bytes()) for file in files if file.is_file()}


def _name(file: Path) -> str:
    package = Path(groundlab.__file__).parent
    return file.relative_to(package).as_posix() if file.is_relative_to(package) else str(file)


def hash_run(spec: RunSpec, code: str | None = None) -> str:
    """The hash that names a run; `code` spares the reading of the sources when their digest is known."""
    inputs = input_digests(spec.method, spec.world, spec.settings)
    parts = [spec.model_dump(), code or code_digest(spec.method, spec.world), inputs]
    return digest_json(parts)[:HASH_LENGTH]
