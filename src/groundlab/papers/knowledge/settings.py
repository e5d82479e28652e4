"""The settings of the knowledge agents, and the original's quirks as options.

Defaults are the paper's for grids. Source: spec background-knowledge 2, 6 and 11. Called from: `learner.py`.
"""

from typing import Literal

from pydantic import Field, model_validator

from groundlab.core.schema import Strict
from groundlab.learning.quirks import Quirks


class Fidelity(Strict):
    """Quirks of the original that touched published figures, by number in spec 11; the default is mended."""

    unclipped_gradients: bool = False
    """Q1: the norm of gradients is not limited."""
    late: bool = False
    """Q2; this and the next four are explained in `learning/shaping.py`."""
    no_boundaries: bool = False
    """Q3."""
    running_scale: bool = False
    """Q4."""
    carried_twice: bool = False
    """Q4."""
    shared_clock: bool = False
    """Q5."""
    first_action_fills: bool = False
    """An episode's first window is filled with the action that is only then chosen, so phi(s_0) depends on it."""

    @model_validator(mode="after")
    def _can_be_carried(self) -> "Fidelity":
        if self.carried_twice and not (self.late and self.running_scale):
            raise ValueError("carried_twice needs late and running_scale")
        return self

    @property
    def quirks(self) -> Quirks:
        """Those that shaping knows."""
        return Quirks(**{name: getattr(self, name) for name in vars(Quirks())})


class Settings(Strict):
    """What PPO takes, with or without curiosity and shaping."""

    network: Literal["paper", "small"] = "paper"
    """The original's network, or ours with a seventieth of its arithmetic (`networks.py`)."""
    timeouts: Literal["terminal", "bootstrap"] = "terminal"
    """Whether a time limit counts as an end, as in the original (quirk Q11), or what would follow is estimated."""
    num_envs: int = Field(default=8, ge=1)
    frames_per_env: int = Field(default=128, ge=1)
    """Steps of each environment between two updates."""
    lr: float = Field(default=3e-4, gt=0)
    gamma: float = Field(default=0.99, gt=0, le=1)
    lam: float = Field(default=0.95, ge=0, le=1)
    minibatches: int = Field(default=4, ge=1)
    epochs: int = Field(default=4, ge=1)
    clip: float = Field(default=0.1, gt=0)
    entropy_coefficient: float = Field(default=0.01, ge=0)
    value_coefficient: float = Field(default=0.5, ge=0)
    max_grad_norm: float = Field(default=0.5, gt=0)
    adam_eps: float = Field(default=1e-5, gt=0)
    reward_scale: float = Field(default=10.0, gt=0)
    """What the world's rewards are multiplied by before shaping is added (collection: 1)."""
    strength: float = Field(default=1.0, gt=0)
    """What the shaping terms are multiplied by, after potentials are divided by their size."""
    curiosity: float = Field(default=0.0, ge=0)
    """Weight of curiosity's advantages (collection: 1); 0: no curiosity."""
    earned: float = Field(default=1.0, ge=0)
    """Weight of the advantages of what the world pays (collection: 2)."""
    curiosity_gamma: float = Field(default=0.99, gt=0, le=1)
    predicted_share: float = Field(default=0.25, gt=0, le=1)
    """Which share of samples the predictor of curiosity learns from."""
    fidelity: Fidelity = Fidelity()


COLLECTION = {"reward_scale": 1.0, "curiosity": 1.0, "earned": 2.0}
"""What differs when episodes are collected (spec 2)."""
