"""The settings of the knowledge agents, and the original's quirks as options.

Defaults are the paper's for grids. Source: docs/papers/knowledge-method.md#s2, #s6 and
docs/papers/knowledge-reference.md#s11.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from groundlab import assets
from groundlab.assets import model_files
from groundlab.core.schema import Device, Layouts, Strict
from groundlab.learning.options import Quirks

HOME = Path(assets.__file__).parent / "knowledge"
DATASETS = ("pretraining-s20", "crafter-reward")
DATASET = HOME / DATASETS[0]
PROGRAMS = ("prompt-alone/a", "prompt-alone/b", "prompt-alone/c")
PUBLIC_MODEL = ("smollm2/goals", "smollm2/preferences")  # folders of SmolLM2-135M-Instruct's replies
Pooling = Literal["texts", "sentences"]
LABELS = {  # by form: the name of its labelling
    "code": "code",
    "preference": "preferences",
    "motif": "preferences",
    "goals": "goals",
    "ellm": "goals",
}
_BY_GOALS = ("goals", "ellm")


def folder_of(name: str | Path | None) -> Path:
    """The folder of a dataset: one that ships, by its name; another by its folder; without either, the one of grids."""
    if name is None:
        return DATASET
    return HOME / name if str(name) in DATASETS else Path(name)


def source_of(name: str) -> Path:
    """The file or folder of knowledge: a program that ships, by its name; anything else by its path."""
    shipped = f"code/{name}/code-final.py" if name in PROGRAMS else name
    return HOME / shipped if name in (*PROGRAMS, *PUBLIC_MODEL) else Path(name)


def ledger(form: str, about: str | Path | None = None) -> Path:
    """The file of replies to the prompts of a form, "code" or "goals", about a dataset (as in `folder_of`)."""
    crafter = folder_of(about) == HOME / "crafter-reward"
    return HOME / (f"crafter-{form}-ledger.jsonl" if crafter else f"{form}-ledger.jsonl")


class Fidelity(Strict):
    """Quirks of the original that touched published figures, by number in docs/papers/knowledge-reference.md#s11; the
    default is mended.
    """

    unclipped_gradients: bool = False
    """Q1: the norm of gradients is not limited."""
    late: bool = False
    """Q2: step t is paid the term of step t - 1, and an episode's last term is not paid in it."""
    no_boundaries: bool = False
    """Q3: the first term of an episode follows the episode before, and no end counts as phi = 0."""
    running_scale: bool = False
    """Q4: phi is divided by a deviation that keeps changing."""
    carried_twice: bool = False
    """Q4: the potential carried to the next rollout is divided and counted twice; needs `late` too."""
    shared_clock: bool = False
    """Q5: all environments get the last one's step number."""
    normalised_view: bool = False
    """Q7: programs of BK-Code read the network's fractions, where their prompt promises whole codes."""
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


class PPOSettings(Strict):
    """What PPO takes, with or without curiosity and shaping."""

    network: Literal["paper", "small"] = "paper"
    """The original's network, or ours with a seventieth of its arithmetic (`networks.py`)."""
    timeouts: Literal["terminal", "bootstrap"] = "terminal"
    """Whether a time limit counts as an end, as in the original (quirk Q11), or what would follow is estimated."""
    device: Device = "cpu"
    """Where networks are; worlds, windows and programs stay on the CPU."""
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
    advantage_norm: Literal["running", "minibatch"] = "running"
    """How advantages are normalised where there is curiosity: by running moments over all rollouts, as in the original,
    or within each minibatch, as they are without curiosity."""
    fidelity: Fidelity = Fidelity()


COLLECTION = {"reward_scale": 1.0, "curiosity": 1.0, "earned": 2.0}
"""What differs when episodes are collected (docs/papers/knowledge-method.md#s2)."""


class KnowledgeSettings(PPOSettings):
    """What a run on one task takes besides."""

    frames: int = Field(default=1_000_000, ge=1)
    """Steps of all environments together; the last update is a whole one."""
    iterations: int | None = Field(default=None, ge=1)
    """Updates, instead of `frames`."""
    layouts: Layouts = "0-99"
    """Test layouts, "first-last"."""
    test_every: int = Field(default=0, ge=0)
    """After the first update, every so many and the last: a test on `curve_layouts`, whose means each record keeps. The
    paper's is every 20,000 steps, 20 updates of its size."""
    curve_layouts: Layouts = "200-249"
    timeouts: Literal["terminal", "bootstrap"] = "bootstrap"
    form: Literal["none", "constant", "random", "oracle", "code", "preference", "goals", "ellm", "motif"] = "none"
    draw: int | None = Field(default=None, ge=0)
    """Which random potential form=random is; without it each seed has its own, so that draw and seed are one."""
    negated: bool = False
    """Whether phi is taken with the opposite sign: a control, since the negative of knowledge should do harm."""
    shuffled: bool = False
    """A control: labels of preferences are exchanged among pairs, goals among stretches of play, by the run's seed."""
    centred: bool = False
    """Whether phi has its mean in some random play taken off. A constant changes no optimal policy, but learning: it is
    another start for the value function."""
    effect: float | None = Field(default=None, gt=0)
    """The mean |F| of a step in some random play before training. Where it is set, `strength` follows from it, so that
    potentials of different sizes pay equally much; without it `strength` counts."""
    source: str | None = None
    """A program's file, or the folder of a preference network, of labels that one learns from, or of a library of
    goals; what ships by its name (`PROGRAMS`, `PUBLIC_MODEL`)."""
    maker: Literal["recorded", "scripted", "local"] | None = None
    """Who labels before training when there is no source; "recorded": the ledger that ships, hand-written."""
    model: str | None = None
    """The language model of maker=local."""
    labelling: dict[str, Any] = Field(default={})
    """Settings of the labelling, as `groundlab label` takes them."""
    dataset: str | None = None
    """What is labelled, and `share` counted on: a folder, or one that ships by name; without: the one of grids."""
    scale: float | Literal["range", "sums"] = "range"
    """What potentials are divided by: from the least to the most in some random play before training; the deviation of
    their discounted sums there, the original's measure (`learning.shaping.scale_of`); or a number. "range" divides a
    bonus by its discounted sum over endless random play, so that `strength` is what such play is worth."""
    encoder: str = "quick-t5-s0"
    """What embeds captions and goals: a model that ships, a folder that `save_pretrained` left, or a name on this
    machine. Vectors are means over a text's tokens, of length 1, as sentence-transformers makes them."""
    encoder_revision: str | None = None
    """The commit of an encoder of the hub."""
    pooling: Pooling = "texts"
    """Whether whole texts are embedded, as in the original, or the mean of their sentences (`bk_goal.Sentences`)."""
    threshold: float | None = None
    """Similarity below which a goal does not count (the original's: 0.85); without: see `share`."""
    share: float = Field(default=0.1, gt=0, lt=1)
    """The share of steps of the dataset on which a goal counts; sets the threshold."""

    def inputs(self) -> dict[str, Path | bytes | str]:
        """The files of knowledge that a run reads."""
        paths = {"source": source_of(self.source)} if self.source else {}
        if self._reads_dataset():
            paths["dataset"] = self.dataset_folder
        if self.maker == "recorded":
            paths["replies"] = ledger(LABELS[self.form], self.dataset)
        files = model_files(self.encoder, "encoder") if self.form in _BY_GOALS else {}
        files |= {name: file for role, path in paths.items() for name, file in _files(role, path).items()}
        return files | (model_files(self.model) if self.model else {})

    def _reads_dataset(self) -> bool:
        """To be labelled, to count `share` on, or to measure scores on."""
        calibrates = self.form in _BY_GOALS and self.threshold is None
        return (self.form in LABELS and self.maker is not None) or calibrates or self.form == "motif" or self.learns

    @property
    def learns(self) -> bool:
        """Whether a run's preference network learns from labels that lie in its source."""
        by_pairs = LABELS.get(self.form) == "preferences" and self.source is not None
        return by_pairs and not (source_of(str(self.source)) / "network.json").is_file()

    @property
    def dataset_folder(self) -> Path:
        return folder_of(self.dataset)

    @model_validator(mode="after")
    def _can_be_labelled(self) -> "KnowledgeSettings":
        if self.maker and self.source:
            raise ValueError("has a source and a maker; leave one of them out")
        if self.maker and self.form not in LABELS:
            raise ValueError(f"has a maker, but form={self.form} is not labelled; leave maker out")
        unused = {
            "source": self.source is not None and self.form not in LABELS,
            "labelling": bool(self.labelling) and self.maker is None and not self.learns,
            "shuffled": self.shuffled and not (self.learns or self.form in _BY_GOALS),
            "model": self.model is not None and self.maker != "local",
            "dataset": self.dataset is not None and not self._reads_dataset(),
        }
        if named := [name for name, is_unused in unused.items() if is_unused]:
            asked = f"form={self.form}" + (f" and maker={self.maker}" if self.maker else "")
            raise ValueError(f"has {named[0]}, which a run with {asked} does not read; leave it out")
        if self.form in ("ellm", "motif"):
            given = {"scale=sums": self.scale == "sums", "centred": self.centred, "negated": self.negated}
            given["effect"] = self.effect is not None
            if wrong := [name for name, is_set in given.items() if is_set]:
                raise ValueError(f"has {wrong[0]}, which is for potentials; form={self.form} is a reward, leave it out")
        return self


def _files(role: str, path: Path) -> dict[str, Path]:
    if path.is_dir():
        return {f"{role}/{file.name}": file for file in sorted(path.glob("[!.]*")) if file.is_file()}  # no locks
    return {role: path} if path.is_file() else {}


class CollectionSettings(PPOSettings):
    """What collection takes besides; the paper's figures."""

    frames: int = Field(default=5_000_000, ge=1)
    """Steps of all environments together; the last update is a whole one."""
    record_every: int = Field(default=500_000, ge=1)
    record_episodes: int = Field(default=50, ge=1)
    layouts: Layouts = "0-99"
    """Test layouts, "first-last"."""
    reward_scale: float = Field(default=COLLECTION["reward_scale"], gt=0)
    curiosity: float = Field(default=COLLECTION["curiosity"], ge=0)
    earned: float = Field(default=COLLECTION["earned"], ge=0)
