"""A labelling from its options to its files: the model that answers, the requests, and the files they leave.

    groundlab label goals --maker openai --model NAME --base-url URL --ledger FILE --out DIR
    groundlab label code --out DIR                          from the ledger that ships: hand-written knowledge
    groundlab label goals --dataset crafter-reward --out DIR         the same of Crafter

Every reply is in the ledger before it is used, so the same command continues and no question is asked twice. In the
end DIR/labelling.json names the labelling, and another one is refused there. The method `knowledge` reads DIR.
Source: docs/papers/knowledge-method.md#s3 to #s5.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from groundlab.assets import resolve_model
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.schema import Strict, parse
from groundlab.core.seeding import generator
from groundlab.language.chat import ChatModel, Ledger, Messages, Recording, Sampling
from groundlab.language.chat.factory import ChatSettings, chat_model
from groundlab.language.chat.ledger import Account
from groundlab.language.chat.local_client import Local
from groundlab.papers.knowledge import bk_code, bk_goal, bk_pref, scripted
from groundlab.papers.knowledge.bk_code import Estimate
from groundlab.papers.knowledge.bk_pref import PreferenceTransformer
from groundlab.papers.knowledge.captions import trajectory
from groundlab.papers.knowledge.dataset import Dataset, target_distances
from groundlab.papers.knowledge.observations import CRAFTER, ObservationAdapter
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.settings import folder_of, ledger

AUTHOR = "hand-written"  # the model's name in the ledgers
LABEL = "hand-written knowledge"


def dataset(name: str | Path | None = None) -> Dataset:
    """A dataset that ships, or another by its folder. Raises GroundlabError when there is none or it is broken."""
    return Dataset(folder_of(name))


def is_scorer(model: str | None) -> bool:
    """Whether a model reads and scores (a T5) instead of talking: such a one cannot be asked, but can judge."""
    file = Path(resolve_model(model or "")) / "config.json"
    config = storage.read_json(file) if file.is_file() else {}
    return isinstance(config, dict) and bool(config.get("is_encoder_decoder"))


Backend = Literal["recorded", "scripted", "openai", "local", "likelihood"]


class CodeSettings(bk_code.Settings):
    """BK-Code, as many rounds as the ledger that ships has; the paper's are 20."""

    rounds: int = Field(default=4, ge=1)


class GoalsSettings(bk_goal.Settings):
    """BK-Goal, as many stretches as the ledger that ships has; the paper's are 500."""

    rounds: int = Field(default=40, ge=1)


class PreferencesSettings(bk_pref.LabelSettings):
    """BK-Pref: pairs for `quick`, where the paper has 5,000, and how the network learns from them."""

    pairs: int = Field(default=1000, ge=1)
    error: float = Field(default=0.1, ge=0, le=1)
    """The share of wrong answers of the scripted judge."""
    train: bk_pref.TrainSettings = bk_pref.TrainSettings(network="small", epochs=15)
    """For laptops; the paper's: network=paper, epochs=5."""


_SETTINGS: dict[str, type[Strict]] = {"code": CodeSettings, "preferences": PreferencesSettings, "goals": GoalsSettings}
_REPLY_LENGTH = {"code": 1200, "preferences": 400, "goals": 200}
FORMS = tuple(_SETTINGS)


@dataclass(frozen=True)
class Labelling:
    """A labelling as its user orders it. `dataset`: as in `folder_of`."""

    form: str
    out: Path
    maker: Backend = "recorded"
    model: str | None = None
    ledger: Path | None = None
    dataset: Path | None = None
    seed: int = 0
    overrides: dict[str, Any] = field(default_factory=dict)
    """Of the settings of the form, and of `chat`, those of the language model."""

    def __post_init__(self):
        if self.form not in FORMS:
            raise unknown_name("form", self.form, FORMS)
        if self.maker not in Backend.__args__:
            raise unknown_name("maker", self.maker, Backend.__args__)
        if self.maker == "scripted" and (self.model or self.ledger):
            unread = "--model" if self.model else "--ledger"
            raise GroundlabError(f"--maker scripted asks no model; leave out {unread}, or give another --maker")

    @property
    def settings(self) -> Any:
        """Those of the form. Raises GroundlabError for a key or a value that there is not."""
        overrides = {key: value for key, value in self.overrides.items() if key != "chat"}
        return parse(_SETTINGS[self.form], overrides, f"settings of label {self.form}")

    @property
    def chat(self) -> ChatSettings:
        """How replies are sampled: as in the original, with temperature 0.5."""
        model = self.model or (AUTHOR if self.maker == "recorded" else None)
        defaults = {"model": model, "temperature": 0.5, "max_tokens": _REPLY_LENGTH[self.form]}
        given, where = self.overrides.get("chat", {}), f"settings of label {self.form}: chat"
        if not isinstance(given, dict):
            raise GroundlabError(f"{where} is no value but a group of settings; write --set chat.temperature=0.5")
        return parse(ChatSettings, defaults | given, where)

    @property
    def ledger_file(self) -> Path:
        """The file of replies: by default the ledger that ships (recorded), or one in `out`."""
        default = ledger(self.form, self.dataset) if self.maker == "recorded" else self.out / "ledger.jsonl"
        return self.ledger or default

    def command(self, **other: Any) -> str:
        """The command line that asks for this, with some options changed."""
        options = {"dataset": self.dataset, "maker": self.maker, "model": self.model, "ledger": self.ledger}
        options |= {"seed": self.seed or None, "out": self.out, **other}
        words = ["groundlab", "label", self.form]
        words += [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
        return shlex.join(words + [word for pair in _pairs(self.overrides) for word in ("--set", pair)])


def _pairs(settings: dict[str, Any], path: str = "") -> list[str]:
    """Nested settings as the command line takes them."""
    pairs = []
    for key, value in settings.items():
        pairs += _pairs(value, f"{path}{key}.") if isinstance(value, dict) else [f"{path}{key}={value}"]
    return pairs


@dataclass
class _LedgerReplies:
    """A ledger's replies. The error about a missing one names the command that would fill it."""

    labelling: Labelling
    ledger: Ledger
    answered: int = 0

    @property
    def model(self) -> str:
        return self.labelling.chat.model or ""

    def reply(self, messages: Messages, sampling: Sampling) -> str:
        reply = self.ledger.find(self.model, messages, sampling)
        if reply is None:
            model = "NAME" if self.model == AUTHOR else self.model
            file = self.labelling.out / "ledger.jsonl" if model == "NAME" else self.ledger.path
            fill = self.labelling.command(maker="openai", model=model, ledger=file, **{"base-url": "URL"})
            what = (
                f"{self.ledger.path} holds no reply of {self.model!r} to question {self.answered + 1} of this labelling"
            )
            raise GroundlabError(f"{what}; a model fills it: {fill}")
        self.answered += 1
        return reply


def labeller(labelling: Labelling, adapter: ObservationAdapter) -> ChatModel:
    """Who answers, about such worlds. Raises GroundlabError where a model, a ledger or a server is missing."""
    if labelling.maker == "recorded":
        if not labelling.ledger_file.is_file():
            raise GroundlabError(_no_ledger(labelling))
        return _LedgerReplies(labelling, Ledger(labelling.ledger_file))
    if labelling.maker == "scripted":
        if labelling.form == "preferences":
            return scripted.scripted_judge(labelling.settings.error, labelling.seed, adapter)
        if labelling.form == "code":
            return scripted.programmer()
        return scripted.crafter_adviser() if adapter is CRAFTER else scripted.grid_adviser()
    if labelling.maker == "local" and labelling.form == "preferences" and is_scorer(labelling.chat.model):
        if adapter is CRAFTER:
            raise GroundlabError(f"{labelling.chat.model} only scores, and judges grids only; use --maker scripted")
        return scripted.scoring_judge(labelling.chat.model or "")
    if labelling.maker != "likelihood":
        return chat_model(labelling.maker, labelling.chat, labelling.ledger_file, True)
    chat = labelling.chat
    if labelling.form != "preferences" or chat.model is None or is_scorer(chat.model):
        raise GroundlabError("--maker likelihood is for preferences, by a causal model; give another maker, or --model")
    local = Local(chat.model, chat.revision, chat.device, chat.dtype)
    return Recording(scripted.LikelierRank(local), Ledger(labelling.ledger_file), "local")


def _no_ledger(labelling: Labelling) -> str:
    fill = labelling.command(maker="openai", model=labelling.model or "NAME", **{"base-url": "URL"})
    return f"there is no ledger {labelling.ledger_file}; a model fills one: {fill} (or use --maker scripted)"


def estimate(labelling: Labelling, data: Dataset) -> Estimate:
    """Calls and tokens of a labelling, if no reply has to be asked for again."""
    _adapter(labelling, data)
    if labelling.form == "code":
        return bk_code.estimate(labelling.settings)
    form = bk_pref if labelling.form == "preferences" else bk_goal
    return form.estimate(data, labelling.settings, labelling.seed)


@dataclass(frozen=True)
class Report:
    """The result of a labelling."""

    summary: str
    """In a sentence."""
    account: Account
    """Of the replies asked for now; earlier ones are in the ledger."""


def label(labelling: Labelling, data: Dataset) -> Report:
    """Ask, and write the result to `labelling.out`. Raises GroundlabError in one line; replies so far are kept."""
    chat = labeller(labelling, _adapter(labelling, data))
    facts = _facts(labelling, data, chat.model)
    _check_free(labelling.out, facts)
    ledger = getattr(chat, "ledger", None)
    before = ledger.account() if ledger else Account()
    summary = _LABEL[labelling.form](labelling, chat, data)
    storage.write_json(labelling.out / "labelling.json", facts)
    after = ledger.account() if ledger else Account()
    if ledger and ledger.flawed:
        summary += f"; {ledger.flawed} replies of the ledger were cut by length or came from another model"
    spent = Account(*(value - getattr(before, name) for name, value in vars(after).items()))
    storage.write_json(
        labelling.out / "account.json", {"made": summary, "model": chat.model, "asked_last": vars(spent)}
    )
    return Report(summary, spent)


def _adapter(labelling: Labelling, data: Dataset) -> ObservationAdapter:
    """That of the dataset's world. Raises GroundlabError for a form that does not exist for it."""
    if data.adapter is CRAFTER and labelling.form == "code":
        raise GroundlabError("BK-Code has no Crafter form, its prompts are about grids; label preferences or goals")
    return data.adapter


def _facts(labelling: Labelling, data: Dataset, model: str) -> dict[str, Any]:
    """What identifies a labelling: its form, its labeller, its dataset and its settings."""
    return {
        "form": labelling.form,
        "maker": labelling.maker,
        "model": model,
        "knowledge": _KIND[labelling.maker] if model != AUTHOR else LABEL,
        "dataset": data.card["sha256"],
        "seed": labelling.seed,
        "settings": labelling.settings.model_dump(mode="json"),
        "chat": labelling.chat.model_dump(mode="json") if labelling.maker != "scripted" else None,
    }


def _check_free(folder: Path, facts: dict[str, Any]) -> None:
    """Raises GroundlabError when the folder holds the result of another labelling."""
    file = folder / "labelling.json"
    stored = storage.read_json(file) if file.exists() else facts
    other = [name for name in facts if stored.get(name) != facts[name]] if isinstance(stored, dict) else ["form"]
    if other:
        raise GroundlabError(f"{folder} holds another labelling ({other[0]} differs); choose another --out")


_KIND = {
    "recorded": "a language model's, replayed",
    "scripted": "by a stated rule",
    "openai": "a language model's",
    "local": "a language model's",
    "likelihood": "a language model's",
}


def _label_code(labelling: Labelling, chat: ChatModel, data: Dataset) -> str:
    with Sandbox() as sandbox:
        settings, sampling = labelling.settings, labelling.chat.sampling
        programs = bk_code.write_programs(chat, sampling, data, sandbox, settings, labelling.seed)
        final = bk_code.choose_program(programs, data, sandbox, labelling.seed, settings.normalised_view)
    bk_code.store(labelling.out, programs, final)
    faults = sum(program.faults for program in programs)
    made = f"{len(programs)} working programs in {settings.rounds} rounds, {faults} faulty ones"
    return f"{made}; code-final.py is number {programs.index(final)}"


def _label_preferences(labelling: Labelling, chat: ChatModel, data: Dataset) -> str:
    settings, adapter = labelling.settings, data.adapter
    labels = bk_pref.judge(chat, labelling.chat.sampling, data, settings, labelling.seed)
    pairs = labels.pairs()
    bk_pref.store_labels(labelling.out / "preferences.json", labels, data, settings)
    if settings.random_order == "both":
        storage.write_json(labelling.out / "judging.json", judging_facts(labels, data, settings.length))
    network, records = bk_pref.train(pairs, settings.train, adapter.shape, len(adapter.actions), labelling.seed)
    bk_pref.store(labelling.out, network)
    storage.write_json(labelling.out / "training.json", records)
    best = max(record["accuracy"] for record in records)
    ties = sum(label == 0.5 for label in labels.labels)
    counts = f"{len(labels.labels)} labelled pairs ({ties} ties, {labels.unreadable} replies that say nothing)"
    return f"{counts}; the network agrees with {best:.0%} of those held out"


def judging_facts(labels: bk_pref.Labels, data: Dataset, length: int) -> dict[str, Any]:
    """Return counts, [agreeing, decided], that describe a judge who was asked about each pair in both orders.

    first_shown: replies that prefer what they were shown first (half of them, for a judge without a leaning).
    same_segment: pairs whose two replies prefer one segment. rule: labels that agree with the scripted judge's score.
    progress: labels that prefer the segment that comes nearer to what its episode's mission named. Grids only: the last
    two are left out in Crafter.
    """
    said = np.sign(labels.orders)
    facts = {"pairs": len(said), "unreadable": labels.unreadable}
    facts |= {"first_shown": [int((said > 0).sum()), int((said != 0).sum())]}
    facts |= {"same_segment": [int((said.prod(1) < 0).sum()), int((said != 0).all(1).sum())]}
    if data.adapter is CRAFTER:
        return facts
    away, names = target_distances(data), data.adapter.actions
    gains = [[away[e][s] - away[e][s + length] for e, s in (row[:2], row[2:])] for row in labels.positions]
    texts = (trajectory(each.captions, each.actions.tolist(), names) for each in labels.first + labels.second)
    merits = np.reshape([*map(scripted.score_grid_segment, texts)], (2, -1)).T
    for name, scores in (("progress", np.array(gains)), ("rule", merits)):
        agreement = (np.array(labels.labels) * 2 - 1) * (scores[:, 1] - scores[:, 0])
        facts[name] = [int((agreement > 0).sum()), int((np.abs(agreement) > 0).sum())]
    return facts


def learn(source: Path, settings: dict[str, Any], data: Dataset, seed: int, shuffled: bool) -> PreferenceTransformer:
    """The network of a run that learns from the labels in a folder, by `train` of the labelling's settings.

    shuffled: the labels are exchanged among the pairs first. Raises as `bk_pref.load_labels` and `bk_pref.train`.
    """
    labels, adapter = bk_pref.load_labels(source / "preferences.json", data), data.adapter
    if shuffled:
        labels.labels = generator(seed, "shuffled labels").permutation(labels.labels).tolist()
    train = parse(PreferencesSettings, settings, "settings of label preferences").train
    return bk_pref.train(labels.pairs(), train, adapter.shape, len(adapter.actions), seed)[0]


def _label_goals(labelling: Labelling, chat: ChatModel, data: Dataset) -> str:
    library = bk_goal.suggest(chat, labelling.chat.sampling, data, labelling.settings, labelling.seed)
    bk_goal.store(labelling.out, library)
    without = labelling.settings.rounds - len(library.captions)
    return f"{len(library.numbers)} goals for {len(library.captions)} stretches of play ({without} without a list)"


_LABEL: dict[str, Callable[[Labelling, ChatModel, Dataset], str]] = {
    "code": _label_code,
    "preferences": _label_preferences,
    "goals": _label_goals,
}
