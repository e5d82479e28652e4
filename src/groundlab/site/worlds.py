"""A page of each world: what `groundlab worlds NAME` prints, beside a picture that the world's own renderer draws.

Layout: assets/site/world.md.j2 and worlds.md.j2.
"""

import io
from pathlib import Path

from groundlab.pages.world_pages import lines
from groundlab.site import chosen, links
from groundlab.site.pages import render
from groundlab.worlds import facts
from groundlab.worlds.facts import Facts

_COLOURS = 64  # of a picture: minigrid's tiles have about forty
_CRAFTER_SCALE = 5  # pixels of a page for one of Crafter's


def write(source: Path) -> None:
    """Write the pages, their pictures, and the index that filters them by group."""
    every = chosen(facts.every())
    pictures = source / "_static" / "worlds"
    pictures.mkdir()
    for world in every:
        name = page_name(world.name)
        (pictures / f"{name}.png").write_bytes(_picture(world))
        links.write(source, f"worlds/{name}", render("world.md.j2", world=world, page=name, rows=lines(world)))
    groups = list(dict.fromkeys(world.group for world in every))
    links.write(source, "worlds/index", render("worlds.md.j2", worlds=every, groups=groups, page_name=page_name))


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
