"""PPO on a sparse task, its rewards shaped by background knowledge, or by what knowledge is compared with.

    groundlab run knowledge --world BabyAI-Text-GoToLocal-RedBall-S20 --seed 0 --set form=oracle --out DIR
    groundlab run knowledge ... --set form=code --set source=DIR/code-final.py       what `groundlab label` left
    groundlab run knowledge ... --set form=code --set maker=recorded                 labels first: the ledger that ships

`form` says where the potential comes from; "code", "preference" and "goals" read `source`, the file or folder that a
labelling left, or are labelled by `maker` before training. Optimal policies stay as they are (learning/shaping.py)
unless `fidelity` says otherwise, or the forms "ellm" and "motif", which read goals and preferences and are rewards
(`bonuses.py`). BK-Goal with a sentence encoder of transformers, from a folder that `save_pretrained` left or by a name
that is on this machine (hf download sentence-transformers/all-MiniLM-L6-v2, or prajjwal1/bert-small, the paper's):
    groundlab run knowledge ... --set form=goals --set maker=recorded --set encoder=models/all-MiniLM-L6-v2
Source: spec background-knowledge 6. Read next: `learner.py`, `potentials.py`.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run
from groundlab.core.schema import Layouts, parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.pretraining import model_files, resolve_model
from groundlab.language.sentence_embedding import Embedder, load_encoder
from groundlab.learning import checkpoints
from groundlab.learning.shaping import scale_of
from groundlab.papers.episodes import Memoryless, Player, Row, play_layouts, summary
from groundlab.papers.knowledge import bk_goal, bk_pref, labelling
from groundlab.papers.knowledge.bk_goal import GoalPotential, Pooling
from groundlab.papers.knowledge.dataset import Dataset
from groundlab.papers.knowledge.networks import TwoHeadedAgent
from groundlab.papers.knowledge.observations import (  # noqa: F401 - WORLDS is for the registry
    CRAFTER,
    WORLDS,
    History,
    ObservationAdapter,
    Windows,
    adapter_for,
    normalised,
    stacked,
)
from groundlab.papers.knowledge.potentials import (
    Bonus,
    CodePotential,
    OraclePotential,
    Potential,
    PreferencePotential,
    Preferred,
    RandomPotential,
    Suggested,
    Zero,
)
from groundlab.papers.knowledge.ppo import TRAINING_LAYOUTS_FROM, Learner, draw
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.settings import Settings as LearnerSettings
from groundlab.papers.method import Request
from groundlab.worlds import rules
from groundlab.worlds.codes import COLOURS, TYPES
from groundlab.worlds.crafter.rules import ACHIEVEMENTS


def play_lives(world: str, seeds: Sequence[int], player: Player) -> list[Row]:
    """Play the first life of each seed to its end: rows of layout, steps, success, return and achievements.

    The player is one that remembers nothing.
    """
    envs = CRAFTER.make(world, len(seeds), "disabled")
    observations, _ = envs.reset(seed=list(seeds))
    rows: list[Row] = [{} for _ in seeds]
    active, steps, returns = np.arange(len(seeds)), 0, np.zeros(len(seeds))
    while len(active):
        actions = np.zeros(len(seeds), np.int64)
        actions[active] = player.act(observations, active)
        observations, rewards, terminated, truncated, info = envs.step(actions)
        steps, returns = steps + 1, returns + rewards
        ended = (terminated | truncated)[active]
        for env in active[ended].tolist():
            rows[env] = _row(env, seeds[env], steps, float(returns[env]), info)
        active = active[~ended]
    return rows


def _row(env: int, seed: int, steps: int, total: float, info: dict[str, Any]) -> Row:
    done = [name for name, flag in zip(ACHIEVEMENTS, info["unlocked"][env], strict=True) if flag]
    return {"layout": seed, "steps": steps, "success": bool(info["done"][env]), "return": total, "achievements": done}


_TRIED = (128, 16)  # steps of random play, and environments, on which a potential's size is measured


class Settings(LearnerSettings):
    """What a run on one task takes besides."""

    frames: int = Field(default=1_000_000, ge=1)
    """Steps of all environments together; the last update is a whole one."""
    iterations: int | None = Field(default=None, ge=1)
    """Updates, instead of `frames`."""
    layouts: Layouts = "0-99"
    """Test layouts, "first-last"."""
    timeouts: Literal["terminal", "bootstrap"] = "bootstrap"
    form: Literal["none", "random", "oracle", "code", "preference", "goals", "ellm", "motif"] = "none"
    source: str | None = None
    """A program's file, or the folder of a preference network or a library of goals."""
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
    pooling: Pooling = "texts"
    """Whether whole texts are embedded, as in the original, or the mean of their sentences (`pooling.py`)."""
    threshold: float | None = None
    """Likeness below which a goal does not count (the original's: 0.85); without: see `share`."""
    share: float = Field(default=0.1, gt=0, lt=1)
    """The share of steps of the dataset on which a goal counts; sets the threshold."""

    def input_files(self) -> list[Path]:
        """The knowledge that a run reads."""
        places = [Path(self.source)] if self.source else []
        if self._reads_dataset():
            places.append(self.dataset_folder)
        if self.maker == "recorded":
            places.append(labelling.ledger(_LABELLED[self.form], self.dataset))
        encoder = model_files(self.encoder) if self.form in _BY_GOALS else []
        return [*(file for place in places for file in _files(place)), *encoder]

    def _reads_dataset(self) -> bool:
        """To be labelled, to count `share` on, or to measure scores on."""
        counted = self.form in _BY_GOALS and self.threshold is None
        return (self.form in _LABELLED and self.maker is not None) or counted or self.form == "motif"

    @property
    def dataset_folder(self) -> Path:
        """Where the labelled dataset lies."""
        return labelling.folder_of(self.dataset)

    @model_validator(mode="after")
    def _can_be_labelled(self) -> "Settings":
        if self.maker and self.source:
            raise ValueError("has a source and a maker; leave one of them out")
        if self.maker and self.form not in _LABELLED:
            raise ValueError(f"has a maker, but form={self.form} is not labelled; leave maker out")
        if self.form in ("ellm", "motif") and self.scale == "sums":
            raise ValueError(f"has scale=sums, which measures potentials; form={self.form} is none, leave scale out")
        return self


_LABELLED = {  # by form: what the labelling calls it
    "code": "code",
    "preference": "preferences",
    "motif": "preferences",
    "goals": "goals",
    "ellm": "goals",
}
_BY_GOALS = ("goals", "ellm")


def _files(place: Path) -> list[Path]:
    if place.is_dir():
        return sorted(file for file in place.iterdir() if file.is_file())
    return [place] if place.is_file() else []


class KnowledgePlayer(Memoryless):
    """Plays with a trained network; without `rng` it takes the likeliest action."""

    def __init__(self, agent: TwoHeadedAgent, rng: np.random.Generator | None, senses: ObservationAdapter):
        self._agent, self._rng, self._view = agent, rng, senses.view

    @torch.no_grad()
    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        logits = self._agent(torch.from_numpy(normalised(self._view(observations)[active]))).logits
        return logits.argmax(-1).numpy() if self._rng is None else draw(logits, self._rng)


def targets(world: str) -> list[tuple[str, str]]:
    """What the missions of a world are about, (type, colour) by name. Raises GroundlabError where that differs."""
    level = worlds.find(world).levels[0]
    pairs = [(level.target_type, level.target_colour), (level.second_type, level.second_colour)]
    fixed = [pair for pair in pairs if rules.DRAWN not in pair and pair[0] in range(len(TYPES) - 1)]
    if not fixed:
        raise GroundlabError(f"{world} draws its targets, so there is no oracle; choose a world with a fixed one")
    return [(TYPES[kind], COLOURS[colour]) for kind, colour in fixed]


def _source(settings: Settings, seed: int, home: Path, senses: ObservationAdapter) -> Path:
    """Where the knowledge of a run lies. Labels into `home` when a maker is named.

    Hand-written replies are those to the questions of seed 0; other makers are asked those of the run's seed.
    """
    if settings.maker is None:
        if settings.source is None or not Path(settings.source).exists():
            what = f"form={settings.form} needs what a labelling left, not {settings.source!r}"
            raise GroundlabError(f"{what}; set source, or maker=recorded")
        return Path(settings.source)
    wanted = labelling.Labelling(
        _LABELLED[settings.form],
        home,
        settings.maker,
        settings.model,
        dataset=Path(settings.dataset) if settings.dataset else None,
        seed=0 if settings.maker == "recorded" else seed,
        given=settings.labelling,
    )
    labelling.label(wanted, _dataset(settings, senses))
    return home / "code-final.py" if settings.form == "code" else home


def _dataset(settings: Settings, senses: ObservationAdapter) -> Dataset:
    """What is labelled or counted on. Raises GroundlabError when it is of another kind of world than the run's."""
    data = Dataset(settings.dataset_folder)
    if adapter_for(data.card.get("world")) is not senses:
        fitting = labelling.DATASETS[senses is CRAFTER]
        raise GroundlabError(f"{data.folder.name} is a dataset of other worlds; set dataset={fitting}")
    return data


@contextmanager
def potential_of(world: str, seed: int, settings: Settings, home: Path) -> Iterator[Potential]:
    """The potential that the settings ask for, of one of the paper's forms or a control; the rest of `advice_of`."""
    with advice_of(world, seed, settings, home) as advice:
        if isinstance(advice, Bonus):
            raise GroundlabError(f"form={settings.form} is a reward, no potential; choose another form")
        yield advice


@contextmanager
def advice_of(world: str, seed: int, settings: Settings, home: Path) -> Iterator[Potential | Bonus]:
    """The potential or bonus that the settings ask for; what is labelled for it goes to `home`.

    Raises GroundlabError when its source is missing or it is not for this world, and what a labelling raises.
    """
    senses = adapter_for(world)
    if senses is CRAFTER and settings.form in ("oracle", "code"):
        raise GroundlabError(f"form={settings.form} is for grids; on {world} use none, random, preference or goals")
    if settings.form == "none":
        yield Zero()
    elif settings.form == "random":
        yield RandomPotential(seed)
    elif settings.form == "oracle":
        yield OraclePotential(targets(world))
    elif settings.form == "code":
        source = _source(settings, seed, home, senses).read_text()
        with Sandbox() as sandbox:
            yield CodePotential(source, sandbox)
    elif settings.form in ("preference", "motif"):
        judge = _preference_potential(_source(settings, seed, home, senses), senses)
        yield judge if settings.form == "preference" else _preferred(judge, _dataset(settings, senses))
    else:
        library = bk_goal.load(_source(settings, seed, home, senses))
        potential = _goal_potential(library, settings, senses)
        yield potential if settings.form == "goals" else Suggested(potential)


def _preferred(judge: PreferencePotential, data: Dataset) -> Preferred:
    return Preferred(judge, bk_goal.known_windows(data, judge.horizon, generator(0, "known play")))


def _preference_potential(source: Path, senses: ObservationAdapter) -> PreferencePotential:
    network = bk_pref.load(source)
    if tuple(network.made_as["shape"]) != senses.shape:
        raise GroundlabError(
            f"{source} was learnt on other worlds; label preferences of a dataset of this kind of world"
        )
    return PreferencePotential(network)


def _goal_potential(library: bk_goal.GoalLibrary, settings: Settings, senses: ObservationAdapter) -> GoalPotential:
    embed, threshold = Embedder(load_encoder(resolve_model(settings.encoder))), settings.threshold or bk_goal.THRESHOLD
    potential = GoalPotential(library, embed, threshold, senses.actions, settings.pooling)
    if settings.threshold is None:
        bk_goal.calibrate(potential, _dataset(settings, senses), settings.share)
    return potential


def random_play(world: str, horizon: int, seed: int, steps: int, num_envs: int) -> Windows:
    """Windows of uniformly random actions, step after step [steps * num_envs]."""
    rng = generator(seed, "random play")
    senses = adapter_for(world)
    envs = senses.make(world, num_envs, "same-step")
    history = History(num_envs, horizon, senses.padding)
    layouts = rng.integers(TRAINING_LAYOUTS_FROM, 2**31, num_envs)
    history.start(senses.view(envs.reset(seed=layouts.tolist())[0]))
    windows = []
    for _ in range(steps):
        windows.append(history.windows())
        actions = rng.integers(0, len(senses.actions), num_envs)
        history.act(actions)
        observations, _, terminated, truncated, _ = envs.step(actions)
        history.see(senses.view(observations), terminated | truncated)
    return stacked(windows)


def _scale(advice: Potential | Bonus, world: str, seed: int, settings: Settings) -> float:
    """What potentials, or bonuses, are divided by."""
    if not isinstance(settings.scale, str):
        return settings.scale
    windows = random_play(world, advice.horizon, seed, *_TRIED)
    if isinstance(advice, Bonus):
        return _worth(advice, windows, settings.gamma) or 1.0
    phi = advice(windows)
    if settings.scale == "sums":
        return scale_of(torch.from_numpy(phi).reshape(_TRIED), settings.gamma)
    return float(np.ptp(phi)) or 1.0


def _worth(bonus: Bonus, windows: Windows, gamma: float) -> float:
    """The discounted sum of what endless random play would be paid; windows: of `random_play`. Forgets it all again."""
    fresh, starts = bonus.state(), (windows.times[:, -1] == 0).reshape(_TRIED)
    ends = np.concatenate([starts[1:], np.ones_like(starts[:1])])
    paid = bonus(windows, ends)[~starts]  # a first view is what no step led to
    bonus.load_state(fresh)
    return float(paid.mean()) / max(1 - gamma, 1e-3)


def examine(agent: TwoHeadedAgent, world: str, seed: int, layouts: str) -> list[dict[str, Any]]:
    """The test layouts, by likeliest actions and by chance."""
    players, senses = {"argmax": None, "sampled": generator(seed, "evaluation")}, adapter_for(world)
    play = play_lives if senses is CRAFTER else play_layouts
    return [
        summary(policy, play(world, parse_layouts(layouts), KnowledgePlayer(agent, rng, senses)))
        for policy, rng in players.items()
    ]


def execute(run: Run) -> None:
    """Train, one record an update, then store the evaluations."""
    settings, world, seed = Settings(**run.spec.settings), run.spec.world, run.spec.seed
    with advice_of(world, seed, settings, run.folder / "knowledge") as advice:
        scale = _scale(advice, world, seed, settings)
        learner = Learner(world, seed, settings, advice, scale)
        checkpoint = run.restore()
        if checkpoint is not None:
            learner.load_state(checkpoint.files)
        total = settings.iterations or math.ceil(settings.frames / learner.frames_per_update)
        for iteration in range(checkpoint.step + 1 if checkpoint else 1, total + 1):
            record = learner.improve(iteration)
            run.log({"iteration": iteration, "frames": iteration * learner.frames_per_update, "scale": scale, **record})
            shown = {name: record[name] for name in ("success", "entropy") if name in record}
            run.advance(iteration, total, learner.state, **shown)
    run.write_evaluation(examine(learner.agent, run.spec.world, run.spec.seed, settings.layouts))


def evaluate(request: Request) -> list[dict[str, Any]]:
    """A trained checkpoint on the test layouts."""
    assert request.checkpoint is not None, "the command line asks for a checkpoint first"
    settings = Settings(**request.settings)
    learner = Learner(request.world, request.seed, settings)
    checkpoints.unpack(request.checkpoint.files, learner.networks)
    return examine(learner.agent, request.world, request.seed, settings.layouts)
