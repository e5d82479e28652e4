"""A page of each world: what `groundlab worlds NAME` prints, beside a picture that the world's own renderer draws."""

import html
import io
from pathlib import Path

from groundlab.pages.world_pages import lines
from groundlab.site import chosen, links
from groundlab.worlds import facts
from groundlab.worlds.facts import Facts

_COLOURS = 64  # of a picture: minigrid's tiles have about forty
_CRAFTER_SCALE = 5  # pixels of a page for one of Crafter's
_HEAD = ("world", "cells", "limit", "mission", "chance", "bot")


def write(source: Path) -> None:
    """Write the pages, their pictures, and the index that filters them by group."""
    every = chosen(facts.every())
    pictures = source / "_static" / "worlds"
    pictures.mkdir()
    for world in every:
        name = page_name(world.name)
        (pictures / f"{name}.png").write_bytes(_picture(world))
        links.write(source, f"worlds/{name}", _page(world), orphan=True)
    links.write(source, "worlds/index", _index(every))


def page_name(world: str) -> str:
    """The name of a world's page."""
    return world.replace("/", "-")


def _picture(world: Facts) -> bytes:
    """A PNG of the beginning of layout 0: the whole level with the agent's view lit, or what Crafter shows."""
    from PIL import Image

    from groundlab.pages.worlds import first_picture  # compiles

    image, buffer = Image.fromarray(first_picture(world.name, 0)[0]), io.BytesIO()
    if world.family == "crafter":
        image = image.resize([_CRAFTER_SCALE * side for side in image.size], Image.Resampling.NEAREST)
    image.quantize(_COLOURS).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _page(world: Facts) -> str:
    caption = f"layout 0: {world.missions[0]}" if world.missions else "layout 0"
    rows = "".join(f'<tr><th scope="row">{name}</th><td>{_cell(name, texts)}</td></tr>' for name, texts in lines(world))
    name = html.escape(world.name)
    return (
        f"# {world.name}\n\n[All worlds](index.html)\n\n"
        f'<figure class="level"><img src="../_static/worlds/{page_name(world.name)}.png" alt="{name}, layout 0">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>\n"
        f'<div class="table-wrapper"><table class="docutils facts"><tbody>{rows}</tbody></table></div>\n'
    )


def _cell(heading: str, texts: list[str]) -> str:
    escaped = [html.escape(text) for text in texts]
    if heading == "made by":
        return f"<code>{escaped[0]}</code>"
    return escaped[0] if len(texts) == 1 else "<ul>" + "".join(f"<li>{text}</li>" for text in escaped) + "</ul>"


def _index(every: list[Facts]) -> str:
    """A table of all, in which a chosen group hides the rows of the others."""
    groups = list(dict.fromkeys(world.group for world in every))
    choices, hiding = ['<label><input type="radio" name="group" checked> all</label>'], ""
    for number, group in enumerate(groups):
        choices.append(f'<label><input type="radio" name="group" id="g{number}"> {html.escape(group)}</label>')
        hiding += f"body:has(#g{number}:checked) tr.world:not(.g{number}) {{ display: none }}\n"
    head = "".join(f'<th scope="col">{name}</th>' for name in _HEAD)
    rows = "".join(_row(world, groups.index(world.group)) for world in every)
    return (
        f"# The {len(every)} worlds\n\nChance and bot: percent of the episodes that succeed.\n\n"
        f"<style>\n{hiding}</style>\n\n"
        f'<fieldset class="filter"><legend>Show</legend>{" ".join(choices)}</fieldset>\n'
        f'<div class="table-wrapper"><table class="docutils worlds"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _row(world: Facts, group: int) -> str:
    bot = f"{world.bot.success:.1f}" if world.bot else "none"
    texts = (f"{world.width} x {world.height}", f"{world.limits[1]:,}", world.pattern or world.summary)
    cells = "".join(f"<td>{html.escape(text)}</td>" for text in texts)
    cells += "".join(f'<td class="number">{value}</td>' for value in (f"{world.chance.success:.1f}", bot))
    link = f'<a href="{page_name(world.name)}.html">{html.escape(world.name)}</a>'
    return f'<tr class="world g{group}"><th scope="row">{link}</th>{cells}</tr>'
