"""Episodes of an agent as training data for others: prompts, captions, images, actions, rewards, seeds.

    episodes = demonstrations("BabyAI-GoToLocal-v0", range(1_000_000, 1_000_100), agent="bot")
    formats.export(folder, "jsonl", episodes)

An agent is asked for its actions alone. Each episode is then played again from its seed, in words and in pictures, so
that all agents' episodes hold the same columns. Agents: the bot, `random`, `reflex`, a GLAM agent (its checkpoint), or
any function of a text and its `info` (`TextEnv`) that returns a word.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from groundlab import worlds
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Checkpoint
from groundlab.core.seeding import generator
from groundlab.papers import recording
from groundlab.papers.episodes import Row, play_layouts
from groundlab.worlds import GridEnv, TextEnv
from groundlab.worlds.codes import ACTIONS

AGENTS = ("bot", "random", "reflex", "glam")
_WORDS = 6  # actions that have a word
_TOGETHER = 256  # episodes that are played before the first is passed on

TextAgent = Callable[[str, dict[str, Any]], str]


@dataclass(frozen=True)
class Demonstration:
    """An episode of T steps. The last image, direction and caption are of the state that no action followed."""

    world: str
    layout: int
    """The reset seed."""
    agent: str
    mission: str
    prompts: list[str]  # T
    captions: list[str]  # T + 1
    images: np.ndarray  # uint8 [T + 1, 7, 7, 3]
    directions: np.ndarray  # uint8 [T + 1]
    actions: np.ndarray  # uint8 [T], the environment's numbers
    words: list[str]  # T, the actions
    rewards: np.ndarray  # float64 [T]
    success: bool
    terminated: bool
    truncated: bool

    @property
    def returns(self) -> np.ndarray:
        """What is still earned from each step on, float64 [T], undiscounted."""
        return np.cumsum(self.rewards[::-1])[::-1]


def demonstrations(
    world: str,
    layouts: Sequence[int],
    agent: str | TextAgent = "bot",
    num_dists: int | None = None,
    seed: int = 0,
    checkpoint: Checkpoint | None = None,
) -> Iterator[Demonstration]:
    """Each layout (a reset seed) played once, in order; layout s of a mixed world is of kind s mod 5.

    Raises GroundlabError for an unknown agent, a world without words, and an agent that needs a checkpoint.
    """
    kinds = getattr(worlds.find(world), "kinds", None)
    if kinds is None:
        raise GroundlabError(f"{world} is no grid of cells; export a BabyAI, Reasoning or MiniGrid world")
    names = [f"{world}/{kind}" for kind in kinds] if len(kinds) > 1 else [world]
    if callable(agent):
        name, act = getattr(agent, "__name__", type(agent).__name__), agent
        plans = (_words_of(names[layout % len(names)], layout, num_dists, act) for layout in layouts)
    else:
        name, plans = agent, _plans(agent, world, layouts, num_dists, seed, checkpoint)
    for layout, actions in zip(layouts, plans, strict=True):
        yield replay(names[layout % len(names)], layout, actions, name, num_dists)


def _plans(
    agent: str, world: str, layouts: Sequence[int], num_dists: int | None, seed: int, checkpoint: Checkpoint | None
) -> Iterator[list[int]]:
    """The actions of a named agent in each layout."""
    if agent not in AGENTS:
        raise unknown_name("agent", agent, AGENTS)
    if (agent == "glam") != (checkpoint is not None):
        fix = "give --checkpoint FOLDER of a run" if agent == "glam" else "leave out --checkpoint"
        raise GroundlabError(f"{agent} {'needs a trained agent' if agent == 'glam' else 'has no checkpoint'}; {fix}")
    play = _play(agent, world, num_dists, seed, checkpoint)
    for first in range(0, len(layouts), _TOGETHER):
        with recording.recorded() as kept:
            rows = play(list(layouts[first : first + _TOGETHER]))
        played = {id(row): episode.actions for row, episode in kept}
        yield from ([ACTIONS.index(name) for name in played[id(row)]] for row in rows)


def _play(
    agent: str, world: str, num_dists: int | None, seed: int, checkpoint: Checkpoint | None
) -> Callable[[list[int]], list[Row]]:
    """What plays an agent's episodes in some layouts."""
    if agent == "bot":
        from groundlab.papers.worlds import bot

        return lambda layouts: bot.play(world, layouts, num_dists)
    if agent == "random":
        from groundlab.papers.worlds.random_agent import RandomPlayer

        player = RandomPlayer(_WORDS, generator(seed, "random actions"))
        return lambda layouts: play_layouts(world, layouts, player, num_dists)
    if agent == "reflex":
        from groundlab.papers.worlds.reflex import ReflexPlayer

        return lambda layouts: play_layouts(world, layouts, ReflexPlayer(len(layouts)), num_dists)
    assert checkpoint is not None
    if checkpoint.spec.method != "glam":
        raise GroundlabError(f"a checkpoint of {checkpoint.spec.method} cannot demonstrate; give one of glam")
    from groundlab.papers.glam.policy import CachedPolicy, TextPlayer
    from groundlab.papers.glam.ppo import PPOLearner

    learner = PPOLearner(checkpoint.spec)
    learner.load_weights(checkpoint.files)
    learner.scorer.train(False)
    policy, settings = CachedPolicy(learner.scorer), learner.settings
    return lambda layouts: play_layouts(world, layouts, TextPlayer(policy, len(layouts), world, settings), num_dists)


def _words_of(world: str, layout: int, num_dists: int | None, act: TextAgent) -> list[int]:
    """The actions of a function of texts."""
    env, actions, over = TextEnv(world, num_dists=num_dists), [], False
    text, info = env.reset(seed=layout)
    while not over:
        word = act(text, info)
        if word not in env.actions:
            raise GroundlabError(f"the agent said {word!r}; let it say one of: {', '.join(env.actions)}")
        actions.append(env.actions.index(word))
        text, _, terminated, truncated, info = env.step(word)
        over = terminated or truncated
    return actions


def replay(world: str, layout: int, actions: Sequence[int], agent: str, num_dists: int | None = None) -> Demonstration:
    """What an agent read, saw and earned that took these actions. Raises GroundlabError if the episode ends elsewhere.

    agent: its name, which is only passed on.
    """
    text, grid = TextEnv(world, num_dists=num_dists), GridEnv(world, num_dists=num_dists)
    prompt, info = text.reset(seed=layout)
    seen = [grid.reset(seed=layout)[0]]
    prompts, captions, words, rewards, ends = [], [_caption(info)], [], [], (False, False)
    for action in actions:
        if any(ends) or action >= len(text.actions):
            why = "goes on after its end" if any(ends) else f"holds action {action}, which has no word"
            raise GroundlabError(f"the episode of layout {layout} in {world} {why}; record it again, or another world")
        prompts.append(prompt)
        words.append(text.actions[action])
        prompt, reward, *_, info = text.step(words[-1])
        observation, paid, *ends, _ = grid.step(int(action))
        if paid != reward:
            raise GroundlabError(f"{world} pays {paid:g} in pictures and {reward:g} in words; report this as a fault")
        captions.append(_caption(info))
        seen.append(observation)
        rewards.append(reward)
    if not any(ends):
        raise GroundlabError(f"the episode of layout {layout} in {world} has no end; record it again")
    return Demonstration(
        world=world,
        layout=layout,
        agent=agent,
        mission=str(info["mission"]),
        prompts=prompts,
        captions=captions,
        images=np.stack([each["image"] for each in seen]),
        directions=np.array([each["direction"] for each in seen], np.uint8),
        actions=np.array(actions, np.uint8),
        words=words,
        rewards=np.array(rewards),
        success=bool(info["success"]),
        terminated=bool(ends[0]),
        truncated=bool(ends[1]),
    )


def _caption(info: dict[str, Any]) -> str:
    """The observation in words, as the prompts have it."""
    return ", ".join(info["descriptions"])
