"""Watchers of episodes: the dialogue with the planner as text, and recordings as GIF with the dialogue beside.

    groundlab evaluate always --world SimpleDoorKey --layouts 0-9 --show --record out/gifs

A watcher is called with the active episodes after each decision and before the world moves.
"""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from groundlab.core import storage
from groundlab.papers import recording
from groundlab.papers.mediator.episodes import Episode
from groundlab.papers.mediator.skills import OPTION_NAMES
from groundlab.worlds.codes import ACTIONS, TYPES
from groundlab.worlds.render import as_picture

_CAPTION_AT = (10, 298)  # pixels; the picture is 320 x 320
_CAPTION_SIZE = 13  # points


class Dialogue:
    """Keeps all episodes of each policy, to print their questions and replies in order afterwards."""

    def __init__(self):
        self._episodes: dict[tuple[str, int], Episode] = {}

    def watch(self, policy: str, episodes: list[Episode]) -> None:
        for episode in episodes:
            self._episodes.setdefault((policy, episode.layout), episode)

    def lines(self) -> list[str]:
        """The system prompt at each start, every text and reply, and how the episode ended."""
        lines: list[str] = []
        for (policy, layout), episode in self._episodes.items():
            lines += [f"--- layout {layout}, {policy} ---", episode.rules.planner.system_prompt]
            for exchange in episode.exchanges:
                lines += [f"step {exchange.step}", exchange.text, exchange.reply]
            lines.append("door opened" if episode.success else "door not opened")
        return lines


def caption(episode: Episode) -> str:
    """What a frame says: step, option being carried out, and whether the planner was asked just now."""
    step, option = episode.steps - 1, episode.skill_name
    name = "-" if option is None else f"{OPTION_NAMES.get(option.action, 'unknown')} {TYPES[option.object]}"
    ask = episode.exchanges[-1].step == step
    return f"{step} {name.removesuffix(' empty')}{' (ask)' if ask else ''}"


class Recorder:
    """Writes `<layout>-<policy>.gif`, `.txt` and `.json` for every episode it has watched."""

    def __init__(self, folder: Path):
        self._folder = storage.make_folder(folder)
        self._frames: dict[tuple[str, int], list[Image.Image]] = {}
        self._episodes: dict[tuple[str, int], Episode] = {}
        self._font = ImageFont.load_default(size=_CAPTION_SIZE)

    def watch(self, policy: str, episodes: list[Episode]) -> None:
        for episode in episodes:
            key = (policy, episode.layout)
            self._episodes[key] = episode
            frame = Image.fromarray(as_picture(episode.image))
            ImageDraw.Draw(frame).text(
                _CAPTION_AT, caption(episode), "white", self._font, stroke_width=1, stroke_fill="black"
            )
            self._frames.setdefault(key, []).append(frame.quantize(64))

    def write(self) -> list[Path]:
        """Write all files and return the GIFs' paths."""
        return [self._write_one(key) for key in self._episodes]

    def _write_one(self, key: tuple[str, int]) -> Path:
        stem = self._folder / f"{key[1]}-{key[0]}"
        asks = [f"step:{ask.step}\n{ask.text}\n{ask.reply}\n" for ask in self._episodes[key].exchanges]
        storage.write_atomic(stem.with_suffix(".txt"), "\n".join(asks))
        episode = self._episodes[key]
        row = {"layout": episode.layout, "steps": episode.steps, "success": episode.finished}
        recording.save(
            stem.with_suffix(".json"),
            recording.episode_of(row, episode.rules.planner.world, ACTIONS, episode.actions),
        )
        gif = stem.with_suffix(".gif")
        recording.write_gif(gif, self._frames[key])
        return gif
