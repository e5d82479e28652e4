"""Demonstrations as files, in three forms that other packages read.

    export(folder, "jsonl", episodes)       steps.jsonl: a line a step, pandas.read_json(..., lines=True)
    export(folder, "datasets", episodes)    datasets.load_from_disk(folder / "datasets"), the same columns
    export(folder, "minari", episodes)      minari.load_dataset, with MINARI_DATASETS_PATH=<folder>/minari

Beside the data, README.md says how to read it, card.json what it is; croissant.json tells search engines.
The last two forms need their package: pip install 'groundlab[datasets]' or 'groundlab[minari]'.
"""

import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args
from unittest.mock import patch

import numpy as np

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.storage import digest_bytes
from groundlab.papers.demonstrations import Demonstration
from groundlab.papers.demonstrations.croissant import Column, File, describe
from groundlab.worlds.codes import ACTIONS

Format = Literal["jsonl", "datasets", "minari"]
FORMATS: tuple[str, ...] = get_args(Format)
COLUMNS = (
    Column("episode", "sc:Integer", "its number, from 0"),
    Column("step", "sc:Integer", "its number in the episode, from 0"),
    Column("world", "sc:Text", "the world, with the kind of task where it mixes several"),
    Column("seed", "sc:Integer", "the reset seed of the episode's level"),
    Column("agent", "sc:Text", "who acted"),
    Column("mission", "sc:Text", "what is to be done"),
    Column("prompt", "sc:Text", "what a language model reads before it acts"),
    Column("caption", "sc:Text", "what is in view, in words"),
    Column("image", "sc:Integer", "what is in view: 7 x 7 cells of type, colour and state, rows of the first axis"),
    Column("direction", "sc:Integer", "where the agent looks: 0 right, 1 down, 2 left, 3 up"),
    Column("action", "sc:Integer", "the number of the action that was taken"),
    Column("word", "sc:Text", "the action that was taken"),
    Column("reward", "sc:Float", "what the step earned"),
    Column("return", "sc:Float", "what the rest of the episode earned, this step included, undiscounted"),
    Column("terminated", "sc:Boolean", "the step ended the episode by its rules"),
    Column("truncated", "sc:Boolean", "the step ended the episode by its time limit"),
    Column("success", "sc:Boolean", "the episode fulfilled its mission"),
)
_ENCODINGS = {"jsonl": "application/jsonlines", "json": "application/json", "hdf5": "application/x-hdf5"}
_OTHER = "application/octet-stream"
_README = """# Demonstrations of {agent} in {world}

{episodes} episodes, {steps} steps, {successes} of them successful. Each level is that of its reset seed.

    {read}

Made by groundlab {version}. card.json has the facts, croissant.json the columns.
"""
_READ = {
    "jsonl": 'pandas.read_json("steps.jsonl", lines=True)',
    "datasets": 'datasets.load_from_disk("datasets")',
    "minari": 'MINARI_DATASETS_PATH="$PWD/minari" python -c "import minari; print(minari.load_dataset(\'{name}\'))"',
}


def steps(played: Iterable[Demonstration]) -> Iterator[dict[str, Any]]:
    """The steps of all episodes, a dict of COLUMNS each."""
    for number, episode in enumerate(played):
        count, returns = len(episode.actions), episode.returns
        for step in range(count):
            last = step == count - 1
            yield {
                "episode": number,
                "step": step,
                "world": episode.world,
                "seed": episode.layout,
                "agent": episode.agent,
                "mission": episode.mission,
                "prompt": episode.prompts[step],
                "caption": episode.captions[step],
                "image": episode.images[step].tolist(),
                "direction": int(episode.directions[step]),
                "action": int(episode.actions[step]),
                "word": episode.words[step],
                "reward": float(episode.rewards[step]),
                "return": float(returns[step]),
                "terminated": last and episode.terminated,
                "truncated": last and episode.truncated,
                "success": episode.success,
            }


def check(folder: Path, form: str) -> None:
    """Raise GroundlabError for an unknown format, a package that is missing, a folder that is taken or not writable."""
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    if form != "jsonl":
        _package(form)
    if (folder / "card.json").exists() or (folder / form).exists():
        raise GroundlabError(f"{folder} holds demonstrations; delete it, or choose another with --out")
    storage.check_writable(folder)


def export(folder: Path, form: str, episodes: Iterable[Demonstration]) -> dict[str, Any]:
    """Write the episodes and what describes them; returns the card.

    Raises GroundlabError as `check` does, and when there is no episode.
    """
    from groundlab import __version__

    check(folder, form)
    played = list(episodes)
    if not played:
        raise GroundlabError("no episodes to export; ask for at least one")
    with storage.clear_disk_errors(folder):
        {"jsonl": _write_jsonl, "datasets": _write_dataset, "minari": _write_minari}[form](folder, played)
    world, agent = _world(played), played[0].agent
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    digests = {file.relative_to(folder).as_posix(): digest_bytes(file.read_bytes()) for file in files}
    card = {"world": world, "agent": agent, "format": form, "episodes": len(played)}
    card |= {"steps": sum(len(each.actions) for each in played), "successes": sum(each.success for each in played)}
    card |= {"return": float(np.mean([each.rewards.sum() for each in played]))}
    card |= {"seeds": [each.layout for each in played], "groundlab": __version__, "sha256": digests}
    about = f"{card['episodes']} episodes of {agent} in {world}, a grid world, step by step in words and pictures"
    named = [File(name, _ENCODINGS.get(name.rpartition(".")[2], _OTHER), digest) for name, digest in digests.items()]
    columns = COLUMNS if form == "jsonl" else ()
    name = f"{world}-{agent}".replace("/", "-")
    storage.write_json(folder / "croissant.json", describe(name, about, named, columns))
    read = _READ[form].format(name=minari_name(played))
    storage.write_atomic(folder / "README.md", _README.format(**card, read=read, version=__version__))
    storage.write_json(folder / "card.json", card)
    return card


def _package(form: str) -> Any:
    """The package of a format. Raises GroundlabError where it is not installed."""
    try:
        return __import__(form)
    except ImportError:
        raise GroundlabError(f"format {form} needs a package: pip install 'groundlab[{form}]'") from None


def _write_jsonl(folder: Path, played: list[Demonstration]) -> None:
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in steps(played))
    storage.write_atomic(folder / "steps.jsonl", "".join(lines))


def _write_dataset(folder: Path, played: list[Demonstration]) -> None:
    datasets = _package("datasets")
    types = {"Integer": "int64", "Text": "string", "Float": "float64", "Boolean": "bool"}
    features = {column.name: datasets.Value(types[column.type.removeprefix("sc:")]) for column in COLUMNS}
    features["image"] = datasets.Array3D(played[0].images.shape[1:], "uint8")
    data = datasets.Dataset.from_list(list(steps(played)), features=datasets.Features(features))
    datasets.disable_progress_bars()
    data.save_to_disk(str(folder / "datasets"))


def _world(played: list[Demonstration]) -> str:
    """The world of all episodes, without the kind of task where there are several."""
    names = {each.world for each in played}
    return names.pop() if len(names) == 1 else played[0].world.partition("/")[0]


def minari_name(played: list[Demonstration]) -> str:
    """The name by which Minari knows the episodes: letters, digits and hyphens, with a version."""
    agent = re.sub(r"[^A-Za-z0-9]+", "-", played[0].agent).strip("-")
    return f"groundlab/{_world(played).replace('/', '-').replace('-v0', '')}-{agent}-v0"


def _write_minari(folder: Path, played: list[Demonstration]) -> None:
    import gymnasium as gym

    minari = _package("minari")
    texts = [*(text for each in played for text in (*each.prompts, *each.captions, each.mission))]
    words = gym.spaces.Text(max(map(len, texts)), min_length=0, charset=frozenset("".join(texts)))
    space = gym.spaces.Dict(
        {
            "image": gym.spaces.Box(0, 255, played[0].images.shape[1:], np.uint8),
            "direction": gym.spaces.Discrete(4),
            **dict.fromkeys(("mission", "prompt", "caption"), words),
        }
    )
    buffers = [_buffer(minari, number, episode) for number, episode in enumerate(played)]
    with patch.dict(os.environ, MINARI_DATASETS_PATH=str(folder / "minari")), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no address of an author, and no environment of its registry
        minari.create_dataset_from_buffers(
            dataset_id=minari_name(played),
            buffer=buffers,
            observation_space=space,
            action_space=gym.spaces.Discrete(len(ACTIONS)),
            algorithm_name=played[0].agent,
            description=f"{_world(played)}, a world of groundlab; reset seeds are in the episodes",
        )


def _buffer(minari: Any, number: int, episode: Demonstration) -> Any:
    count = len(episode.actions)
    observations = {
        "image": episode.images,
        "direction": episode.directions.astype(np.int64),
        "mission": [episode.mission] * (count + 1),
        "prompt": [*episode.prompts, ""],  # nothing is asked after the last action
        "caption": episode.captions,
    }
    ends = np.arange(count) == count - 1
    return minari.data_collector.EpisodeBuffer(
        id=number,
        seed=episode.layout,
        observations=observations,
        actions=episode.actions.astype(np.int64),
        rewards=episode.rewards,
        terminations=ends & episode.terminated,
        truncations=ends & episode.truncated,
    )
