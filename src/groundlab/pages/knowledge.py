"""Background knowledge on a page: the model's words, the potential made of them, and where in a room it is high.

    from groundlab.pages import knowledge
    knowledge.program(plan)            # BK-Code: the function that a run of the plan was shaped by
    knowledge.preferences(plan)        # BK-Pref: some pairs and their labels
    knowledge.goals(plan)              # BK-Goal: some stretches of play and the goals suggested for them
    knowledge.potentials(plan)         # every potential of the plan over one room
    knowledge.matches(plan)            # BK-Goal: the steps that its potential finds
    knowledge.stuck(folder)            # what becomes of a trained agent when it takes the likeliest action
    knowledge.attacks()                # programs that try to leave the sandbox, run now

What is shown of a plan is what its finished runs were shaped by; with a folder of records as second argument, what was
kept there of runs that this machine has not made.
"""

import html
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from groundlab import worlds
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.lab.page_records import Agent, load_agent
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.learning.ppo import sample_actions
from groundlab.pages.attacks import by_kind, run_all
from groundlab.pages.worlds import Page, table
from groundlab.papers import registry
from groundlab.papers.knowledge import agent, bk_goal, bk_pref
from groundlab.papers.knowledge.captions import observations, trajectory
from groundlab.papers.knowledge.dataset import Dataset, Segment
from groundlab.papers.knowledge.observations import Windows, adapter_for
from groundlab.papers.knowledge.potentials import Potential, random_play, targets
from groundlab.papers.knowledge.sandbox.results import FAULTS
from groundlab.report.style import data_uri, house_style, new_figure, small_png
from groundlab.worlds.codes import COLOURS, DONE, EMPTY, FORWARD, STEP_X, STEP_Y, TYPES, WALL
from groundlab.worlds.view import draw_view

_TRIED = (64, 16)  # steps of random play, and environments
_PREFERRED = {0.0: "the first", 0.5: "neither", 1.0: "the second"}


def run_of(plan: Plan, form: str) -> PlannedRun:
    """The first run of a plan that is shaped by a form, as the original's quirks leave it. Raises GroundlabError."""
    shaped_by = [run for run in plan.runs if run.spec.method == "knowledge" and run.spec.settings["form"] == form]
    usual = [run for run in shaped_by if not any(run.spec.settings["fidelity"].values())]
    if not usual:
        raise GroundlabError(f"the plan has no run of form={form}; choose another scale or form")
    return usual[0]


def home_of(plan: Plan, run: PlannedRun, folder: Path | None = None) -> Path:
    """The folder of the knowledge that a run used, in the plan's store or as it was kept among the records in `folder`.

    Raises GroundlabError before the run has begun.
    """
    source = run.spec.settings.get("source")
    home = Path(source) if source else plan.folder_of(run) / "knowledge"
    home = home.parent if home.is_file() else home
    if not home.is_dir():
        alike = sorted((folder / run.paper / "runs").glob(f"{run.label}-*/knowledge")) if folder else []
        kept = [each for each in alike if registry.stored_run(each.parent) == run.spec]
        if not kept:
            raise GroundlabError(f"{run.label} was not labelled yet; run the plan first")
        return kept[0]
    return home


def _about(home: Path) -> str:
    """Whose knowledge a folder holds, and what the labelling came to."""
    facts, account = storage.read_json(home / "labelling.json"), home / "account.json"
    made = f"; {storage.read_json(account)['made']}" if account.is_file() else ""
    model = html.escape(f"{facts['model']}{made}")
    return f"<p><b>Source: {html.escape(facts['knowledge'])}</b> ({model})</p>"


def program(plan: Plan, folder: Path | None = None) -> Page:
    """The function that BK-Code's runs are shaped by."""
    home = home_of(plan, run_of(plan, "code"), folder)
    source = (home / "code-final.py").read_text()
    code = f'<pre style="text-align:left;line-height:1.25;font-family:monospace">{html.escape(source)}</pre>'
    return Page(_about(home) + code, source)


def preferences(plan: Plan, folder: Path | None = None, count: int = 4, seed: int = 0) -> Page:
    """Some pairs of segments, drawn by seed, and which of them the judge preferred."""
    run = run_of(plan, "preference")
    home = home_of(plan, run, folder)
    labels = bk_pref.load_labels(home / "preferences.json", Dataset(_settings(run).dataset_folder))
    chosen = generator(seed, "gallery pairs").permutation(len(labels.labels))[:count]
    rows = [(_told(labels.first[n]), _told(labels.second[n]), _PREFERRED[labels.labels[n]]) for n in chosen.tolist()]
    return _below(_about(home), table(("first segment", "second segment", "preferred"), rows))


def goals(plan: Plan, folder: Path | None = None, count: int = 6, seed: int = 0) -> Page:
    """Some stretches of play, drawn by seed, and the goals that were suggested for them."""
    home = home_of(plan, run_of(plan, "goals"), folder)
    library = bk_goal.load(home)
    chosen = generator(seed, "gallery goals").permutation(len(library.captions))[:count]
    rows = [(library.captions[n].strip(), "\n".join(library.goals[n])) for n in chosen.tolist()]
    return _below(_about(home), table(("stretch of play", "goals"), rows))


def _told(segment: Segment) -> str:
    return trajectory(segment.captions, segment.actions.tolist()).strip()


def _below(head: str, page: Page) -> Page:
    """A table below some HTML; its cells keep their line breaks."""
    style = 'style="text-align:left;vertical-align:top;white-space:pre-wrap;max-width:38em"'
    return Page(head + page.markup.replace('<td style="text-align:left">', f"<td {style}>"), page.plain)


def _settings(run: PlannedRun) -> agent.Settings:
    return agent.Settings(**run.spec.settings)


# --- Potentials over a room


def potentials(plan: Plan, folder: Path | None = None, layout: int = 0) -> Page:
    """Each potential of the plan over one room of its runs' world, for every cell and heading.

    BK-Pref's is left out where its network was too large to be kept.
    """
    shown = []
    for form in ("code", "preference", "goals", "oracle", "random"):
        with suppress(GroundlabError):
            run = run_of(plan, form)
            if form != "preference" or (home_of(plan, run, folder) / "network.safetensors").is_file():
                shown.append(run)
    world = shown[0].spec.world
    cells, ringed = room(world, layout), targets(world)
    with house_style():
        figure, axes = new_figure(11, 7.4, 2, 3)
        panels = list(axes.flat)
        draw_room(panels[0], cells, ringed)
        panels[0].set_title(f"{world}\nlayout {layout}; ringed: what the mission asks for", fontsize=8.5)
        for axis, run in zip(panels[1:], shown, strict=False):
            with closing(_potential(plan, run, world, folder)) as potential:
                phi = potential_map(potential, cells)
            drawn = draw_map(axis, phi, cells, ringed)
            axis.set_title(_named(plan, run, folder), fontsize=8.5)
            figure.colorbar(drawn, ax=axis, label="φ, as it is before scaling", shrink=0.85)
        for axis in panels[1 + len(shown) :]:
            axis.set_axis_off()
        caption = f"potentials over layout {layout} of {world}"
        address = data_uri(small_png(figure, dpi=150))
        return Page(f'<img style="max-width:100%" alt="{html.escape(caption)}" src="{address}">', caption)


def _potential(plan: Plan, run: PlannedRun, world: str, folder: Path | None) -> Potential:
    """The potential that a run is shaped by, from the knowledge that it used."""
    settings, home = _settings(run), Path()
    if settings.form in ("code", "preference", "goals"):
        home = home_of(plan, run, folder)
        source = home / "code-final.py" if settings.form == "code" else home
        settings = settings.model_copy(update={"maker": None, "source": str(source)})
    return agent.make_potential(world, run.spec.seed, settings, home)


def _named(plan: Plan, run: PlannedRun, folder: Path | None) -> str:
    form = run.spec.settings["form"]
    if form in ("oracle", "random"):
        return {"oracle": "oracle (control): the target is in view", "random": "random (control)"}[form]
    name = {"code": "BK-Code", "preference": "BK-Pref", "goals": "BK-Goal"}[form]
    facts = storage.read_json(home_of(plan, run, folder) / "labelling.json")
    if facts["maker"] == "scripted":
        error = f", error {100 * facts['settings']['error']:.0f} %" if form == "preference" else ""
        return f"{name}\nscripted labeller{error}"
    return f"{name}\n{facts['knowledge']}"


def matches(plan: Plan, folder: Path | None = None, count: int = 6) -> Page:
    """What BK-Goal's potential finds: the steps of random play that it values most, and how often it is not 0."""
    run = run_of(plan, "goals")
    world = run.spec.world
    with closing(_potential(plan, run, world, folder)) as potential:
        played = random_play(world, potential.horizon, seed=0, steps=_TRIED[0], num_envs=_TRIED[1])
        phi = potential(played)
        cells = room(world, 0)
        walks = potential(arrivals(cells, poses(cells), potential.horizon))
    best: dict[str, float] = {}
    for place in np.argsort(-phi, kind="stable").tolist():
        if phi[place] > 0 and len(best) < count:
            step = trajectory(observations(played.views[place, -2:]), played.actions[place, -1:].tolist())
            best.setdefault(step.strip(), float(phi[place]))
    rates = f"{(phi > 0).mean():.1%} of {len(phi):,} random steps and {(walks > 0).mean():.1%} of {len(walks)} walks"
    page = table(("latest step", "φ"), [(step, f"{value:.3f}") for step, value in best.items()])
    return _below(f"<p>φ is not 0 on {rates}</p>", Page(page.markup, f"{rates}\n{page.plain}"))


# --- A trained agent

_SHARPNESS = (1.0, 0.5, 0.25, 0.1, 0.0)


def stuck(folder: str | Path, layouts: int = 100) -> Page:
    """Tests of the kept agent while its choice gets less random, and where the episodes that fail end up.

    Logits are divided by a temperature; at 0 the likeliest action is taken, as the original evaluates.
    """
    kept = load_agent("knowledge", folder)
    rows = []
    for temperature in _SHARPNESS:
        success, cells = _endings(kept, layouts, temperature)
        lost = cells[~success]
        shares = (f"{np.median(lost):.0f}", f"{100 * (lost == 1).sum() / len(lost):.0f} %") if len(lost) else ("–", "–")
        rows.append((f"{temperature:g}" if temperature else "0 (likeliest)", f"{100 * success.mean():.0f} %", *shares))
    page = table(("temperature", "success", "cells at the end of a failure", "failures that only turn"), rows)
    end = "the end is the last quarter of the steps that the world allows"
    return page.with_note(f"{kept.spec.label}, layouts 0-{layouts - 1}; {end}")


def _endings(kept: Agent, layouts: int, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Of one episode a layout: (bool, whether it succeeded; on how many cells it stood in its last quarter)."""
    adapter, rng = adapter_for(kept.spec.world), generator(0, "stuck", int(100 * temperature))
    envs = worlds.GridVectorEnv(worlds.find(kept.spec.world), layouts, autoreset="disabled")
    observations, _ = envs.reset(seed=list(range(layouts)))
    success, alive, walked = np.zeros(layouts, bool), np.ones(layouts, bool), []
    while alive.any():
        logits = kept.learner.agent.look(adapter.view(observations)).logits
        choice = sample_actions(logits / temperature, rng) if temperature else logits.argmax(-1).numpy()
        observations, rewards, terminated, truncated, _ = envs.step(np.where(alive, choice, DONE))
        success |= alive & (rewards > 0)
        alive &= ~(terminated | truncated)
        walked.append(envs.grids.agents[:, :2].copy())
    end = np.stack(walked[-(len(walked) // 4) :], axis=1)
    return success, np.array([len(np.unique(path, axis=0)) for path in end])


# --- The sandbox


def attacks(every: int = 1) -> Page:
    """Programs that try to do harm, each with the gate and without it, run now; `every` n-th one of them."""
    with ThreadPoolExecutor(2) as threads:  # a sandbox each: most of the time is waiting for limits
        done = [each for half in threads.map(run_all, (True, False), (every, every)) for each in half]
    rows = by_kind(done)
    whole: dict[str, Any] = {"kind": "all", "programs": len(done) // 2}
    whole |= {"refused by the gate": sum(each.gate and each.ending == "refused" for each in done)}
    whole |= {"without the gate": "", "harmed": sum(bool(each.harms) for each in done)}
    page = table(tuple(rows[0]), [tuple(str(value) for value in row.values()) for row in [*rows, whole]])
    return page.with_note(
        "; ".join(f"{name}: {what}" for name, what in {**FAULTS, "value": "it ran to its end"}.items())
    )


# --- Rooms and what is drawn over them

_VIEW = 7
_EMPTY_HAND = np.zeros(4, np.uint8)
_INK = {"red": "#c0392b", "green": "#1e8449", "blue": "#1f4ed8", "purple": "#7d3c98", "yellow": "#b7950b"}
_CORNERS = ((0.5, -0.5), (0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5))  # of a cell; heading h looks at the edge h to h + 1
_COLOURS = "viridis"


def room(world: str, layout: int) -> np.ndarray:
    """The cells of a level, uint8 [W, H, 3], without the agent."""
    envs = worlds.GridVectorEnv(worlds.find(world), 1)
    envs.reset(seed=[layout])
    width, height = envs.grids.sizes[0]
    return np.ascontiguousarray(envs.grids.cells[0, :width, :height])


def poses(cells: np.ndarray) -> np.ndarray:
    """Where an agent can stand and look, int64 [P, 3]: x, y, heading."""
    free = np.argwhere(cells[..., 0] == EMPTY)
    return np.concatenate([np.insert(free, 2, heading, axis=1) for heading in range(4)])


def arrivals(cells: np.ndarray, standing: np.ndarray, horizon: int) -> Windows:
    """The windows of agents [P, 3] that have just walked straight to where they stand, in `horizon` steps or fewer."""
    steps = np.array([STEP_X, STEP_Y]).T[standing[:, 2]]
    walked, clear = np.zeros(len(standing), np.int64), np.ones(len(standing), bool)
    for back in range(1, horizon + 1):
        x, y = (standing[:, :2] - back * steps).T
        clear = clear & (cells[np.clip(x, 0, len(cells) - 1), np.clip(y, 0, cells.shape[1] - 1), 0] == EMPTY)
        walked += clear
    behind = np.minimum(np.arange(horizon, -1, -1), walked[:, None])  # steps back at each view, the oldest first
    views = np.stack([_views(cells, standing, steps, behind[:, place]) for place in range(horizon + 1)], axis=1)
    moved = np.diff(behind, axis=1) != 0
    return Windows(views, np.where(moved, FORWARD, DONE), walked[:, None] - behind)


def _views(cells: np.ndarray, standing: np.ndarray, steps: np.ndarray, back: np.ndarray) -> np.ndarray:
    """What agents [P] saw so many steps before, uint8 [P, 7, 7, 3]."""
    images = np.zeros((len(standing), _VIEW, _VIEW, 3), np.uint8)
    for image, pose, step, number in zip(images, standing, steps, back, strict=True):
        draw_view(cells, np.array([*(pose[:2] - number * step), pose[2]], np.int64), _EMPTY_HAND, image)
    return images


def potential_map(potential: Potential, cells: np.ndarray) -> np.ndarray:
    """phi [W, H, 4] of agents that walked to each cell with each heading; NaN where nobody can stand."""
    standing = poses(cells)
    phi = np.full((*cells.shape[:2], 4), np.nan)
    phi[tuple(standing.T)] = potential(arrivals(cells, standing, potential.horizon))
    return phi


def draw_map(axes: Axes, phi: np.ndarray, cells: np.ndarray, targets: list[tuple[str, str]]) -> PolyCollection:
    """Each cell as four triangles, one a heading, on the side that the agent looks to; things by their first letters.

    targets: (type, colour) by name; such things are ringed. Returns what a colour bar is made of.
    """
    draw_room(axes, cells, targets)
    where = np.argwhere(np.isfinite(phi))
    edges = [
        [(x, y), *((x + _CORNERS[corner % 4][0], y + _CORNERS[corner % 4][1]) for corner in (heading, heading + 1))]
        for x, y, heading in where.tolist()
    ]
    triangles = PolyCollection(edges, cmap=_COLOURS, linewidth=0)
    values = phi[tuple(where.T)]
    triangles.set_array(values)
    triangles.set_clim(*((0, 1) if np.ptp(values) == 0 else (None, None)))
    axes.add_collection(triangles)
    return triangles


def draw_room(axes: Axes, cells: np.ndarray, targets: list[tuple[str, str]]) -> None:
    """Walls grey, things as a letter in their colour (K key, B ball, X box), the targets ringed."""
    walls = np.where(cells[..., 0].T == WALL, 0.72, 1.0)
    axes.imshow(np.dstack([walls] * 3), interpolation="nearest")
    axes.grid(False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    for x, y in np.argwhere(cells[..., 0] > WALL).tolist():
        kind, colour = TYPES[cells[x, y, 0]], COLOURS[cells[x, y, 1]]
        letter = {"key": "K", "ball": "B", "box": "X"}.get(kind, "?")
        ink = _INK.get(colour, "#555555")
        axes.text(x, y, letter, ha="center", va="center", color=ink, fontsize=8, fontweight="bold")
        if (kind, colour) in targets:
            axes.plot(x, y, "o", markersize=15, markerfacecolor="none", markeredgecolor=ink, markeredgewidth=1.8)
