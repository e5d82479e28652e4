"""The page of a world: as lines for a terminal, and as HTML, one file a world and an index to filter.

    python -m groundlab.pages.world_pages site/worlds        # what `nox -s pages` calls

What is said is `groundlab.worlds.facts`; a picture is drawn by the world's own renderer. The pages hold no scripts.
"""

import html
import io
import sys
from pathlib import Path

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.worlds import facts
from groundlab.worlds.facts import Facts, Played, Submission

_COLOURS = 64  # of a picture: minigrid's tiles have about forty
_CRAFTER_SCALE = 5  # pixels of a page for one of Crafter's
_STYLE = """
pre.level { line-height: 1.1 } .filter label { margin-right: 1rem; white-space: nowrap }
ul { margin: 0; padding-left: 1.1rem } img { image-rendering: pixelated } td.number { text-align: right }
"""


def lines(world: Facts) -> list[tuple[str, list[str]]]:
    """What is known of a world: a heading, and what stands under it."""
    return [
        ("what it is", [f"{world.summary}; {world.width} x {world.height} cells; {world.group}"]),
        ("mission", world.missions or [_without(world, "missions")]),
        ("words", world.words or [_without(world, "words")]),
        ("actions", [", ".join(f"{number} {name}" for number, name in enumerate(world.actions))]),
        ("time limit", [" to ".join(f"{limit:,}" for limit in dict.fromkeys(world.limits)) + " steps"]),
        ("reward", [world.reward]),
        ("chance", [_played(world.chance)]),
        ("bot", [_played(world.bot) if world.bot else _without(world, "bot")]),
        ("best published agent", [_submission(world.published) if world.published else _without(world, "published")]),
        ("made by", [world.line]),
    ]


def _without(world: Facts, what: str) -> str:
    return f"none: {world.without[what]}"


def _played(agent: Played) -> str:
    plan = f"; no plan in {agent.no_plan} of them, which count as failures" if agent.no_plan else ""
    seeds = f", {agent.seeds} seeds" if agent.seeds > 1 else ""
    source = f"; {agent.source}" if agent.source else ""
    return (
        f"{_success(agent)}, {agent.steps:.1f} steps, return {agent.returns:.3f} "
        f"({agent.episodes:,} episodes: layouts {agent.layouts}{seeds}{plan}{source})"
    )


def _submission(best: Submission) -> str:
    equals = f"; {best.equals} others have the same" if best.equals else ""
    return (
        f"{best.agent}, {_success(best)} ({best.episodes} episodes of BALROG with {best.num_dists} distractors, "
        f"played again here{equals}; {best.source})"
    )


def _success(agent: Played | Submission) -> str:
    return f"{agent.success:.1f} % [{agent.low:.1f}, {agent.high:.1f}]"


def page_name(world: str) -> str:
    """The name of a world's page."""
    return world.replace("/", "-") + ".html"


def write_pages(out: Path, only: tuple[str, ...] = ()) -> Path:
    """Write a page for each world, or for those named, its picture, and the index of all pages; returns the index."""
    from groundlab.report.html_pages import document  # here, because a terminal's page needs no laboratory

    chosen = [facts.of(name) for name in only] or facts.every()
    for world in chosen:
        name = page_name(world.name)
        storage.write_atomic(out / f"{name.removesuffix('.html')}.png", _picture(world.name))
        storage.write_atomic(out / name, document(world.name, _page(world), _STYLE))
    index = out / "index.html"
    storage.write_atomic(index, document("The worlds", _index(chosen), _STYLE + _filter_rules(chosen)))
    return index


def _picture(world: str) -> bytes:
    """A PNG of the beginning of layout 0: the whole level with the agent's view lit, or what Crafter shows."""
    from PIL import Image

    from groundlab.pages.worlds import first_picture

    image, buffer = Image.fromarray(first_picture(world, 0)[0]), io.BytesIO()
    if facts.of(world).family == "crafter":
        image = image.resize([_CRAFTER_SCALE * side for side in image.size], Image.Resampling.NEAREST)
    image.quantize(_COLOURS).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _page(world: Facts) -> str:
    picture = page_name(world.name).removesuffix(".html") + ".png"
    caption = f"layout 0: {world.missions[0]}" if world.missions else "layout 0"
    rows = "".join(f"<tr><th>{heading}</th><td>{_cell(heading, texts)}</td></tr>" for heading, texts in lines(world))
    return (
        f'<p><a href="index.html">all worlds</a></p><h1>{html.escape(world.name)}</h1>'
        f'<figure style="margin:0"><img src="{html.escape(picture)}" alt="{html.escape(world.name)}, layout 0">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure><table>{rows}</table>"
    )


def _cell(heading: str, texts: list[str]) -> str:
    escaped = [html.escape(text) for text in texts]
    if heading == "made by":
        return f"<code>{escaped[0]}</code>"
    return escaped[0] if len(texts) == 1 else "<ul>" + "".join(f"<li>{text}</li>" for text in escaped) + "</ul>"


def _groups(chosen: list[Facts]) -> list[str]:
    return list(dict.fromkeys(world.group for world in chosen))


def _filter_rules(chosen: list[Facts]) -> str:
    """Of the index: a chosen group hides the rows of all others."""
    return "".join(
        f"body:has(#g{number}:checked) tr.world:not(.g{number}) {{ display: none }}\n"
        for number, _ in enumerate(_groups(chosen))
    )


def _index(chosen: list[Facts]) -> str:
    groups = _groups(chosen)
    choices = ['<label><input type="radio" name="group" checked> all</label>']
    choices += [
        f'<label><input type="radio" name="group" id="g{number}"> {html.escape(group)}</label>'
        for number, group in enumerate(groups)
    ]
    rows = "".join(_index_row(world, groups.index(world.group)) for world in chosen)
    head = "".join(f"<th>{name}</th>" for name in ("world", "cells", "limit", "mission", "chance", "bot"))
    return (
        f'<p><a href="../index.html">the notebooks</a></p><h1>The {len(chosen)} worlds</h1>'
        f'<p>Chance and bot: percent of the episodes that succeed.</p><p class="filter">{" ".join(choices)}</p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _index_row(world: Facts, group: int) -> str:
    link = f'<a href="{html.escape(page_name(world.name))}">{html.escape(world.name)}</a>'
    bot = f"{world.bot.success:.1f}" if world.bot else "none"
    cells = (
        link,
        f"{world.width} x {world.height}",
        f"{world.limits[1]:,}",
        html.escape(world.pattern or world.summary),
    )
    numbers = "".join(f'<td class="number">{value}</td>' for value in (f"{world.chance.success:.1f}", bot))
    return f'<tr class="world g{group}">' + "".join(f"<td>{cell}</td>" for cell in cells) + numbers + "</tr>"


def main() -> None:
    """The command of the docstring above; what a person can mend is one line."""
    if len(sys.argv) < 2:
        sys.exit("name a folder for the pages: python -m groundlab.pages.world_pages site/worlds")
    try:
        print(f"{len(facts.every())} worlds: {write_pages(Path(sys.argv[1]))}")
    except GroundlabError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
