"""The gate refuses a program before it runs, and says what and where."""

import ast
import math
from types import ModuleType

import numpy as np
import pytest

from groundlab.papers.knowledge.sandbox import gate


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def compute_reward(a, b, c):\n  return 1.0, {}", None),
        ("import numpy as np\ndef near(x: float) -> float:\n  return 1 / x\ncompute_reward = near", "no function"),
        ("def compute_reward(a, b, c):\n  return a.__class__", "line 2: the attribute __class__"),
        ("from numpy import load\ndef compute_reward(a, b, c):\n  return 1.0, {}", "line 1: import of numpy.load"),
        ("def compute_reward(a, b, c):\n  for _ in range(3): pass\n  return 1.0, {}", None),
        ("def compute_reward(a, b, c):\n return (", "line 2: '(' was never closed"),
        ("def compute_reward(a, b, c):\n return 1.0\0, {}", "cannot be parsed"),
        ("def compute_reward(a, b, c):\n return np.log(a, where=a > 0), {}", "line 2: where without out"),
        ("def compute_reward(a, b, c):\n return a.sum(where=a > 0), {}", None),
        ("def compute_reward(a, b, c):\n return f(**{'where': a}), {}", "line 2: ** in a call"),
    ],
)
def test_the_gate_says_what_it_refuses_and_where(source, reason):
    said = gate.refusal(source)
    assert said is None if reason is None else reason in said


def test_whatever_keeps_python_from_reading_a_program_is_a_refusal(monkeypatch):
    def broken(source):
        raise ModuleNotFoundError("unicodedata")

    monkeypatch.setattr(ast, "parse", broken)
    assert gate.refusal("distância = 1") == "cannot be parsed (ModuleNotFoundError)"


def test_nothing_behind_the_names_of_the_gate_can_be_changed_or_leads_out():
    modules = {"numpy": np, "numpy.linalg": np.linalg, "math": math}
    for name, module in modules.items():
        reached = {each: getattr(module, each) for each in gate.ATTRIBUTES if hasattr(module, each)}
        assert {each for each, value in reached.items() if isinstance(value, ModuleType)} <= {"linalg"}, name
        kept = (list, dict, set, bytearray, np.ndarray, np.random.Generator)
        assert [each for each, value in reached.items() if isinstance(value, kept)] == []


def test_no_function_that_leaves_memory_as_it_is_has_a_name_in_the_gate():
    makers = {"empty", "empty_like", "resize", "frombuffer", "fromiter", "fromfunction", "require", "copyto", "putmask"}
    makers |= {"place", "memmap", "recarray", "chararray", "void", "view", "lib", "ctypeslib", "reduce", "at", "base"}
    assert makers & gate.ATTRIBUTES == set()
