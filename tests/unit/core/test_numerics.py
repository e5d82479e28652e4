"""The numeric libraries of a process that imports groundlab are held to AVX2, unless its user said otherwise."""

import json
import os
import subprocess
import sys

import pytest

from groundlab.core import numerics

_PROGRAM = """
import groundlab, json, numpy, torch
from numpy._core import _multiarray_umath as kernels
from groundlab.core import numerics
beyond = [name for name in kernels.__cpu_dispatch__ if name not in ("X86_V3", "X86_V2", "AVX2", "FMA3")]
print(json.dumps({"torch": torch.backends.cpu.get_cpu_capability(), "held": numerics.held(), "beyond": beyond,
                  "numpy": [name for name in beyond if kernels.__cpu_features__[name]]}))
"""
pytestmark = pytest.mark.skipif(not numerics.held(), reason="this CPU has no AVX2")


def _facts(**variables: str) -> dict:
    others = {name: value for name, value in os.environ.items() if name not in numerics.AVX2}
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], env=others | variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_no_library_uses_wider_instructions_than_avx2():
    facts = _facts()
    assert facts["torch"] == "AVX2" and facts["numpy"] == [] and facts["held"] == dict(numerics.AVX2)
    assert set(facts["beyond"]) == set(numerics.AVX2["NPY_DISABLE_CPU_FEATURES"].split()), "numpy has other names now"


def test_what_a_user_has_set_stays_and_is_told():
    facts = _facts(ATEN_CPU_CAPABILITY="default", MKL_CBWR="COMPATIBLE")
    assert facts["torch"] in ("DEFAULT", "NO AVX")
    assert facts["held"]["ATEN_CPU_CAPABILITY"] == "default" and facts["held"]["MKL_CBWR"] == "COMPATIBLE"


@pytest.mark.parametrize(("numpy", "told"), [("2.3.5", False), ("2.4.6", True)])
def test_an_older_numpy_is_not_told_names_that_it_would_warn_of(numpy, told, monkeypatch):
    for name in numerics.AVX2:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(numerics, "version", lambda name: numpy)
    numerics.hold()
    assert ("NPY_DISABLE_CPU_FEATURES" in numerics.held()) == told
    assert "OPENBLAS_CORETYPE" in numerics.held()
