"""A page of each world: what `groundlab worlds NAME` prints, beside a picture that the world's own renderer draws.

Layout: assets/site/world.md.j2 and worlds.md.j2.
"""

import io
from pathlib import Path

from groundlab.site import pages, sample
from groundlab.worlds import facts
from groundlab.worlds.facts import Facts, lines

_TILE, _WIDEST = 24, 400  # pixels: a cell, and a picture that is shown in smaller cells
_COLOURS = 64  # of a picture: minigrid's tiles have about forty
_CRAFTER_SCALE = 5  # pixels of a page for one of Crafter's


def write(source: Path, limit: int | None) -> None:
    """Write the pages, their pictures, and the index that filters them by group."""
    every = sample(facts.every(), limit)
    pictures = source / "_static" / "worlds"
    pictures.mkdir()
    for world in every:
        name = page_name(world.name)
        (pictures / f"{name}.png").write_bytes(_picture(world))
        pages.write(source, f"worlds/{name}", "world.md.j2", world=world, page=name, rows=lines(world))
    groups = list(dict.fromkeys(world.group for world in every))
    pages.write(source, "worlds/index", "worlds.md.j2", worlds=every, groups=groups, page_name=page_name)


def page_name(world: str) -> str:
    """The name of a world's page."""
    return world.replace("/", "-")


def _picture(world: Facts) -> bytes:
    """A PNG of the beginning of layout 0: the whole level with the agent's view lit, or what Crafter shows."""
    from PIL import Image

    from groundlab import worlds
    from groundlab.worlds import render  # compiles

    if world.family == "crafter":
        image = Image.fromarray(worlds.make(world.name, 1).reset(seed=0)[0]["image"][0])
        image = image.resize([_CRAFTER_SCALE * side for side in image.size], Image.Resampling.NEAREST)
    else:
        env = worlds.GridEnv(world.name)
        env.reset(seed=0)
        image = Image.fromarray(render.level_picture(env.grids, tile=min(_TILE, _WIDEST // env.grids.cells.shape[1])))
    buffer = io.BytesIO()
    image.quantize(_COLOURS).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
