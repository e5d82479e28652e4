"""Digests of source code: `sources` of groundlab, `digest_of` any other package.

They name no run. They tell a working copy that a plan, a checkpoint or a finished run was made by other code than the
code of this process.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from groundlab.core.errors import GroundlabError
from groundlab.core.storage import digest_files


@cache
def package_folder(name: str = "groundlab") -> Path:
    """Return the folder of a package's source. Raises GroundlabError for a package without an `__init__.py`."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise GroundlabError(f"expected a package {name} with an __init__.py, got none; add the file")
    return Path(spec.origin).parent


@cache
def digest_of(package: str) -> str:
    """Return SHA-256 over names and contents of all .py files of a package, as first read by this process."""
    home = package_folder(package)
    return digest_files(home.rglob("*.py"), home)


def sources() -> str:
    """Return the digest of groundlab's own code."""
    return digest_of("groundlab")
