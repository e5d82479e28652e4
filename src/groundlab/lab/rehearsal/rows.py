"""The distinct rows of a plan, what each needs, and how it is made small: fewer environments, updates and episodes.

    for row in distinct(plan): print(row.name, needs(row.run.spec))
    smaller(settings, Size())           # the same settings, capped by name

Model, precision, adapters, prompts, tests and credit stay; only amounts are capped. `work` counts both sides in the
same units, so that what was measured of the small run tells of the whole one.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from groundlab.assets import read_text, resolve_model
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import RunSpec
from groundlab.core.schema import parse_layouts
from groundlab.core.yaml_files import parse_yaml
from groundlab.lab import machine, run_folder
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.lab.weights import NAMES, is_of_the_hub
from groundlab.papers import registry

CONTEXT = 512  # tokens of a prompt, where nothing was read yet


@dataclass(frozen=True)
class Size:
    """How small a rehearsal is; 0 prompts: as many environments and prompts an update as the row has."""

    updates: int = 4
    """The process is killed in the second; the third is timed; tests in the course of training are in the fourth."""
    envs: int = 4
    """At most; or an eighth of the prompts, if that is more."""
    prompts: int = 16
    episodes: int = 2
    """Of an evaluation on a CPU. A GPU plays as many at once as there are environments."""
    toy: int = 0
    """1: tiny networks of the same kind, which tests the way and measures nothing."""


@dataclass(frozen=True)
class Row:
    """A method on a world with its settings, for all of its seeds."""

    run: PlannedRun
    seeds: int

    @property
    def settings(self) -> dict[str, Any]:
        return self.run.spec.settings

    @property
    def name(self) -> str:
        """`glam glam/nbr_obs/9 BabyAI-GoToLocal-v0`."""
        return f"{self.run.paper} {self.run.arm} {self.run.spec.world}"

    @property
    def key(self) -> str:
        """What its cost is known by."""
        return run_folder.cost_key(self.run.spec.model_dump())


def distinct(plan: Plan) -> list[Row]:
    """The rows of a plan; those of one model behind one another."""
    groups: dict[str, list[PlannedRun]] = {}
    for run in plan.runs:
        groups.setdefault(run_folder.cost_key(run.spec.model_dump()), []).append(run)
    rows = [Row(runs[0], len(runs)) for runs in groups.values()]
    return sorted(rows, key=lambda row: sorted(models_of(row.settings)))


def smaller(settings: dict[str, Any], size: Size) -> dict[str, Any]:
    """Settings with amounts capped by name, those of a teacher inside too; whole updates without a language model."""
    few = size.prompts and (size.toy or settings.get("model"))
    envs, prompts = (max(size.envs, size.prompts // 8), size.prompts) if few else (2**20, 2**40)
    episodes = min(settings.get("num_envs", 1), envs) if machine.needs_gpu(settings) else size.episodes
    small = dict(settings)
    caps = {"num_envs": envs, "trajectories": envs, "batch_size": prompts, "minibatch_size": prompts, "steps": prompts}
    caps |= {"frames_per_env": max(1, prompts // envs), "states": 500, "transcripts": 1, "record_episodes": 1}
    caps |= {"first_finished": episodes, "held_out": prompts, "steps_per_record": 1}
    small |= {name: min(settings[name], cap) for name, cap in caps.items() if settings.get(name) is not None}
    for name in ("layouts", "test_layouts", "curve_layouts"):
        if settings.get(name):
            chosen = parse_layouts(settings[name])[:episodes]
            small[name] = f"{chosen[0]}-{chosen[-1]}"
    if "group_size" in small:
        small["group_size"] = math.gcd(settings["group_size"], small["num_envs"])
    if "recurrence" in small:
        small["recurrence"] = math.gcd(settings["recurrence"], small["frames_per_env"])
    if "minibatches" in small:  # one sample has no deviation
        small["minibatches"] = min(settings["minibatches"], max(1, _frames_per_update(small) // 4))
    if settings.get("iterations") is not None:
        small["iterations"] = size.updates
    if "frames" in settings:
        small["frames"] = size.updates * _frames_per_update(small)
    if "record_every" in settings:
        small["record_every"] = min(settings["record_every"], small["frames"])
    if settings.get("test_every"):
        small["test_every"] = size.updates
    if settings.get("teacher"):
        small["teacher"] = smaller(settings["teacher"], size)
    return small


def _frames_per_update(settings: dict[str, Any]) -> int:
    if "steps_per_record" in settings:  # cloning
        return settings["batch_size"] * settings["steps_per_record"]
    if "frames_per_env" in settings:
        return settings["num_envs"] * settings["frames_per_env"]
    updates = max(1, 1024 // (settings["num_envs"] * settings["steps_per_update"]))  # drrn's record
    return settings["num_envs"] * settings["steps_per_update"] * updates


class Work(NamedTuple):
    """What a run does: updates, their units (frames, replies, episodes), tests in its course, episodes in the end."""

    updates: int
    units: int
    tests: int
    episodes: int


def work(settings: dict[str, Any]) -> Work:
    """How much a run with these settings does; without the teacher inside."""
    if "frames" in settings:
        each = _frames_per_update(settings)
        updates = settings.get("iterations") or math.ceil(settings["frames"] / each)
    else:
        updates, each = settings.get("iterations") or 0, settings.get("trajectories") or settings.get("steps") or 1
    units = updates * each or settings.get("states") or 0
    every = settings.get("test_every") or 0
    during = len(parse_layouts(settings.get("curve_layouts") or settings.get("layouts") or "0"))
    tests = during * (updates // every) if every else 0
    return Work(updates, units, tests, _episodes(settings))


def _episodes(settings: dict[str, Any]) -> int:
    """Of the last evaluation; GLAM's agents play two policies with and without their mission, untuned ones twice."""
    once = len(parse_layouts(settings["layouts"])) if settings.get("layouts") else 0
    others = len(parse_layouts(settings["test_layouts"])) if settings.get("test_layouts") else once
    policies = 1 + 2 * bool(settings.get("swapped"))
    if "fixed_mission" in settings:
        policies = (4 if settings["fixed_mission"] else 2) * (2 if "model" in settings and "lr" not in settings else 1)
    return once * policies + others * len(settings.get("tests", [])) + settings.get("first_finished", 0)


# What a row needs.


@cache
def architectures() -> dict[str, dict[str, Any]]:
    """The values of published configurations, by the model's name."""
    return parse_yaml(read_text("architectures.yaml"), "architectures.yaml")


def models_of(settings: dict[str, Any]) -> set[str]:
    """The models of the hub that settings name, inside others too. Raises GroundlabError for an unknown shape."""
    inside = [name for value in settings.values() if isinstance(value, dict) for name in models_of(value)]
    found = {*inside, *(str(settings[name]) for name in NAMES if is_of_the_hub(settings.get(name)))}
    for name in found - architectures().keys():
        raise unknown_name("model with a known architecture", name, architectures())
    return found


def configuration(name: str, toy: bool = False) -> Any:
    """The configuration of a published model; toy: of a tiny one of the same kind. No file is read."""
    from transformers import AutoConfig

    values = {key: value for key, value in architectures()[name].items() if key not in ("parameters", "stored")}
    if toy:
        tiny = {"d_model": 32, "d_ff": 64, "d_kv": 16, "num_heads": 2, "num_layers": 1, "num_decoder_layers": 1}
        tiny |= {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
        tiny |= {"num_key_value_heads": 1, "head_dim": 16, "vocab_size": 2000}
        values |= {key: size for key, size in tiny.items() if key in values}
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    config.pad_token_id, config.eos_token_id, config.bos_token_id = 0, 1, None  # those of our own tokenizers
    if config.is_encoder_decoder:
        config.decoder_start_token_id = 0
    return config


_known: dict[tuple[Any, ...], dict[str, int]] = {}  # rows differ by much that no memory depends on
_MEMORY = (
    *("model", "dtype", "device", "lora_rank", "quantization", "gradient_checkpointing", "token_budget", "num_envs"),
    *("batch_size", "minibatch_size", "action_space", "max_new_tokens", "backend", "engine_gb", "kl", "value_head"),
)


def needs(spec: RunSpec, toy: bool = False) -> dict[str, int]:
    """Bytes by purpose with their "total", of a run with a language model; empty for any other."""
    from groundlab.papers.glam import memory as of_scores
    from groundlab.papers.reasoning import memory as of_replies

    given, name = spec.settings, spec.settings.get("model")
    if name is None or (name not in architectures() and resolve_model(name) == name):
        return {}
    key = (toy, *(str(given.get(each)) for each in _MEMORY))
    if key not in _known:
        config = configuration(name, toy) if name in architectures() else of_replies.configuration(name)
        settings: Any = registry.settings_of(spec.method, spec.world, given)
        if "lr" not in given:
            _known[key] = _read_only(config, settings)
        elif "max_new_tokens" in given:
            _known[key] = of_replies.estimate(config, settings, CONTEXT)
        else:
            _known[key] = of_scores.estimate(config, settings, CONTEXT)
    return _known[key]


def _read_only(config: Any, settings: Any) -> dict[str, int]:
    """A model that is not tuned."""
    import torch

    size = torch.finfo(getattr(torch, settings.dtype)).bits // 8
    weights = sum(parameter.numel() for parameter in without_weights(config).parameters()) * size
    return {"weights": weights, "total": weights}


def without_weights(config: Any) -> Any:
    """A language model of that configuration on torch's device `meta`: its layers and their shapes alone."""
    import torch

    from groundlab.language.models import KINDS

    with torch.device("meta"):
        return KINDS["seq2seq" if config.is_encoder_decoder else "causal"].from_config(config)


def room(settings: dict[str, Any]) -> tuple[int | None, str]:
    """Bytes that are free for a row on its device now, and where; None where nobody can say."""
    if machine.needs_gpu(settings):
        import torch

        if not torch.cuda.is_available():
            raise GroundlabError("no GPU here; give --device cpu")
        return torch.cuda.mem_get_info()[0], "the GPU"
    free = machine.proc("meminfo").get("MemAvailable")
    return (int(free.removesuffix(" kB")) * 1024 if free else None), "memory"
