"""Code that a language model wrote, run where it can do no harm: batches in, finite and bounded numbers out.

    with Sandbox() as sandbox:
        result = sandbox.evaluate(source, windows, actions)    # windows [N, K + 1, 3, 7, 7], actions [N, K]
        result.values, result.fault

Layers, from the outside in: a static gate (gate.py); an interpreter of its own with an empty environment and no rights
of root; a process that lives for one batch, with limits on processor, memory, files and processes (child.py); a filter
in the kernel that leaves it nothing but computing (seccomp.py); and results.py, which believes nothing that comes back.
A batch is one round trip. Equal jobs give equal bits at every start: strings hash by a fixed seed, each window meets
the program defined anew (program.py), and no program reads memory that nobody wrote. Addresses are hidden: functions
have no text and no hash, None and NaN hash by a constant. What is left is the order of a set of types, which is the
same at every start if the kernel lets it be (Docker's default does not). A program that uses addresses of its own
objects is found out: the windows come in an order of our own, some of them twice. `Sandbox.protections` is measured,
not assumed: without the kernel's filter (another system or processor than it knows) limits alone keep nobody from
deleting files or sending signals; the gate has to. The tests attack all of it (processes/attacks.yaml).
Source: docs/papers/knowledge-method.md#s3.
"""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import groundlab
from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.papers.knowledge.sandbox import child, seccomp
from groundlab.papers.knowledge.sandbox.results import Limits, Result, assess, killed_by, loss
from groundlab.worlds.codes import ACTIONS, COLOURS, DOOR_STATES, STEP_X, STEP_Y, TYPES

REPEATS = 8  # windows of a batch that are evaluated twice
_START = 120.0  # seconds that a server may take to start, on a very busy machine
_GRACE = 30.0  # seconds that it may take beyond a batch's own time
_SHARE = 20  # of the processor, at least a twentieth is a batch's own on a busy machine
_ATTEMPTS = 3  # times that a batch is put to a server, when something outside has ended it
_TICK = 0.25  # seconds; waiting stops while all of us are stopped
_PROBE = """
def compute_reward(obs, past_obs, past_actions):
    import ctypes, os, threading
    library = ctypes.CDLL(None)
    def refused(attempt):
        try:
            return float(attempt() == -1)
        except (OSError, RuntimeError):
            return 1.0
    attempts = {
        "files": lambda: os.open("/", os.O_RDONLY),
        "network": lambda: library.socket(2, 1, 0),
        "processes": lambda: os.fork() or os._exit(0),
        "threads": lambda: threading.Thread(target=int).start(),
        "signals": lambda: os.kill(os.getppid(), 0),
        "clocks": lambda: library.usleep(1),
    }
    return 0.0, {name: refused(attempt) for name, attempt in attempts.items()}
"""


_ENVIRONMENT = {"PYTHONHASHSEED": "0"}  # -I would ignore it; -P and -s are the rest of -I


class _ServerLost(Exception):
    """The server gave no answer; why."""


def constants() -> dict[str, Any]:
    """What programs can use under minigrid's names (minigrid.core.constants, Actions)."""
    return {
        "OBJECT_TO_IDX": {name: code for code, name in enumerate(TYPES)},
        "IDX_TO_OBJECT": dict(enumerate(TYPES)),
        "COLOR_TO_IDX": {name: code for code, name in enumerate(COLOURS)},
        "IDX_TO_COLOR": dict(enumerate(COLOURS)),
        "COLOR_NAMES": sorted(COLOURS),
        "STATE_TO_IDX": {name: code for code, name in enumerate(DOOR_STATES)},
        "DIR_TO_VEC": [list(step) for step in zip(STEP_X, STEP_Y, strict=True)],
        "ACTIONS": list(ACTIONS),
    }


class Sandbox:
    """A server of programs; starts at the first batch, and again when it is lost (`respawns`); `close` ends it.

    A batch that something outside has ended is put again (`repeats`).
    """

    def __init__(self, limits: Limits | None = None, gate: bool = True, seed: int = 0):
        """gate: off only to show that the other layers hold. Raises GroundlabError where processes have no limits."""
        if sys.platform not in ("linux", "darwin"):
            raise GroundlabError("code of a language model runs on Linux and macOS only; choose another potential")
        self.limits, self.gate, self.respawns = limits or Limits(), gate, 0
        self.repeats = 0
        self._rng = generator(seed, "sandbox")
        self._server: subprocess.Popen[bytes] | None = None
        self._fixed_addresses = False
        self._kernel_filter = seccomp.is_available()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server. The sandbox starts another one when it is used again."""
        if self._server is not None:
            self._end(self._server)
            self._server = None

    @property
    def protections(self) -> dict[str, bool]:
        """What a process without the gate was refused on this machine, by trying it once; "addresses": whether those
        of the interpreter are the same at every start."""
        return _protections(self.limits)

    def evaluate(self, source: str, windows: np.ndarray, actions: np.ndarray, details: bool = False) -> Result:
        """`compute_reward(window[-1], window[:-1], actions)` of every window, in one round trip.

        windows: uint8 or float32 [N, K + 1, ...]; actions: integers [N, K]. A batch that ended early has failed as a
        whole. Raises GroundlabError for arrays that do not fit each other, when no server can be started, and for a
        batch that something outside ends each time.
        """
        count = len(windows)
        if windows.ndim < 3 or actions.ndim != 2 or actions.shape != (count, windows.shape[1] - 1):
            shapes = f"{list(windows.shape)} and {list(actions.shape)}"
            raise GroundlabError(f"windows and actions are {shapes}; give [N, K + 1, ...] and [N, K]")
        if count == 0:
            return Result(np.zeros(0), np.zeros(0, bool), None, [] if details else None, 0.0)
        order = self._rng.permutation(np.concatenate([np.arange(count), self._rng.permutation(count)[:REPEATS]]))
        reply, answer = self._send(self._job(source, windows[order], actions[order], details), len(order))
        return assess(reply, answer, order, count, self.limits, details)

    def _job(self, source: str, windows: np.ndarray, actions: np.ndarray, details: bool) -> bytes:
        dtype = np.uint8 if windows.dtype.kind in "uib" else np.float32
        arrays = windows.astype(dtype).tobytes() + actions.astype(np.int64).tobytes()
        limits = self.limits
        header = {
            "source": source,
            "gate": self.gate,
            "kernel_filter": self._kernel_filter,
            "constants": constants(),
            "details": details,
            "count": len(windows),
            "horizon": actions.shape[1],
            "shape": windows.shape,
            "dtype": np.dtype(dtype).str,
            "bytes": len(arrays),
            "cpu_seconds": limits.cpu_seconds_of(len(windows)),
            "memory_bytes": limits.memory_bytes,
            "wall_seconds": limits.wall_seconds,
        }
        encoded = json.dumps(header).encode()
        return struct.pack("!I", len(encoded)) + encoded + arrays

    def _send(self, job: bytes, count: int) -> tuple[dict[str, Any], bytes]:
        """Send a job to the server until nothing outside ends it, the server or the process of the batch."""
        patience = self.limits.wall_seconds + _GRACE + _SHARE * self.limits.cpu_seconds_of(count)
        cause = None
        for attempt in range(_ATTEMPTS):
            server = self._running()
            assert server.stdin and server.stdout
            try:
                server.stdin.write(job)
                server.stdin.flush()
                reply, answer = _receive(server.stdout.fileno(), patience)
                cause = loss(reply, count, self.limits)
            except (OSError, _ServerLost) as error:
                cause = _end_of(server, error)
                self.close()
                self.respawns += 1
            if cause is None:
                return reply, answer
            if attempt < _ATTEMPTS - 1:
                self.repeats += 1
                print(f"a batch of {count} windows in the sandbox was lost ({cause}); put again", file=sys.stderr)
        raise GroundlabError(f"the sandbox lost a batch of {count} windows {_ATTEMPTS} times: {cause}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._server is None or self._server.poll() is not None:
            self.respawns += self._server is not None
            self.close()
            roots = [Path(groundlab.__file__).parents[1], Path(np.__file__).parents[1]]
            command = [sys.executable, "-P", "-s", "-S", "-B", child.__file__, *map(str, roots)]
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            self._server = server = subprocess.Popen(
                command + ["open"] * (not self.gate),
                stdin=pipe,
                stdout=pipe,
                stderr=nowhere,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
            weakref.finalize(self, self._end, server)
            assert server.stdout
            try:
                self._fixed_addresses = bool(_read_exactly(server.stdout.fileno(), len(child.READY) + 1, _START)[-1])
            except _ServerLost:
                self.close()
                raise GroundlabError(f"the sandbox does not start; try: {' '.join(command)} < /dev/null") from None
        return self._server

    def processes(self) -> list[int]:
        """The processes of this sandbox that are there now: the server, and whatever else is of its group (Linux)."""
        if self._server is None or not Path("/proc").is_dir():
            return [] if self._server is None else [self._server.pid]
        group = self._server.pid
        running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [process for process in running if _group(process) == group]

    @staticmethod
    def _end(server: subprocess.Popen[bytes]) -> None:
        """End the server and whatever it has started: they are one process group."""
        if server.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        for pipe in (server.stdin, server.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@cache
def _protections(limits: Limits) -> dict[str, bool]:
    with Sandbox(limits, gate=False) as plain:
        result = plain.evaluate(_PROBE, np.zeros((1, 2, 3, 7, 7), np.uint8), np.zeros((1, 1)), details=True)
    tried = {name: refused == 1.0 for name, refused in (result.details or [{}])[0].items()}
    return {**tried, "addresses": plain._fixed_addresses}


def _end_of(server: subprocess.Popen[bytes], error: Exception) -> str:
    """Why a server gave no answer."""
    try:
        code = server.wait(1.0)
    except subprocess.TimeoutExpired:
        return f"its server {error}"
    return killed_by(-code) if code < 0 else f"its server ended with code {code}, as when no process can be started"


def _group(process: int) -> int:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return -1


def _receive(descriptor: int, patience: float) -> tuple[dict[str, Any], bytes]:
    """The server's word on how a batch ended, and the bytes that it passes on. Raises _ServerLost."""
    head, answer = struct.unpack("!II", _read_exactly(descriptor, 8, patience))
    return json.loads(_read_exactly(descriptor, head, patience)), _read_exactly(descriptor, answer, patience)


def _read_exactly(descriptor: int, size: int, patience: float) -> bytes:
    """So many bytes; seconds in which this process is stopped itself do not count. Raises _ServerLost."""
    content, left = bytearray(), patience
    while len(content) < size:
        ready, _, _ = select.select([descriptor], [], [], _TICK)
        left -= 0 if ready else _TICK
        chunk = os.read(descriptor, size - len(content)) if ready else b""
        if (ready and not chunk) or left <= 0:
            raise _ServerLost("ended" if ready else f"gave no answer for {patience:.0f} seconds; is it stopped?")
        content += chunk
    return bytes(content)
