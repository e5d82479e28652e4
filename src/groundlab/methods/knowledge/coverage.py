"""Where the agents of a dataset have been: its episodes played again, which also shows that they are what they say.

    visits = replayed(data)          {snapshot: [height, width] steps on each cell}
    store(data.folder, visits)       coverage.json beside the card: a row of cells a line, for the figure

An episode is its reset seed and its actions; everything else follows. Called from: `collect.py`. Read next:
report/knowledge_shipped.py, which draws what is stored.
"""

from pathlib import Path

import numpy as np

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.methods.knowledge.dataset import Dataset


def replayed(data: Dataset) -> dict[int, np.ndarray]:
    """Steps on each cell, int64 [height, width], of the episodes of each snapshot.

    Raises GroundlabError when the world shows something else than what is stored.
    """
    world, visits = worlds.find(data.card["world"]), {}
    envs = worlds.GridVectorEnv(world, len(data), autoreset="disabled")
    episodes = [data.episode(number) for number in range(len(data))]
    views = envs.reset(seed=[episode.layout for episode in episodes])[0]["image"]
    for step in range(max(len(episode.actions) for episode in episodes) + 1):
        for env, episode in enumerate(episodes):
            if step < len(episode.views):
                _same(views[env], episode.views[step], data, env, step)
                column, row = envs.grids.agents[env, :2]
                width, height = envs.grids.cells.shape[1:3]
                visits.setdefault(episode.snapshot, np.zeros((height, width), np.int64))[row, column] += 1
        last = [episode.actions[min(step, len(episode.actions) - 1)] for episode in episodes]
        views = envs.step(np.array(last, np.int64))[0]["image"]
    return visits


def store(folder: Path, visits: dict[int, np.ndarray]) -> None:
    """Write the counts of every snapshot to `<folder>/coverage.json`, each row of cells as one text."""
    rows = {str(snapshot): [" ".join(map(str, row)) for row in counts.tolist()] for snapshot, counts in visits.items()}
    storage.write_json(folder / "coverage.json", dict(sorted(rows.items(), key=lambda each: int(each[0]))))


def _same(shown: np.ndarray, stored: np.ndarray, data: Dataset, number: int, step: int) -> None:
    if not np.array_equal(shown, stored):
        where = f"{data.folder}: episode {number} is not what {data.card['world']} shows at step {step}"
        raise GroundlabError(f"{where}; collect the dataset again")


def share_of_cells(visits: np.ndarray) -> float:
    """Cells inside the walls on which somebody stood, as a share."""
    inside = visits[1:-1, 1:-1]
    return float((inside > 0).mean())
