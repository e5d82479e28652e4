"""A language model as policy: which network, what it reads, and how it plays.

    scorer = build_scorer(VARIANTS["glam"], settings, actions, seed)    # network: scores of actions, values of states
    policy = CachedPolicy(scorer)
    log_probs, values = policy(prompts)                                 # float32 [P, A], [P]
    player = TextPlayer(policy, num_envs, world, settings, rng=generator(0, "play"))

The five variants of the pretraining study differ in three switches (`VARIANTS`). Environments of few things often show
the same view again: `CachedPolicy` reads no prompt twice between two updates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from groundlab import worlds
from groundlab.assets import pretraining_facts
from groundlab.core.errors import GroundlabError
from groundlab.language import models
from groundlab.language.architecture import Architecture, build
from groundlab.language.scoring import ActionScorer, Scored
from groundlab.learning.distributed import SINGLE_PROCESS, Group
from groundlab.learning.ppo import sample_actions
from groundlab.papers.episodes import select_env
from groundlab.papers.glam.settings import ModelSettings, ReadingSettings
from groundlab.papers.watching import WatchedPlayer
from groundlab.worlds.text import describe_batch
from groundlab.worlds.text_env.prompts import History, env_actions, modify, text_actions

RELEASED, HEADS = "released.json", "heads.safetensors"  # in the folder of a trained agent, beside its model
PolicyFn = Callable[[Sequence[str]], tuple[Tensor, Tensor]]
"""Prompts [P] to (log-probabilities [P, A], values [P]), without gradient, on the CPU."""


# Which network: the variants of the study, and the models they load.


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


def build_scorer(
    variant: Variant, settings: ModelSettings, actions: tuple[str, ...], seed: int, **options: bool
) -> ActionScorer:
    """The whole network of an agent, with the heads of its variant; `dropout`, `value_head`: as of `ActionScorer`."""
    if settings.feature_layer and not variant.use_action_heads:
        raise GroundlabError("feature_layer tunes heads, and this method has no action head; give aflan, npae or npa")
    model, tokenizer = load_model(variant, settings, seed)
    frozen = settings.feature_layer or (settings.lora_layers and models.layer_count(model) - settings.lora_layers)
    scorer = ActionScorer(
        model,
        tokenizer,
        actions,
        rule=settings.rule,
        temperature=1.0 if variant.use_action_heads else temperature(settings),
        move_blanks=settings.move_blanks,
        action_head=variant.use_action_heads,
        token_budget=settings.token_budget,
        pass_tokens=settings.pass_tokens,
        frozen_layers=frozen,
        features=bool(settings.feature_layer),
        stored=bool(settings.feature_layer) and variant.pretrained,  # alike in all seeds
        seed=seed,
        **options,
    )
    if (scorer.value_head or scorer.action_head) and is_released(settings):
        _load_heads(scorer, Path(settings.model_path))
    return scorer


def is_released(settings: ModelSettings) -> bool:
    """Whether the model is an agent already, its authors' or of a run of ours (released_weights.py)."""
    return (Path(settings.model_path) / RELEASED).is_file()


def _load_heads(scorer: ActionScorer, folder: Path) -> None:
    """The heads that were tuned with a trained agent, in place of fresh ones. Raises GroundlabError for a mismatch."""
    stored = load_file(folder / HEADS) if (folder / HEADS).is_file() else {}
    has_action_head = any(name.startswith("action_head.") for name in stored)
    if has_action_head != (scorer.action_head is not None):
        method = "aflan" if has_action_head else "glam"
        raise GroundlabError(f"{folder} is an agent of the method {method}; give {method}")
    for name, head in (("value_head", scorer.value_head), ("action_head", scorer.action_head)):
        weights = {key.removeprefix(f"{name}."): value for key, value in stored.items() if key.startswith(f"{name}.")}
        if head is not None and weights:
            try:
                head.load_state_dict(weights)
            except RuntimeError:
                raise GroundlabError(f"the {name} of {folder} is of other actions or another size") from None


def load_model(variant: Variant, settings: ModelSettings, seed: int) -> tuple[Any, Any]:
    """(model, tokenizer) with the weights that the variant has. Raises GroundlabError as `language.models.load`."""
    recipe = {} if variant.pretrained else pretraining_facts(settings.model).get("recipe", {})
    rank = settings.lora_rank
    lora = models.Lora(rank=rank, alpha=2 * rank, layers=settings.lora_layers) if rank else None
    model, tokenizer = models.load(
        settings.model_path,
        settings.revision,
        dtype=settings.dtype,
        device=settings.device,
        weights="random" if settings.weights == "random" else "pretrained" if recipe else variant.weights,
        quantization=settings.quantization,
        gradient_checkpointing=settings.gradient_checkpointing,
        lora=None if recipe else lora,
        seed=seed,
    )
    if recipe:
        model = _fresh_weights(model, recipe, variant, settings, seed)
        model = models.add_lora(model, lora, seed) if lora else model
    if settings.feature_layer:
        model.requires_grad_(False)
    return model, tokenizer


def _fresh_weights(model: Any, recipe: dict[str, Any], variant: Variant, settings: ModelSettings, seed: int) -> Any:
    """A model of our own with weights drawn again, as pretraining draws them before its first step."""
    shape = Architecture(**{**recipe["architecture"], "binding_start": True})
    fresh: Any = build(shape, model.config.vocab_size, seed)
    fresh = fresh.to(model.device, model.dtype)
    if variant.load_embedding:
        with torch.no_grad():
            fresh.get_input_embeddings().weight.copy_(model.get_input_embeddings().weight)
    return fresh


def temperature(settings: ModelSettings) -> float:
    """What scores are divided by; no arm chooses its own (spec: fixed beforehand, the same for all)."""
    if settings.temperature == "stored":
        return pretraining_facts(settings.model).get("temperature", 1.0)
    return settings.temperature


def trainable_parameters(scorer: ActionScorer) -> list[nn.Parameter]:
    """The weights that are tuned: all, or adapters and heads."""
    return [parameter for parameter in scorer.parameters() if parameter.requires_grad]


# What it reads, and how it plays.


@dataclass(frozen=True)
class Alteration:
    """How prompts differ from those of training."""

    modifier: str = "no_modification_test"
    """A table of `worlds.text_env.prompts.MODIFIERS`, applied to the finished prompt."""
    mission: str | None = None
    """Stands in the place of every mission."""
    action_space: int | str | None = None
    """Named in prompts, and scored, instead of the settings' action space."""


UNALTERED = Alteration()


class Reader:
    """The prompts of B environments, with their histories. Actions are indices into the text action space."""

    def __init__(
        self, num_envs: int, world: str, settings: ReadingSettings, alteration: Alteration = UNALTERED
    ) -> None:
        self.language, self._alteration = worlds.find(world).language, alteration
        self.action_texts = text_actions(alteration.action_space or settings.action_space)
        self._listed_actions = self.action_texts if settings.action_list else ()
        self._history = History(num_envs, settings.nbr_obs)

    def sentences(self, observation: dict[str, Any]) -> list[str]:
        """What one observation says."""
        return describe_batch(observation["image"][None], self.language)[0]

    def start(self, env: int, observation: dict[str, Any]) -> None:
        """Environment `env` begins an episode with this observation; what was before is forgotten."""
        self._history.start(env, self.sentences(observation))

    def observe(self, env: int, action: int, observation: dict[str, Any]) -> None:
        """Text action `action` was done in environment `env` and led to this observation."""
        self._history.step(env, self.action_texts[action], self.sentences(observation))

    def step(self, actions: np.ndarray, ended: np.ndarray, observations: dict[str, Any]) -> None:
        """Text actions [B] were done; where an episode ended, the observation is its successor's first."""
        for env, action in enumerate(actions.tolist()):
            if ended[env]:
                self.start(env, select_env(observations, env))
            else:
                self.observe(env, action, select_env(observations, env))

    def prompts(self, observations: dict[str, Any], active: np.ndarray) -> list[str]:
        """The prompts of the environments `active`; observations give the missions."""
        return [self._prompt(env, self._alteration.mission or observations["mission"][env]) for env in active.tolist()]

    def _prompt(self, env: int, mission: str) -> str:
        prompt = self._history.prompt(env, mission, self._listed_actions, self.language)
        return modify(prompt, self._alteration.modifier, self.language)

    def state(self) -> list[dict[str, list]]:
        """All histories, as JSON knows them."""
        return self._history.state()

    def load_state(self, state: list[dict[str, list]]) -> None:
        """Take over what `state` gave."""
        self._history.load_state(state)


class CachedPolicy:
    """A scorer as `PolicyFn` that remembers what it read. `clear` when the weights change."""

    def __init__(
        self, scorer: ActionScorer, temperature: float = 1.0, remember: bool = True, group: Group = SINGLE_PROCESS
    ):
        """`temperature` divides the scorer's scores once more; with dropout nothing may be remembered.

        All processes of a group ask for the same prompts, each reads its share.
        """
        self._scorer, self._temperature, self._remember, self._group = scorer, temperature, remember, group
        self._cache: dict[str, tuple[Tensor, Tensor]] = {}

    def __call__(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(log-probabilities [P, A], values [P])."""
        if not self._remember:
            return self._read(prompts)
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._cache]
        if new:
            self._cache.update(zip(new, zip(*self._read(new), strict=True), strict=True))
        log_probs, values = zip(*(self._cache[prompt] for prompt in prompts), strict=True)
        return torch.stack(log_probs), torch.stack(values)

    @torch.no_grad()
    def _read(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        scores, values = read_together(self._group, self._scorer, prompts)
        rows = torch.cat([(scores / self._temperature).log_softmax(-1), values[:, None]], 1).cpu()  # one wait for both
        return rows[:, :-1], rows[:, -1]

    def clear(self) -> None:
        """The weights have changed."""
        self._cache.clear()


@torch.no_grad()
def read_together(group: Group, scorer: ActionScorer, prompts: Sequence[str]) -> Scored:
    """Scores [P, A] and values [P] of all prompts, each process of a group reading its share; no gradient.

    The result is the same in all processes to the last bit.
    """
    if group.size == 1:
        return scorer(prompts)
    share = group.share(prompts)
    rows = torch.zeros(len(prompts), len(scorer.actions) + 1, device=scorer.branches.tokens.device)
    if share:
        scores, values = scorer([prompts[index] for index in share])
        rows[share] = torch.cat([scores, values[:, None]], 1)
    rows = group.add(rows)  # every row is one process's and zero in the others
    return Scored(rows[:, :-1], rows[:, -1])


class TextPlayer(Reader):
    """A Player (episodes.py) whose policy reads prompts; without `rng` it takes the likeliest action."""

    def __init__(
        self,
        policy: PolicyFn,
        num_envs: int,
        world: str,
        settings: ReadingSettings,
        alteration: Alteration = UNALTERED,
        rng: np.random.Generator | None = None,
    ):
        super().__init__(num_envs, world, settings, alteration)
        self._policy, self._rng = policy, rng
        self._choices = np.zeros(num_envs, np.int64)

    def scores(self, observations: dict[str, Any], active: np.ndarray) -> Tensor:
        """Log-probabilities [len(active), A] of the action texts."""
        return self._policy(self.prompts(observations, active))[0]

    def choose(self, env: int, choice: int) -> None:
        """Environment `env` is given this text next, whoever chose it."""
        self._choices[env] = choice

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        """The environment's actions for the environments `active`."""
        log_probs = self.scores(observations, active)
        self._choices[active] = (
            log_probs.argmax(-1).numpy() if self._rng is None else sample_actions(log_probs, self._rng)
        )
        return env_actions(self._choices[active])

    def observe(self, env: int, action: int, observation: dict[str, Any]) -> None:
        """As `Reader.observe`; the text that was chosen counts: several texts may be one action of the environment."""
        super().observe(env, int(self._choices[env]), observation)


def watched_reader(policy: PolicyFn, world: str, settings: ReadingSettings, rng: np.random.Generator) -> WatchedPlayer:
    """An agent that reads prompts, to be watched."""
    player = TextPlayer(policy, 1, world, settings)
    numbers = env_actions(np.arange(len(player.action_texts)))
    return WatchedPlayer(player, player.action_texts, numbers, rng)
