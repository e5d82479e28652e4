"""The settings of the agents that answer in words, with the original's quirks as options.

Defaults are those of the small model that ships: short prompts, a window of two observations, 16 new tokens, one epoch.
The published values are in the comments here and in `configs/reasoning/paper.yaml`. What the original swallowed or left
to libraries is written out: how tokens are sampled, how many, and with what precision.
Source: docs/papers/reasoning-method.md#s3-7, docs/papers/reasoning-reference.md#s7 and
docs/papers/reasoning-method.md#s11.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from groundlab import worlds
from groundlab.assets import ADAPTER, model_files, resolve_model
from groundlab.core.schema import Device, Layouts, Strict
from groundlab.language.decoding import Decoding
from groundlab.learning.options import CRITIC_FREE, WHOLE_EPISODES, Estimator, KLController, KLEstimator, OuterValue


def _is_reasoning_world(name: str) -> str:
    if not worlds.find(name).name.startswith("Reasoning-"):
        raise ValueError("is none of the Reasoning-* worlds")
    return name


ReasoningWorld = Annotated[str, AfterValidator(_is_reasoning_world)]
DONOR_LAYOUTS = "900000-900023"
"""Reset seeds of 24 episodes, whose first states thoughts are probed in, and taken from to be tried in others."""
Parser = Literal["strict", "lenient"]


class Fidelity(Strict):
    """Quirks of the original that touched published figures, by number in docs/papers/reasoning-reference.md#quirks;
    the default is mended.
    """

    drop_unfinished: bool = False
    """Q6: every update begins with new episodes, and those that it leaves unfinished are thrown away."""
    untempered: bool = False
    """Q4: PPO's log-probabilities are at temperature 1 whatever tokens were sampled at."""
    dropout: bool = False
    """Q4: adapters drop activations while tokens are sampled (not while the update reads them)."""
    masked_separators: bool = False
    """Q7: the evaluation hides the end tokens of all turns from attention."""
    shown_in_evaluation: bool = False
    """Q8: the evaluation leaves invalid replies in the context, which training hides."""


class ReplySettings(Strict):
    """Settings of every agent that answers in words, trained or not."""

    layouts: Layouts = "0-99"
    """Test layouts, "first-last": the reset seeds of the evaluation."""
    num_envs: int = Field(32, ge=1)
    """Environments that are played at once (the paper: 6)."""
    tests: list[ReasoningWorld] = Field([])
    """Other worlds for the evaluation, such as Reasoning-GoToTest-v0 for the held-out objects."""
    transcripts: int = Field(0, ge=0)
    """So many of the first layouts have their dialogue in the evaluation, word by word."""
    swapped: bool = False
    """Whether the evaluation is repeated with every thought left out, and with thoughts from other states."""
    num_dists: int | None = None
    """Objects besides the mission's own (the paper: 0, 3, 5; of Reasoning-* worlds by default 8)."""
    first_finished: int = Field(0, ge=0)
    """Also count so many episodes as they finish, as published (Q9: 50); 0: not."""

    model: str = "quick-llama-chat-s0"
    """A model that ships, a folder, or the name of a model on this machine (meta-llama/Llama-3.2-3B-Instruct)."""
    revision: str | None = None
    weights: Literal["pretrained", "random"] = "pretrained"
    """Or the architecture alone with random weights, to time updates where only config and tokenizer are."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: Device = "cpu"
    tf32: bool = False
    """Whether float32 products on a GPU round their factors to 10 bits, which is several times as fast."""
    quantization: Literal["4bit"] | None = None
    pass_tokens: float | None = Field(None, ge=0)
    """Cost of one more forward pass in tokens, when prompts of unlike lengths are cut into batches. By default 8,192 on
    a GPU, and on a CPU a number that follows from the model's size."""

    context_window: int = Field(2, ge=1)
    """Observations that the model reads, with its own replies between them (the paper: 5)."""
    short_prompts: bool = True
    """Whether the system prompt is a line, for models that know the rest, or the paper's, with rules and actions."""
    hide_invalid: bool = True
    """Whether an invalid reply is replaced in the context."""
    parser: Parser = "strict"
    """What counts as an action: to the letter, or whatever a person would understand (`text_env.py`)."""
    invalid_penalty: float = Field(-1.0, le=0)
    invalid_limit: int = Field(5, ge=1)
    """So many invalid replies in a row end an episode; none of them takes a step of the environment."""

    max_new_tokens: int = Field(16, ge=1)
    """The original's hidden limit: 20 (Q2)."""
    temperature: float = Field(1.0, ge=0)
    """0 takes the likeliest token. As published: 0.7, top_p 0.9, top_k 50; in training in fact 0.6, 0.9, 50 (Q1)."""
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    """0: all tokens."""
    fidelity: Fidelity = Fidelity()

    @property
    def decoding(self) -> Decoding:
        """How tokens are sampled."""
        return Decoding(self.max_new_tokens, self.temperature, self.top_k, self.top_p)

    @property
    def model_path(self) -> str:
        """The folder of a model that ships; any other name or folder as it is."""
        return resolve_model(self.model)

    @property
    def has_adapters(self) -> bool:
        """Whether the model is a folder of adapters."""
        return (Path(self.model_path) / ADAPTER).is_file()

    def inputs(self) -> dict[str, Path | bytes | str]:
        """The model's files, where it is a folder."""
        return model_files(self.model)


class TrainingSettings(ReplySettings):
    """Settings of the agents that PPO tunes on their tokens."""

    iterations: int = Field(100, ge=1)
    """Updates (the paper's curves: 200)."""
    steps: int = Field(128, ge=1)
    """Replies an update, over all environments; with whole episodes, at least as many."""
    test_every: int = Field(0, ge=0)
    """Before the first update and after every so many: a test on `curve_layouts`, to their ends, and a probe of the
    thoughts in 24 states (`thoughts.py`); 0: never."""
    curve_layouts: Layouts = "100-131"
    episodes: Literal["continuing", "whole"] = "continuing"
    """Whether episodes go on from one update to the next, or each update plays its episodes to their ends."""
    lr: float = Field(3e-4, gt=0)
    """Adam's (the paper: 1.41e-5)."""
    epochs: int = Field(1, ge=1)
    """Over an update's replies (the paper: 4)."""
    minibatch_size: int = Field(16, ge=1)
    """Replies a gradient step; those that do not fill one are left out of an epoch."""
    token_budget: int = Field(8_192, ge=1)
    """Padded tokens read at once in an update: memory against speed, the same gradient up to rounding."""

    estimator: Estimator = "nested"
    """How credit is assigned (`learning/credit.py`)."""
    gamma: float = Field(0.9, gt=0, le=1)
    """Discount over the environment's steps."""
    lam: float = Field(0.95, ge=0, le=1)
    gamma_token: float = Field(1.0, gt=0, le=1)
    """Discount over the tokens of a reply."""
    lam_token: float = Field(0.98, ge=0, le=1)
    outer_value: OuterValue = "prompt-end"
    """Where the outer level reads a step's value; the original: after-response, which no loss trains (Q3)."""
    exclude_invalid: bool = True
    """Whether the penalty of an invalid reply counts for that reply only."""
    bandit_overwrites: bool = False
    """Q13: whether the bandit pays invalid replies of successful episodes like the others, as published."""
    group_size: int = Field(8, ge=2)
    """Episodes from the same start, for estimators that compare them; divides num_envs."""

    clip: float = Field(0.2, gt=0)
    value_clip: float = Field(0.2, gt=0)
    value_coefficient: float = Field(0.1, ge=0)
    entropy_coefficient: float = Field(0.0, ge=0)
    max_grad_norm: float | None = Field(1.0, gt=0)
    """None: gradients are not clipped, as in the original."""
    ratio_threshold: float | None = Field(10.0, gt=0)
    """Minibatches whose mean ratio is above it have no gradient; None: all have."""
    target_kl: float | None = Field(None, gt=0)
    """No further epoch once an epoch's mean KL estimate is above it, in nats a token."""

    kl: Literal["adaptive", "fixed", "loss", "none"] = "adaptive"
    """The KL to the model before training: in the rewards (k1), adaptive or fixed, as a loss (k3), or nowhere."""
    kl_coefficient: float = Field(0.2, ge=0)
    kl_target: float = Field(6.0, gt=0)
    """Of the KL summed over a reply; adaptive only."""
    kl_horizon: int = Field(10_000, ge=1)

    value_head: Literal["linear", "mlp"] = "linear"
    lora_rank: int = Field(0, ge=0)
    """Rank of adapters of the query and value projections, tuned instead of all weights; 0: all weights (the paper: 32,
    alpha 32, dropout 0.05)."""
    lora_alpha: int = Field(32, ge=1)
    lora_dropout: float = Field(0.0, ge=0, lt=1)
    gradient_checkpointing: bool = False

    @model_validator(mode="after")
    def _check_training(self) -> Self:
        if self.temperature == 0:
            raise ValueError("temperature 0 always says the same, so that nothing is learnt; give one above 0")
        whole = self.episodes == "whole" or self.fidelity.drop_unfinished
        if self.estimator in WHOLE_EPISODES and not whole:
            raise ValueError(f"estimator {self.estimator} reads how an episode ended; give episodes=whole")
        if self.is_critic_free and self.num_envs % self.group_size:
            raise ValueError(f"num_envs {self.num_envs} is no multiple of group_size {self.group_size}")
        return self

    @property
    def is_critic_free(self) -> bool:
        """Whether the estimator compares episodes from the same start, without a critic or whitening."""
        return self.estimator in CRITIC_FREE

    @property
    def critic_coefficient(self) -> float:
        """The value loss's coefficient, 0 without a critic."""
        return 0.0 if self.is_critic_free else self.value_coefficient

    @property
    def kl_loss_coefficient(self) -> float:
        """The coefficient of the KL as a loss; 0 where it is in the rewards, or nowhere."""
        return self.kl_coefficient if self.kl == "loss" else 0.0

    @property
    def kl_estimator(self) -> KLEstimator:
        """The estimator of the KL; as a loss k1 has no gradient on average."""
        return "k3" if self.kl == "loss" else "k1"

    @property
    def learning_temperature(self) -> float:
        """The temperature of the log-probabilities that PPO compares: that of the draws, or 1."""
        return 1.0 if self.fidelity.untempered else self.temperature

    def kl_controller(self) -> KLController:
        """The coefficient of the KL in the rewards, at the start of training."""
        coefficient = self.kl_coefficient if self.kl in ("adaptive", "fixed") else 0.0
        return KLController(coefficient, self.kl_target if self.kl == "adaptive" else None, self.kl_horizon)
