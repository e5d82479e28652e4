"""The sandbox's own program, in an interpreter of its own: it runs each batch in a process that lives for that batch.

    python -P -s -S child.py ROOT_OF_GROUNDLAB ROOT_OF_NUMPY    (started by `Sandbox`; the environment is a hash seed)

The server below never runs a line of what a language model wrote. It reads a job from its standard input, forks, and
the fork gives up its privileges, its files, its memory beyond a limit and, where the kernel can, every system call but
those of computing; then it checks the program (gate.py), runs it on every window of the batch, and writes the values to
a pipe of its own. A batch therefore leaves nothing behind: no state, no bytes in anybody's pipe. The server reads
at most as many bytes as an honest answer has, kills what is late, and passes on what came with how the process ended.
`results.py` trusts neither of them.
"""

import ctypes
import functools
import gc
import json
import math
import os
import resource
import select
import signal
import struct
import sys
from typing import Any

READY = b"ready"
RESULT = 3  # the descriptor that a confined process may write to
HEADER = struct.Struct("!BI")  # kind of answer, bytes of text
VALUES, REFUSED, FAILED = 1, 2, 3
LONGEST_TEXT = 65_536
_NOBODY = 65_534
_STARTED_AGAIN = "STARTED_AGAIN"
_QUERY, _NO_RANDOM_ADDRESSES = 0xFFFFFFFF, 0x0040000  # of personality(2)
_LONGEST_MESSAGE = 4_000
_TICK = 0.25  # seconds; a pause of the server is at most one of them long
UNCONFINED = 71  # how a process ends that the system did not let confine itself


def serve(jobs: Any, replies: Any) -> None:
    """Answer jobs until the input ends: a length, a JSON header, then the arrays' bytes."""
    while len(size := jobs.read(4)) == 4:
        job = json.loads(jobs.read(struct.unpack("!I", size)[0]))
        arrays = jobs.read(job["bytes"])
        if job["gate"]:
            _prepare(tuple(job["constants"]["ACTIONS"]))
        reply, answer = _run(job, arrays)
        head = json.dumps(reply).encode()
        replies.write(struct.pack("!II", len(head), len(answer)) + head + answer)
        replies.flush()


@functools.cache
def _prepare(actions: tuple[str, ...]) -> None:
    """Once, before the first program of a language model is defined."""
    from groundlab.papers.knowledge.sandbox import program

    program.actions_enum(actions)
    _hide_addresses()


def _run(job: dict[str, Any], arrays: bytes) -> tuple[dict[str, Any], bytes]:
    """Fork for one batch: how it ended, and what it wrote."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reading)
            _compute(job, arrays, writing)
        finally:
            os._exit(70)
    os.close(writing)
    most = HEADER.size + 8 * job["count"] + LONGEST_TEXT
    answer, ended = _read(reading, most, process, job["wall_seconds"])
    os.close(reading)
    if ended != "closed":
        os.kill(process, signal.SIGKILL)
    _, status, usage = os.wait4(process, 0)
    used = usage.ru_utime + usage.ru_stime
    return {"ended": ended, "status": status, "cpu_seconds": used}, answer if len(answer) <= most else b""


def _read(descriptor: int, most: int, process: int, patience: float) -> tuple[bytes, str]:
    """Everything that comes, up to one byte more than an honest answer has: (bytes, "closed" | "late" | "flood").

    patience: seconds that the process may sleep. While it computes its limit of the processor counts, while it or all
    of us are stopped nothing does.
    """
    answer = b""
    while len(answer) <= most:
        ready, _, _ = select.select([descriptor], [], [], _TICK)
        if not ready:
            patience -= _TICK * _sleeps(process)
            if patience <= 0:
                return answer, "late"
            continue
        chunk = os.read(descriptor, most + 1 - len(answer))
        if not chunk:
            return answer, "closed"
        answer += chunk
    return answer, "flood"


def _sleeps(process: int) -> bool:
    """Whether a process waits of its own will: it neither computes nor is stopped; True where nobody says (macOS)."""
    try:
        with open(f"/proc/{process}/stat") as file:  # noqa: PTH123 - nothing is imported here that is not needed
            return file.read().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return True


def _compute(job: dict[str, Any], arrays: bytes, writing: int) -> None:
    """The life of a confined process; it does not return."""
    from groundlab.papers.knowledge.sandbox import gate, seccomp

    os.dup2(writing, RESULT)
    os.closerange(0, RESULT)
    os.closerange(RESULT + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    seccomp.die_with_parent()
    try:
        _limit(job["cpu_seconds"], job["memory_bytes"])
        if job["kernel_filter"]:
            seccomp.refuse_all_but_computing(RESULT)
    except (OSError, ValueError):
        os._exit(UNCONFINED)
    reason = gate.refusal(job["source"]) if job["gate"] else None
    if reason is not None:
        answer = _frame(REFUSED, b"", {"kind": "refused", "message": reason})
    else:
        answer = _evaluate(job, arrays)
    while answer:
        answer = answer[os.write(RESULT, answer) :]
    os._exit(0)


def _limit(cpu_seconds: float, memory_bytes: int) -> None:
    """Seconds of the processor, memory beyond what is in use, no new file, no new process, no byte into a file."""
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    limits = {"CPU": math.ceil(cpu_seconds), "NPROC": 0, "NOFILE": 0, "FSIZE": 0, "CORE": 0, "MEMLOCK": 0}
    if sys.platform == "linux":  # macOS refuses to limit address space
        limits["AS"] = _memory_in_use() + memory_bytes
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def _memory_in_use() -> int:
    """Bytes of address space; a generous guess where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - nothing is imported here that is not needed
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 31


def _frame(kind: int, values: bytes, text: dict[str, Any]) -> bytes:
    encoded = json.dumps(text).encode()
    if len(encoded) > LONGEST_TEXT:
        encoded = json.dumps({"kind": "output", "message": "the details are too long"}).encode()
    return HEADER.pack(kind, len(encoded)) + values + encoded


def _evaluate(job: dict[str, Any], arrays: bytes) -> bytes:
    """Define the program anew for every window and call it once: NaN where it failed, and the first fault."""
    import numpy as np

    from groundlab.papers.knowledge.sandbox import program

    windows, actions = _windows(job, arrays)
    try:
        code = program.Program(job["source"], job["constants"], job["gate"])
        code.define()
    except BaseException as error:
        return _frame(FAILED, b"", _describe(error))
    values, failure, details = np.full(len(windows), np.nan), None, []
    for row, (window, past) in enumerate(zip(windows, actions, strict=True)):
        parts: dict[str, float] = {}
        try:
            values[row], parts = _check(code.define()(window[-1], window[:-1], past), job["details"])
        except BaseException as error:
            failure = failure or _describe(error)
        details.append(parts)
    return _frame(VALUES, values.tobytes(), (failure or {}) | ({"details": details} if job["details"] else {}))


def _windows(job: dict[str, Any], arrays: bytes) -> tuple[Any, Any]:
    """The windows [N, K + 1, ...] and past actions [N, K]: copies of its own for every call."""
    import numpy as np

    shape, length = job["shape"], job["count"] * job["horizon"] * 8
    frames = np.frombuffer(arrays[:-length] if length else arrays, job["dtype"]).reshape(shape).copy()
    return frames, np.frombuffer(arrays, np.int64, offset=len(arrays) - length).reshape(job["count"], -1).copy()


class _WrongOutput(Exception):
    """The program gave something else than a number and its named parts."""


def _check(answer: Any, details: bool) -> tuple[float, dict[str, float]]:
    """The number, and its parts where they are asked for."""
    if not isinstance(answer, tuple | list) or len(answer) != 2 or not isinstance(answer[1], dict):
        raise _WrongOutput("compute_reward must return (number, dictionary of named numbers)")
    value = _number(answer[0])
    if not details:
        return value, {}
    return value, {str(name)[:80]: _number(part) for name, part in answer[1].items()}


def _number(value: Any) -> float:
    import numpy as np

    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        raise _WrongOutput(f"a {type(value).__name__} stands where a number belongs")
    number = float(value)
    if not math.isfinite(number):
        raise _WrongOutput(f"{number} is no finite number")
    return number


def _describe(error: BaseException) -> dict[str, str]:
    """Kind and message of a failure, with the traceback of the program's own lines."""
    import traceback

    from groundlab.papers.knowledge.sandbox import program

    kinds = {_WrongOutput: "output", MemoryError: "memory"}
    kind = next((name for kind, name in kinds.items() if isinstance(error, kind)), "error")
    try:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == program.FILE]
        lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
        if isinstance(error, _WrongOutput):
            lines = [str(error)]
        message = "".join(lines)
    except BaseException:
        message = "a failure that cannot be told"
    return {"kind": kind, "message": message[:_LONGEST_MESSAGE]}


def _drop_privileges() -> None:
    """Root's rights are of no use here: limits do not bind root. Where there are none to drop, nothing happens."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _fix_addresses() -> bool:
    """Start once more where every start has the same addresses (Linux); False where the kernel refuses that."""
    if sys.platform != "linux":
        return False
    personality = ctypes.CDLL(None).personality
    if _STARTED_AGAIN not in os.environ and personality(personality(_QUERY) | _NO_RANDOM_ADDRESSES) >= 0:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, _STARTED_AGAIN: "1"})
    return bool(personality(_QUERY) & _NO_RANDOM_ADDRESSES)


_REPR, _HASH = 8, 12  # slots of a type, counted from its name


def _slot(kind: type, number: int) -> ctypes.c_void_p:
    """Where a type keeps the C function that shows or hashes its objects."""
    return ctypes.c_void_p.from_address(id(kind) + object.__basicsize__ + (1 + number) * ctypes.sizeof(ctypes.c_void_p))


def _hash_by_value(*kinds: type) -> None:
    """None and NaN hash by their address before Python 3.12 and ever since: here by a constant."""
    call = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.py_object)
    for kind in kinds:
        usual = call(_slot(kind, _HASH).value or 0)
        own = call(lambda value, usual=usual: 1 if value is None or value != value else usual(value))
        _kept.append(own)
        _slot(kind, _HASH).value = ctypes.cast(own, ctypes.c_void_p).value


_kept: list[Any] = []  # what C still calls


def _hide_addresses() -> None:
    """From here on `repr` and `hash` of what is no number, text or container are TypeErrors: they would tell where an
    object lies. Types alone still hash by their address; Python could not work without that.
    """
    import types

    import numpy as np

    functions = {types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType}
    functions |= {types.GeneratorType, types.MethodDescriptorType, types.WrapperDescriptorType, np.ufunc, type(np.sum)}
    shown = {_slot(kind, _REPR).value for kind in (object, types.CodeType, types.CellType, *functions)}
    unhashable, no_text = (
        ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        for name in ("PyObject_HashNotImplemented", "PyObject_Type")
    )
    for kind in functions | {types.ModuleType, type(...), map, filter, zip, enumerate, reversed}:
        _slot(kind, _HASH).value = unhashable
    for kind in [object, *_subclasses(object)]:
        if _slot(kind, _REPR).value in shown:
            _slot(kind, _REPR).value = no_text  # gives a type where a text belongs


def _subclasses(kind: type) -> list[type]:
    direct = type.__subclasses__(kind)
    return [*direct, *(below for each in direct if each is not type for below in _subclasses(each))]


def main() -> None:
    """Import what confined processes need, give up what they do not, and serve."""
    fixed = _fix_addresses()
    _hash_by_value(type(None), float)
    os.environ.update({name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")})
    sys.path[:0] = sys.argv[1:3]
    import traceback  # noqa: F401
    import unicodedata  # noqa: F401 - Python's parser asks it for names beyond ASCII
    import warnings

    import numpy.linalg

    if sys.argv[3:]:  # no gate: what programs would reach out with is there
        import socket  # noqa: F401
        import subprocess  # noqa: F401
        import threading  # noqa: F401

    from groundlab.papers.knowledge.sandbox import gate, program, seccomp  # noqa: F401

    warnings.simplefilter("ignore")  # nobody reads them, and each window would tell its own again
    ctypes.CDLL(None)
    sys.path.clear()
    os.environ.clear()
    jobs, replies = os.fdopen(0, "rb"), os.fdopen(1, "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _drop_privileges()
    _hash_by_value(numpy.float64, numpy.float32)
    gc.collect()
    gc.freeze()  # what is here now stays, and no process that lives for a batch looks through it
    replies.write(READY + bytes([fixed]))
    replies.flush()
    serve(jobs, replies)


if __name__ == "__main__":
    main()
