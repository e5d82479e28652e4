"""Draw figures/worlds-families.png of README.md: a level of each kind of world, with its goal.

python tools/worlds_figure.py
"""

import numpy as np

from groundlab import worlds
from groundlab.core.paths import repository_root
from groundlab.report.style import house_style, new_figure, save
from groundlab.worlds import render

SHOWN = (
    ("BabyAI-GoToLocal-v0", 3, "one room, seven cells in view"),
    ("BabyAI-GoTo-v0", 5, "nine rooms and doors"),
    ("SimpleDoorKey", 0, "a key and a locked door"),
    ("Crafter-Text-EatCow", 0, "Crafter: an open world"),
)


def picture(world: str, layout: int) -> tuple[np.ndarray, str]:
    """Return (uint8 [H, W, 3], goal) at the beginning of a layout: a whole level, or Crafter's view."""
    if worlds.family_of(world).name == "crafter":
        observations, _ = worlds.make(world, 1, seed=layout).reset(seed=layout)
        return observations["image"][0], str(worlds.find(world).mission)
    env = worlds.GridEnv(world)
    observation, _ = env.reset(seed=layout)
    return render.level_picture(env.grids, tile=min(24, 400 // env.grids.cells.shape[1])), observation["mission"]


def main() -> None:
    """Draw the figure into figures/."""
    with house_style():
        figure, axes = new_figure(9.0, 3.1, 1, len(SHOWN))
        for axis, (world, layout, words) in zip(axes[0], SHOWN, strict=True):
            image, goal = picture(world, layout)
            axis.imshow(image, interpolation="nearest")
            axis.grid(False)
            axis.set(xticks=[], yticks=[], title=f"{world.removesuffix('-v0')}\n{words}")
            axis.title.set_fontsize(8.5)
            axis.set_xlabel(goal, fontsize=8.5, style="italic")
            axis.spines[:].set_visible(False)
        save(figure, repository_root() / "figures", "worlds-families")


if __name__ == "__main__":
    main()
