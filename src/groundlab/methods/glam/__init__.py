"""GLAM (Carta et al. 2023): a language model as policy, grounded by online PPO, with its baselines.

Reading order: `lm_ppo.py` (the agent, its variants and its training loop), `variants.py` (the three switches),
`reading.py` (from observations to prompts), `rollouts.py`, `tuning.py` (PPO on all weights), `policy.py` (play),
`generalization.py` (what a trained agent is tested on), `zero_shot.py`; `settings.py` for all options.
"""
