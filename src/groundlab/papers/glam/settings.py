"""The settings of the language-model agents, with the originals' names, and the originals' quirks as options.

Defaults are those of the small model that ships: short prompts, one core, 20,000 frames. The published values are in
`configs/glam/paper.yaml`. Source: spec glam-agents 2 and 9, glam-environment 7.
"""

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Layouts, Strict
from groundlab.language.prompts import ACTION_SPACES, text_actions
from groundlab.language.shipped_models import model_files, resolve_model

WORLDS = worlds.names("grid")
TRAINING_LAYOUTS_FROM = 1_000_000  # reset seeds below are for tests and never start a training environment
LAYOUTS_END = 2**31


def _check_space(space: int | str) -> int | str:
    try:
        text_actions(space)
    except GroundlabError:
        known = ", ".join(map(str, ACTION_SPACES))
        raise ValueError(f"must be one of {known}") from None
    return space


ActionSpace = Annotated[int | str, AfterValidator(_check_space)]


class ReadingSettings(Strict):
    """What every agent that reads prompts takes."""

    layouts: Layouts = "0-99"
    """Test layouts, "first-last": the reset seeds of the evaluation."""
    nbr_obs: int = Field(1, ge=1)
    """How many observations a prompt tells, with the actions between them (the paper: 3; studied: 1, 3, 6, 9)."""
    action_space: ActionSpace = 6
    """Size (3, 6, 9) or name of a text action space."""
    action_list: bool = False
    """Whether prompts begin with the list of possible actions, as in the paper."""
    num_dists: int | None = None
    """Objects besides the mission's own, of Mixed* worlds."""
    fixed_mission: str = "go to the red ball"
    """The control: what every prompt names as goal, whatever the mission is; empty: not measured."""
    tests: list[str] = Field([])
    """Generalisation tests after training, in words of `evaluation.py`, e.g. "adj_synonym"."""
    test_layouts: Layouts | None = None
    """Layouts of those tests, where they are not `layouts`."""
    first_finished: int = Field(0, ge=0)
    """Also count so many episodes as they finish, over `num_envs` restarting environments, as published; 0: not."""
    num_envs: int = Field(32, ge=1)


class ModelSettings(ReadingSettings):
    """Which language model, and how it scores actions."""

    model: str = "quick-t5-s0"
    """A model that ships, a folder, or the name of a model on this machine."""
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = "cpu"
    quantization: Literal["4bit"] | None = None
    lora_rank: int = Field(0, ge=0)
    """Rank of adapters, tuned instead of all weights; 0: all weights."""
    gradient_checkpointing: bool = False
    binding_start: bool = True
    """Fresh weights of our own models begin as pretraining did (language/architecture.py), or by the stock draw."""
    rule: Literal["logprob", "prob_softmax", "logit_sum"] = "logprob"
    """How an action's tokens make its score (language/scoring.py; quirks Q2 and Q3)."""
    temperature: Literal["stored"] | Annotated[float, Field(gt=0)] = "stored"
    """Divides the scores. "stored": what pretraining wrote down by its rule; 1 for models without such a note."""
    token_budget: int = Field(8_192, ge=1)
    """Padded tokens read at once: memory against speed, the same result up to rounding."""

    @property
    def model_path(self) -> str:
        """The folder of a model that ships, or the name as given."""
        return resolve_model(self.model)

    def input_files(self) -> list[Path]:
        """The model's files, where it is a folder."""
        return model_files(self.model)


class Fidelity(Strict):
    """Quirks of the original that touched published figures, by number in spec glam-agents 9; the default is mended."""

    value_loss_broadcast: bool = False
    """Q1: every value is regressed on every return of its minibatch."""
    dropout: bool = False
    """Q6: variants that are not pretrained drop activations, in rollouts and updates, as their configuration says."""


class PPOSettings(Strict):
    """What PPO takes, of language models and of the symbolic agent alike (spec glam-agents 2.5)."""

    adam_eps: float = Field(1e-5, gt=0)
    gamma: float = Field(0.99, gt=0, le=1)
    lam: float = Field(0.99, ge=0, le=1)
    clip: float = Field(0.2, gt=0)
    entropy_coefficient: float = Field(0.01, ge=0)
    value_coefficient: float = Field(0.5, ge=0)
    max_grad_norm: float = Field(0.5, gt=0)
    reward_scale: float = Field(1.0, gt=0)
    """What rewards are multiplied by for learning (the originals: 20)."""
    normalise_advantages: bool = True
    """Over the whole rollout; the originals: not."""


class TrainingSettings(PPOSettings, ModelSettings):
    """What a language model tuned by PPO takes besides."""

    frames: int = Field(20_000, ge=1)
    """Steps of all environments together; the last update is a whole one."""
    iterations: int | None = Field(None, ge=1)
    """Updates, instead of `frames`."""
    frames_per_env: int = Field(32, ge=1)
    """Steps of each environment between two updates."""
    lr: float = Field(3e-4, gt=0)
    epochs: int = Field(3, ge=1)
    batch_size: int = Field(128, ge=1)
    """Prompts a gradient step; those left over in an epoch are dropped."""
    timeouts: Literal["terminal", "bootstrap"] = "terminal"
    """What follows a time limit: nothing, as in the paper (Q17), or the value of the observation that it cut off."""
    probe_template: Literal[0, 1, 2] = 0
    """Log the policy on the paper's 11 (1) or 2 (2) probe prompts before every update; 0: not."""
    fidelity: Fidelity = Fidelity()

    @property
    def updates(self) -> int:
        """How many rollouts and updates there are."""
        return self.iterations or math.ceil(self.frames / (self.num_envs * self.frames_per_env))
