"""The worlds by themselves: the random agent, minigrid's bot, and the comparison with the minigrid package."""

from groundlab.papers.method import CRAFTER, GRID, Method, Paper

_HERE = "groundlab.papers.worlds"

PAPER = Paper(
    name="worlds",
    title="The worlds: chance, minigrid's bot, and parity with the minigrid package",
    question="What do chance and a perfect planner reach, and is every step minigrid's?",
    methods=(
        Method("random", f"{_HERE}.random_agent", "acts uniformly at random", families=(GRID, CRAFTER)),
        Method("bot", f"{_HERE}.bot", "minigrid's planner"),
        Method("facts", f"{_HERE}.minigrid_parity", "counts differences from minigrid"),
    ),
    exhibits=(f"{_HERE}.exhibits",),
)
