"""Recorded episodes: kept while an agent is evaluated, written as GIF, transcript and a file to replay.

    with recorded() as episodes:
        results = registry.evaluate(request)
    write(folder, by_policy(episodes, results, "glam"))    # <layout>-<policy>.gif, .txt and .json

A world does the same again from the same layout and actions, so an episode is its actions: pictures and words are made
by playing it once more. Whoever plays episodes calls `keep` when one has ended, which does nothing unless somebody
records. `read` and `replay` take a file back; what was added by hand is found by its outcome.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from groundlab.core import storage
from groundlab.core.bounds import LAST_SEED
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict, parse
from groundlab.papers.stage import Stage

FRAME_MILLISECONDS = 333  # 3 frames a second, as the videos of the mediator's authors
_COLOURS = 64  # of a frame
_CAPTION_LINES, _CAPTION_SIZE = 2, 13  # points
_LONGEST = 100_000  # actions of an episode


class Episode(Strict):
    """An episode: the world, its reset seed, and the actions by name. The outcome is what it must lead to again."""

    world: str
    layout: int = Field(ge=0, le=LAST_SEED)
    num_dists: int | None = Field(None, ge=0)
    """Distractors, where they are not the world's own."""
    actions: list[str] = Field(max_length=_LONGEST)
    replies: list[str] = Field([], max_length=_LONGEST)
    """What an agent said to each, where it answers in words; or its question to a planner and the reply."""
    captions: list[str] = Field([], max_length=_LONGEST)
    """What was going on at each step of an agent that asks a planner."""
    prompt: str = ""
    """The planner's system prompt."""
    method: str = ""
    policy: str = ""
    steps: int = 0
    success: bool = False


_OPEN: ContextVar[list[tuple[dict[str, Any], Episode]] | None] = ContextVar("episodes that are recorded", default=None)
Kept = list[tuple[dict[str, Any], Episode]]
"""Rows of evaluations, each with its episode."""


@contextmanager
def recorded() -> Iterator[Kept]:
    """Keep every episode that is played inside."""
    kept: Kept = []
    token = _OPEN.set(kept)
    try:
        yield kept
    finally:
        _OPEN.reset(token)


def wanted() -> bool:
    """Whether somebody records."""
    return _OPEN.get() is not None


def keep(
    row: dict[str, Any],
    world: str,
    names: Sequence[str],
    actions: Iterable[int],
    num_dists: int | None = None,
    replies: Sequence[str] = (),
    success: bool | None = None,
    **asked: Any,
) -> None:
    """Keep an episode that has ended, if somebody records.

    row: its own in the evaluation; names: of the actions; success: the world's, where the row counts otherwise;
    asked: `captions` and `prompt` of Episode.
    """
    kept = _OPEN.get()
    if kept is None:
        return
    episode = Episode(
        world=world,
        layout=int(row["layout"]),
        num_dists=num_dists,
        actions=[names[action] for action in actions],
        steps=int(row["steps"]),
        success=bool(row["success"] if success is None else success),
        replies=list(replies),
        **asked,
    )
    kept.append((row, episode))


def by_policy(kept: Kept, results: list[dict[str, Any]], method: str) -> list[Episode]:
    """The episodes whose rows are in these evaluations, each with its method and policy.

    Raises GroundlabError where none was kept: the method plays in a way of its own.
    """
    policies = {id(row): result["policy"] for result in results for row in result["rows"]}
    chosen = [(policies[id(row)], episode) for row, episode in kept if id(row) in policies]
    if not chosen:
        raise GroundlabError(f"{method} plays in a way that is not recorded; leave out --record and --show")
    return [episode.model_copy(update={"policy": policy, "method": method}) for policy, episode in chosen]


def write(folder: Path, episodes: Iterable[Episode]) -> list[Path]:
    """Write all episodes; returns the GIFs' paths."""
    storage.make_folder(folder)
    return [write_episode(folder, episode) for episode in episodes]


def transcript(episodes: Iterable[Episode]) -> list[str]:
    """What was read, said and done in episodes, line by line."""
    lines = []
    for episode in episodes:
        if episode.prompt:
            asked = [part for step, said in _exchanges(episode) for part in (f"step {step}", said)]
            end = "door opened" if episode.success else "door not opened"
            lines += [f"--- layout {episode.layout}, {episode.policy} ---", episode.prompt, *asked, end]
            continue
        lines += transcript_head(episode)
        for stage, action, reply in replay(episode):
            lines += turn(stage, action, reply)
    return lines


def _exchanges(episode: Episode) -> list[tuple[int, str]]:
    """(step, question and reply) of each time a planner was asked."""
    return [(step, said) for step, said in enumerate(episode.replies) if said]


def write_episode(folder: Path, episode: Episode) -> Path:
    """Write `<layout>-<policy>.gif`, `.txt` and `.json`; returns the GIF's path."""
    stem = folder / f"{episode.layout}-{episode.policy or 'hand'}".replace(" ", "-")
    frames, lines = [], transcript_head(episode)
    for stage, action, reply in replay(episode):
        if not episode.captions:
            frames.append(captioned(stage, action))
        elif action:
            frames.append(subtitled(stage, f"{stage.steps} {episode.captions[stage.steps]}"))
        lines += turn(stage, action, reply)
    if episode.prompt:
        lines = "\n\n".join(f"step:{step}\n{said}" for step, said in _exchanges(episode)).splitlines()
    storage.write_atomic(stem.with_suffix(".txt"), "\n".join(lines) + "\n")
    save(stem.with_suffix(".json"), episode)
    write_gif(stem.with_suffix(".gif"), frames)
    return stem.with_suffix(".gif")


def save(file: Path, episode: Episode) -> None:
    """Write an episode for `read`."""
    storage.write_json(file, episode.model_dump(mode="json"))


def read(file: Path) -> Episode:
    """An episode that was recorded. Raises GroundlabError for any other file."""
    if not file.is_file():
        raise GroundlabError(f"{file} is no file; give one that `groundlab evaluate --record FOLDER` left (.json)")
    content = storage.read_json(file)
    if not isinstance(content, dict):
        raise GroundlabError(f"{file} is no recorded episode; give a .json that `groundlab evaluate --record` left")
    return parse(Episode, content, str(file))


def replay(episode: Episode) -> Iterator[tuple[Stage, str, str]]:
    """(stage, the action that follows, what was said), before each step, and the end with ("", "").

    The stage is one and the same, moved on when the next item is asked for. Raises GroundlabError for an action that
    is none, for an episode that goes on after its end, and for one that ends otherwise than it says.
    """
    stage, replies = Stage(episode.world, episode.layout, episode.num_dists), iter(episode.replies)
    for action in set(episode.actions) - set(stage.actions):
        raise GroundlabError(f"action {action[:60]!r} is none of {episode.world}; use {', '.join(stage.actions)}")
    for action in episode.actions:
        yield stage, action, next(replies, "")
        stage.step(stage.actions.index(action))
    if episode.actions and episode.method and (stage.steps, stage.success) != (episode.steps, episode.success):
        said = f"{episode.steps} steps, success {episode.success}"
        raise GroundlabError(f"the episode ends otherwise than recorded ({said}); it is of another version, or changed")
    yield stage, "", ""


def transcript_head(episode: Episode) -> list[str]:
    """The first line of a transcript."""
    by = " ".join(part for part in (episode.method, f"({episode.policy})" if episode.policy else "") if part)
    return [f"--- {episode.world}, layout {episode.layout}{', ' if by else ''}{by} ---"]


def turn(stage: Stage, action: str, reply: str = "") -> list[str]:
    """What a transcript says of a step: the mission first, what is read, what is done; and how it ended."""
    lines = [stage.mission] if stage.steps == 0 else []
    lines += [f"  {sentence}" for sentence in stage.sentences]
    if not action:
        return [*lines, f"{stage.outcome} after {stage.steps} step{'s' * (stage.steps != 1)}"]
    return [*lines, *(f"    {line}" for line in reply.splitlines()), f"    > {action}"]


def captioned(stage: Stage, action: str) -> Image.Image:
    """The stage's picture with mission, step and action below."""
    picture = Image.fromarray(stage.picture())
    height = _CAPTION_LINES * (_CAPTION_SIZE + 4) + 4
    frame = Image.new("RGB", (picture.width, picture.height + height), "black")
    frame.paste(picture, (0, 0))
    words = f"{stage.mission}\n{stage.steps} {action or stage.outcome}"
    font = ImageFont.load_default(size=_CAPTION_SIZE)
    ImageDraw.Draw(frame).multiline_text((4, picture.height + 2), words, "white", font, spacing=4)
    return frame.quantize(_COLOURS)


def subtitled(stage: Stage, words: str) -> Image.Image:
    """The stage's picture with words written on its lower edge."""
    frame = Image.fromarray(stage.picture())
    font = ImageFont.load_default(size=_CAPTION_SIZE)
    place = (10, frame.height - 22)
    ImageDraw.Draw(frame).text(place, words, "white", font, stroke_width=1, stroke_fill="black")
    return frame.quantize(_COLOURS)


def write_gif(file: Path, frames: list[Image.Image]) -> None:
    """Write frames as an endless GIF. Raises GroundlabError when the disk does not take it."""
    first, *rest = frames
    with storage.clear_disk_errors(file):
        first.save(file, save_all=True, append_images=rest, duration=FRAME_MILLISECONDS, loop=0)
