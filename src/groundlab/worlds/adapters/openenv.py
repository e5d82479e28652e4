"""OpenEnv: these worlds behind its server. Tried with openenv 0.10.0; `openenv_client.py` is the client.

    python -m groundlab.worlds.adapters.openenv --world BabyAI-GoToLocal-v0 --port 8000

`assets/openenv/` has the `openenv.yaml` and the Dockerfile. An action has one required field, so that clients that know
only its schema (verifiers) can pass a model's reply as it is.
"""
# pyright: reportMissingImports=false

import argparse
import os
from typing import Any

from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from groundlab.core.errors import GroundlabError
from groundlab.worlds import TextEnv
from groundlab.worlds.adapters.replies import find_action

WORLD, SESSIONS = "BabyAI-GoToLocal-v0", 64


class GridAction(Action):
    """One action, in words."""

    action: str


class GridObservation(Observation):
    """What the agent reads; `done` and `reward` are the base class's."""

    text: str
    mission: str = ""
    actions: tuple[str, ...] = ()
    success: bool = False
    action_is_valid: bool = True
    action_is_effective: bool = False
    layout: int | None = None
    state: str = ""  # names the state, in hex


class GridEnvironment(Environment):
    """One session; `reset(world=...)` changes its world."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, world: str = WORLD, **options: Any):
        super().__init__()
        self._options = {"prompt": "plain", **options}
        self._env, self._episode, self._steps = TextEnv(world, **self._options), None, 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> GridObservation:
        """Begin an episode: a seed gives the level that it gives everywhere."""
        env = TextEnv(kwargs["world"], **self._options) if "world" in kwargs else self._env
        text, info = env.reset(seed=seed)
        self._env, self._episode, self._steps = env, episode_id, 0
        return _observation(text, info, None, False)

    def step(self, action: GridAction, timeout_s: float | None = None, **kwargs: Any) -> GridObservation:
        """Do what the reply says."""
        self._steps += 1
        word = find_action(action.action, self._env.actions)
        text, reward, terminated, truncated, info = self._env.step(word)
        return _observation(text, info, reward, terminated or truncated)

    @property
    def state(self) -> State:
        """The episode's id and its steps."""
        return State(episode_id=self._episode, step_count=self._steps)


def _observation(text: str, info: dict[str, Any], reward: float | None, done: bool) -> GridObservation:
    shown = {name: info[name] for name in ("mission", "success", "action_is_valid", "action_is_effective", "layout")}
    state, actions = info["state"].hex(), info["actions"]
    return GridObservation(text=text, **shown, actions=actions, state=state, reward=reward, done=done)


def make_app(world: str = WORLD, **options: Any) -> Any:
    """The FastAPI application: a world of its own for each session. Raises GroundlabError for an unknown world."""
    TextEnv(world, **options)  # compiled before the first session
    return create_app(
        lambda: GridEnvironment(world, **options),
        GridAction,
        GridObservation,
        env_name="groundlab",
        max_concurrent_envs=SESSIONS,
    )


def __getattr__(name: str) -> Any:
    """`app`, for uvicorn and openenv.yaml; the environment variable GROUNDLAB_WORLD names its world."""
    if name == "app":
        return make_app(os.environ.get("GROUNDLAB_WORLD", WORLD))
    raise AttributeError(name)


if __name__ == "__main__":
    import uvicorn

    parser = argparse.ArgumentParser(description="Serve one world to OpenEnv's clients.")
    parser.add_argument("--world", default=WORLD)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    words = parser.parse_args()
    try:
        served = make_app(words.world)
    except GroundlabError as error:
        raise SystemExit(str(error)) from None
    uvicorn.run(served, host=words.host, port=words.port, log_level="warning")
