"""The settings of the mediator's methods, with the values of the original, and its quirks as `fidelity` options.

Defaults are the original's where the published figures depend on it (docs/papers/mediator-reference.md#s11, "keep") and
what was meant
where they do not ("fix").
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from groundlab.assets import MODELS, model_files
from groundlab.core.bounds import LAST_SEED
from groundlab.core.schema import Device, Layouts, Strict
from groundlab.language.chat.factory import ChatSettings

LEDGERS = MODELS.parent / "mediator"
"""Replies that ship, by the names that `ledger` takes."""
TRAINING_LAYOUTS = (10_000, LAST_SEED + 1)  # layouts 0 to 9,999 are for tests and are never trained on

_OTHER_PLANNERS = "give --planner openai, local or recorded, or leave it out"


class Fidelity(Strict):
    """Quirks of the original, by number in docs/papers/mediator-reference.md#s11; the first value named is the
    default."""

    explore_avoid: bool = False
    """Q1: Explore turns at keys, boxes and balls; the original pushes against them until the episode ends."""
    frame_difference: Literal["uint8", "signed"] = "uint8"
    """Q2: the network's input wraps modulo 256, or is a signed difference scaled to [-1, 1]."""
    penalty: Literal["head", "equation-1", "first-commit"] = "head"
    """Q8: charge asks and exhausted plans (head), asks that repeat the plan (paper eq. 1), or asks with f = 1 (J6)."""
    random_policy: Literal["half", "untrained"] = "half"
    """Q10: ask with p = 0.5, or by the argmax of an untrained network as the released code does."""
    advantage: Literal["monte-carlo", "gae"] = "monte-carlo"
    """Q19: the released code accepts GAE's lambda and ignores it."""
    carry_inside: bool = False
    """Q17: KeyInBox's carried key inside the braces, as its own examples have it."""
    repeat: Literal["whole", "remaining"] = "whole"
    """Q22: a new plan repeats if it equals the whole last plan, or what is left of it."""
    goto_ties: Literal["original", "fifo"] = "original"
    """Which shortest path GoTo takes: CPython's set order, or breadth-first."""


class Settings(Strict):
    """What every method of this paper takes."""

    layouts: Layouts = "0-99"
    """Test layouts, "first-last": the reset seeds of the evaluation (the paper's test set is 0-99)."""
    plans: Literal["head", "first-commit"] = "head"
    """Tables of the scripted planner: the released prompts', or those of the first commit
    (docs/papers/mediator-method.md#s4-1).
    """
    epsilon: float = Field(0.0, ge=0, le=1)
    """Probability that a reply of the scripted planner is disturbed; about half of these become a wrong plan."""
    planner: Literal["scripted", "recorded", "openai", "local"] = "scripted"
    """Who answers: the tables, a ledger of past replies, a server (`language/chat`), a model in this process."""
    chat: ChatSettings = ChatSettings()
    """Which model, for `openai`, `local`, and for `recorded` where the ledger holds one's replies."""
    ledger: str | None = None
    """File of replies, or the name of one that ships: read by `planner=recorded`, read and filled by the others."""
    examples: Literal["system", "turns"] = "system"
    """Where a model reads the prompt's examples: in the system message, or as earlier questions and replies."""
    ask_lambda: float = Field(0.01, ge=0)
    """Communication penalty of an ask, before f (docs/papers/mediator-method.md#s5-1)."""
    fidelity: Fidelity = Fidelity()

    @model_validator(mode="after")
    def _model_is_asked(self) -> Self:
        if self.planner == "scripted" and self.chat.model:
            raise ValueError(f"has a model, which planner=scripted does not ask; {_OTHER_PLANNERS}")
        return self

    def inputs(self) -> dict[str, Path | bytes | str]:
        """The ledger (of one that is filled, neither path nor content counts), and the files of a local model."""
        files = model_files(self.chat.model, "chat.model") if self.planner == "local" and self.chat.model else {}
        ledger = ledger_of(self.ledger)
        return {**files, **({"ledger": ledger if self.planner == "recorded" else b""} if ledger else {})}


def ledger_of(name: str | None) -> Path | None:
    """Return the file of a ledger that ships, by its name, else a path as given; None for none."""
    shipped = LEDGERS / f"{name}.jsonl"
    return shipped if name and shipped.is_file() else Path(name) if name else None


class RuleSettings(Settings):
    """What the rules take besides."""

    probability: float = Field(0.5, ge=0, le=1)
    """Of asking at a step, for `random`."""


class TrainingSettings(Settings):
    """What the learning methods take besides (docs/papers/mediator-method.md#s5-3)."""

    device: Device = "cpu"
    """Where the network is: on a CPU it runs in compiled loops (loops.py), elsewhere in torch."""
    iterations: int = Field(1000, ge=1)
    trajectories: int = Field(10, ge=1)
    """Episodes an iteration."""
    learning_rate: float = Field(1e-3, gt=0, alias="lr")
    anneal_from: float = Field(1.0, ge=0, le=1)
    """Share of the run after which the learning rate falls linearly to 0; 1 is the original's constant rate."""
    batch_size: int = Field(32, ge=1)
    epochs: int = Field(3, ge=1)
    gamma: float = Field(0.99, gt=0, le=1)
    lam: float = Field(0.95, ge=0, le=1)
    """GAE's lambda; without effect unless fidelity.advantage is "gae"."""
    clip: float = Field(0.2, gt=0)
    entropy_coefficient: float = Field(0.01, ge=0)
    entropy_anneal_from: float = Field(1.0, ge=0, le=1)
    """Share of the run after which the entropy bonus falls linearly to 0; 1 keeps it, as the original does."""
    value_coefficient: float = Field(0.5, ge=0)
    max_grad_norm: float = Field(0.5, gt=0)
    test_every: int = Field(50, ge=1)
    """Iterations between two evaluations on the test layouts."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)


class AskingSettings(TrainingSettings):
    """What the asking policy takes besides."""

    heads: Literal["one", "by-option"] = "one"
    """One pair of logits, as the released network has, or one for each option of the plan (the paper's appendix)."""


class CloningSettings(AskingSettings):
    """What teaching a rule takes; settings of PPO alone (clip, gamma, lam, entropy, value) are without effect."""

    heads: Literal["one"] = "one"
    rule: Literal["new-object", "nothing-changed"] = "new-object"
    """The rule that is taught."""
    iterations: int = Field(200, ge=1)
