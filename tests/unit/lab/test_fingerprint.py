"""A machine's rounding: the same for the same operations, and as it was when this kind of CPU was kept."""

import os
import subprocess
import sys

import pytest

from groundlab.core import numerics
from groundlab.lab import fingerprint, machine

_PROGRAM = "from groundlab.lab import fingerprint; print(fingerprint.rounding())"


def _rounding_of_a_process(**variables: str) -> str:
    given = (*numerics.AVX2, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    others = {name: value for name, value in os.environ.items() if name not in given}
    command = [sys.executable, "-c", _PROGRAM]
    return subprocess.run(command, env=others | variables, capture_output=True, text=True, check=True).stdout.strip()


def test_processes_round_alike_and_other_kernels_round_otherwise():
    """The command line's, which has a thread a core, as a worker's, which has one."""
    assert _rounding_of_a_process() == _rounding_of_a_process(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    assert _rounding_of_a_process() != _rounding_of_a_process(ATEN_CPU_CAPABILITY="default", MKL_CBWR="COMPATIBLE")


def test_this_kind_of_cpu_rounds_as_it_did_when_it_was_kept():
    record = fingerprint.known().get(machine.hardware()["cpu"])
    if record is None or record["packages"] != fingerprint.packages():
        pytest.skip("this kind of CPU, or these versions of torch and numpy, are not in benchmarks/cpu")
    assert _rounding_of_a_process() == record["rounding"]
