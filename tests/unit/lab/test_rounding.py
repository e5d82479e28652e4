"""A machine's rounding: the same for the same operations."""

import os
import subprocess
import sys
from functools import cache

import pytest

from groundlab.core import numerics
from groundlab.lab import machine

_PROGRAM = "from groundlab.lab import rounding; print(rounding.rounding())"


@cache
def _rounding_of_a_process(**variables: str) -> str:
    return _printed(_PROGRAM, **variables)


def _printed(program: str, **variables: str) -> str:
    given = (*numerics.AVX2, *machine.ONE_THREAD)
    others = {name: value for name, value in os.environ.items() if name not in given}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=others | variables, capture_output=True, text=True, check=True).stdout.strip()


def test_processes_round_alike_and_other_kernels_round_otherwise():
    threads = {name: "2" for name in machine.ONE_THREAD}
    as_in_a_worker = _rounding_of_a_process(**machine.ONE_THREAD)
    assert as_in_a_worker == _rounding_of_a_process(**threads)
    assert as_in_a_worker != _rounding_of_a_process(ATEN_CPU_CAPABILITY="default", MKL_CBWR="COMPATIBLE")


def test_loops_are_compiled_alike_on_every_cpu():
    # digests recorded on an AMD with AVX-512, whose own loops have other lanes; the machine code is the same everywhere
    program = "from groundlab.lab import rounding; print(rounding.operations()['compiled sums'])"
    assert _printed(program) == "fbe0ddb4d0edcc38"


@pytest.mark.parametrize(
    ("settings", "native"),
    [
        ({"dtype": "bfloat16", "device": "cpu"}, True),
        ({"chat": {"dtype": "bfloat16", "device": "cpu"}}, True),
        ({"dtype": "bfloat16", "device": "cuda"}, False),
        ({"dtype": "float32", "device": "cpu"}, False),
    ],
)
def test_a_process_that_computes_in_bfloat16_on_a_cpu_is_not_held_to_avx2(settings, native):
    sets = machine.instruction_sets(settings)
    assert bool(sets) == native
    program = "import groundlab; from groundlab.core import numerics; print(numerics.held()['ONEDNN_MAX_CPU_ISA'])"
    assert _printed(program, **sets) == ("ALL" if native else "AVX2")
