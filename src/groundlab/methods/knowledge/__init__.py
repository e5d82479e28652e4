"""Background knowledge: a language model is asked once, and what it says shapes rewards (Zhang et al. 2024).

    sandbox.py       start here for BK-Code: code that a language model wrote, run where it can do no harm
    gate.py, confined.py, kernel_filter.py   what the sandbox is made of; adversaries.py attacks it

Source: spec background-knowledge. Read next: `learning/shaping.py`, what potentials do to rewards.
"""
