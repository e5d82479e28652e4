"""Demonstrations: what an agent read and what it then did, as flat pairs of prompt and action.

    pairs = of_bot("BabyAI-GoToLocal-v0", settings, count=400_000, seed=0)
    pairs = of_player(world, settings, layouts, player)       # any agent of `methods/playing.py`
    write(folder, pairs, {"world": world, "by": "bot"}); pairs = read(folder)

The pair of step t holds the prompt before the step and the text of the action taken, in the order of the episodes. The
first prompt of an episode shows its own first observation; the original's bot showed the last one of the episode before
(spec glam-environment Q12), which is an option here, and its lists of prompts and actions did not match (Q13).
A folder has `pairs.jsonl.gz` (layout, step, prompt, action a line) and `demonstrations.json` (what it is).
Called from: `cloning.py`. Read next: `methods/bot.py`.
"""

import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.hashing import digest_bytes
from groundlab.core.seeding import generator
from groundlab.methods.bot import Bot
from groundlab.methods.glam.reading import Reader
from groundlab.methods.glam.settings import TRAINING_LAYOUTS_FROM, ReadingSettings
from groundlab.methods.playing import Player, one, play_layouts

PAIRS, ABOUT = "pairs.jsonl.gz", "demonstrations.json"


class Pair(NamedTuple):
    """One decision: where it was taken, what was read, what was done."""

    layout: int
    step: int
    prompt: str
    action: str


def of_bot(world: str, settings: ReadingSettings, count: int, seed: int, stale_first: bool = False) -> list[Pair]:
    """The first `count` decisions of the bot on random levels, none of them a test layout; mixed worlds turn by turn.

    stale_first: each episode's first prompt shows the last observation of the one before (Q12).
    """
    return list(islice(_bot_pairs(world, settings, seed, stale_first), count))


def _bot_pairs(world: str, settings: ReadingSettings, seed: int, stale_first: bool) -> Iterator[Pair]:
    kinds = worlds.find(world).kinds
    names = [f"{world}/{kind}" for kind in kinds] if len(kinds) > 1 else [world]
    envs = [worlds.GridEnv(name, num_dists=settings.num_dists) for name in names]
    rng, reader, last, episode = generator(seed, "demonstrations"), Reader(1, world, settings), None, 0
    while True:
        layout = int(rng.integers(TRAINING_LAYOUTS_FROM, 2**31))
        env = envs[episode % len(envs)]
        observation, _ = env.reset(seed=layout)
        reader.start(0, last if stale_first and last is not None else observation)
        last = yield from _bot_episode(env, layout, reader, observation["mission"])
        episode += 1


def _bot_episode(env: worlds.GridEnv, layout: int, reader: Reader, mission: str) -> Any:
    """The pairs of one episode; returns its last observation."""
    bot, first, step, over, observation = Bot(env), np.zeros(1, np.int64), 0, False, {}
    while not over:
        action = bot.act()
        yield Pair(layout, step, reader.prompts({"mission": [mission]}, first)[0], reader.action_texts[_text(action)])
        observation, _, terminated, truncated, _ = env.step(action)
        bot.observe(action)
        over, step = terminated or truncated, step + 1
        if not over:
            reader.see(0, _text(action), observation)
    return observation


def _text(action: int) -> int:
    """The text action of an action of the environment: the bot's `done`, a no-operation, has none."""
    if action > 5:
        raise GroundlabError("the bot did nothing, for which the six text actions have no word; use another world")
    return action


class _Recorder:
    """A player that is watched: what it did goes to `take`."""

    def __init__(self, player: Player, take: Callable[[np.ndarray, np.ndarray], None]):
        self._player, self._take = player, take
        self.start, self.see = player.start, player.see

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        actions = self._player.act(observations, active)
        self._take(active, actions)
        return actions


def of_player(
    world: str, settings: ReadingSettings, layouts: Sequence[int], player: Player, successes_only: bool = False
) -> list[Pair]:
    """All decisions of an agent of six text actions on the layouts, in their order; optionally of solved ones only."""
    reader, episodes = Reader(len(layouts), world, settings), [[] for _ in layouts]
    seen: dict[str, Any] = {}
    last = np.full(len(layouts), -1)

    def watch(observations: dict[str, Any], active: np.ndarray) -> None:
        seen.update(observations)
        for env in active.tolist():
            if last[env] < 0:
                reader.start(env, one(observations, env))
            else:
                reader.see(env, int(last[env]), one(observations, env))

    def take(active: np.ndarray, actions: np.ndarray) -> None:
        for env, prompt, action in zip(
            active.tolist(), reader.prompts(seen, active), map(_text, actions.tolist()), strict=True
        ):
            pair = Pair(layouts[env], len(episodes[env]), prompt, reader.action_texts[action])
            episodes[env].append(pair)
            last[env] = action

    rows = play_layouts(world, layouts, _Recorder(player, take), settings.num_dists, watch)
    kept = (pairs for pairs, row in zip(episodes, rows, strict=True) if row["success"] or not successes_only)
    return [pair for pairs in kept for pair in pairs]


def write(folder: Path, pairs: Sequence[Pair], about: dict[str, Any]) -> None:
    """Store pairs and what they are; the same pairs give the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        for pair in pairs:
            file.write((json.dumps(pair._asdict(), ensure_ascii=False) + "\n").encode())
    content = buffer.getvalue()
    episodes = len({pair.layout for pair in pairs})
    storage.write_atomic(folder / PAIRS, content)
    facts = {**about, "pairs": len(pairs), "episodes": episodes, "sha256": digest_bytes(content)}
    storage.write_json(folder / ABOUT, facts)


def read(folder: Path) -> list[Pair]:
    """The pairs of a folder. Raises GroundlabError when there are none, or not those that were written."""
    facts = storage.read_json(folder / ABOUT)
    content = (folder / PAIRS).read_bytes() if (folder / PAIRS).is_file() else b""
    if digest_bytes(content) != facts.get("sha256"):
        raise GroundlabError(f"{folder / PAIRS} is not what {ABOUT} describes; delete the folder and make it again")
    return [Pair(**json.loads(line)) for line in gzip.decompress(content).splitlines()]
