"""The knowledge paper's figures: how the arms learn, how much more than phi = 0, and where the dataset's agents went.

Seeds are thin lines or small marks, means thick; bands and bars are 95 % intervals over seeds. Controls are dashed; the
random potential, which an arm must leave behind before it is knowledge that helped, stands in every panel.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from groundlab.core import storage
from groundlab.papers.knowledge.arms import (
    CONTROLS,
    FORMS,
    POLICIES,
    REWARDS,
    STYLES,
    KnowledgeArm,
    gain,
    knowledge_arms,
    label_error,
    main_world,
    plain_ppo,
    tabled_arms,
    usual_arms,
)
from groundlab.papers.knowledge.tables import DATASETS, cards
from groundlab.report.curves import (
    FILLING,
    RUNNING_SUCCESS,
    WINDOW,
    draw_running_success,
    draw_seeds,
    in_thousands,
    seeds_in_words,
)
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records, iterations, table
from groundlab.report.statistics import Estimate, bounds_of
from groundlab.report.style import PlotStyle, legend_below, new_figure

# --- Learning curves


@exhibit(
    "knowledge-curves",
    "Success while agents learn, their rewards shaped by background knowledge",
    methods=("knowledge",),
)
def curves(records: Records) -> Figure | None:
    """Success while learning: the potentials of knowledge, the controls and other rewards, phi = 0 and the random
    potential in every panel.
    """
    shown = usual_arms(knowledge_arms(records))
    panels = {"background knowledge": FORMS, "controls": CONTROLS, "curiosity": ("rnd", "curious")}
    if any(arm.kind in REWARDS for arm in shown):
        panels["curiosity and other rewards"] = (*panels.pop("curiosity"), *REWARDS)
    panels["others"] = tuple({arm.kind for arm in shown} - STYLES.keys())
    panels = {title: kinds for title, kinds in panels.items() if any(arm.kind in kinds for arm in shown)}
    panels = panels or {"": ()}  # phi = 0 alone
    arms = {title: [arm for arm in shown if arm.kind in ("none", "random", *kinds)] for title, kinds in panels.items()}
    return draw_panels(arms, main_world(shown), shown, 3.6, min(3, len(panels)))


def draw_panels(
    panels: dict[str, list[KnowledgeArm]], title: str, shown: list[KnowledgeArm], width: float, columns: int
) -> Figure | None:
    """Running success over environment steps, a panel of some width for each title; `columns` are the legend's.

    None where no run of those that are shown finished as many episodes as a point needs.
    """
    if not any(arm.curves["episodes"].sum() >= WINDOW for arm in shown):
        return None
    figure, axes = new_figure(1.2 + width * len(panels), 4.4, 1, len(panels), sharey=True)
    for axis, (name, arms) in zip(axes[0], panels.items(), strict=True):
        for arm in arms:
            draw_running_success(axis, arm, arm.style.colour, linestyle=arm.dashes)
        axis.set(title=name, ylim=(0, 103))
        in_thousands(axis, "environment steps")
    axes[0, 0].set_ylabel(RUNNING_SUCCESS)
    figure.suptitle(f"{title}, {seeds_in_words(shown)} an arm; {FILLING}", fontsize=9.5)
    legend_below(figure, axes[0], columns)
    return figure


def in_two_lines(title: str, source: str) -> str:
    """The name of an arm, and below it whose knowledge it is or what its title has in brackets."""
    name, _, rest = title.partition(" (")
    inside, _, after = rest.partition(")")
    return f"{name}{after}\n{source or inside}".rstrip("\n")


@exhibit(
    "knowledge-tests",
    "Success of tests while agents learn, by drawn actions and by the likeliest",
    methods=("knowledge",),
)
def tests(records: Records) -> Figure | None:
    """Tests on layouts of their own, every so many steps: the likeliest action is the paper's measure.

    None where no run was tested while it learned.
    """
    by_arm = ((arm, records.tests["run"].isin(arm.curves["run"])) for arm in usual_arms(knowledge_arms(records)))
    found = [(arm, records.tests.loc[mine]) for arm, mine in by_arm if np.any(mine)]
    if not found:
        return None
    figure, axes = new_figure(9.6, 4.4, 1, len(POLICIES), sharey=True)
    for axis, policy in zip(axes[0], POLICIES, strict=True):
        for arm, rows in found:
            mine = rows.loc[rows["policy"] == policy]
            steps = iterations(mine) * arm.settings["num_envs"] * arm.settings["frames_per_env"]
            success, colour = table(mine, "success", "iteration"), arm.style.colour
            draw_seeds(axis, steps, success, colour, arm.label, bounds_of("success"), linestyle=arm.dashes)
        axis.set(title=_POLICY_TITLES[policy], ylim=(0, 103))
        in_thousands(axis, "environment steps")
    axes[0, 0].set_ylabel("success of test episodes [%]")
    first = found[0][0]
    layouts = f"layouts {first.settings['curve_layouts']}"
    figure.suptitle(f"{first.world}, {layouts}, {seeds_in_words([arm for arm, _ in found])} an arm", fontsize=9.5)
    legend_below(figure, axes[0], 3)
    return figure


_POLICY_TITLES = {"sampled": "drawn actions", "argmax": "the likeliest action"}


# --- Areas under the curves


@exhibit(
    "knowledge-improvement",
    "Area under the learning curve, beside φ = 0 and the random potential",
    methods=("knowledge",),
)
def improvement(records: Records) -> Figure | None:
    """Arm by arm: the area under the curve, seed by seed, and how far it is from that of phi = 0."""
    shown = tabled_arms(knowledge_arms(records))
    base, noise = plain_ppo(shown), next((arm for arm in shown if arm.kind == "random"), None)
    if base is None or len(shown) < 2:
        return None
    figure, axes = new_figure(9.6, 1.5 + 0.42 * len(shown), 1, 2, sharey=True)
    for row, arm in enumerate(shown):
        areas, over_base = arm.training_success()[:, 0], gain(arm, base)
        axes[0, 0].plot(areas, np.full(len(areas), row + 0.22), "|", color=arm.style.colour, markersize=7)
        _interval(axes[0, 0], row, arm.efficiency(), arm.style)
        if over_base:
            _interval(axes[0, 1], row, over_base.gap, arm.style)
    for axis, zero in zip(axes[0], (base.efficiency().value, 0), strict=True):
        axis.axvline(zero, color=base.style.colour, linewidth=0.8, label=base.style.label)
        if noise:
            distance = noise.efficiency().value - base.efficiency().value
            axis.axvline(zero + distance, color=noise.style.colour, linestyle="--", label=noise.style.label)
    legend_below(figure, axes[0, :1])
    axes[0, 0].set(title="area under the learning curve", xlabel="mean success of training episodes [%]")
    axes[0, 1].set(title="against φ = 0", xlabel="difference of the areas [points]")
    axes[0, 0].set_yticks(range(len(shown)), [in_two_lines(arm.title, arm.source) for arm in shown])
    axes[0, 0].set_ylim(len(shown) - 0.4, -0.6)
    figure.suptitle(f"{main_world(shown)}, {seeds_in_words(shown)} an arm; bars: 95 % intervals", fontsize=9.5)
    return figure


def _interval(axis: Axes, row: int, estimate: Estimate, style: PlotStyle) -> None:
    axis.plot([estimate.low, estimate.high], [row, row], color=style.colour, linewidth=2.2, alpha=0.45)
    axis.plot(estimate.value, row, style.marker, color=style.colour, markersize=6)


# --- Wrong labels, few labels, another judge


def label_variants(every: list[KnowledgeArm]) -> list[KnowledgeArm]:
    """The arms of preferences in the main world that differ in their labels only (study `labels`).

    Those of the scripted judge come first, fewer errors before more.
    """
    home = main_world(every)
    mine = [each for each in every if each.kind == "preference" and each.world == home]
    variants = [each for each in mine if each.study in ("", "labels")]
    return sorted(variants, key=lambda each: (_judge(each).count(","), label_error(each.settings), each.variant))


def _judge(arm: KnowledgeArm) -> str:
    """`10 %` for the scripted judge, else whose labels they are, or how many, after a comma."""
    if arm.settings.get("maker") != "scripted":
        return f",{arm.source.replace(' model ', ' model' + chr(10))}"
    wrong = f"{100 * label_error(arm.settings):.0f} %"
    return f"{wrong},\n{arm.settings['labelling']['pairs']} pairs" if "pairs" in arm.variant else wrong


@exhibit("knowledge-labels", "Sensitivity to wrong preference labels", methods=("knowledge",), beside=())
def label_errors(records: Records) -> Figure | None:
    """The area under the curve against the share of wrong preference labels, seed by seed, beside phi = 0."""
    every = knowledge_arms(records)
    shown, base = label_variants(every), plain_ppo(every)
    if len(shown) < 2 or base is None:
        return None
    frames = min(arm.frames for arm in [*shown, base])
    figure, axes = new_figure(6.4, 4.1)
    axis, style, plain = axes[0, 0], STYLES["preference"], base.training_success(frames)[:, 0]
    for column, arm in enumerate(shown):
        areas = arm.training_success(frames)[:, 0]
        axis.plot(np.full(len(areas), column), areas, style.marker, color=style.colour, markersize=5, fillstyle="none")
        if len(areas) > 1:
            axis.plot(column, areas.mean(), "_", color=style.colour, markersize=16, markeredgewidth=2)
    axis.plot(
        [], [], style.marker, color=style.colour, fillstyle="none", label="BK-Pref: each seed; bar: mean of several"
    )
    axis.axhline(plain.mean(), color=base.style.colour, linestyle="--", label="φ = 0: mean, and range of its seeds")
    axis.axhspan(plain.min(), plain.max(), color=base.style.colour, alpha=0.12, linewidth=0)
    names = [f"{_judge(arm).lstrip(',')}\n({seeds_in_words([arm])})" for arm in shown]
    single = any(len(arm.seeds) == 1 for arm in shown)
    seeds = "columns of one seed: no trend" if single else f"{seeds_in_words(shown)} a column"
    axis.set_xticks(range(len(shown)), names)
    axis.set(
        title=f"{base.world}, first {frames:,.0f} steps\n{seeds}; φ = 0: {seeds_in_words([base])}",
        xlabel="wrong labels of the scripted judge [%], or other judges",
        ylabel="area under the learning curve [%]",
        xlim=(-0.5, len(shown) - 0.5),
    )
    axis.margins(y=0.25)
    legend_below(figure, [axis])
    return figure


# --- Where the agents of the dataset went


def visits(folder: Path) -> dict[int, np.ndarray]:
    """Steps on each cell, int64 [height, width], by snapshot, as they are stored beside a dataset."""
    stored = storage.read_json(folder / "coverage.json")
    return {int(key): np.array([row.split() for row in rows], np.int64) for key, rows in stored.items()}


@exhibit("knowledge-coverage", "Where the agents of the dataset that ships have been")
def coverage() -> Figure | None:
    """A room for each snapshot of what ships, its rooms laid over one another."""
    counted = [(DATASETS / name, card) for name, card in cards().items()]
    counted = [(folder, card) for folder, card in counted if (folder / "coverage.json").is_file()]
    rooms = [(card, *room) for folder, card in counted for room in visits(folder).items()]
    if not rooms:
        return None
    figure, axes = new_figure(3.7 * len(rooms), 3.9, 1, len(rooms))
    colours = LogNorm(1, max(counts.max() for *_, counts in rooms))  # one scale, so that rooms can be compared
    for axis, room in zip(axes[0], rooms, strict=True):
        _draw_room(axis, *room, colours)
        axis.set_xlabel("columns of the room")
    axes[0, 0].set_ylabel("rows of the room")
    figure.colorbar(axes[0, 0].images[0], ax=list(axes[0]), label="steps on a cell (logarithmic)", shrink=0.7)
    return figure


def _draw_room(axis: Axes, card: dict[str, Any], snapshot: int, counts: np.ndarray, colours: LogNorm) -> None:
    facts, share = card["snapshots"][str(snapshot)], card["cells_visited"][str(snapshot)]
    axis.imshow(np.where(counts > 0, counts, np.nan), cmap="viridis", norm=colours)
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(True)
    summary = f"{facts['episodes']} episodes, success {100 * facts['success']:.0f} %, {100 * share:.0f} % of the cells"
    axis.set_title(f"after {snapshot:,} steps of training\n{summary}", fontsize=8)
