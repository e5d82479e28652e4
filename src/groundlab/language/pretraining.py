"""Pretraining of the language models that ship: corpus, tokenizer, model, probes, one folder of weights.

    recipe = load_recipe("quick-t5")
    pretrain(recipe, Path("out/quick-t5-s0"))

A recipe (`assets/models/*.yaml`) says everything: shape, curriculum, steps, seed, topics left out. The folder holds
what `from_pretrained` reads (weights, config, tokenizer) and `recipe.json`: the recipe, its hash, the probes' results,
the temperature of action scores, time and machine. `training/` inside is a run folder (core/run.py): killed at any
moment and started again, the same call ends in the same weights.
"""

import fcntl
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from groundlab.assets import CARD, home_of, pretraining_facts, read_recipe, recipe_of
from groundlab.core import storage
from groundlab.core.errors import unknown_name
from groundlab.core.run import Progress, Run, RunSpec
from groundlab.core.schema import Strict, parse
from groundlab.core.seeding import generator
from groundlab.core.storage import digest_json
from groundlab.language import corpus, probes, tokenizer
from groundlab.language.architecture import Architecture, build
from groundlab.language.corpus import Breadth, Sample
from groundlab.language.corpus.topics import FITTING, Answers
from groundlab.learning import checkpoints

BATCHES_A_POOL = 16  # samples are drawn by pools, sorted by length and cut into batches: little padding


class Stage(Strict):
    """A part of the curriculum."""

    steps: int = Field(ge=1)
    topics: dict[str, float]
    """Topic -> its weight in the mixture."""
    fewest: int = 2
    most: int = 8
    similar: float = 0.5
    rare: float = 0.0
    styles: float = 0.0
    fitting: float = Field(default=FITTING, ge=0, le=1)
    """Share of the dialogue samples whose action fits the thought before it (`Breadth`)."""
    answers: Answers = "faithful"
    """Whether answers say what is so of a scene (`Breadth`)."""
    until_loss: float = 0.0
    """The stage is over as soon as the mean loss of a pool is below this, so that what comes late has its time."""

    @property
    def breadth(self) -> Breadth:
        return Breadth(self.fewest, self.most, self.similar, self.rare, self.styles, self.fitting, self.answers)

    @model_serializer(mode="wrap")
    def _stored(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the options of studies at their defaults: recipes older than these keep their hash."""
        usual = {"fitting": FITTING, "answers": "faithful"}
        return {key: value for key, value in dump(self).items() if key not in usual or value != usual[key]}


class Recipe(Strict):
    """Everything that decides the weights."""

    name: str
    seed: int = 0
    pieces: int = Field(default=1500, ge=200)
    """Size of the tokenizer's vocabulary, at most."""
    architecture: Architecture = Architecture()
    stages: list[Stage]
    leave_out: list[str] = Field(default=[])
    """Topics that are not taught: the other topics take their place in the mixture."""
    dose: float = Field(default=1.0, gt=0)
    """Share of the steps of every stage."""
    batch_size: int = Field(default=48, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    warm_up: int = Field(default=50, ge=1)
    fall: float = Field(default=0.25, ge=0, le=1)
    """Share of the steps, at the end, over which the learning rate falls linearly to a tenth."""
    weight_decay: float = Field(default=0.01, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    probe_samples: int = Field(default=400, ge=1)

    @property
    def hash(self) -> str:
        """What the weights are known by: 12 hexadecimal digits of the whole recipe."""
        return digest_json(self.model_dump())[:12]

    def pools(self, stage: Stage) -> int:
        """How many pools of batches a stage has at most."""
        return max(1, round(stage.steps * self.dose / BATCHES_A_POOL))

    @property
    def further_topics(self) -> tuple[str, ...]:
        """The topics that some stage teaches and that are not every recipe's: of dialogue, of several tasks."""
        further = (topic for topic in corpus.ALL_TOPICS if topic not in corpus.TOPICS)
        return tuple(topic for topic in further if any(topic in self.mixture(stage) for stage in self.stages))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The topics of several tasks (`corpus.TASKS`) that some stage teaches."""
        return tuple(topic for topic in self.further_topics if topic in corpus.TASKS)

    @property
    def untaught(self) -> tuple[str, ...]:
        """The topics of every recipe that no stage teaches."""
        return tuple(topic for topic in corpus.TOPICS if not any(topic in self.mixture(stage) for stage in self.stages))

    def mixture(self, stage: Stage) -> dict[str, float]:
        """The topics of a stage without those left out."""
        return {topic: weight for topic, weight in stage.topics.items() if topic not in self.leave_out}


def load_recipe(name: str, **changes: Any) -> Recipe:
    """A shipped recipe with some values changed. A file may extend another; `fitting` and `answers` are of all stages.

    Raises GroundlabError for unknown recipes, keys and topics, naming the nearest one.
    """
    values = read_recipe(name)
    for_all = {option: values.pop(option) for option in ("fitting", "answers") if option in values}
    values["stages"] = [{**stage, **for_all} for stage in values["stages"]]
    recipe = parse(Recipe, {**values, "name": name, **changes}, f"recipe {name}")
    for topic in [*recipe.leave_out, *(topic for stage in recipe.stages for topic in stage.topics)]:
        if topic not in corpus.ALL_TOPICS:
            raise unknown_name("topic", topic, corpus.ALL_TOPICS)
    return recipe


def pretrain(
    recipe: Recipe,
    out: Path,
    report: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
    device: str = "cpu",
) -> dict[str, Any]:
    """Train a recipe's model into the folder `out`, continuing what is there; returns what `recipe.json` holds.

    Raises GroundlabError when `out` holds another recipe's run, Unfinished when `stop` says so (the state is saved).
    """
    spec = RunSpec(method="pretraining", world=recipe.name, seed=recipe.seed, settings=recipe.model_dump())
    run = Run(out / "training", spec, report=report, stop=stop)
    words = train_tokenizer(recipe)
    model = build(recipe.architecture, len(words), recipe.seed).to(device)  # type: ignore[arg-type]
    seconds = _train(run, recipe, model, words)
    _store(model, words, out)
    facts = {
        "recipe": recipe.model_dump(),
        "hash": recipe.hash,
        "corpus": fingerprint(recipe),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "probes": probes.examine(model, words, recipe.probe_samples, further=recipe.tasks),
        "temperature": probes.score_temperature(model, words),
        "cpu_seconds": round(seconds),
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": _hardware(),
        "torch": torch.__version__,
    }
    storage.write_json(out / "recipe.json", facts)
    storage.write_atomic(out / CARD, card(facts))
    return facts


def provide(model: str) -> None:
    """Pretrain a model of ours that does not ship into the results folder, unless it is there, of today's corpus.

    Processes that need it at once wait for the first. Raises as `pretrain`.
    """
    name, seed = recipe_of(model) or (model, 0)
    recipe, home = load_recipe(name, seed=seed), home_of(model)
    with (storage.make_folder(home) / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (made := pretraining_facts(model)) and (made["hash"], made["corpus"]) == (recipe.hash, fingerprint(recipe)):
            return
        print(f"pretraining {model} into {home}", flush=True)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as a worker has, so that sums have one order
        pretrain(recipe, home)
        torch.set_num_threads(threads)
        shutil.rmtree(home / "training")


def card(facts: dict[str, Any]) -> str:
    """The model's card, Markdown with the hub's header, from what `recipe.json` holds."""
    recipe, shape = facts["recipe"], facts["recipe"]["architecture"]
    untaught = Recipe(**recipe).untaught
    left_out, languages = ", ".join(untaught) or "nothing", "[en]" if "french" in untaught else "[en, fr]"
    family = "T5" if shape["family"] == "t5" else "Llama"
    layers = f"{shape['layers']} layers" + (f" + {shape['decoder_layers']}" if shape["family"] == "t5" else "")
    steps = sum(stage["steps"] for stage in recipe["stages"])
    rows = [f"| {name} | {100 * share:.0f} |" for name, share in facts["probes"].items()]
    return "\n".join(
        [
            *("---", "license: mit", f"language: {languages}", "library_name: transformers", "datasets: []"),
            *("tags: [grid-world, babyai, pretraining, groundlab]", "---", ""),
            f"# {recipe['name']}, seed {recipe['seed']}",
            "",
            f"A {family} of {facts['parameters']:,} parameters (width {shape['width']}, {layers}), trained",
            "from random weights on sentences about grid worlds that the package makes itself.",
            "",
            f"- **Data**: up to {steps:,} steps of {recipe['batch_size']} examples, at dose {recipe['dose']:g};",
            f"  left out of the corpus: {left_out}. No text of the web, of a person or of another model, and no play.",
            "- **Use**: to study agents with a language model where none can be downloaded. It knows nothing else.",
            f"- **Limits**: {recipe['pieces']:,} word pieces; it reads captions of these worlds, not free text.",
            f"- **Made**: {facts['date']}, {facts['hardware']}, {facts['cpu_seconds']:,} CPU seconds,",
            f"  torch {facts['torch']}; recipe {facts['hash']}, corpus {facts['corpus']}. It is made again by:",
            "",
            "```",
            f"groundlab pretrain {recipe['name']} --seed {recipe['seed']} --out MODEL",
            "```",
            "",
            f"Scores of actions are divided by the temperature {facts['temperature']:g}. Each probe has",
            f"{recipe['probe_samples']} held-out questions.",
            "",
            "| probe | % right |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def fingerprint(recipe: Recipe) -> str:
    """What the corpus draws for a recipe, as 12 hexadecimal digits: weights belong to a recipe and to a corpus."""
    drawn = [list(pool(recipe, stage, index)) for index, stage in enumerate(recipe.stages)]
    return digest_json([drawn, train_tokenizer(recipe).get_vocab()])[:12]


@torch.no_grad()
def _store(model: PreTrainedModel, words: PreTrainedTokenizerBase, out: Path) -> None:
    """Round the weights to 16 bits, which halves what ships, and save them; they are read back as 32 bits."""
    for parameter in model.parameters():
        parameter.copy_(parameter.half())
    words.save_pretrained(out)
    model.save_pretrained(out, state_dict={name: parameter.half() for name, parameter in model.named_parameters()})


def train_tokenizer(recipe: Recipe) -> PreTrainedTokenizerBase:
    """The tokenizer of a recipe: learnt from all topics, so that doses differ in knowledge and not in tokens.

    A recipe with further topics reads those, too; one that teaches conversations has the roles as tokens.
    """
    rng, breadth = generator(recipe.seed, "tokenizer"), Breadth(rare=0.25, styles=0.25)
    topics = (*corpus.TOPICS, *recipe.further_topics)
    samples = (corpus.sample(rng, topics, breadth) for _ in range(20_000))
    told = (f"{sample.input} {sample.target}".removesuffix(corpus.OPEN) for sample in samples)
    return tokenizer.train(
        told, recipe.pieces, dialogue=any(topic in corpus.DIALOGUE for topic in recipe.further_topics)
    )


def pool(recipe: Recipe, stage: Stage, index: int) -> Iterator[list[Sample]]:
    """The batches of pool `index`, drawn from a generator of its own: of like length each, in random order."""
    rng = generator(recipe.seed, "corpus", index)
    mixture, size = recipe.mixture(stage), recipe.batch_size
    samples = [corpus.sample(rng, mixture, stage.breadth) for _ in range(size * BATCHES_A_POOL)]
    samples.sort(key=lambda sample: len(sample.input))
    for batch in rng.permutation(BATCHES_A_POOL):
        yield samples[batch * size : (batch + 1) * size]


def _train(run: Run, recipe: Recipe, model: PreTrainedModel, words: PreTrainedTokenizerBase) -> float:
    """Train to the end, or to a stop; one record a pool. Returns the CPU seconds of all sessions."""
    weights = nn.ParameterList(model.parameters())  # holds tied weights once, unlike the model's state dict
    optimizer = torch.optim.AdamW(list(weights), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    checkpoint, at = run.restore(), {"stage": 0, "pools": 0, "cpu_seconds": 0.0}
    if checkpoint is not None:
        at = checkpoints.unpack(checkpoint.files, weights, optimizer)
    done = checkpoint.step if checkpoint else 0
    while at["stage"] < len(recipe.stages):
        began, stage, losses = time.process_time(), recipe.stages[at["stage"]], []
        share = done / (done + _pools_left(recipe, at))
        for number, samples in enumerate(pool(recipe, stage, done)):
            # `share` of all steps are done: warm-up, constant, linear fall to a tenth
            fallen = max(0.0, share - (1 - recipe.fall)) / recipe.fall if recipe.fall else 0.0
            rate = recipe.learning_rate * min((done * BATCHES_A_POOL + number + 1) / recipe.warm_up, 1 - 0.9 * fallen)
            losses.append(_update(model, optimizer, probes.collate(model, words, samples), rate, recipe.max_grad_norm))
        done, loss = done + 1, float(np.mean(losses))
        run.log({"step": done * BATCHES_A_POOL, "stage": at["stage"], "loss": loss})
        at["pools"] += 1
        if at["pools"] == recipe.pools(stage) or loss < stage.until_loss:
            at.update(stage=at["stage"] + 1, pools=0)
        at["cpu_seconds"] += time.process_time() - began
        state = lambda: checkpoints.pack(weights, optimizer, at)  # noqa: E731
        run.advance(done, done + _pools_left(recipe, at), state, loss=loss)
    return at["cpu_seconds"]


def _pools_left(recipe: Recipe, at: dict[str, Any]) -> int:
    """How many pools are still to come, at most."""
    return sum(map(recipe.pools, recipe.stages[at["stage"] :])) - at["pools"]


def _update(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, batch: dict, rate: float, max_norm: float
) -> float:
    """One step of AdamW on the mean cross-entropy of the targets' tokens; returns that loss."""
    optimizer.param_groups[0]["lr"] = rate
    loss = model(**batch).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm)
    optimizer.step()
    return float(loss.detach())


def _hardware() -> str:
    """Cores and processor, as far as the machine tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names) or '?'}-core {names[0] if names else platform.processor() or platform.machine()}"
