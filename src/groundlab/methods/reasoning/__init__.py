"""Agents that answer in words, token by token, and may think before they act, tuned by nested PPO (rl-llm 2025).

`reasoning` ends its replies with "final answer: go forward", `direct` answers "go forward"; all else is one path.
Start at `settings.py` (what can be chosen), then `parsing.py` (what a reply means, and what an invalid one costs) and
`context.py` (what the model reads). Source: spec reasoning-agents.
"""
