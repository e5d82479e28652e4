"""Episodes on disk, before any label: the material that a language model is shown and its knowledge is tested on.

    write(folder, episodes, about)         arrays.npz (compressed, no pickle) and card.json, which seals it
    data = Dataset(folder)                 memory-mapped; the arrays are unpacked once, into the user's cache
    data.segment(3, start=10, length=5)    6 views, 5 actions, captions and step numbers
    data.draw(100, 5, rng)                 segments as the paper draws them; windows_of(segments), for potentials
    count_visits(data), crafter_progress(world, seeds, actions)      coverage and achievements, by replaying

Views and captions repeat, so each is stored once and steps name it by number. Of Crafter's views the codes are stored;
their pictures are drawn again by replaying the episodes, once a machine. Source: docs/papers/knowledge-method.md#s4-1.
"""

import io
import re
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import user_cache
from groundlab.core.storage import digest_bytes
from groundlab.papers.knowledge.captions import PICTURE, observations, readable
from groundlab.papers.knowledge.observations import CRAFTER, ObservationAdapter, Windows, adapter_for
from groundlab.worlds.codes import COLOURS, TYPES
from groundlab.worlds.crafter.rules import ACHIEVEMENTS, SIZE
from groundlab.worlds.crafter.state import X, Y

VERSION = 1
_ARRAYS = ("views", "step_views", "actions", "rewards", "starts", "snapshots", "layouts", "ends", "captions", "breaks")
_PICTURES, _SEAL = "pictures.npy", "seal"
_TERMINATED, _TRUNCATED = 1, 2


@dataclass(frozen=True)
class Episode:
    """T steps of one environment."""

    views: np.ndarray  # uint8 [T + 1, 7, 7, 3]; of Crafter the codes, [T + 1, 83]
    actions: np.ndarray  # uint8 [T]
    rewards: np.ndarray  # float32 [T]
    terminated: bool
    truncated: bool
    layout: int
    """The reset seed."""
    snapshot: int
    """Steps of all environments after which the policy that played was kept; 0 is random."""


class Segment(NamedTuple):
    """A stretch of K steps."""

    views: np.ndarray  # uint8 [K + 1, 7, 7, 3]; of Crafter pictures and codes, [K + 1, bytes]
    actions: np.ndarray  # int64 [K]
    times: np.ndarray  # int64 [K + 1], steps since the episode began
    captions: list[str]  # K + 1


def write(folder: Path, episodes: list[Episode], about: dict[str, Any]) -> dict[str, Any]:
    """Store episodes, in their order, and return the card. `about` is the card's facts about their making.

    Raises GroundlabError when there are none, or when the file system refuses.
    """
    if not episodes:
        raise GroundlabError("no episodes to store; play some first")
    content = readable(np.concatenate([episode.views for episode in episodes]))
    views, step_views = np.unique(content.reshape(len(content), -1), axis=0, return_inverse=True)
    views = views.reshape(-1, *content.shape[1:])
    lines = [line.encode() for line in observations(views)]
    arrays = {
        "views": views,
        "step_views": step_views.reshape(-1).astype(np.int32),
        "actions": np.concatenate([episode.actions for episode in episodes]).astype(np.uint8),
        "rewards": np.concatenate([episode.rewards for episode in episodes]).astype(np.float32),
        "starts": np.cumsum([0, *(len(episode.actions) for episode in episodes)]),
        "snapshots": np.array([episode.snapshot for episode in episodes]),
        "layouts": np.array([episode.layout for episode in episodes]),
        "ends": np.array([_TERMINATED * e.terminated + _TRUNCATED * e.truncated for e in episodes], np.uint8),
        **_strings(lines),
    }
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    storage.write_atomic(folder / "arrays.npz", packed.getvalue())
    card = {"version": VERSION, "sha256": digest_bytes(packed.getvalue()), **about, **_card(episodes, views, lines)}
    storage.write_json(folder / "card.json", card)
    return card


def _strings(lines: list[bytes]) -> dict[str, np.ndarray]:
    """Texts of the views as one row of bytes: each text once, and for every view where its text begins and ends."""
    distinct = list(dict.fromkeys(lines))
    bounds = np.cumsum([0, *map(len, distinct)])
    numbers = {line: number for number, line in enumerate(distinct)}
    index = np.array([numbers[line] for line in lines])
    return {
        "captions": np.frombuffer(b"".join(distinct), np.uint8),
        "breaks": np.stack([bounds[index], bounds[index + 1]], axis=1),
    }


def _card(episodes: list[Episode], views: np.ndarray, lines: list[bytes]) -> dict[str, Any]:
    """Facts for people: sizes, and the results of the episodes of each snapshot."""
    snapshots = {}
    for snapshot in sorted({episode.snapshot for episode in episodes}):
        mine = [episode for episode in episodes if episode.snapshot == snapshot]
        snapshots[str(snapshot)] = {
            "episodes": len(mine),
            **({} if views.ndim == 2 else {"success": float(np.mean([episode.terminated for episode in mine]))}),
            "return": float(np.mean([episode.rewards.sum() for episode in mine])),
            "length": float(np.mean([len(episode.actions) for episode in mine])),
            "distinct_views": len({view.tobytes() for episode in mine for view in episode.views}),
        }
    actions = Counter(int(action) for episode in episodes for action in episode.actions)
    return {
        "episodes": len(episodes),
        "steps": sum(len(episode.actions) for episode in episodes),
        "distinct_views": len(views),
        "distinct_captions": len(set(lines)),
        "actions": {str(action): actions[action] for action in sorted(actions)},
        "snapshots": snapshots,
    }


class Dataset:
    """Stored episodes, memory-mapped. Raises GroundlabError, in one line, for a missing, broken or newer one."""

    def __init__(self, folder: Path):
        self.folder, self.card = folder, storage.read_json(folder / "card.json")
        facts = self.card if isinstance(self.card, dict) else {}
        if not re.fullmatch(r"[0-9a-f]{64}", str(facts.get("sha256"))) or not isinstance(facts.get("world", ""), str):
            raise GroundlabError(f"{folder / 'card.json'} is no card of a dataset; copy or collect the dataset again")
        if self.card.get("version") != VERSION:
            version = self.card.get("version")
            raise GroundlabError(f"{folder} is of version {version}, this package reads {VERSION}; collect it again")
        home = self._kept("", self._unpack)
        self._arrays = {name: np.load(home / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS}

    def _kept(self, part: str, make: Callable[[Path], object]) -> Path:
        """A folder of the user's cache that `make` fills, whole or not at all, and again where a file was changed."""
        home = user_cache("datasets") / f"{self.card['sha256']}{part}"
        if not (home / _SEAL).is_file() or (home / _SEAL).read_bytes() != _digest(home):
            place = tempfile.TemporaryDirectory(dir=storage.make_folder(home.parent))
            with place, storage.clear_disk_errors(home):
                make(partial := Path(tempfile.mkdtemp(dir=place.name)))
                storage.write_atomic(partial / _SEAL, _digest(partial))
                shutil.rmtree(home, ignore_errors=True)
                with suppress(OSError):  # another process was faster
                    partial.rename(home)
        return home

    def _unpack(self, folder: Path) -> None:
        """Check the seal and write the arrays."""
        packed = self.folder / "arrays.npz"
        content = packed.read_bytes() if packed.is_file() else b""
        if digest_bytes(content) != self.card["sha256"]:
            raise GroundlabError(f"{packed} is missing or broken; copy or collect the dataset again")
        with zipfile.ZipFile(packed) as archive:
            for name in _ARRAYS:
                storage.write_atomic(folder / f"{name}.npy", archive.read(f"{name}.npy"))

    @property
    def adapter(self) -> ObservationAdapter:
        """That of its world; of grids, where the card names none."""
        return adapter_for(self.card.get("world"))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Steps of each episode, int64 [E]."""
        return np.diff(self._arrays["starts"])

    def __len__(self) -> int:
        return len(self.lengths)

    def episode(self, number: int) -> Episode:
        arrays, first, length = self._arrays, int(self._arrays["starts"][number]), int(self.lengths[number])
        steps, row = slice(first, first + length), self._row(number, 0)
        return Episode(
            arrays["views"][arrays["step_views"][row : row + length + 1]],
            arrays["actions"][steps].copy(),
            arrays["rewards"][steps].copy(),
            bool(arrays["ends"][number] & _TERMINATED),
            bool(arrays["ends"][number] & _TRUNCATED),
            int(arrays["layouts"][number]),
            int(arrays["snapshots"][number]),
        )

    def _row(self, number: int, step: int) -> int:
        """Where a view stands among all of them; an episode of T steps has T + 1."""
        return int(self._arrays["starts"][number]) + number + step

    def segment(self, number: int, start: int, length: int) -> Segment:
        """`length` steps of episode `number` from step `start` on. Raises GroundlabError when it has not so many."""
        if start < 0 or length < 1 or start + length > self.lengths[number]:
            have = f"episode {number} has {self.lengths[number]} steps"
            raise GroundlabError(f"{have}, not {start} to {start + length}; draw segments with sample()")
        first, row = int(self._arrays["starts"][number]), self._row(number, start)
        index = self._arrays["step_views"][row : row + length + 1]
        captions = [self._caption(view) for view in index.tolist()]
        actions = self._arrays["actions"][first + start : first + start + length].astype(np.int64)
        views = self._arrays["views"][index]
        if views.ndim == 2:
            views = np.concatenate([self._pictures[row : row + length + 1], views], axis=1)
        return Segment(views, actions, np.arange(start, start + length + 1), captions)

    def draw(self, count: int, length: int, rng: np.random.Generator) -> list[Segment]:
        """Segments of `length` steps, drawn by `sample`."""
        return [self.segment(*sample(self.lengths, length, rng), length) for _ in range(count)]

    @cached_property
    def _pictures(self) -> np.ndarray:
        """Crafter's pictures, uint8 [steps + episodes, PICTURE], drawn at the first use on a machine.

        Raises GroundlabError when the world does not show what is stored.
        """
        return np.load(self._kept("-pictures", self._draw_pictures) / _PICTURES, mmap_mode="r", allow_pickle=False)

    def _draw_pictures(self, folder: Path) -> None:
        episodes = [self.episode(number) for number in range(len(self))]
        shape = len(self._arrays["step_views"]), PICTURE
        pictures = np.lib.format.open_memmap(folder / _PICTURES, "w+", np.uint8, shape)
        seeds, actions = [episode.layout for episode in episodes], [episode.actions for episode in episodes]
        for replay in replay_crafter(self.card["world"], seeds, actions):
            for number, view in zip(replay.episodes.tolist(), replay.views, strict=True):
                self.confirm(number, replay.step, readable(view))
                pictures[self._row(number, replay.step)] = view[:PICTURE]
        pictures.flush()

    def confirm(self, number: int, step: int, view: np.ndarray) -> None:
        """Raises GroundlabError when what the world shows at a step of an episode is not what is stored."""
        stored = self._arrays["views"][self._arrays["step_views"][self._row(number, step)]]
        if not np.array_equal(view, stored):
            fault = f"{self.folder}: episode {number} is not what {self.card['world']} shows at step {step}"
            raise GroundlabError(f"{fault}; collect the dataset again")

    def _caption(self, view: int) -> str:
        first, last = self._arrays["breaks"][view]
        return self._arrays["captions"][first:last].tobytes().decode()


def _digest(home: Path) -> bytes:
    return storage.digest_files(home.glob("*.npy"), home).encode()


def sample(lengths: np.ndarray, length: int, rng: Any) -> tuple[int, int]:
    """(episode, start) of a segment of `length` steps: an episode that has as many, and a start, both evenly.

    rng: a numpy Generator (the recording: a RandomState, which `choice` also belongs to). Raises GroundlabError when
    every episode is shorter.
    """
    if (np.asarray(lengths) < length).all():
        raise GroundlabError(f"no episode has {length} steps; collect longer ones or ask for shorter segments")
    while True:
        number = int(rng.choice(len(lengths)))
        if lengths[number] >= length:
            return number, int(rng.choice(lengths[number] - length + 1))


def windows_of(segments: Sequence[Segment]) -> Windows:
    """Segments of one length, as potentials read them."""
    return Windows._make(np.stack(fields) for fields in zip(*(segment[:3] for segment in segments), strict=True))


# --- Replaying: coverage of grids, pictures and progress of Crafter


def count_visits(data: Dataset) -> dict[int, np.ndarray]:
    """Steps on each cell, int64 [height, width], of the episodes of each snapshot.

    Raises GroundlabError when the world shows something else than what is stored.
    """
    visits = {}
    for env, episode, envs, _ in _replay_grids(data):
        column, row = envs.grids.agents[env, :2]
        width, height = envs.grids.cells.shape[1:3]
        visits.setdefault(episode.snapshot, np.zeros((height, width), np.int64))[row, column] += 1
    return visits


def target_distances(data: Dataset) -> list[np.ndarray]:
    """Cells, across plus down, from the agent to the nearest thing that its mission named, at each view of an episode.

    NaN where no such thing lies in the room: it may be carried. No view shows the mission. Raises as `count_visits`.
    """
    distances: list[list[float]] = [[] for _ in range(len(data))]
    for env, _, envs, mission in _replay_grids(data):
        colour, kind = mission.split()[-2:]
        named = (TYPES.index(kind), COLOURS.index(colour)) if kind in TYPES and colour in COLOURS else (-1, -1)
        things = np.argwhere((envs.grids.cells[env, ..., :2] == named).all(-1))
        away = np.abs(things - envs.grids.agents[env, :2]).sum(1)
        distances[env].append(float(away.min()) if len(away) else np.nan)
    return [np.array(each) for each in distances]


def _replay_grids(data: Dataset) -> Iterator[tuple[int, Episode, Any, str]]:
    """Each episode's number, itself, the environments as they stand, and its mission: step by step, view by view."""
    envs = worlds.GridVectorEnv(worlds.find(data.card["world"]), len(data), autoreset="disabled")
    episodes = [data.episode(number) for number in range(len(data))]
    observations = envs.reset(seed=[episode.layout for episode in episodes])[0]
    for step in range(max(len(episode.actions) for episode in episodes) + 1):
        for env, episode in enumerate(episodes):
            if step < len(episode.views):
                data.confirm(env, step, observations["image"][env])
                yield env, episode, envs, observations["mission"][env]
        observations = envs.step(_actions_at(step, [episode.actions for episode in episodes]))[0]


def _actions_at(step: int, actions: Sequence[np.ndarray]) -> np.ndarray:
    """The action of each episode at a step, int64 [B]; of those that have ended their last one."""
    return np.array([episode[min(step, len(episode) - 1)] for episode in actions], np.int64)


def write_coverage(folder: Path, visits: dict[int, np.ndarray]) -> None:
    """Write the counts of every snapshot to `<folder>/coverage.json`, each row of cells as one text."""
    rows = {str(snapshot): [" ".join(map(str, row)) for row in counts.tolist()] for snapshot, counts in visits.items()}
    storage.write_json(folder / "coverage.json", dict(sorted(rows.items(), key=lambda each: int(each[0]))))


def visited_share(visits: np.ndarray) -> float:
    """Cells inside the walls on which an agent stood, as a share."""
    inside = visits[1:-1, 1:-1]
    return float((inside > 0).mean())


_BATCH = 64  # episodes of Crafter that are replayed together


class ReplayStep(NamedTuple):
    """M of the episodes at one step."""

    episodes: np.ndarray  # int64 [M], numbers of those that are still going on
    step: int
    views: np.ndarray  # uint8 [M, bytes]
    positions: np.ndarray  # int16 [M, 2], of the players
    unlocked: np.ndarray  # bool [M, 22]


def replay_crafter(world: str, seeds: Sequence[int], actions: Sequence[np.ndarray]) -> Iterator[ReplayStep]:
    """Every step of episodes that begin from reset seeds and take these actions, some episodes at a time."""
    for first in range(0, len(seeds), _BATCH):
        rows = slice(first, first + _BATCH)
        for step in _replay_batch(world, list(seeds[rows]), actions[rows]):
            yield step._replace(episodes=step.episodes + first)


def _replay_batch(world: str, seeds: list[int], actions: Sequence[np.ndarray]) -> Iterator[ReplayStep]:
    envs, lengths = CRAFTER.make(world, len(seeds), "disabled"), np.array([len(episode) for episode in actions])
    observations, info = envs.reset(seed=seeds)
    for step in range(int(lengths.max()) + 1):
        alive = np.flatnonzero(step <= lengths)
        positions = envs.lives.objects[alive, 0][:, [X, Y]]
        yield ReplayStep(alive, step, CRAFTER.view(observations)[alive], positions, info["unlocked"][alive])
        observations, _, _, _, info = envs.step(_actions_at(step, actions))


class Progress(NamedTuple):
    """How far the players of some episodes of Crafter got."""

    cells: float
    """The share of the map on which any of them stood."""
    achievements: dict[str, float]
    """The share of episodes with each achievement; those that none has are left out."""


def crafter_progress(world: str, seeds: Sequence[int], actions: Sequence[np.ndarray]) -> Progress:
    """The progress of episodes that begin from these reset seeds and take these actions."""
    visits, unlocked = np.zeros((SIZE, SIZE), np.bool_), np.zeros((len(seeds), len(ACHIEVEMENTS)), np.bool_)
    for step in replay_crafter(world, seeds, actions):
        visits[step.positions[:, 0], step.positions[:, 1]] = True
        unlocked[step.episodes] = step.unlocked
    shares = dict(zip(ACHIEVEMENTS, unlocked.mean(0).tolist(), strict=True))
    return Progress(float(visits.mean()), {name: share for name, share in shares.items() if share})
