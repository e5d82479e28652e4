"""Attacks on the sandbox, by kind, as a page shows them: what each program harmed, with the gate and without it.

    by_kind([*run_all(True), *run_all(False)])        a row a kind

The programs are in assets/knowledge/adversaries.yaml. Harm is looked for outside: a file with a secret, a port that
listens, the processes on this machine, our own environment, and the next honest batch, which must be right to the bit.
A program that ends as "value" ran to its end and gave finite numbers: it found nothing to harm.
"""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

import numpy as np

from groundlab.assets import read_text
from groundlab.core.seeding import generator
from groundlab.core.yaml_files import parse_yaml
from groundlab.papers.knowledge.sandbox import REPEATS, Limits, Result, Sandbox

SECRET = 271_828
WINDOWS = 12
LIMITS = Limits(cpu_seconds=0.3, cpu_seconds_per_window=0.0, wall_seconds=8.0)
_HEAD = "def compute_reward(obs, past_obs, past_actions):\n"
_HONEST = _HEAD + "    return float(obs.sum()) / 10, {'sum': float(obs.sum())}"


class Adversary(NamedTuple):
    """One program; `source` still holds names such as CANARY."""

    kind: str
    name: str
    source: str


class Attack(NamedTuple):
    """The result of one program: how it ended (a fault's kind, or "value"), and its harms."""

    kind: str
    name: str
    gate: bool
    ending: str
    harms: list[str]


class Surroundings(NamedTuple):
    """What could be harmed."""

    canary: Path
    listener: socket.socket


def adversaries() -> list[Adversary]:
    """All programs, in the order of the file."""
    kinds = parse_yaml(read_text("knowledge/adversaries.yaml"), "adversaries.yaml")
    return [
        Adversary(kind, name, text.get("program") or _HEAD + indent(text["body"] + "\n", "    ", lambda line: True))
        for kind, programs in kinds.items()
        for name, text in programs.items()
    ]


@contextmanager
def surroundings() -> Iterator[Surroundings]:
    """A file that anybody may read and write, with a secret in it, and a listener."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        Path(folder).chmod(0o777)
        canary = Path(folder) / "canary"
        canary.write_text(str(SECRET))
        canary.chmod(0o666)
        listener.setblocking(False)
        yield Surroundings(canary, listener)


def attack(adversary: Adversary, sandbox: Sandbox, around: Surroundings) -> Attack:
    """Run one program, then look for harm, then put an honest batch to the same sandbox."""
    port = around.listener.getsockname()[1]
    names = {"CANARY": str(around.canary), "PORT": str(port), "PARENT": str(os.getpid())}
    names |= {"ROWS": str(WINDOWS + min(REPEATS, WINDOWS)), "NESTED": "(" * 20_000 + "1" + ")" * 20_000}
    names |= {"HALF": str(WINDOWS // 2)}
    source = adversary.source
    for name, value in names.items():
        source = source.replace(name, value)
    windows, actions = _batch()
    result = sandbox.evaluate(source, windows, actions, details=True)
    harms = [*_harm(around), *_leaks(result), *_honest(sandbox)]
    ending = result.fault.kind if result.fault else "value"
    return Attack(adversary.kind, adversary.name, sandbox.gate, ending, harms)


def _batch() -> tuple[np.ndarray, np.ndarray]:
    rng = generator(0, "adversaries")
    return rng.integers(0, 11, (WINDOWS, 6, 3, 7, 7), dtype=np.uint8), rng.integers(0, 7, (WINDOWS, 5))


def _harm(around: Surroundings) -> Iterator[str]:
    if not around.canary.is_file() or around.canary.read_text() != str(SECRET):
        yield "the file was changed"
    if Path("/tmp/knowledge-adversary").exists():
        yield "a file was made"
    try:
        around.listener.accept()
        yield "a connection was made"
    except BlockingIOError:
        pass


def _leaks(result: Result) -> Iterator[str]:
    bad = ~np.isfinite(result.values) | (np.abs(result.values) > LIMITS.magnitude)
    if bad.any() or len(result.values) != WINDOWS or len(result.failed) != WINDOWS:
        yield "an output passed that is none"
    said = (result.fault.message if result.fault else "") + str(result.details)
    if len(said) > 200_000:
        yield "it talked without end"
    if str(SECRET) in said or np.isclose(result.values, SECRET / 1000).any():
        yield "the secret came out"


def _honest(sandbox: Sandbox) -> Iterator[str]:
    windows, actions = _batch()
    result = sandbox.evaluate(_HONEST, windows, actions)
    if result.fault or not np.array_equal(result.values, windows[:, -1].reshape(WINDOWS, -1).sum(1) / 10):
        yield "the next honest batch was wrong"
    if sandbox.respawns:
        yield "the server was lost"
    if len(sandbox.processes()) > 1:
        yield "a process was left"


def run_all(gate: bool, every: int = 1) -> list[Attack]:
    """Every program, or each `every`-th, on one sandbox, in order."""
    with surroundings() as around, Sandbox(LIMITS, gate) as sandbox:
        return [attack(adversary, sandbox, around) for adversary in adversaries()[::every]]


def by_kind(attacks: list[Attack]) -> list[dict[str, str | int]]:
    """A row a kind: programs, refused by the gate, how they ended without it, and how many harmed anything."""
    rows = []
    for kind in dict.fromkeys(attack.kind for attack in attacks):
        mine = [attack for attack in attacks if attack.kind == kind]
        gated, open_ = ([attack for attack in mine if attack.gate is gate] for gate in (True, False))
        endings = [attack.ending for attack in open_]
        counts = ", ".join(f"{ending} {endings.count(ending)}" for ending in dict.fromkeys(endings))
        row = {"kind": kind, "programs": len({attack.name for attack in mine})}
        row |= {"refused by the gate": sum(attack.ending == "refused" for attack in gated)}
        rows.append(row | {"without the gate": counts, "harmed": sum(bool(attack.harms) for attack in mine)})
    return rows
