"""Draws what grpo_babyai.py wrote: `python examples/curve.py examples/grpo_babyai.csv examples/grpo_babyai.png`.

In the laboratory's environment, .nox/groundlab.
"""

import sys

import matplotlib.pyplot as plt
import pandas as pd

source, target = sys.argv[1:]
curve = pd.read_csv(source, index_col="update")
tests = curve["test"].dropna()
axes = curve["success"].plot(ylim=(0, 1), figsize=(5, 3), label="episodes of each update")
axes.plot(tests.index, tests, "o", label="test, before and after")
axes.set(xlabel="update of GRPO", ylabel="success")
axes.legend(loc="lower right")
plt.savefig(target, dpi=110, bbox_inches="tight")
