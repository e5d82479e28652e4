"""The length bias: how counting only episodes that ended makes an agent look better than it is.

The original begins every update with new episodes, stops at 128 replies of ended ones and throws the others away, so
that long failures are rarely counted (spec reasoning-agents, quirk Q6). Shown here on a training that did the same,
and on every evaluated agent: what that counting would have displayed, had it played the episodes of the evaluation.
Read first: `displayed_by_original`. Called from: exhibits.py. Read next: `reasoning_studies.py`.
"""

import heapq

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core.seeding import generator
from groundlab.report.reasoning import LOOKS, SAMPLED, Arm, arms
from groundlab.report.reasoning_learning import REPLIES, draw_series
from groundlab.report.records import Records
from groundlab.report.style import new_figure

ENVIRONMENTS, REPLIES_COUNTED = 6, 128  # of the original
_UPDATES = 1_000


def displayed_by_original(success: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> float:
    """The success that the original's counting displays of an agent with these episodes [episodes], in their unit.

    Environments play episodes drawn from them, side by side; an update displays the mean of those that ended by the
    time that the ended ones hold `REPLIES_COUNTED` replies. The mean of many updates.
    """
    return float(np.mean([_displayed_once(success, length, rng) for _ in range(_UPDATES)]))


def _displayed_once(success: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> float:
    drawn = rng.integers(len(success), size=ENVIRONMENTS)
    ends = [(int(length[episode]), env, int(episode)) for env, episode in enumerate(drawn)]
    heapq.heapify(ends)
    ended: list[int] = []
    counted, now = 0, 0
    while counted < REPLIES_COUNTED or ends[0][0] == now:  # all environments of the last round are counted
        now, env, episode = heapq.heappop(ends)
        ended.append(episode)
        counted += int(length[episode])
        following = int(rng.integers(len(success)))
        heapq.heappush(ends, (now + int(length[following]), env, following))
    return float(np.mean(success[ended]))


def length_bias(records: Records) -> Figure:
    """A training that throws unfinished episodes away, beside one that continues them; then every evaluated agent."""
    pairs = biased_pairs(records)
    updates = min((dropped.updates for _, dropped in pairs), default=0)
    columns = [arm.first(updates) for pair in pairs for arm in pair if arm is not None]
    figure, axes = new_figure(1.2 + 3.5 * (len(columns) + 1), 4.0, 1, len(columns) + 1)
    for axis, arm in zip(axes[0], columns, strict=False):
        _draw_training(axis, arm)
    _draw_counting(axes[0, -1], records)
    for axis in axes[0]:
        axis.set_ylim(0, 103)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if columns:
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _draw_training(axis: Axes, arm: Arm) -> None:
    """The true curve, and each update's displayed success as a point whose size is the number of its episodes."""
    draw_series(axis, arm, "test_success", "#333333", "true: fixed layouts, played to their ends")
    told = arm.curves.loc[arm.curves["episodes"].fillna(0) > 0] if "episodes" in arm.curves else arm.curves[:0]
    label = "displayed: episodes that ended in an update (size: how many)"
    sizes = 3.0 * np.asarray(told["episodes"], dtype=float)
    axis.scatter(told["frames"], told["success"], sizes, color="#D55E00", alpha=0.5, linewidths=0, label=label)
    kept = "thrown away" if "drop_unfinished" in arm.differs else "continued"
    axis.set(title=f"{arm.agent}, in training\nunfinished episodes {kept}", xlabel=REPLIES, ylabel="success [%]")
    axis.set_xlim(0, None)


def _draw_counting(axis: Axes, records: Records) -> None:
    """Displayed over true success of every evaluated arm; without bias, points lie on the diagonal."""
    axis.plot([0, 100], [0, 100], color="#333333", linestyle=":", linewidth=1)
    named: set[str] = set()
    for arm in arms(records):
        found = counted(arm)
        if found is not None:
            look = LOOKS[arm.method]
            label = None if arm.method in named else look.label
            axis.plot(*found, look.marker, color=look.colour, markersize=5, alpha=0.8, label=label)
            named.add(arm.method)
    axis.set(title="every evaluated agent\nits episodes, counted as published", xlabel="true success [%]")
    axis.set(ylabel="displayed success [%]", xlim=(0, 103))
    axis.legend(loc="lower right")


def counted(arm: Arm) -> tuple[float, float] | None:
    """(true, displayed) success in percent of an arm's final evaluation, all seeds together."""
    success, length = arm.scores(SAMPLED), arm.scores(SAMPLED, "length")
    if success is None or length is None:
        return None
    rng = generator(0, "counting", arm.label, arm.world)
    return float(success.mean()), displayed_by_original(success.ravel(), length.ravel(), rng)


def biased_pairs(records: Records) -> list[tuple[Arm | None, Arm]]:
    """(the same arm with unfinished episodes continued, if there is one; the one with them thrown away)."""
    every = [arm for arm in arms(records) if arm.trained]
    pairs = []
    for dropped in [arm for arm in every if "drop_unfinished" in arm.differs]:
        others = {key: value for key, value in dropped.differs.items() if key != "drop_unfinished"}
        same = [arm for arm in every if (arm.method, arm.world, arm.differs) == (dropped.method, dropped.world, others)]
        pairs.append((next(iter(same), None), dropped))
    return pairs
