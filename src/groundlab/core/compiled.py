"""The decorator of every compiled loop, and where compiled code is kept.

Numba's cache notices a change in a function's own file only, not in the files it calls or takes constants from. So the
cache folder is named by the content of all of them and the versions of what compiles: a change anywhere compiles
afresh, and no stale machine code is ever run. It lies in the user's cache folder, or in the one that `NUMBA_CACHE_DIR`
names, where processes share it; where that cannot be written, in a temporary one of this process and its workers.
"""

import atexit
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
from numba import njit, types
from numba.core import cgutils, event
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic, register_jitable
from numba.np.arrayobj import make_array

from groundlab.core.errors import LONGEST_LINE, GroundlabError, clip, first_line
from groundlab.core.paths import user_cache
from groundlab.core.storage import digest_files, digest_json

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    raise GroundlabError("expected numba to compile the worlds, got NUMBA_DISABLE_JIT=1; unset it")

if "scipy.linalg" not in sys.modules:
    # Numba's arrays look for scipy's BLAS as they load: a fifth of a command's start, and no loop here needs it.
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment] - "there is none"
    import numba.np.arraymath

    del sys.modules["scipy.linalg"]

_PACKAGE = Path(__file__).resolve().parent.parent


def _content() -> str:
    """A name of everything that machine code is made of; opensimplex's loops are compiled with ours."""
    sources = {file for file in _PACKAGE.rglob("*.py") if b"groundlab.core.compiled" in file.read_bytes()}
    sources |= set((_PACKAGE / "worlds").rglob("*.py"))  # constants are part of the code
    versions = map(version, ("numba", "llvmlite", "numpy", "opensimplex"))
    return digest_json([digest_files(sources, _PACKAGE), *versions])[:12]


def _keep_in_folder(name: str) -> None:
    """Have numba keep machine code in a folder of that name, and nowhere if no folder can be written at all."""
    try:
        home = Path(os.environ.get("NUMBA_CACHE_DIR") or user_cache("numba")).absolute()
        folder = home if home.name == name else home / name  # a process that we started is given ours
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, GroundlabError) as error:
        lost = f"groundlab: loops are compiled for this process only, a minute ({first_line(error)})"
        print(clip(f"{lost}; NUMBA_CACHE_DIR=FOLDER names a place to keep them", LONGEST_LINE), file=sys.stderr)
        try:
            own = tempfile.TemporaryDirectory(prefix="groundlab-numba-")
        except OSError:
            Dispatcher.enable_caching = lambda self: None  # numba would refuse to load what it cannot keep
            return
        atexit.register(own.cleanup)
        folder = Path(own.name, name)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)  # for workers, and because numba reads its variables again
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]


_keep_in_folder(_content())


class _Announcement(event.Listener):
    """Says once, on stderr, that a world is compiled: nothing else would tell why the first use takes so long."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        """Numba begins to compile a function, which no cache held."""
        if not self._said and event.data["dispatcher"].py_func.__module__.startswith("groundlab.worlds"):
            self._said = True
            print("groundlab: compiling what this world needs (once; about 15 seconds)", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """Numba is done with a function."""


event.register("numba:compile", _Announcement())

_KEPT: Any = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
compiled = njit(**_KEPT)
# Inner functions: inlined by LLVM, which saves passing the arrays of a whole state to a real call. Python that calls
# one runs it uncompiled, so no wrapper for Python is compiled either: a tenth of a world's first use.
_INLINED = {"nogil": True, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inlined = register_jitable(**_INLINED)
# The same for sums of products: each may be rounded once and added up in lanes, which only such loops allow.
_SUMS = {"contract", "reassoc", "nsz"}
compiled_sums = njit(cache=True, nogil=True, fastmath=_SUMS, error_model="numpy")
inlined_sums = njit(nogil=True, forceinline=True, fastmath=_SUMS, error_model="numpy")


def compiled_for(signature: str):
    """An inner function that stays a real call, compiled once, for one signature.

    For what is large or rarely called, such as parts of levels: without a signature numba compiles it again for every
    mix of integer types, and inlined it is compiled wherever it is used. Give it the arrays of one environment, never
    a whole state, whose arrays would be counted in and out at every call.
    """
    return njit(signature, **_KEPT)


@intrinsic
def _borrowed(_typing, arrays):
    """The same array, or tuple of arrays, without owner: for a loop whose caller holds them until it returns.

    Numba counts every view of an owned array in and out, atomically: ten views a step took longer than the step.
    """

    def generate(context, builder, signature, values):
        return _without_owner(context, builder, signature.args[0], values[0])

    return arrays(arrays), generate


borrowed: Any = _borrowed  # compiled code calls it with the arrays alone


def _without_owner(context, builder, kind, value):
    if not isinstance(kind, types.Array):
        pairs = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(builder, kind, [_without_owner(context, builder, *pair) for pair in pairs])
    array = make_array(kind)(context, builder, value)
    for owner in ("meminfo", "parent"):
        setattr(array, owner, cgutils.get_null_value(getattr(array, owner).type))
    return array._getvalue()
