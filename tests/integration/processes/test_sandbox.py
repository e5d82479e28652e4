"""Code that a language model wrote does what it should on honest windows; what happens to its process is said."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.papers.knowledge.sandbox import Limits, Sandbox, seccomp

LIMITS = Limits(cpu_seconds=1.0, wall_seconds=30.0)
RNG = np.random.default_rng(0)
WINDOWS = RNG.integers(0, 11, (40, 6, 3, 7, 7), dtype=np.uint8)
ACTIONS = RNG.integers(0, 7, (40, 5))
HEAD = "def compute_reward(obs, past_obs, past_actions):\n    "
FILTERED = pytest.mark.skipif(not seccomp.is_available(), reason="this machine's kernel has no known filter")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(LIMITS) as running:
        yield running


@pytest.mark.parametrize("kind", ["np.float32", "float", "'uint8'", "bool", "np.int64", "obs.dtype", "'<f8'"])
def test_numbers_may_be_of_any_plain_kind(kind, sandbox):
    ways = f"np.zeros(3, {kind}).sum() + np.full((2,), 1, dtype={kind}).sum() + obs.astype({kind})[0, 0, 0]"
    assert sandbox.evaluate(HEAD + f"return float({ways}), {{}}", WINDOWS, ACTIONS).fault is None


HALVES = "half = np.zeros(obs.shape)\n    np.divide(obs, 2, out=half, where=obs > 5)\n"
HALVES += "    return (half.sum() + obs.sum(where=obs <= 5)) / 10, {}"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        pytest.param(HEAD + HALVES, lambda obs: np.where(obs > 5, obs / 2, obs).sum(1) / 10, id="where and out"),
        pytest.param(
            "def same(a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray[int]:\n    return a\n"
            f"{HEAD}return float(isinstance(same(obs), np.ndarray) + 2 * isinstance(3, (np.ndarray, list))), {{}}",
            lambda obs: np.ones(len(obs)),
            id="ndarray is a type",
        ),
        pytest.param(
            f"{HEAD}distância = float(obs.sum())\n    return distância / 10, {{}}",
            lambda obs: obs.sum(1) / 10,
            id="names beyond ASCII",
        ),
    ],
)
def test_honest_programs_are_let_in(source, value, sandbox):
    result = sandbox.evaluate(source, WINDOWS, ACTIONS)
    assert result.fault is None
    np.testing.assert_array_equal(result.values, value(WINDOWS[:, -1].reshape(40, -1).astype(float)))


def test_a_refusal_names_the_line_and_the_attribute_as_python_reads_it(sandbox):
    fault = sandbox.evaluate(HEAD + "return len(obs.__ｃlass__.__mro__), {}", WINDOWS, ACTIONS).fault
    assert fault == ("refused", "line 2: the attribute __mro__")


@FILTERED
def test_the_kernel_refuses_all_that_reaches_out(sandbox):
    names = ("files", "network", "processes", "threads", "signals", "clocks")
    assert {name: sandbox.protections[name] for name in names} == dict.fromkeys(names, True)


def test_a_program_finds_minigrids_names_with_and_without_imports(sandbox):
    imports = "import numpy as np\nimport math\nfrom typing import Dict, Tuple\n"
    imports += "from minigrid.core.constants import *\nfrom minigrid.core.actions import Actions\n"
    body = HEAD + 'ball = float(obs[0, 3, 5] == OBJECT_TO_IDX["ball"])\n    '
    body += (
        'moved = float(past_actions[-1] == Actions.forward)\n    return ball + moved, {"ball": ball, "moved": moved}'
    )
    expected = (WINDOWS[:, -1, 0, 3, 5] == 6).astype(float) + (ACTIONS[:, -1] == 2)
    for source in (body, imports + body):
        result = sandbox.evaluate(source, WINDOWS, ACTIONS, details=True)
        assert result.fault is None
        np.testing.assert_array_equal(result.values, expected)
        assert [sum(parts.values()) for parts in result.details] == expected.tolist()


def test_a_program_that_fails_on_some_windows_keeps_the_others(sandbox):
    source = HEAD + "assert obs[0, 3, 5] != 6, 'a ball'\n    return 1.0, {}"
    result = sandbox.evaluate(source, WINDOWS, ACTIONS)
    np.testing.assert_array_equal(result.failed, WINDOWS[:, -1, 0, 3, 5] == 6)
    np.testing.assert_array_equal(result.values, np.where(result.failed, 0.0, 1.0))
    assert result.fault.kind == "error" and "line 2" in result.fault.message and "a ball" in result.fault.message


def test_one_call_cannot_change_the_windows_of_another(sandbox):
    source = HEAD + "value = float(obs.sum() + past_obs.sum()) / 100\n"
    source += "    obs[:] = 0\n    past_obs[:] = 0\n    return value, {}"
    result = sandbox.evaluate(source, WINDOWS, ACTIONS)
    np.testing.assert_allclose(result.values, WINDOWS.reshape(40, -1).sum(1) / 100)


def test_what_a_program_says_can_be_written_to_any_file(sandbox):
    result = sandbox.evaluate(HEAD + "raise ValueError('\\ud800')", WINDOWS, ACTIONS)
    assert result.fault.kind == "error" and result.fault.message.encode().endswith(b"ValueError: ?\n")
    result = sandbox.evaluate(HEAD + "return 1.0, {'\\ud800': 1.0}", WINDOWS, ACTIONS, details=True)
    assert result.details[0] == {"?": 1.0}


def test_a_lost_server_is_started_again():
    with Sandbox(LIMITS) as sandbox:
        source = HEAD + "return 1.0, {}"
        sandbox.evaluate(source, WINDOWS, ACTIONS)
        os.kill(sandbox.processes()[0], signal.SIGKILL)
        assert sandbox.evaluate(source, WINDOWS, ACTIONS).values.tolist() == [1.0] * 40
        assert sandbox.respawns == 1
    assert sandbox.processes() == []


def test_a_server_that_cannot_start_is_one_clear_line(monkeypatch):
    monkeypatch.setattr("groundlab.papers.knowledge.sandbox.child.__file__", "/nowhere/confined.py")
    with Sandbox(LIMITS) as sandbox, pytest.raises(GroundlabError, match="the sandbox does not start; try: "):
        sandbox.evaluate(HEAD + "return 1.0, {}", WINDOWS, ACTIONS)


def test_windows_that_do_not_fit_their_actions_are_one_clear_line(sandbox):
    with pytest.raises(GroundlabError, match=r"give \[N, K \+ 1, ...\] and \[N, K\]"):
        sandbox.evaluate(HEAD + "return 1.0, {}", WINDOWS, ACTIONS[:, :4])


# --- Batches that something outside ends or holds up

PATIENT = Limits(cpu_seconds=20.0, wall_seconds=30.0)
SLOW = (
    HEAD
    + "total = 0.0\n    for step in range(100_000):\n        total += step % 7\n    return float(obs.sum()) / 10, {}"
)


@contextmanager
def _meddling(sandbox, meddle, times=1):
    """While the body runs, `meddle(server, batch)` meets so many batches in the middle of their work."""

    def work():
        met = set()
        while len(met) < times and not over.is_set():
            for process in sandbox.processes():
                server = sandbox._server.pid if sandbox._server else process
                if process != server and process not in met:
                    met.add(process)
                    meddle(server, process)
            time.sleep(0.01)

    over = threading.Event()
    thread = threading.Thread(target=work)
    sandbox.evaluate(HEAD + "return 1.0, {}", WINDOWS[:1], ACTIONS[:1])  # the server has started
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_batch_that_something_outside_killed_is_put_again(number, capfd):
    with Sandbox(PATIENT) as sandbox:
        with _meddling(sandbox, lambda server, batch: os.kill(batch, number)):
            result = sandbox.evaluate(SLOW, WINDOWS, ACTIONS)
        assert result.fault is None and not result.failed.any()
        np.testing.assert_array_equal(result.values, WINDOWS[:, -1].reshape(40, -1).sum(1) / 10)
        assert sandbox.repeats == 1
    assert f"killed from outside by {number.name}" in capfd.readouterr().err


def test_a_batch_that_is_killed_each_time_ends_the_run_with_its_true_cause():
    cause = "lost a batch of 48 windows 3 times: killed from outside by SIGKILL, as when memory"
    lost = pytest.raises(GroundlabError, match=cause)
    kills = {"meddle": lambda server, batch: os.kill(batch, signal.SIGKILL), "times": 3}
    with Sandbox(PATIENT) as sandbox, _meddling(sandbox, **kills), lost:
        sandbox.evaluate(SLOW, WINDOWS, ACTIONS)


def _held_up(processes):
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    time.sleep(2.5)
    for process in processes:
        os.kill(process, signal.SIGCONT)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody says whether a process is stopped")
@pytest.mark.parametrize("whom", ["all", "the batch"])
def test_time_in_which_a_batch_is_stopped_does_not_count(whom):
    with Sandbox(Limits(cpu_seconds=20.0, wall_seconds=1.0)) as sandbox:
        with _meddling(sandbox, lambda server, batch: _held_up([batch] + [server] * (whom == "all"))):
            result = sandbox.evaluate(SLOW, WINDOWS, ACTIONS)
        assert result.fault is None and sandbox.repeats == 0


def test_a_program_that_waits_for_nothing_is_told_that_it_did_not_end():
    waits = (
        HEAD + "import threading\n    lock = threading.Lock()\n    return float(lock.acquire() + lock.acquire()), {}"
    )
    with Sandbox(Limits(wall_seconds=1.0), gate=False) as sandbox:
        assert sandbox.evaluate(waits, WINDOWS[:2], ACTIONS[:2]).fault.kind == "time"


UNDER_A_LIMIT = f"""
import resource
import numpy as np
from groundlab.papers.knowledge.sandbox import Limits, Sandbox
resource.setrlimit(resource.RLIMIT_CPU, (50, 50))
with Sandbox(Limits(cpu_seconds=100.0)) as sandbox:
    sandbox.evaluate({HEAD + "return 1.0, {}"!r}, np.zeros((1, 6, 3, 7, 7), np.uint8), np.zeros((1, 5)))
"""


def test_a_system_that_lets_no_limits_be_set_is_named_as_the_cause():
    ended = subprocess.run([sys.executable, "-c", UNDER_A_LIMIT], capture_output=True, text=True)
    assert "lost a batch of 2 windows 3 times: the system lets it set no limits; raise those" in ended.stderr
