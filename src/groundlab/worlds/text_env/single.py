"""One world as a text environment of Gymnasium: a string is read, a word is done.

env = groundlab.worlds.TextEnv("BabyAI-GoToLocal-v0", prompt="plain")
text, info = env.reset(seed=0)  # the level of seed 0, as in the image worlds
text, reward, terminated, truncated, info = env.step("turn left")
branch = env.spawn(same_state=True)  # goes on from here, independently
"""

from typing import Any, Self

import gymnasium as gym

from groundlab.core.errors import GroundlabError
from groundlab.worlds.text import GLAM, Wording
from groundlab.worlds.text_env.batch import Invalid, Prompt, TextVectorEnv
from groundlab.worlds.vector import as_seed


class TextEnv(gym.Env[str, str]):
    """One copy of a world in words: `TextVectorEnv` has the meaning of all options and of `info`, here of one episode.

    `state` and `load_state` carry an episode to another moment, `spawn` to another environment.
    """

    metadata = {"render_modes": ["ansi"]}  # type: dict[str, Any]  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(
        self,
        world: str,
        *,
        num_dists: int | None = None,
        kinds: str | None = None,
        history: int = 1,
        wording: Wording = GLAM,
        prompt: Prompt = "glam",
        invalid: Invalid = "wait",
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        if render_mode not in (None, "ansi"):
            raise GroundlabError(f"unknown render mode {render_mode!r}; a text environment has ansi")
        if not isinstance(kinds, str | None):
            raise GroundlabError(f'one environment plays one kind; make {world}/KIND, or give kinds="per-episode"')
        self._options: dict[str, Any] = {
            **{"num_dists": num_dists, "kinds": kinds, "history": history, "wording": wording},
            **{"prompt": prompt, "invalid": invalid, "max_steps": max_steps},
        }
        self._batch = TextVectorEnv(world, 1, autoreset="disabled", **self._options)
        self.world, self.actions, self.render_mode = self._batch.world, self._batch.actions, render_mode
        self.observation_space = self._batch.single_observation_space  # type: gym.Space[str]
        self.action_space = self._batch.single_action_space  # type: gym.Space[str]
        self._text = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """(text, info) of a new episode; a seed gives the level that it gives everywhere. No options are known.

        Raises GroundlabError for a seed that is not a whole number from 0 on.
        """
        seed = None if seed is None else as_seed(seed)
        if options:
            raise GroundlabError(f"unknown reset option {next(iter(options))!r}; a text environment has none")
        super().reset(seed=seed)  # Gymnasium's own generator, which nothing draws from
        texts, info = self._batch.reset(seed=seed)
        self._text = texts[0]
        return self._text, _only(info)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """(text, reward, terminated, truncated, info) after one word."""
        texts, rewards, terminated, truncated, info = self._batch.step((action,))
        self._text = texts[0]
        return self._text, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), _only(info)

    def render(self) -> str | None:
        """The latest text, under render mode "ansi"."""
        return self._text if self.render_mode == "ansi" else None

    def state(self) -> dict[str, Any]:
        """Everything needed to go on exactly from here, for `load_state`."""
        return {"text": self._text, **self._batch.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave, as often as one likes. Raises ValueError for that of another world."""
        self._batch.load_state(state)
        self._text = state["text"]

    def spawn(self, same_state: bool = False) -> Self:
        """Another environment with the same settings, in the same state if asked; neither knows of the other."""
        other = type(self)(self.world.name, render_mode=self.render_mode, **self._options)
        if same_state:
            other.load_state(self.state())
        return other


def _only(info: dict[str, Any]) -> dict[str, Any]:
    """`info` of a batch of one, as that of its one environment."""
    own = {name: values if name == "actions" else values[0] for name, values in info.items()}
    return own | {name: bool(own[name]) for name in ("success", "action_is_valid", "action_is_effective")}
