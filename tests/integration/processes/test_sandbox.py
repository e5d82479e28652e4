"""Code that a language model wrote does what it should on honest windows, and no harm whatever it is."""

import os
import signal

import numpy as np
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.papers.knowledge.sandbox import Limits, Sandbox, seccomp
from groundlab.papers.knowledge.sandbox import attacks as adversaries

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


@pytest.fixture(scope="module")
def attacks():
    """Every adversary, with the gate and without."""
    if not seccomp.is_available():
        return adversaries.run_all(gate=True)
    return [*adversaries.run_all(gate=True), *adversaries.run_all(gate=False)]


def test_no_adversary_harms_anything(attacks):
    assert [attack for attack in attacks if attack.harms] == []


def test_the_suite_is_as_large_as_it_says(attacks):
    gated = {attack.name for attack in attacks if attack.gate}
    assert len(gated) >= 40
    assert sum(not attack.gate for attack in attacks) >= 20 or not seccomp.is_available()
    assert len({attack.kind for attack in attacks}) >= 12


def test_no_adversary_of_a_reaching_kind_passes_the_gate(attacks):
    reaching = {
        "attributes",
        "imports",
        "frames",
        "numpy-loaders",
        "processes",
        "signals",
        "files",
        "network",
        "native",
    }
    assert {attack.ending for attack in attacks if attack.gate and attack.kind in reaching} == {"refused"}


@FILTERED
def test_forged_answers_are_told_from_honest_ones(attacks):
    endings = {attack.name: attack.ending for attack in attacks if attack.kind == "forging" and not attack.gate}
    finite = {"values-not-finite": "output", "values-too-large": "output", "failure-code": "died"}
    assert endings == {name: finite.get(name, "forged") for name in endings}


@FILTERED
def test_state_between_calls_is_found_out_without_the_gate(attacks):
    endings = {attack.name: attack.ending for attack in attacks if attack.kind == "state" and not attack.gate}
    assert {endings[name] for name in ("counter", "global", "default", "attribute", "constants")} == {"state"}


def test_the_report_has_a_row_for_each_kind(attacks):
    rows = adversaries.by_kind(attacks)
    assert sum(int(row["programs"]) for row in rows) == len(adversaries.adversaries())
    assert all(row["harmed"] == 0 for row in rows)


@FILTERED
def test_the_kernel_refuses_all_that_reaches_out(sandbox):
    assert sandbox.protections == dict.fromkeys(("files", "network", "processes", "threads", "signals", "clocks"), True)


def test_values_come_in_the_order_of_the_windows(sandbox):
    source = HEAD + "return obs.sum() / 1000 + past_actions[-1] + past_obs[0, 0, 0, 0] / 100, {}"
    result = sandbox.evaluate(source, WINDOWS, ACTIONS)
    sums = WINDOWS[:, -1].reshape(40, -1).sum(1) / 1000
    np.testing.assert_allclose(result.values, sums + ACTIONS[:, -1] + WINDOWS[:, 0, 0, 0, 0] / 100)
    assert result.fault is None and not result.failed.any()


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
    source = (
        HEAD
        + "value = float(obs.sum() + past_obs.sum()) / 100\n    obs[:] = 0\n    past_obs[:] = 0\n    return value, {}"
    )
    result = sandbox.evaluate(source, WINDOWS, ACTIONS)
    np.testing.assert_allclose(result.values, WINDOWS.reshape(40, -1).sum(1) / 100)


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
