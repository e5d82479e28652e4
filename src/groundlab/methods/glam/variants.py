"""The five agents of the pretraining study, by three switches, and how each gets its network.

    name     language model      policy                (paper's label)
    glam     pretrained          scores of the words   GFlan-T5
    aflan    pretrained          action head           AFlan-T5
    npe      token embeddings    scores of the words   NPE-Flan-T5
    npae     token embeddings    action head           NPAE-Flan-T5
    npa      nothing             action head           NPA-Flan-T5

What is not pretrained is drawn from the run's seed. For models of our own it is drawn as pretraining drew it (the
binding start), so that arms differ in what they know and not in how they begin. Source: spec glam-agents 1.4.
Called from: `lm_ppo.py`, `zero_shot.py`.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.language import models
from groundlab.language.architecture import Architecture, build
from groundlab.language.prompts import text_actions
from groundlab.language.scoring import ActionScorer
from groundlab.methods.glam.settings import ModelSettings
from groundlab.methods.pretraining import MODELS, known_recipes


class Variant(NamedTuple):
    """The switches."""

    pretrained: bool
    load_embedding: bool
    use_action_heads: bool

    @property
    def weights(self) -> str:
        """Which weights `language.models.load` keeps."""
        return "pretrained" if self.pretrained else "embeddings" if self.load_embedding else "random"


VARIANTS = {
    "glam": Variant(pretrained=True, load_embedding=True, use_action_heads=False),
    "aflan": Variant(pretrained=True, load_embedding=True, use_action_heads=True),
    "npe": Variant(pretrained=False, load_embedding=True, use_action_heads=False),
    "npae": Variant(pretrained=False, load_embedding=True, use_action_heads=True),
    "npa": Variant(pretrained=False, load_embedding=False, use_action_heads=True),
}


def stored_facts(settings: ModelSettings) -> dict[str, Any]:
    """What pretraining wrote down beside a model of our own (`recipe.json`); empty for other models."""
    file = Path(settings.place) / "recipe.json"
    return storage.read_json(file) if file.is_file() else {}


def temperature(settings: ModelSettings) -> float:
    """What scores are divided by; no arm chooses its own (spec: fixed beforehand, the same for all)."""
    return stored_facts(settings).get("temperature", 1.0) if settings.temperature == "stored" else settings.temperature


_EXPERIMENTS = {
    "BabyAI-MixedTrainLocal-v0": "mtrl",
    "BabyAI-GoToLocal-v0": "gtl",
    "BabyAI-GoToLocalS8N4-v0": "gtl_distractor_4",
    "BabyAI-GoToLocalS8N16-v0": "gtl_distractor_16",
    "BabyAI-GoToRedBall-v0": "gtrb",
}


def published_name(method: str, world: str, settings: ModelSettings, seed: int) -> str:
    """What the original would call this run: the name of its folders and of the weights that it released."""
    variant, actions = VARIANTS[method], [text.replace(" ", "_") for text in text_actions(settings.action_space)]
    family, _, size = settings.model.rpartition("/")[2].partition("-")
    model = f"{family.capitalize()}_{size.replace('-', '').capitalize()}"
    parts = [f"llm_{_EXPERIMENTS.get(world, world)}_nbr_env_{settings.num_envs}", model]
    parts += [f"pretrained_{variant.pretrained}"]
    parts += [f"load_embedding_{variant.load_embedding}"] if not variant.pretrained else []
    parts += [f"use_action_heads_{variant.use_action_heads}"] if variant.use_action_heads else []
    parts += [f"nbr_obs_{settings.nbr_obs}"] if settings.nbr_obs != 3 else []
    return "_".join([*parts, f"nbr_actions_{len(actions)}", *actions, f"shape_reward_beta_0_seed_{seed}"])


def _check_shipped(settings: ModelSettings) -> None:
    """A model of our own that is not here cannot be fetched, only pretrained."""
    recipe, _, seed = settings.model.rpartition("-s")
    if settings.place == settings.model and recipe in known_recipes() and seed.isdigit():
        command = f"groundlab pretrain {recipe} --seed {seed} --out {MODELS / settings.model}"
        raise GroundlabError(f"{settings.model} is not on this machine; pretrain it with: {command}")


def load_model(variant: Variant, settings: ModelSettings, seed: int) -> tuple[Any, Any]:
    """(model, tokenizer) with the weights that the variant has. Raises GroundlabError as `language.models.load`."""
    _check_shipped(settings)
    recipe = {} if variant.pretrained else stored_facts(settings).get("recipe", {})
    own = bool(recipe)
    lora = models.Lora(rank=settings.lora_rank, alpha=2 * settings.lora_rank) if settings.lora_rank else None
    model, tokenizer = models.load(
        settings.place,
        settings.revision,
        dtype=settings.dtype,
        device=settings.device,
        weights="pretrained" if own else variant.weights,
        quantization=settings.quantization,
        gradient_checkpointing=settings.gradient_checkpointing,
        lora=None if own else lora,
        seed=seed,
    )
    if own:
        model = _redrawn(model, recipe, variant, settings, seed)
        model = models.add_lora(model, lora, seed) if lora else model
    return model, tokenizer


def _redrawn(model: Any, recipe: dict[str, Any], variant: Variant, settings: ModelSettings, seed: int) -> Any:
    """A model of our own with fresh weights, drawn as pretraining drew them."""
    shape = Architecture(**{**recipe["architecture"], "binding_start": settings.binding_start})
    fresh: Any = build(shape, model.config.vocab_size, seed)
    fresh = fresh.to(model.device, model.dtype)
    if variant.load_embedding:
        with torch.no_grad():
            fresh.get_input_embeddings().weight.copy_(model.get_input_embeddings().weight)
    return fresh


def build_scorer(
    variant: Variant, settings: ModelSettings, actions: tuple[str, ...], seed: int, dropout: bool = False
) -> ActionScorer:
    """The whole network of an agent: language model, value head, and action head where the variant has one."""
    model, tokenizer = load_model(variant, settings, seed)
    return ActionScorer(
        model,
        tokenizer,
        actions,
        rule=settings.rule,
        temperature=1.0 if variant.use_action_heads else temperature(settings),
        action_head=variant.use_action_heads,
        dropout=dropout,
        token_budget=settings.token_budget,
        seed=seed,
    )
