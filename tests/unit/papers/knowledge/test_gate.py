"""The gate refuses a program before it runs, and says what and where."""

import pytest

from groundlab.papers.knowledge.sandbox import gate


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def compute_reward(a, b, c):\n  return 1.0, {}", None),
        (
            "import numpy as np\ndef near(x: float) -> float:\n  return 1 / (1 + x)\ncompute_reward = near",
            "no function",
        ),
        ("def compute_reward(a, b, c):\n  return a.__class__", "line 2: the attribute __class__"),
        ("from numpy import load\ndef compute_reward(a, b, c):\n  return 1.0, {}", "line 1: import of numpy.load"),
        ("def compute_reward(a, b, c):\n  for _ in range(3): pass\n  return 1.0, {}", None),
        ("def compute_reward(a, b, c):\n return (", "line 2: '(' was never closed"),
    ],
)
def test_the_gate_says_what_it_refuses_and_where(source, reason):
    said = gate.refusal(source)
    assert said is None if reason is None else reason in said
