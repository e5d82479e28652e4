"""The settings of the language-model agents, with the originals' names, and the originals' quirks as options.

Defaults are those of the small model that ships: short prompts, one core, 20,000 frames. The published values are in
`configs/glam/paper.yaml`. Source: docs/papers/glam-method.md#agents-2 and docs/papers/glam-reference.md#agents-9,
docs/papers/glam-method.md#env-7.
"""

import json
import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from groundlab.assets import RECIPE, model_files, pretraining_facts, recipe_of, resolve_model
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Device, Layouts, Strict
from groundlab.worlds.text_env.prompts import ACTION_SPACES, text_actions

PAIRS, ABOUT = "pairs.jsonl.gz", "demonstrations.json"  # the files of stored demonstrations
FRAMES_PER_RECORD = 1024  # of a DRRN, at most


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
    """Generalisation tests after training, in words of `episodes.py`, e.g. "adj_synonym"."""
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
    weights: Literal["pretrained", "random"] = "pretrained"
    """Or the architecture alone with random weights, to time updates where only config and tokenizer are."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: Device = "cpu"
    tf32: bool = False
    """Whether float32 products on a GPU round their factors to 10 bits, which is several times as fast."""
    quantization: Literal["4bit"] | None = None
    lora_rank: int = Field(0, ge=0)
    """Rank of adapters, tuned instead of all weights; 0: all weights."""
    lora_layers: int = Field(0, ge=0)
    """Adapters on the last layers of a causal model only, so many, with the states of those below kept for each
    different prompt; 0: adapters on all layers."""
    feature_layer: int = Field(0, ge=0)
    """Tune heads alone (aflan, npae, npa), on the states of a frozen causal model after so many layers; 0: tune the
    model."""
    gradient_checkpointing: bool = False
    rule: Literal["logprob", "prob_softmax", "logit_sum"] = "logprob"
    """How an action's tokens make its score (language/scoring.py; quirks Q2 and Q3)."""
    move_blanks: bool | None = None
    """True to read the blank before an action with it, " turn" as one token; None: if the tokenizer is a byte-level
    BPE (GPT-2, Llama 3, Qwen), the model causal and the rule logprob."""
    temperature: Literal["stored"] | Annotated[float, Field(gt=0)] = "stored"
    """Divides the scores. "stored": what pretraining wrote down by its rule; 1 for models without such a note."""
    token_budget: int = Field(8_192, ge=1)
    """Padded tokens read at once: memory against speed, the same result up to rounding."""
    pass_tokens: float | None = Field(None, ge=0)
    """Cost of one more forward pass in tokens, when prompts of unlike lengths are cut into batches. By default 8,192 on
    a GPU, and on a CPU a number that follows from the model's size."""

    @model_validator(mode="after")
    def _tunes_one_part(self) -> Self:
        if self.lora_rank and self.feature_layer:
            raise ValueError("expected adapters or heads alone, got both; give lora_rank=0 or feature_layer=0")
        if self.lora_layers and not self.lora_rank:
            raise ValueError("expected a rank for the adapters of lora_layers, got 0; give lora_rank=16")
        return self

    @property
    def model_path(self) -> str:
        """The folder of a model that ships, or the name as given."""
        return resolve_model(self.model)

    def inputs(self) -> dict[str, Path | bytes | str]:
        """The model's files, where it is a folder, and the facts that pretraining wrote down and an agent reads.

        Prompts of other models begin and end otherwise since 2.0, so their runs have other names than before.
        """
        facts = {} if recipe_of(self.model) else pretraining_facts(self.model)  # from the recipe, then
        read = {"temperature": facts.get("temperature"), "architecture": facts.get("recipe", {}).get("architecture")}
        recipe = {f"model/{RECIPE}": json.dumps(read, sort_keys=True).encode()}
        return model_files(self.model) | (recipe if facts else {"model/prompts": b"blanks and BOS as the tokenizer"})


class Fidelity(Strict):
    """Quirks of the original that touched published figures, by number in docs/papers/glam-reference.md#agents-9; the
    default is mended.
    """

    value_loss_broadcast: bool = False
    """Q1: every value is regressed on every return of its minibatch."""
    dropout: bool = False
    """Q6: variants that are not pretrained drop activations, in rollouts and updates, as their configuration says."""


class PPOSettings(Strict):
    """What PPO takes, of language models and of the symbolic agent alike (docs/papers/glam-method.md#agents-2-5)."""

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


class CloningFidelity(Strict):
    """Quirks of the original, mended by default."""

    pad_loss: bool = False
    """The padding behind short actions is learnt as well (docs/papers/glam-reference.md#q21)."""
    in_order: bool = False
    """Pairs come in the order in which they were made, never shuffled (Q21)."""
    stale_first_observation: bool = False
    """The bot's episodes begin with the last observation of the one before (docs/papers/glam-reference.md#env-q12)."""


class CloningSettings(ModelSettings):
    """Defaults are for 20,000 pairs; where the original's differ they are named
    (docs/papers/glam-method.md#agents-5)."""

    demonstrations: str = "bot"
    """Whose: "bot", "agent", or a folder that `store_pairs` made, such as that of another run."""
    teacher: TrainingSettings | None = None
    """The settings of "agent": GLAM, trained first, inside this run."""
    frames: int = Field(20_000, ge=1)
    """Decisions to learn from (the original: 400,000)."""
    held_out: int = Field(1_000, ge=1)
    """The decisions after those, on which accuracy is measured."""
    lr: float = Field(5e-4, gt=0)
    batch_size: int = Field(64, ge=1)
    epochs: int = Field(1, ge=1)
    max_grad_norm: float = Field(1.0, gt=0)
    steps_per_record: int = Field(50, ge=1)
    """Gradient steps between two measurements on the held-out decisions (the original: 250)."""
    fidelity: CloningFidelity = CloningFidelity()

    @model_validator(mode="after")
    def _one_teacher(self) -> Self:
        if (self.demonstrations == "agent") != (self.teacher is not None):
            raise ValueError("needs demonstrations: agent and the teacher's settings together, or neither")
        return self

    @property
    def steps_per_epoch(self) -> int:
        """Gradient steps; the last batch of an epoch may be smaller."""
        return math.ceil(self.frames / self.batch_size)

    @property
    def steps(self) -> int:
        """Gradient steps in all."""
        return self.steps_per_epoch * self.epochs

    @property
    def makes_its_own(self) -> bool:
        """Whether the run makes its demonstrations, and does not find them."""
        return self.demonstrations in ("bot", "agent")

    def inputs(self) -> dict[str, Path | bytes | str]:
        """The model's files, the stored demonstrations, and the teacher's files."""
        folder, teacher = Path(self.demonstrations), self.teacher.inputs() if self.teacher else {}
        stored = {} if self.makes_its_own else {f"demonstrations/{name}": folder / name for name in (PAIRS, ABOUT)}
        return super().inputs() | stored | {f"teacher.{role}": file for role, file in teacher.items()}


class AnswersSettings(ModelSettings):
    """Settings of a model's own answers, played without training (`answers`)."""

    random_moves: float = Field(0.05, ge=0, le=1)
    """Share of the steps with an action at random; the greedy policy has none."""


class DRRNFidelity(Strict):
    """What the original did otherwise than it meant; the default is mended."""

    prompt_drift: bool = False
    """After an episode's end its successor's first observation is left out, so that actions stand beside the wrong
    observations until the history is full (docs/papers/glam-reference.md#q7 and #env-q11)."""


class DRRNSettings(ReadingSettings):
    """Defaults are for 20,000 frames; where the original's differ they are named
    (docs/papers/glam-method.md#agents-3)."""

    device: Device = "cpu"
    """The network's; the memory of transitions stays in the CPU's."""
    frames: int = Field(20_000, ge=1)
    """Steps of all environments together; the last iteration is a whole one."""
    lr: float = Field(1e-3, gt=0)
    """The original: 1e-4."""
    gamma: float = Field(0.9, ge=0, le=1)
    batch_size: int = Field(64, ge=1)
    steps_per_update: int = Field(1, ge=1)
    """Steps of all environments between two gradient steps (the original: 4, which are 128 frames)."""
    temperature: float = Field(0.05, gt=0)
    """Of the softmax over Q (the original: 1, which with rewards of 20 is the same policy)."""
    reward_scale: float = Field(1.0, gt=0)
    """What rewards are multiplied by for learning. At the original's 20 the loss is linear in most errors, so that Q
    follows the median return, which is 0 while success is rare."""
    max_grad_norm: float = Field(5.0, gt=0)
    fidelity: DRRNFidelity = DRRNFidelity()

    @property
    def updates_per_iteration(self) -> int:
        """Gradient steps that one record tells of: those of about 1,024 frames."""
        return max(1, FRAMES_PER_RECORD // (self.num_envs * self.steps_per_update))

    @property
    def frames_per_iteration(self) -> int:
        """Frames that one record tells of."""
        return self.num_envs * self.steps_per_update * self.updates_per_iteration


class SymbolicSettings(PPOSettings, ReadingSettings):
    """Defaults are for 20,000 frames; where the original's differ they are named
    (docs/papers/glam-method.md#env-7-2)."""

    device: Device = "cpu"
    frames: int = Field(20_000, ge=1)
    """Steps of all environments together; the last update is a whole one."""
    num_envs: int = Field(16, ge=1)
    """The original: 64."""
    frames_per_env: int = Field(40, ge=1)
    """Steps of each environment between two updates."""
    recurrence: int = Field(20, ge=1)
    """Steps through which a gradient runs back; divides `frames_per_env`."""
    batch_size: int = Field(320, ge=1)
    """Frames a gradient step (the original: 1,280)."""
    lr: float = Field(5e-4, gt=0)
    """The original: 1e-4."""
    epochs: int = Field(4, ge=1)

    @property
    def frames_per_update(self) -> int:
        """Steps of all environments between two updates."""
        return self.num_envs * self.frames_per_env
