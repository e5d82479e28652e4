"""Programs that try to leave the sandbox, each with the gate and without it: none harms anything.

Harm is looked for outside: a file with a secret, a port that listens, the processes of this machine, and the next
honest batch, which must be right to the bit. A program that ends as "value" ran to its end and found nothing to harm.
"""

import os
import socket
import tempfile
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest
import yaml

from groundlab.papers.knowledge import sandbox as sandboxes
from groundlab.papers.knowledge.sandbox import REPEATS, Limits, Sandbox, child, seccomp

SECRET = 271_828
RNG = np.random.default_rng(0)
LIMITS = Limits(cpu_seconds=0.3, cpu_seconds_per_window=0.0, wall_seconds=8.0)
HEAD = "def compute_reward(obs, past_obs, past_actions):\n"
PROGRAMS = {
    (kind, name): text.get("program") or HEAD + indent(text["body"] + "\n", "    ", lambda line: True)
    for kind, programs in yaml.safe_load((Path(__file__).parent / "attacks.yaml").read_text()).items()
    for name, text in programs.items()
}
REACHING = ("attributes", "imports", "frames", "numpy-loaders", "processes", "signals", "files", "network", "native")
FORGING = {"values-not-finite": "output", "values-too-large": "output", "failure-code": "died"}
FORGING["surrogates-in-the-text"] = "error"  # an answer like any other, once it can be read
SETS = ("set-of-words", "sum-over-a-set", "set-of-tuples")
SETS += ("set-with-nothing", "set-of-tuples-with-nothing", "set-with-no-number")


def endings(kind: str, name: str, gate: bool) -> set[str] | None:
    """How a program may end; None where only harm counts."""
    if gate and kind in REACHING:
        return {"refused"}
    if gate and kind == "old-memory":  # memory that nobody wrote is not read
        return {"refused", "error"}
    if gate and kind == "hashes-and-addresses":
        return {"value"} if name in SETS else {"error"}
    if not gate and kind == "forging":
        return {FORGING.get(name, "forged")}
    return {"cpu"} if not gate and name in ("block-the-clock", "block-all-clocks") else None


def batch(count: int) -> tuple[np.ndarray, np.ndarray]:
    return RNG.integers(0, 11, (count, 6, 3, 7, 7), dtype=np.uint8), RNG.integers(0, 7, (count, 5))


@pytest.fixture(scope="module")
def canary():
    """A file that anybody may read and write, with a secret in it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        file = Path(folder) / "canary"
        file.write_text(str(SECRET))
        file.chmod(0o666)
        yield file


@pytest.fixture(scope="module")
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@pytest.fixture(scope="module", params=[True, False], ids=["gate", "no gate"])
def sandbox(request):
    if not request.param and not seccomp.is_available():
        pytest.skip("this machine's kernel has no known filter")
    with Sandbox(LIMITS, request.param) as running:
        yield running


@pytest.mark.parametrize(("kind", "name"), PROGRAMS, ids="-".join)
def test_a_program_harms_nothing(kind, name, sandbox, canary, listener):
    windows, actions = batch(12)
    names = {"CANARY": canary, "PORT": listener.getsockname()[1], "PARENT": os.getpid(), "HALF": 6}
    names |= {"ROWS": 12 + min(REPEATS, 12), "NESTED": "(" * 20_000 + "1" + ")" * 20_000}
    source = PROGRAMS[kind, name]
    for word, value in names.items():
        source = source.replace(word, str(value))
    result = sandbox.evaluate(source, windows, actions, details=True)
    assert canary.read_text() == str(SECRET) and not Path("/tmp/knowledge-adversary").exists()
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert len(result.values) == len(result.failed) == 12
    assert (np.abs(result.values) <= LIMITS.magnitude).all()  # NaN is not
    said = (result.fault.message if result.fault else "") + str(result.details)
    assert len(said) <= 200_000 and str(SECRET) not in said and not np.isclose(result.values, SECRET / 1000).any()
    honest = sandbox.evaluate(f"{HEAD}    return float(obs.sum()) / 10, {{}}", windows, actions)
    assert not honest.fault and np.array_equal(honest.values, windows[:, -1].reshape(12, -1).sum(1) / 10)
    assert not sandbox.respawns and len(sandbox.processes()) <= 1
    expected = endings(kind, name, sandbox.gate)
    assert expected is None or (result.fault.kind if result.fault else "value") in expected


@pytest.mark.parametrize("count", [16, 200])
def test_a_program_that_keeps_state_gives_the_answer_of_a_first_call_or_a_reason(count, sandbox):
    windows, actions = batch(count)
    with Sandbox(Limits(), sandbox.gate) as patient:
        for name in (name for kind, name in PROGRAMS if kind == "time-bombs"):
            source = PROGRAMS["time-bombs", name].replace("HALF", str(count // 2))
            result = patient.evaluate(source, windows, actions)
            refused = result.fault is not None and result.fault.kind in ("refused", "error") and result.failed.all()
            assert refused or (result.fault is None and (result.values == 1.0).all()), name


@pytest.mark.parametrize("fixed", [True, False], ids=["addresses as they can be", "a kernel that refuses to fix them"])
def test_neither_an_address_nor_the_order_of_a_set_of_words_decides_anything(fixed, monkeypatch):
    if not fixed:
        monkeypatch.setitem(sandboxes._ENVIRONMENT, child._STARTED_AGAIN, "1")
    (windows, actions), answers = batch(2), set()
    for _ in range(3):
        with Sandbox(LIMITS) as sandbox:
            results = [sandbox.evaluate(PROGRAMS["hashes-and-addresses", name], windows, actions) for name in SETS]
            answers.add(tuple(result.values.tobytes() for result in results))
    assert len(answers) == 1
