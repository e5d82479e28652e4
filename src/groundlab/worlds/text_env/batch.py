"""B worlds as text environments: a Gymnasium vector environment whose observations and actions are strings.

    env = TextVectorEnv("BabyAI-GoToLocal-v0", num_envs=64, prompt="plain")
    texts, info = env.reset(seed=0)
    texts, rewards, terminated, truncated, info = env.step(["go forward"] * 64)

A text is a pure function of a view, so each view is put into words once and remembered. See `TextVectorEnv` for `info`.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.worlds.codes import ACTIONS
from groundlab.worlds.family import family_of, find, make
from groundlab.worlds.registry import World
from groundlab.worlds.text import GLAM, REMEMBERED, Wording, caption_views
from groundlab.worlds.text_env.prompts import text_actions
from groundlab.worlds.text_env.state_names import name_states
from groundlab.worlds.text_env.styles import PromptStyle
from groundlab.worlds.vector import Texts, reset_mask, spread_seeds

Prompt = Literal["glam", "balrog", "plain"]
Invalid = Literal["wait", "forward", "penalty"]
INVALID = ("wait", "forward", "penalty")
PENALTY = -0.1
"""Cost of an unknown action under invalid="penalty"."""
LONGEST = 50_000  # characters of a text
_AUTORESET = ("next-step", "disabled")
_LETTERS = "".join(map(chr, [*range(9, 14), *range(32, 127), *range(0xC0, 0x180)]))
_SHOWN = 80  # characters of an unknown action


class Words(gym.Space[str]):
    """The actions of a world, by their words; a sample is one of them."""

    def __init__(self, words: Sequence[str], seed: int | None = None):
        super().__init__(None, None, seed)
        self.words = tuple(words)  # type: tuple[str, ...]

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """One of the words, drawn by the space's own generator; mask and probability are not used."""
        return self.words[int(self.np_random.integers(len(self.words)))]

    def contains(self, x: Any) -> bool:
        """Whether it is one of the words, to the letter."""
        return isinstance(x, str) and x in self.words

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Words) and other.words == self.words

    def __repr__(self) -> str:
        return f"Words({', '.join(map(repr, self.words))})"


_View = tuple[tuple[str, ...], str]
"""What one view says: its sentences, and these written in the style of the environment."""


class _Episode(NamedTuple):
    """What a text shows of an episode besides the present view."""

    head: str
    views: deque[str]
    actions: deque[str]


def world_words(row: Any, names: Sequence[str]) -> tuple[str, ...]:
    """What can be said in a world: GLAM's six actions in its language, or the names of another game's actions."""
    return text_actions(6, row.language) if isinstance(row, World) else tuple(names)


class TextVectorEnv(gym.vector.VectorEnv):
    """B copies of a world, whose observations are texts (a tuple of B strings) and whose actions are B words.

    world: any that has words: BabyAI's levels and Crafter. num_dists, kinds: as for `worlds.make`. history: how many
    observations a text shows. wording: of the sentences (text.py). prompt: how they are written (styles.py).
    invalid: an unknown word costs a step, in which nothing is done ("wait"), the agent goes forward ("forward", as in
    BALROG), or nothing is done and `PENALTY` is added ("penalty"); the next text says so. max_steps: the time limit in
    place of the level's own, also in the reward, as minigrid's `max_steps`. autoreset: "next-step" or "disabled".

    info, of all environments: mission, descriptions (tuples of sentences), layout (the seed that drew the level; None
    when the stream went on), success, action_is_valid, action_is_effective (it changed the state), state (16 bytes:
    state_names.py), each with B entries; actions, the words, is one tuple. Raises GroundlabError for a world without
    words, an unknown option and a bad seed.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(
        self,
        world: str,
        num_envs: int,
        *,
        seed: int | None = None,
        num_dists: int | None = None,
        kinds: str | Sequence[str] | None = None,
        history: int = 1,
        wording: Wording = GLAM,
        prompt: Prompt = "glam",
        invalid: Invalid = "wait",
        max_steps: int | None = None,
        autoreset: str = "next-step",
    ):
        self.world = _with_words(world)  # type: Any
        self._family, grid = family_of(self.world.name), isinstance(self.world, World)
        _check(self.world, grid, prompt, invalid, max_steps, autoreset, wording)
        options: dict[str, Any] = {"num_dists": num_dists, "kinds": kinds}
        options |= {} if grid else {"length": max_steps}
        options = {name: value for name, value in options.items() if value is not None}
        self._envs: Any = make(self.world.name, num_envs, seed, autoreset=autoreset, **options)
        self.num_envs, self._grid, self._wording, self._max_steps = num_envs, grid, wording, max_steps
        names = self._family.actions(self.world)
        self.actions = world_words(self.world, names)  # type: tuple[str, ...]
        self._style = PromptStyle(prompt, history, self.actions, self.world.language if grid else "english")
        self._numbers = {word: number for number, word in enumerate(self.actions)}
        self._done = ACTIONS.index("done") if grid else 0  # what does nothing
        self._idle, self._invalid = _idle_words(invalid, self.world, grid, self.actions), invalid
        self._next_step = autoreset == "next-step"
        mode = AutoresetMode.NEXT_STEP if self._next_step else AutoresetMode.DISABLED
        self.metadata = {**self.metadata, "autoreset_mode": mode}  # type: dict[str, Any]
        self.single_observation_space = Texts(LONGEST, min_length=0, charset=_LETTERS)  # type: Texts
        self.single_action_space = Words(self.actions)  # type: Words
        self.observation_space = gym.spaces.Tuple([self.single_observation_space] * num_envs)  # type: gym.spaces.Tuple[str]
        self.action_space = gym.spaces.Tuple([Words(self.actions) for _ in range(num_envs)])  # type: gym.spaces.Tuple[str]
        self._known: dict[bytes, _View] = {}
        self._episodes = [_Episode("", deque(maxlen=history), deque(maxlen=history - 1)) for _ in range(num_envs)]
        self._heads: list[str] = [""] * num_envs
        self._missions: list[str] = [""] * num_envs
        self._layouts: list[int | None] = [None] * num_envs
        self._finished = np.zeros(num_envs, np.bool_)
        self._history = history

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """(texts, info) of new episodes: environment i gets seed + i, or its own of a list; None: its stream goes on.

        options: "reset_mask" bool [B] restarts only those.
        """
        mask, seeds = reset_mask(options, self.num_envs), spread_seeds(seed, self.num_envs)
        observations, _ = self._envs.reset(seed=seed, options=options)
        for env in np.flatnonzero(mask).tolist():
            self._layouts[env] = seeds[env]
        self._limit()
        self._finished = self._finished & ~mask
        self._names = name_states(self._envs, observations)
        views = self._views(observations)
        self._begin(observations, mask)
        everything, nothing = np.ones(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        texts = self._texts(views, mask, self.actions[:1] * self.num_envs)
        return tuple(texts), self._info(views, nothing, everything, nothing)

    def step(
        self, actions: Sequence[str]
    ) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """(texts, rewards [B], terminated [B], truncated [B], info) after one word in each environment."""
        numbers, valid = self._parse(actions)
        restarted = self._finished if self._next_step else np.zeros(self.num_envs, np.bool_)
        standing = self._finished & ~restarted
        observations, rewards, terminated, truncated, info = self._envs.step(numbers)
        before, self._names = self._names, name_states(self._envs, observations)
        effective = ((self._names[:, 0] != before[:, 0]) | (self._names[:, 1] != before[:, 1])) & ~restarted
        if restarted.any():
            for env in np.flatnonzero(restarted).tolist():
                self._layouts[env] = None
            self._begin(observations, restarted)
        self._limit()
        valid = valid | restarted
        success = rewards > 0 if self._grid else np.asarray(info.get("done", rewards > 0))
        views = self._views(observations)
        texts = self._texts(views, restarted, actions, ~valid, standing)
        if self._invalid == "penalty":
            rewards = rewards + np.where(valid | standing, 0.0, PENALTY)
        self._finished = terminated | truncated
        return tuple(texts), rewards, terminated, truncated, self._info(views, success, valid, effective)

    def _parse(self, actions: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(numbers, whether known) of B words. Raises GroundlabError for what are not B strings."""
        if isinstance(actions, str) or len(actions) != self.num_envs:
            count = "one string" if isinstance(actions, str) else len(actions)
            raise GroundlabError(f"actions are {count} for {self.num_envs} environments; give a word each")
        try:
            numbers = [*map(self._numbers.get, actions)]
        except TypeError:  # a list, say
            numbers = [None]
        if None not in numbers:
            return np.array(numbers), np.ones(self.num_envs, np.bool_)
        for action in actions:
            if not isinstance(action, str):
                raise GroundlabError(f"action is {ascii(action)[:_SHOWN]}; give a word: {', '.join(self.actions)}")
        instead = self._numbers[self._idle] if self._invalid == "forward" else self._done
        known = [instead if number is None else number for number in numbers]
        return np.array(known), np.array([number is not None for number in numbers])

    def _limit(self) -> None:
        if self._max_steps is not None and self._grid:
            self._envs.grids.max_steps[:] = self._max_steps

    def _begin(self, observations: dict[str, Any], mask: np.ndarray) -> None:
        """Read the missions of new episodes; a text knows nothing of the episode before."""
        for env in np.flatnonzero(mask).tolist():
            self._missions[env] = observations["mission"][env] if self._grid else _goal(self.world)
            head = self._style.head(self._missions[env])
            views, actions = self._episodes[env].views, self._episodes[env].actions
            views.clear()
            actions.clear()
            self._episodes[env], self._heads[env] = _Episode(head, views, actions), head

    def _views(self, observations: dict[str, Any]) -> list[_View]:
        """What each of B observations says; those that are not remembered are put into words together."""
        shown, known = observations[self._family.words_about], self._known
        keys = _rows(shown)
        views = [*map(known.get, keys)]
        if None in views:
            new = [env for env, view in enumerate(views) if view is None]
            for env, sentences in zip(new, self._describe(shown[new]), strict=True):
                views[env] = known[keys[env]] = (sentences, self._view_text(sentences))
            if len(known) > REMEMBERED:  # many at once: a dictionary finds its oldest entry slowly after a deletion
                for key in list(islice(known, len(known) - REMEMBERED // 2)):
                    del known[key]
        return views  # type: ignore[return-value] - none is None any more

    def _describe(self, shown: np.ndarray) -> list[tuple[str, ...]]:
        """The sentences of views [B, ...]."""
        if self._grid:
            return caption_views(shown, self.world.language, self._wording)
        return [tuple(each) for each in self._family.describe(self.world, {self._family.words_about: shown})]

    def _view_text(self, sentences: Sequence[str]) -> str:
        """One view, written; with a history of one all that follows the head."""
        view, (before, after) = self._style.view(sentences), self._style.around
        return f"{before}{view}{after}" if self._history == 1 else view

    def _texts(
        self,
        views: list[_View],
        begun: np.ndarray,
        actions: Sequence[str],
        unknown: np.ndarray | None = None,
        standing: np.ndarray | None = None,
    ) -> list[str]:
        if self._history == 1:
            texts = [head + text for head, (_, text) in zip(self._heads, views, strict=True)]
        else:
            texts = [
                self._remember(env, text, begun, actions, unknown, standing) for env, (_, text) in enumerate(views)
            ]
        if unknown is not None and unknown.any():
            for env in np.flatnonzero(unknown).tolist():
                texts[env] = self._note(actions[env]) + texts[env]
        return texts

    def _remember(self, env: int, view: str, begun, actions, unknown, standing) -> str:
        """The text of an environment that shows more than one observation."""
        episode, stands = self._episodes[env], standing is not None and standing[env]
        if not episode.views:
            episode.views.append(view)
        elif not begun[env] and unknown is not None and not stands:
            episode.actions.append(self._idle if unknown[env] else actions[env])
            episode.views.append(view)
        return self._style.text(episode.head, [*episode.views], [*episode.actions])

    def _note(self, action: str) -> str:
        """The answer to an unknown word."""
        if self._style.name == "balrog" and self._invalid == "forward":
            said = f"Your previous output did not contain a valid action. Defaulted to action: {self._idle}"
            return f"\n\n{said}\n\nObservation:\n"
        return f"Unknown action {ascii(action)[:_SHOWN]}; use one of: {', '.join(self.actions)}.\n"

    def _info(self, views: list[_View], success, valid, effective) -> dict[str, Any]:
        return {
            "mission": list(self._missions),
            "descriptions": [sentences for sentences, _ in views],
            "actions": self.actions,
            "layout": list(self._layouts),
            "success": success,
            "action_is_valid": valid,
            "action_is_effective": effective,
            "state": _rows(self._names),
        }

    def state(self) -> dict[str, Any]:
        """Everything needed to go on exactly from here, for `load_state`; nothing in it changes with later steps."""
        return {
            "envs": self._envs.save(),
            "names": self._names.copy(),
            "finished": self._finished.copy(),
            "missions": list(self._missions),
            "layouts": list(self._layouts),
            "episodes": [(each.head, list(each.views), list(each.actions)) for each in self._episodes],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave, here or in another of the same settings. ValueError where they differ."""
        self._envs.load(state["envs"])
        self._names, self._finished = state["names"].copy(), state["finished"].copy()
        self._missions, self._layouts = list(state["missions"]), list(state["layouts"])
        for env, (head, views, actions) in enumerate(state["episodes"]):
            kept = _Episode(head, deque(views, self._history), deque(actions, self._history - 1))
            self._episodes[env], self._heads[env] = kept, head


def _rows(array: np.ndarray) -> list[bytes]:
    """The bytes of each of the B entries of an array [B, ...]."""
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    return flat.view(f"V{flat.shape[1] * flat.itemsize}").ravel().tolist()


def _with_words(world: str) -> Any:
    """The row of a world. Raises GroundlabError for an unknown one, and for one without words."""
    if not isinstance(world, str):
        raise GroundlabError(f"world is {world!r}; give the name of one (groundlab worlds lists all)")
    row = find(world)
    if not family_of(row.name).words_about:
        raise GroundlabError(
            f"{row.name} has no words for what its agent sees; use any but the door-key worlds (groundlab worlds)"
        )
    return row


def _check(row: Any, grid: bool, prompt: str, invalid: str, max_steps: Any, autoreset: str, wording: Any) -> None:
    if invalid not in INVALID:
        raise unknown_name("invalid", str(invalid), INVALID)
    if autoreset not in _AUTORESET:
        raise GroundlabError(f"unknown autoreset {autoreset!r}; a text environment has {', '.join(_AUTORESET)}")
    if max_steps is not None and (isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1):
        raise GroundlabError(f"max_steps is {max_steps!r}; give a whole number of 1 or more")
    if not isinstance(wording, Wording):
        raise GroundlabError(f"wording is {wording!r}; give a groundlab.worlds.text.Wording")
    if not grid and (prompt == "balrog" or invalid == "forward" or wording != GLAM):
        raise GroundlabError(
            f"{row.name} is no grid world: prompt='balrog', invalid='forward' and wording are for those"
        )


def _idle_words(invalid: str, row: Any, grid: bool, actions: Sequence[str]) -> str:
    """What a history says was done in place of an unknown word."""
    if invalid == "forward":
        return actions[ACTIONS.index("forward")]
    return text_actions(9, row.language)[7] if grid else actions[0]


def _goal(row: Any) -> str:
    """The mission of a world whose observations do not say it."""
    tasks = getattr(row, "tasks", ())
    if len(tasks) == 1:
        return tasks[0].replace("_", " ")
    return row.mission or "stay alive and do what was never done before"
