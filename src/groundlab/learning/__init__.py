"""RL mathematics on tensors. Knows no world and no prompt."""
