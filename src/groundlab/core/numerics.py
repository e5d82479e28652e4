"""The instruction set that the numeric libraries are held to, so that CPUs of several kinds round alike.

Left alone, torch, MKL, oneDNN and OpenBLAS choose their kernels by the CPU, and numba compiles for it; kernels of
several widths add in different orders. Held to AVX2 they are the same on the kinds of CPU named in docs/artifact.md.
The libraries read these variables when they are loaded, so groundlab sets them as soon as it is imported, where a user
has not set them already.
"""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

AVX2 = MappingProxyType(
    {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "NUMBA_CPU_NAME": "x86-64-v3",
        "NUMBA_CPU_FEATURES": "",  # those of the name, none of this CPU
    }
)
"""What holds each library to AVX2. numpy has no upper bound: it gets the names of all sets beyond."""
NATIVE = MappingProxyType({"ONEDNN_MAX_CPU_ISA": "ALL"})
"""Variables that let oneDNN use all instructions of this CPU in 16-bit products; it reads them at its first one."""
_NEEDED = {"avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe"}  # x86-64-v3
_NAMED_SO = (2, 4)  # the first numpy that knows these names; an older one warns of each at every start


def hold() -> None:
    """Hold what is loaded from now on to AVX2; nothing on a CPU without it, where some libraries would crash."""
    if _has_avx2():
        held = dict(AVX2)
        if tuple(map(int, version("numpy").split(".")[:2])) < _NAMED_SO:
            del held["NPY_DISABLE_CPU_FEATURES"]
        os.environ.update(held | os.environ)


def ask_for_portable(asked: bool) -> None:
    """Hand `--portable` to this process and its workers, by the environment, before anything was multiplied.

    MKL has kernels of its own for Intel's CPUs and for others' even at AVX2; COMPATIBLE names those that are the same.
    """
    if asked:
        os.environ["MKL_CBWR"] = "COMPATIBLE"


def held() -> dict[str, str]:
    """The variables of this process that choose instruction sets, as a manifest names them."""
    return {name: os.environ[name] for name in (*AVX2, "MKL_CBWR") if name in os.environ}


def cpu_kind() -> str:
    """Return what this CPU's rounding may depend on: vendor, family, model and instruction sets, as far as known."""
    listing = Path("/proc/cpuinfo")
    first = listing.read_text(encoding="utf-8").partition("\n\n")[0] if listing.is_file() else ""
    named = [line for line in first.splitlines() if line.startswith(("vendor_id", "cpu family", "model\t", "flags"))]
    return "\n".join([platform.machine(), *named])


def _has_avx2() -> bool:
    return platform.machine() == "x86_64" and set(cpu_kind().split()) >= _NEEDED
