"""PPO on a sparse task, its rewards shaped by background knowledge, or by what knowledge is compared with.

    groundlab run knowledge --world BabyAI-Text-GoToLocal-RedBall-S20 --seed 0 --set form=oracle --out DIR

`form` says where the potential comes from; "code", "preference" and "goals" read `source`, the file or folder that a
labelling left. Optimal policies stay as they are (learning/shaping.py) unless `fidelity` says otherwise. Source: spec
background-knowledge 6. Read next: `learner.py`, `potentials.py`.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run
from groundlab.core.seeding import generator
from groundlab.language.embedding import Embedder, load_encoder
from groundlab.learning import checkpoints
from groundlab.methods.knowledge import preference, suggesting
from groundlab.methods.knowledge.goals import THRESHOLD, GoalPotential
from groundlab.methods.knowledge.learner import Learner, draw
from groundlab.methods.knowledge.networks import TwoHeadedAgent
from groundlab.methods.knowledge.potentials import (
    CodePotential,
    OraclePotential,
    Potential,
    PreferencePotential,
    RandomPotential,
    Zero,
)
from groundlab.methods.knowledge.sandbox import Sandbox
from groundlab.methods.knowledge.settings import Settings as LearnerSettings
from groundlab.methods.knowledge.windows import normalised
from groundlab.methods.playing import Memoryless, play_layouts, summary
from groundlab.methods.pretraining import place_of
from groundlab.methods.registry import Request
from groundlab.methods.settings import Layouts, parse_layouts
from groundlab.worlds import rules
from groundlab.worlds.codes import COLOURS, TYPES

WORLDS = tuple(name for name, world in worlds.WORLDS.items() if not world.is_door_key)


class Settings(LearnerSettings):
    """What a run on one task takes besides."""

    frames: int = Field(default=1_000_000, ge=1)
    """Steps of all environments together; the last update is a whole one."""
    iterations: int | None = Field(default=None, ge=1)
    """Updates, instead of `frames`."""
    layouts: Layouts = "0-99"
    """Test layouts, "first-last"."""
    form: Literal["none", "random", "oracle", "code", "preference", "goals"] = "none"
    source: str | None = None
    """A program's file, or the folder of a preference network or a library of goals."""
    scale: float = Field(default=1.0, gt=0)
    """What potentials are divided by (`learning.shaping.scale_of`), measured before training."""
    encoder: str = "quick-t5-s0"
    """What embeds captions and goals: a model that ships, a folder, or a name on this machine."""
    threshold: float = THRESHOLD
    """Likeness below which a goal does not count."""

    def input_files(self) -> list[Path]:
        """The knowledge that a run reads."""
        place = Path(self.source or "")
        if self.source is None or not place.exists():
            return []
        return [place] if place.is_file() else sorted(file for file in place.iterdir() if file.is_file())


class Player(Memoryless):
    """Plays with a trained network; without `rng` it takes the likeliest action."""

    def __init__(self, agent: TwoHeadedAgent, rng: np.random.Generator | None):
        self._agent, self._rng = agent, rng

    @torch.no_grad()
    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        logits = self._agent(torch.from_numpy(normalised(observations["image"][active]))).logits
        return logits.argmax(-1).numpy() if self._rng is None else draw(logits, self._rng)


def targets(world: str) -> list[tuple[str, str]]:
    """What the missions of a world are about, (type, colour) by name. Raises GroundlabError where that differs."""
    level = worlds.find(world).levels[0]
    pairs = [(level.target_type, level.target_colour), (level.second_type, level.second_colour)]
    fixed = [pair for pair in pairs if rules.DRAWN not in pair and pair[0] in range(len(TYPES) - 1)]
    if not fixed:
        raise GroundlabError(f"{world} draws its targets, so there is no oracle; choose a world with a fixed one")
    return [(TYPES[kind], COLOURS[colour]) for kind, colour in fixed]


@contextmanager
def potential_of(world: str, seed: int, settings: Settings) -> Iterator[Potential]:
    """The potential that the settings ask for. Raises GroundlabError when its source is missing."""
    if settings.form == "none":
        yield Zero()
    elif settings.form == "random":
        yield RandomPotential(seed)
    elif settings.form == "oracle":
        yield OraclePotential(targets(world))
    elif settings.source is None or not Path(settings.source).exists():
        raise GroundlabError(f"form={settings.form} needs what a labelling left, not {settings.source!r}; set source")
    elif settings.form == "code":
        with Sandbox() as sandbox:
            yield CodePotential(Path(settings.source).read_text(), sandbox)
    elif settings.form == "preference":
        yield PreferencePotential(preference.load(Path(settings.source)))
    else:
        encode = load_encoder(place_of(settings.encoder))
        yield GoalPotential(suggesting.load(Path(settings.source)), Embedder(encode), settings.threshold)


def examine(agent: TwoHeadedAgent, world: str, seed: int, layouts: str) -> list[dict[str, Any]]:
    """The test layouts, by likeliest actions and by chance."""
    players = {"argmax": None, "sampled": generator(seed, "evaluation")}
    return [
        summary(policy, play_layouts(world, parse_layouts(layouts), Player(agent, rng)))
        for policy, rng in players.items()
    ]


def execute(run: Run) -> None:
    """Train, one record an update, then store the evaluations."""
    settings = Settings(**run.spec.settings)
    with potential_of(run.spec.world, run.spec.seed, settings) as potential:
        learner = Learner(run.spec.world, run.spec.seed, settings, potential, settings.scale)
        checkpoint = run.restore()
        if checkpoint is not None:
            learner.load_state(checkpoint.files)
        total = settings.iterations or math.ceil(settings.frames / learner.frames_per_update)
        for iteration in range(checkpoint.step + 1 if checkpoint else 1, total + 1):
            record = learner.improve(iteration)
            run.log({"iteration": iteration, "frames": iteration * learner.frames_per_update, **record})
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
