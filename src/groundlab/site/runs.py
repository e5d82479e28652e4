"""The pages of runs: what each published run was, its curve beside those of the other seeds, its episodes by layout.

    write(source, evidence)      # writes <source>/runs/index.md, a page a run, and <source>/_static/runs/<group>.js

What is drawn comes from one data file for all seeds of an arm in a world, a script that assigns a global: it works
without a server. Layout: assets/site/run.md.j2; curves.js draws.
"""

import json
import shlex
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.papers import registry
from groundlab.report.records import FIRST_FINISHED
from groundlab.report.tables import number
from groundlab.site import pages
from groundlab.site.evidence import Evidence, Judged, StoredRun


def write(source: Path, evidence: Evidence) -> None:
    """Write the pages of all runs, their data and their list."""
    groups: dict[str, list[StoredRun]] = {}
    for run in evidence.runs.values():
        groups.setdefault(run.group, []).append(run)
    served: dict[str, list[Judged]] = {}  # the claims that each run is behind
    for judged in (each for one in evidence.claims.values() for each in one):
        for run in judged.runs:
            served.setdefault(run, []).append(judged)
    for name, runs in groups.items():
        runs.sort(key=lambda run: run.facts["seed"])
        storage.write_atomic(source / "_static" / "runs" / f"{name}.js", group_script(runs))
        for run in runs:
            pages.write(source, f"runs/{run.page}", "run.md.j2", **_run(run, runs, served.get(run.name, [])))
    papers: dict[str, list[list[StoredRun]]] = {}
    for runs in groups.values():
        papers.setdefault(f"{runs[0].facts['paper']}, scale {runs[0].version.scale}", []).append(runs)
    pages.write(source, "runs/index", "runs.md.j2", papers=dict(sorted(papers.items())))


def _run(run: StoredRun, seeds: list[StoredRun], claims: list[Judged]) -> dict[str, Any]:
    """Return the content of a run's page; seeds: those of its group, its own included."""
    first = next((row for rows in run.evaluations.values() for row in rows), {})
    metrics = [name for name in registry.papers()[run.facts["paper"]].metrics if name in first]
    return {
        "run": run,
        "seeds": seeds,
        "claims": claims,
        "metrics": metrics,
        "means": {
            policy: [number(sum(row.get(name, 0) for row in rows) / len(rows), name) for name in metrics]
            for policy, rows in run.evaluations.items()
        },
        "config": run.version.read(run.facts["manifest"], "config.yaml").decode().rstrip(),
        "command": command(run),
    }


def command(run: StoredRun) -> str:
    """Command that repeats a run: its method with the settings that differed from their defaults."""
    facts, changed = run.facts, run.facts["manifest"]["changed"]
    changed = facts["settings"] if changed is None else changed
    words = [f"--set {shlex.quote(f'{key}={json.dumps(value)}')}" for key, value in changed.items()]
    start = f"groundlab run {facts['method']} --world {facts['world']} --seed {facts['seed']}"
    return " ".join([start, *words, f"--out out/{run.name}"])


def group_script(runs: list[StoredRun]) -> str:
    """The data of some seeds as a script: curves, and of each episode whether it succeeded and how long it was."""
    data = {
        "counter": runs[0].counter,
        "each": runs[0].each,
        "runs": [
            {"name": run.name, "seed": run.facts["seed"], **_curves(run), "policies": _episodes(run)} for run in runs
        ],
    }
    return f"const groundlabRuns = {json.dumps(data, separators=(',', ':'), allow_nan=False)};\n"


def _curves(run: StoredRun) -> dict[str, Any]:
    """The counts of a run's first curve, and each curve: its values, and its counts where they are others."""
    counts = next((counts for counts, _ in run.curves.values()), [])
    curves = {name: [None if at == counts else at, values] for name, (at, values) in run.curves.items()}
    return {"counts": counts, "curves": curves}


def _episodes(run: StoredRun) -> dict[str, dict[str, Any]]:
    found = {}
    for policy, rows in run.evaluations.items():
        if all("success" in row for row in rows):
            layouts = [row["layout"] for row in rows] if policy != FIRST_FINISHED else list(range(len(rows)))
            found[policy] = {
                "what": "episode" if policy == FIRST_FINISHED else "layout",
                "layouts": layouts if layouts != list(range(len(rows))) else None,
                "success": "".join("1" if row["success"] > 0 else "0" for row in rows),
                "steps": [row.get("steps", row.get("length")) for row in rows],
            }
    return found
