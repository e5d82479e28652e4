"""PPO on a sparse task, its rewards shaped by background knowledge, or by what knowledge is compared with.

    groundlab run knowledge --world BabyAI-Text-GoToLocal-RedBall-S20 --seed 0 --set form=oracle --out DIR
    groundlab run knowledge ... --set form=code --set source=DIR/code-final.py       what `groundlab label` left
    groundlab run knowledge ... --set form=code --set maker=recorded                 labels first: the ledger that ships

`form` says where the potential comes from; "code", "preference" and "goals" read `source`, the file or folder that a
labelling left, or are labelled by `maker` before training. Optimal policies stay as they are (learning/shaping.py)
unless `fidelity` says otherwise. The forms "ellm" and "motif" are rewards, made of goals and preferences. BK-Goal with
a sentence encoder of transformers, from a folder that `save_pretrained` left or by a name that is on this machine
(hf download sentence-transformers/all-MiniLM-L6-v2, or prajjwal1/bert-small, the paper's):
    groundlab run knowledge ... --set form=goals --set maker=recorded --set encoder=models/all-MiniLM-L6-v2
Source: docs/papers/knowledge-method.md#s6.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.sentence_embedding import Embedder, load_encoder
from groundlab.learning.ppo import sample_actions
from groundlab.papers import recording
from groundlab.papers.episodes import Memoryless, Player, Row, play_layouts, summary
from groundlab.papers.knowledge import bk_goal, bk_pref, labelling
from groundlab.papers.knowledge.bk_code import CodePotential
from groundlab.papers.knowledge.bk_goal import EllmBonus, GoalPotential
from groundlab.papers.knowledge.bk_pref import MotifBonus, PreferencePotential
from groundlab.papers.knowledge.dataset import Dataset
from groundlab.papers.knowledge.networks import TwoHeadedAgent
from groundlab.papers.knowledge.observations import CRAFTER, ObservationAdapter, adapter_for
from groundlab.papers.knowledge.potentials import (
    Adjusted,
    Bonus,
    Constant,
    OraclePotential,
    Potential,
    RandomPotential,
    Zero,
    measure_scale,
    play_effect,
    play_mean,
    targets,
)
from groundlab.papers.knowledge.ppo import PPO
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.settings import DATASETS, LABELS, KnowledgeSettings, source_of
from groundlab.papers.training import Evaluation, Learner
from groundlab.papers.watching import WatchedPlayer
from groundlab.worlds.crafter.rules import ACHIEVEMENTS

Settings = KnowledgeSettings


# --- Potentials and bonuses by name


def make_potential(world: str, seed: int, settings: Settings, home: Path) -> Potential:
    """The potential that the settings ask for, one of the paper's forms or a control; labels for it go to `home`.

    Raises GroundlabError when its source is missing, when it is not for this world or is a reward, and what a labelling
    raises. Its `close` ends the process that a program runs in.
    """
    _check_world(world, settings)
    if settings.form in BONUSES:
        raise GroundlabError(f"form={settings.form} is a reward, no potential; choose another form")
    if settings.form == "none":
        return Zero()
    if settings.form == "constant":
        return Constant()
    if settings.form == "random":
        return RandomPotential(seed if settings.draw is None else settings.draw)
    if settings.form == "oracle":
        return OraclePotential(targets(world))
    if settings.form == "code":
        program = _source(world, seed, settings, home).read_text(encoding="utf-8")
        return CodePotential(program, Sandbox(), normalised=settings.fidelity.normalised_view)
    if settings.form == "preference":
        return _preference_potential(world, seed, settings, home)
    return _goal_potential(world, seed, settings, home)


BONUSES = ("ellm", "motif")


def make_bonus(world: str, seed: int, settings: Settings, home: Path) -> Bonus:
    """The reward of form "ellm" or "motif", made of the potential of BK-Goal or BK-Pref; raises as `make_potential`."""
    _check_world(world, settings)
    if settings.form == "ellm":
        return EllmBonus(_goal_potential(world, seed, settings, home))
    potential = _preference_potential(world, seed, settings, home)
    data = _dataset(settings, adapter_for(world))
    return MotifBonus(potential, bk_goal.sample_windows(data, potential.horizon, generator(0, "known play")))


def _check_world(world: str, settings: Settings) -> None:
    if adapter_for(world) is CRAFTER and settings.form in ("oracle", "code"):
        raise GroundlabError(f"form={settings.form} is for grids; on {world} use none, random, preference or goals")


def _preference_potential(world: str, seed: int, settings: Settings, home: Path) -> PreferencePotential:
    source = _source(world, seed, settings, home)
    if settings.learns:
        data = _dataset(settings, adapter_for(world))
        network = labelling.learn(source, settings.labelling, data, seed, settings.shuffled)
    else:
        network = bk_pref.load(source)
    if tuple(network.config["shape"]) != adapter_for(world).shape:
        raise GroundlabError(
            f"{source} was learnt on other worlds; label preferences of a dataset of this kind of world"
        )
    return PreferencePotential(network, settings.device)


def _goal_potential(world: str, seed: int, settings: Settings, home: Path) -> GoalPotential:
    library, adapter = bk_goal.load(_source(world, seed, settings, home)), adapter_for(world)
    if settings.shuffled:
        order = generator(seed, "shuffled goals").permutation(len(library.goals))
        library = library._replace(goals=[library.goals[number] for number in order])
    embed = Embedder(load_encoder(settings.encoder, settings.encoder_revision, settings.device))
    threshold = settings.threshold or bk_goal.THRESHOLD
    potential = GoalPotential(library, embed, threshold, adapter.actions, settings.pooling)
    if settings.threshold is None:
        bk_goal.calibrate(potential, _dataset(settings, adapter), settings.share)
    return potential


def _source(world: str, seed: int, settings: Settings, home: Path) -> Path:
    """The file or folder of a run's knowledge. Labels into `home` when a maker is named.

    Hand-written replies are those to the questions of seed 0; other makers are asked those of the run's seed.
    """
    if settings.maker is None:
        if settings.source is None or not source_of(settings.source).exists():
            what = f"form={settings.form} needs what a labelling left, not {settings.source!r}"
            raise GroundlabError(f"{what}; set source, or maker=recorded")
        return source_of(settings.source)
    job = labelling.Labelling(
        LABELS[settings.form],
        home,
        settings.maker,
        settings.model,
        dataset=Path(settings.dataset) if settings.dataset else None,
        seed=0 if settings.maker == "recorded" else seed,
        overrides=settings.labelling,
    )
    labelling.label(job, _dataset(settings, adapter_for(world)))
    return home / "code-final.py" if settings.form == "code" else home


def _dataset(settings: Settings, adapter: ObservationAdapter) -> Dataset:
    """The dataset that is labelled or counted on. Raises GroundlabError when it is of another family of worlds."""
    data = Dataset(settings.dataset_folder)
    if data.adapter is not adapter:
        fitting = DATASETS[adapter is CRAFTER]
        raise GroundlabError(f"{data.folder.name} is a dataset of other worlds; set dataset={fitting}")
    return data


# --- Evaluation


class PolicyPlayer(Memoryless):
    """Plays with a trained network; without `rng` it takes the likeliest action."""

    def __init__(self, agent: TwoHeadedAgent, rng: np.random.Generator | None, adapter: ObservationAdapter):
        self._agent, self._rng, self._view = agent, rng, adapter.view

    def scores(self, observations: dict[str, Any], active: np.ndarray) -> torch.Tensor:
        """Logits [len(active), A]."""
        return self._agent.look(self._view(observations)[active]).logits

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        logits = self.scores(observations, active)
        return logits.argmax(-1).numpy() if self._rng is None else sample_actions(logits, self._rng)


def evaluate_policy(agent: TwoHeadedAgent, world: str, seed: int, layouts: str) -> list[Evaluation]:
    """The test layouts, by likeliest actions and by chance."""
    rngs, adapter = {"argmax": None, "sampled": generator(seed, "evaluation")}, adapter_for(world)
    play = evaluate_crafter if adapter is CRAFTER else play_layouts
    return [
        summary(policy, play(world, parse_layouts(layouts), PolicyPlayer(agent, rng, adapter)))
        for policy, rng in rngs.items()
    ]


def evaluate_crafter(world: str, seeds: Sequence[int], player: Player) -> list[Row]:
    """Play the first episode of each seed to its end: rows of layout, steps, success, return and achievements.

    The player is one that remembers nothing.
    """
    envs = CRAFTER.make(world, len(seeds), "disabled")
    observations, _ = envs.reset(seed=list(seeds))
    rows: list[Row] = [{} for _ in seeds]
    active, steps, returns = np.arange(len(seeds)), 0, np.zeros(len(seeds))
    taken: list[list[int]] = [[] for _ in seeds]
    while len(active):
        actions = np.zeros(len(seeds), np.int64)
        actions[active] = player.act(observations, active)
        if recording.wanted():
            for env in active.tolist():
                taken[env].append(int(actions[env]))
        observations, rewards, terminated, truncated, info = envs.step(actions)
        steps, returns = steps + 1, returns + rewards
        ended = (terminated | truncated)[active]
        for env in active[ended].tolist():
            unlocked = [name for name, flag in zip(ACHIEVEMENTS, info["unlocked"][env], strict=True) if flag]
            row: Row = {"layout": seeds[env], "steps": steps, "success": bool(info["done"][env])}
            rows[env] = {**row, "return": float(returns[env]), "achievements": unlocked}
            recording.keep(rows[env], world, worlds.find(world).actions, taken[env])
        active = active[~ended]
    return rows


# --- Training


def make_learner(spec: RunSpec, run: Run | None = None) -> "KnowledgeLearner":
    """The agent of a run, its knowledge labelled first where the settings name a maker.

    run: None to evaluate a checkpoint, which needs no knowledge. Raises as `make_potential`.
    """
    settings = Settings(**spec.settings)
    if run is None:
        return KnowledgeLearner(spec, settings)
    make = make_bonus if settings.form in BONUSES else make_potential
    knowledge = make(spec.world, spec.seed, settings, run.folder / "knowledge")
    try:
        if isinstance(knowledge, Potential):
            knowledge = _adjusted(knowledge, spec.world, spec.seed, settings)
        scale = measure_scale(knowledge, spec.world, spec.seed, settings.scale, settings.gamma)
        strength = settings.strength
        if settings.effect is not None and isinstance(knowledge, Potential):
            effect = play_effect(knowledge, spec.world, spec.seed, settings.gamma)
            strength = settings.effect * scale / effect if effect else strength
        return KnowledgeLearner(spec, settings, knowledge, scale, strength)
    except BaseException:
        if isinstance(knowledge, Potential):
            knowledge.close()
        raise


def _adjusted(potential: Potential, world: str, seed: int, settings: Settings) -> Potential:
    """The potential as the settings want it: negated, centred, or as it is."""
    if settings.negated:
        potential = Adjusted(potential, negated=True)
    return Adjusted(potential, offset=play_mean(potential, world, seed)) if settings.centred else potential


class KnowledgeLearner(PPO, Learner):
    """PPO on one task, with what its settings name; one record a train step."""

    def __init__(
        self,
        spec: RunSpec,
        settings: Settings,
        knowledge: Potential | Bonus | None = None,
        scale: float = 1,
        strength: float | None = None,
    ):
        super().__init__(spec.world, spec.seed, settings, knowledge, scale, strength)
        self._spec, self._settings = spec, settings
        self.updates = settings.iterations or math.ceil(settings.frames / self.frames_per_update)

    def train_step(self, number: int) -> dict[str, Any]:
        facts = {"frames": number * self.frames_per_update, "scale": self._scale}
        if self._settings.effect is not None:
            facts["strength"] = self._strength
        record = {**facts, **super().train_step(number)}
        every = self._settings.test_every
        if not every or (number % every and number not in (1, self.updates)):
            return record
        tests = evaluate_policy(self.agent, self._spec.world, self._spec.seed, self._settings.curve_layouts)
        return record | {"test": {test["policy"]: test["mean"] for test in tests}}

    def evaluate(self) -> list[Evaluation]:
        return evaluate_policy(self.agent, self._spec.world, self._spec.seed, self._settings.layouts)

    def finish(self, run: Run) -> None:
        """Leave what the manifest says of the potential and its labels (lab/run_folder.py reads it)."""
        account = run.folder / "knowledge" / "account.json"
        labels = {"labels": storage.read_json(account)["made"]} if account.is_file() else {}
        if notes := {**self._potential.notes(), **labels}:
            storage.write_json(run.folder / "notes.json", notes)

    def watched(self, rng: np.random.Generator) -> WatchedPlayer:
        """The agent over the world's own actions."""
        world = self._spec.world
        names = worlds.family_of(world).actions(worlds.find(world))
        return WatchedPlayer(PolicyPlayer(self.agent, None, adapter_for(world)), names, np.arange(len(names)), rng)
