"""RL mathematics on tensors. Knows no world and no prompt.

Reading order: `returns.py` (credit), `ppo.py` (the update), `checkpoints.py` (what it takes to continue).
"""
