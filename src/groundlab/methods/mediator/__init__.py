"""The mediator paper (Hu et al. 2024): learn when it is worth asking the LLM for a plan.

Reading order, from the eye to the policy: `perception.py`, `search.py`, `skills.py`, `translator.py`, `planner.py`,
`episodes.py`; then the agents: `baselines.py` (hard-coded, always, random, on-change), `asking.py` (the mediator),
`options_rl.py` (never asks). `settings.py` holds every number and every quirk.
"""
