"""Facts about where results came from: packages, hardware and commit; and the resources that a process has used.

Everything is read once a process and kept, except `Usage`, which measures.
"""

import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

import groundlab
from groundlab.core import git, numerics
from groundlab.core.errors import GroundlabError, shown_value
from groundlab.core.run import RunSpec

COMPUTE = ("torch", "transformers", "tokenizers", "peft", "numpy", "numba", "crafter", "opensimplex", "minigrid")
"""The packages that results are computed with: their versions are part of every run's name."""

# Read by the libraries when they are first imported, so a worker is born with them.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@cache
def facts() -> dict[str, Any]:
    """`{git, python, platform, packages, hardware}` of this process."""
    return {
        "git": git.facts(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": package_versions(),
        "hardware": hardware(),
    }


@cache
def package_versions() -> dict[str, str]:
    """The versions of groundlab as it runs, of what it requires directly, and of all that computes, as installed."""
    required = list[str]()
    with suppress(metadata.PackageNotFoundError):  # a clone that lies on PYTHONPATH and is not installed
        required = [line for line in metadata.requires("groundlab") or [] if "extra ==" not in line]
    found = {"groundlab": groundlab.__version__}
    for name in sorted({*COMPUTE, *(Requirement(line).name for line in required)}):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@cache
def hardware() -> dict[str, Any]:
    """`{cpu, vector_flags, blas, held_to, cores, memory_gib, gpu}` of this machine.

    cpu: name, family and model, since one name ("AMD EPYC") stands for several generations; vector_flags: the vector
    instructions that kernels are chosen by; blas: library and kernel; held_to: the
    variables that choose other ones (core/numerics.py); cores = those that this process may use;
    gpu = None without one, else `gpu_driver` and `cuda` are beside it: NVIDIA's driver, and what torch was built for.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    entries = proc("cpuinfo")
    cpu = entries.get("model name") or platform.processor() or platform.machine()
    cpu += f" (family {entries['cpu family']}, model {entries['model']})" if "cpu family" in entries else ""
    return {
        "cpu": cpu,
        "vector_flags": sorted(word for word in entries.get("flags", "").split() if word.startswith(_VECTORS)),
        "blas": _blas_kernels(),
        "held_to": numerics.held(),
        "cores": core_count(),
        "memory_gib": round(memory, 1),
        "gpu": ", ".join(gpu_names()) or None,
        **(_gpu_facts() if gpus() else {}),
    }


def proc(name: str) -> dict[str, str]:
    """The first part of a file of Linux's /proc (of `cpuinfo` the first core's), by entry; empty elsewhere."""
    file = Path("/proc") / name
    lines = file.read_text(encoding="utf-8").partition("\n\n")[0].splitlines() if file.is_file() else []
    return {entry.strip(): value.strip() for entry, _, value in (line.partition(":") for line in lines)}


def _gpu_facts() -> dict[str, Any]:
    drivers = _ask_driver("driver_version")
    import torch  # plans on machines without a GPU are made without it

    return {"gpu_driver": drivers[0].strip() if drivers else None, "cuda": torch.version.cuda}


def _ask_driver(fields: str) -> list[str]:
    """What nvidia-smi says of each GPU, a line each; nothing where there is none."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    return answer.stdout.splitlines() if answer.returncode == 0 else []


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread in torch, as a worker process has: sums then have one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def core_count() -> int:
    """The CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_VECTORS = ("sse4", "avx", "fma", "amx")


def _blas_kernels() -> list[str]:
    """`openblas 0.3.30 SkylakeX`: each BLAS of this process, with the kernel that it chose for this CPU."""
    import numpy  # noqa: F401 - brings its BLAS into the process
    from threadpoolctl import threadpool_info

    found = [each for each in threadpool_info() if each["user_api"] == "blas"]
    return sorted(
        {" ".join(str(each.get(key) or "?") for key in ("internal_api", "version", "architecture")) for each in found}
    )


VISIBLE = "CUDA_VISIBLE_DEVICES"
DETERMINISTIC_VARIABLE = "GROUNDLAB_DETERMINISTIC"


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine: its name, and what CUDA_VISIBLE_DEVICES calls it."""

    name: str
    handle: str


@cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs that this process may use, as nvidia-smi lists them: those of CUDA_VISIBLE_DEVICES where it is set."""
    lines = _ask_driver("index,uuid,name")
    rows = [[word.strip() for word in line.split(",", 2)] for line in lines if line.count(",") > 1]
    if VISIBLE not in os.environ:
        return tuple(Gpu(name, index) for index, _, name in rows)
    visible = []
    for handle in os.environ[VISIBLE].split(","):
        word = handle.strip()
        match = [name for index, uuid, name in rows if word and (word == index or uuid.startswith(word))]
        if not match and not word.startswith("MIG-"):
            break  # CUDA, too, takes no entry after one that it does not know
        visible.append(Gpu(match[0] if match else "part of a GPU", word))
    return tuple(visible)


def only_visible(handle: str) -> dict[str, str]:
    """The variables of a process that is to see this GPU and no other; of none, for an empty handle.

    nvidia-smi numbers GPUs by their place on the bus. CUDA puts the fastest first, unless it is told to do the same.
    """
    return {VISIBLE: handle, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def gpu_names() -> tuple[str, ...]:
    return tuple(gpu.name for gpu in gpus())


def deterministic() -> bool:
    """Whether `--deterministic` was asked for, here or where this process was started from."""
    return os.environ.get(DETERMINISTIC_VARIABLE) == "1"


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended; `os.times` would count in hundredths only."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@dataclass
class Usage:
    """Wall time, CPU time (with child processes) and peak memory since it was made."""

    _wall: float = field(default_factory=time.monotonic)
    _cpu: float = field(default_factory=_cpu_seconds)

    def __post_init__(self) -> None:
        _reset_peak_memory()

    def so_far(self) -> dict[str, float]:
        """`{wall_seconds, cpu_seconds, peak_memory_mib}`, and `peak_device_mib` where a GPU was used."""
        peak = _peak_device_mib()
        return {
            "wall_seconds": round(time.monotonic() - self._wall, 2),
            "cpu_seconds": round(_cpu_seconds() - self._cpu, 3),
            "peak_memory_mib": round(_peak_memory_mib(), 1),
            **({} if peak is None else {"peak_device_mib": round(peak, 1)}),
        }


def _cuda() -> Any:
    """torch.cuda where this process has used it, else None: nobody else's torch is imported, or started, for this."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def _peak_device_mib() -> float | None:
    """What the fullest GPU of this process held for tensors at most, with what the allocator kept; None without one."""
    cuda = _cuda()
    return max(cuda.max_memory_reserved(gpu) for gpu in range(cuda.device_count())) / 2**20 if cuda else None


def _reset_peak_memory() -> None:
    """Let a worker's next run start its own peaks (of main memory on Linux only; elsewhere it is the process's)."""
    cuda = _cuda()
    for gpu in range(cuda.device_count()) if cuda else ():
        cuda.reset_peak_memory_stats(gpu)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory_mib() -> float:
    if peak := proc("self/status").get("VmHWM"):
        return int(peak.removesuffix(" kB")) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss: bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def gpu_number(device: str) -> int | None:
    """The number of the GPU that a device names (0 for `cuda`); None for `cpu`. Raises GroundlabError for others."""
    kind, _, number = device.partition(":")
    if device == "cpu":
        return None
    if kind != "cuda" or (device != "cuda" and not (number.isascii() and number.isdecimal())):
        raise GroundlabError(
            f"unknown device {shown_value(device)}; use cpu, cuda, or cuda:N for the GPU of that number"
        )
    return int(number or 0)


def devices_of(settings: dict[str, Any]) -> list[str]:
    """The devices that a method's settings name, also inside other settings (`chat: {device: cuda}`)."""
    inner = [each for value in settings.values() if isinstance(value, dict) for each in devices_of(value)]
    return [str(settings["device"]), *inner] if "device" in settings else inner


def instruction_sets(settings: dict[str, Any]) -> dict[str, str]:
    """Variables of a process that computes in bfloat16 on a CPU: AVX2 takes ten times as long. None for other runs."""
    inner = (instruction_sets(value) for value in settings.values() if isinstance(value, dict))
    own = settings.get("dtype") == "bfloat16" and settings.get("device") == "cpu"
    return dict(numerics.NATIVE) if own or any(inner) else {}


def needs_gpu(settings: dict[str, Any]) -> bool:
    """Whether a run with these settings asks for a GPU (`device: cuda`, `cuda:1`)."""
    return any(device.startswith("cuda") for device in devices_of(settings))


def check_devices(specs: Iterable[RunSpec]) -> None:
    """Raises GroundlabError for a device that has no such name, and for a GPU that torch has not to offer."""
    highest: list[tuple[RunSpec, int]] = []  # the GPU of the highest number that a run names
    for spec in specs:
        numbers = [number for device in devices_of(spec.settings) if (number := gpu_number(device)) is not None]
        highest += [(spec, max(numbers))] if numbers else []
    if not highest:
        return
    import torch  # plans are made without it

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    missing = [spec for spec, number in highest if number >= count]
    if missing:
        others = f" and {len(missing) - 1} other runs" if len(missing) > 1 else ""
        device = next(device for device in devices_of(missing[0].settings) if device != "cpu")
        here = f"finds {count or 'no'} GPU{'s' * (count > 1)} here{_why_no_gpu(count)}"
        raise GroundlabError(
            f"{missing[0].label}{others} want device {device}, and torch {here}; "
            "use a machine with one, another --scale, reproduce --device cpu, or for a single run --set device=cpu"
        )


def _why_no_gpu(count: int) -> str:
    """What may hide the GPUs of this machine from torch."""
    if VISIBLE in os.environ:
        return f" ({VISIBLE}={os.environ[VISIBLE]})"
    return f" ({', '.join(gpu_names())}: see docs/cluster.md on drivers)" if gpus() and not count else ""
