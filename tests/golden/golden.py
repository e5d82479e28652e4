"""Golden records: small runs whose records and final weights are compared with stored digests.

    nox -s golden                       fails and names the method whose results changed while `behaviour` did not go up
    nox -s golden -- --accept           stores today's digests of new runs, higher behaviour numbers, new kinds of CPU
    nox -s golden -- --only mediator    the runs of one method
    nox -s golden -- --coverage         the statements that `groundlab run` can reach and no golden run executes

The runs are those of each paper's smoke.yaml, whose finished records are used, and of tests/golden/runs/PAPER.yaml. An
entry there with `stop: N` is stopped after its N-th step and resumed. Digests are kept per kind of CPU, in
tests/golden/records/, with the versions of the packages that compute; on an unknown kind, or with other versions, the
runs are compared with those of the merge base, made in a worktree. Defaults and public names are golden too:
tests/golden/interface.json.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numba

from groundlab import worlds
from groundlab.assets import RECIPE
from groundlab.core import numerics, storage
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.core.paths import repository_root, results_folder
from groundlab.core.run import COMPARED, RunSpec
from groundlab.core.schema import Strict
from groundlab.core.sources import package_folder
from groundlab.core.yaml_files import read_yaml
from groundlab.lab import config, machine, run_folder, run_hash
from groundlab.papers import registry

HERE = Path(__file__).parent
INTERFACE = HERE / "interface.json"
MERGED_FAMILIES = {"AuthenticAMD": (25, 26)}  # equal to the byte (docs/artifact.md)
FILLED = Path("out/golden")  # ledgers that runs fill, deleted before each
Digests = dict[str, dict[str, Any]]
"""`{name: {"method": ..., "behaviour": [method's, family's], FILE: digest, ...}}`: of records and final weights."""


class Golden(NamedTuple):
    """One run; `stop`: after this many steps it is stopped and resumed, 0: not."""

    spec: RunSpec
    stop: int = 0

    @property
    def name(self) -> str:
        """Label and digest of its settings, which stay when `behaviour` goes up."""
        changed = registry.changed_settings(self.spec)
        digest = f" {storage.digest_json(changed)[:8]}" if changed else ""
        return f"{self.spec.label}{digest}" + (f" stopped after {self.stop}" if self.stop else "")


def golden_runs(only: list[str] | None = None) -> list[Golden]:
    """The golden runs of all papers, or of some methods."""
    found = []
    for paper in config.known_papers():
        smoke = config.load(paper, "smoke").runs
        found += [(entry.method, world, entry.settings, 0, 0) for entry in smoke for world in entry.worlds]
        file = HERE / "runs" / f"{paper}.yaml"
        own = read_yaml(file)["runs"] if file.is_file() else []
        found += [
            (run["method"], run["world"], run.get("settings", {}), run.get("stop", 0), run.get("seed", 0))
            for run in own
        ]
    chosen = (row for row in found if not only or row[0] in only)
    runs = (Golden(registry.resolve(method, world, seed, given), stop) for method, world, given, stop, seed in chosen)
    return list({run.name: run for run in runs}.values())


def kind_of_cpu() -> str:
    """`amd-25-26-avx2`: vendor, family, and the instruction set that libraries are held to."""
    facts = machine.proc("cpuinfo")
    vendor, family = facts.get("vendor_id", platform.machine()), int(facts.get("cpu family", 0))
    merged = MERGED_FAMILIES.get(vendor, ())
    families = "-".join(map(str, merged if family in merged else (family,)))
    active = numerics.held()
    held = "native" if "ATEN_CPU_CAPABILITY" not in active else "portable" if "MKL_CBWR" in active else "avx2"
    return f"{vendor.removeprefix('Authentic').removeprefix('Genuine').lower()}-{families}-{held}"


def make(run: Golden, scratch: Path, smoke: Path) -> tuple[str, dict[str, Any], list[str]]:
    """Execute one golden run, or take it from the smoke store; returns its name, digests and undeclared assets."""
    spec, folder = run.spec, smoke / run_hash.hash_run(run.spec)
    undeclared: list[str] = []
    if run.stop or run_folder.standing(folder) != ("finished", False):
        from groundlab.lab.worker import execute_run

        folder = scratch / (run_hash.hash_run(spec) + f"-{run.stop}")
        opened = watch_assets()
        ledger = Path(spec.settings.get("ledger") or "")
        if ledger.is_relative_to(FILLED):
            ledger.unlink(missing_ok=True)
        if run.stop:
            steps = count(1)
            try:
                execute_run(spec, folder, stop=lambda: next(steps) == run.stop)
            except Unfinished:
                pass
            else:
                raise GroundlabError(f"{run.name} ended before it could be stopped; choose a smaller stop")
        execute_run(spec, folder)
        undeclared = sorted({*opened} - _declared(spec))
    behaviour = [registry.get(spec.method, spec.world).behaviour, worlds.family_of(spec.world).behaviour]
    return run.name, {"method": spec.method, "behaviour": behaviour, **digests_of(folder)}, undeclared


def digests_of(folder: Path) -> dict[str, str]:
    """The digests of a finished run's records and final weights, and of what it trained first or collected."""
    digests = {}
    for home in sorted({file.parent for name in ("metrics.jsonl", "card.json") for file in folder.rglob(name)}):
        weights = sorted(home.glob("checkpoint/*/*.safetensors"), key=lambda file: int(file.parent.name))
        files = {name: home / name for name in (*COMPARED, "card.json")} | {file.name: file for file in weights}
        digests |= {
            (home.relative_to(folder) / name).as_posix(): storage.digest_bytes(file.read_bytes())[:16]
            for name, file in files.items()
            if file.is_file()
        }
    return digests


_opened: list[str] = []


def watch_assets() -> list[str]:
    """The list to which this process adds every shipped asset that it opens from now on, by its path in assets/."""
    if "groundlab-assets" not in sys.modules:
        sys.modules["groundlab-assets"] = sys
        home = f"{package_folder() / 'assets'}{os.sep}"
        sys.addaudithook(lambda event, args: event == "open" and _note(str(args[0]), home))
    _opened.clear()
    return _opened


def _note(name: str, home: str) -> None:
    if name.startswith(home) and not name.endswith((".py", ".pyc")) and not name.startswith(f"{home}__"):
        _opened.append(name.removeprefix(home))


def _declared(spec: RunSpec) -> set[str]:
    home = package_folder() / "assets"
    named = registry.settings_of(spec.method, spec.world, spec.settings).inputs()
    files = [
        *run_hash.declared_assets(spec.method, spec.world),
        *(each for each in named.values() if isinstance(each, Path)),
    ]
    inside = {file.relative_to(home).as_posix() for file in files if file.is_relative_to(home)}
    return inside | {f"{Path(name).parent.as_posix()}/{RECIPE}" for name in inside if name.startswith("models/")}


def make_all(runs: list[Golden], workers: int = 2) -> tuple[Digests, list[str]]:
    """Execute golden runs in worker processes; returns their digests, and lines on undeclared assets and failures."""
    scratch, smoke = results_folder() / ".scratch" / "golden", results_folder() / ".runs"
    for folder in scratch.glob("*"):
        if run_folder.standing(folder) != ("finished", False):
            shutil.rmtree(folder)
    digests, problems = Digests(), list[str]()
    os.environ |= machine.ONE_THREAD
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [(run, pool.submit(make, run, scratch, smoke)) for run in runs]
        for run, job in jobs:
            try:
                name, found, undeclared = job.result()
                digests[name] = found
                problems += [
                    f"{run.spec.method} reads the asset {asset}, which no row declares" for asset in undeclared
                ]
            except GroundlabError as error:
                problems.append(f"{run.name}: {error}")
    return digests, problems


def changed(stored: Digests, fresh: Digests) -> list[str]:
    """A line for each run whose results changed although no number went up."""
    lines = []
    for name in stored.keys() & fresh.keys():
        old, new = stored[name], fresh[name]
        records = [each for each in old.keys() | new.keys() if old.get(each) != new.get(each) and each != "behaviour"]
        if new["behaviour"] == old["behaviour"] and records:
            pairs = ", ".join(f"{each} {old.get(each)}, now {new.get(each)}" for each in sorted(records))
            lines.append(
                f"results of {new['method']} changed ({name}: {pairs}); raise its behaviour, or undo the change"
            )
    return sorted(lines)


def interface() -> dict[str, Any]:
    """Defaults of every schema, and the public names: methods, worlds, policies, metrics."""
    methods = {
        f"{paper}/{method.name}": {"behaviour": method.behaviour, "settings": _defaults(registry.schema_of(method))}
        for paper, method in registry.methods()
    }
    families = {
        family.name: {"behaviour": family.behaviour, "worlds": sorted(family.worlds)}
        for family in worlds.families().values()
    }
    papers = registry.papers().values()
    records = {paper.name: {"policies": [*paper.policies], "metrics": [*paper.metrics]} for paper in papers}
    return {"methods": methods, "families": families, "records": records}


def _defaults(schema: type[Strict]) -> dict[str, Any]:
    return {
        field.alias or name: "(required)"
        if field.is_required()
        else json.loads(json.dumps(_plain(field.get_default())))
        for name, field in schema.model_fields.items()
    }


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def interface_problems(stored: dict[str, Any], today: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(what needs a higher number or an alias, what `--accept` settles) of today's defaults and names."""
    broken, gone = [], []
    for key, old in stored["methods"].items():
        paper, _, name = key.partition("/")
        now = next(
            (each for other, each in registry.methods() if other == paper and name in (each.name, *each.formerly)), None
        )
        if now is None:
            gone.append(f"the method {name} is gone; if it was renamed, keep the old name in its row (formerly)")
            continue
        new, aliases = today["methods"][f"{paper}/{now.name}"], registry.schema_of(now).former_names
        for setting, default in old["settings"].items():
            current = aliases.get(setting, setting)
            if current not in new["settings"]:
                gone.append(
                    f"{name} has no setting {setting} any more; if it was renamed, keep the old name (former_names)"
                )
            elif new["behaviour"] == old["behaviour"] and not _same_default(default, new["settings"][current]):
                broken.append(f"the default of {name}'s {setting} changed; raise the behaviour of {name}")
    for family in stored["families"].values():
        for name in family["worlds"]:
            try:
                worlds.find(name)
            except GroundlabError:
                gone.append(f"the world {name} is gone; if it was renamed, keep the old name (worlds/registry.py)")
    for paper, old in stored["records"].items():
        offer = registry.papers().get(paper)
        known = {*offer.policies, *offer.metrics, *offer.former_names} if offer else set()
        gone += [
            f"{paper} has no {name} any more; if it was renamed, keep the old name (former_names)"
            for name in (*old["policies"], *old["metrics"])
            if name not in known
        ]
    return broken, gone


def _same_default(old: Any, new: Any) -> bool:
    """Whether a default stayed; a nested schema may have more settings than before."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(name in new and _same_default(value, new[name]) for name, value in old.items())
    return old == new


def at_merge_base(only: list[str] | None) -> Digests:
    """The digests of the golden runs of the merge base, made here; empty where it has none."""
    root = repository_root()

    def git(*words: str) -> str:
        answer = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
        return answer.stdout.strip() if answer.returncode == 0 else ""

    main = next((name for name in ("origin/main", "origin/HEAD", "main") if git("rev-parse", "--verify", name)), "HEAD")
    base = git("merge-base", "HEAD", main) or "HEAD"
    if base == git("rev-parse", "HEAD") and not git("status", "--porcelain", "--untracked-files=no"):
        base = git("rev-parse", "HEAD~1")
    with tempfile.TemporaryDirectory() as home:
        tree, file = Path(home) / "tree", Path(home) / "digests.json"
        if not base or (not git("worktree", "add", "--detach", str(tree), base) and not tree.is_dir()):
            return {}
        try:
            script = tree / "tests" / "golden" / "golden.py"
            if not script.is_file():
                return {}
            paths = {
                "PYTHONPATH": str(tree / "src"),
                "GROUNDLAB_ROOT": str(tree),
                "GROUNDLAB_RESULTS": f"{home}/results",
            }
            words = [word for name in only or () for word in ("--only", name)]
            command = [sys.executable, str(script), "--write", str(file), *words]
            subprocess.run(command, env={**os.environ, **paths}, cwd=tree, check=False)
            return storage.read_json(file) if file.is_file() else {}
        finally:
            git("worktree", "remove", "--force", str(tree))


def compare(fresh: Digests, accept: bool, only: list[str] | None) -> tuple[list[str], str]:
    """(what fails, what was compared) of today's digests; with `accept` they are stored."""
    file, packages = HERE / "records" / f"{kind_of_cpu()}.json", run_hash.computing_versions()
    known = storage.read_json(file) if file.is_file() else {"packages": None, "runs": {}}
    stored = known["runs"] if known["packages"] == packages else {}
    if not stored and not accept:
        base = at_merge_base(only)
        both = len(fresh.keys() & base.keys())
        return changed(
            base, fresh
        ), f"{both} runs of the merge base (no records of {kind_of_cpu()} with these packages)"
    problems = changed(stored, fresh)
    behind = [name for name in fresh if stored.get(name, {}).get("behaviour") != fresh[name]["behaviour"]]
    if accept and not problems:
        runs = dict(sorted({**(stored if only else {}), **fresh}.items()))
        storage.write_json(file, {"packages": packages, "runs": runs})
    elif behind and not accept:
        problems.append(f"{len(behind)} runs have no record, such as {behind[0]}; store it: nox -s golden -- --accept")
    return problems, f"{len(fresh)} runs, {file.relative_to(HERE.parents[1])}"


def cover(words: list[str]) -> int:
    """Execute all golden runs in one process under coverage and print the statements that none reaches.

    coverage.json says what `groundlab run` cannot reach, and why. Returns 2 where less than its share was reached.
    """
    options = storage.read_json(HERE / "coverage.json")
    with tempfile.TemporaryDirectory() as home:
        rules, data = Path(home) / "rules", f"--data-file={home}/data"
        listed = {"omit": options["omit"], "exclude_lines": options["exclude"]}
        lines = [f"{name} =\n    " + "\n    ".join(values) for name, values in listed.items()]
        rules.write_text("\n".join(["[report]", *lines]))
        # an empty user cache, so that datasets are unpacked again; compiled worlds are kept
        caches = {"XDG_CACHE_HOME": home, "NUMBA_CACHE_DIR": str(numba.config.CACHE_DIR)}  # type: ignore[attr-defined]
        run = ["run", data, f"--source={','.join(options['packages'])}", __file__, "--serial", *words]
        tool = [sys.executable, "-m", "coverage"]
        subprocess.run([*tool, *run], env=os.environ | caches | machine.ONE_THREAD, check=True)
        report = ["report", data, f"--rcfile={rules}", f"--fail-under={options['at_least']}"]
        return subprocess.run([*tool, *report, "--show-missing", "--skip-covered"], check=False).returncode


def make_each(runs: list[Golden]) -> None:
    """Execute golden runs one after the other in this process and keep nothing."""
    with tempfile.TemporaryDirectory() as home:
        for run in runs:
            make(run, Path(home) / "runs", Path(home) / "none")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="store today's digests, defaults and names")
    parser.add_argument("--only", action="append", metavar="METHOD", help="golden runs of these methods alone")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the digests to a file and compare nothing")
    parser.add_argument("--coverage", action="store_true", help="print the statements that no golden run reaches")
    parser.add_argument("--serial", action="store_true", help="only execute, in this process (for --coverage)")
    given = parser.parse_args()
    os.chdir(repository_root())
    if given.coverage:
        return cover([word for method in given.only or () for word in ("--only", method)])
    runs = golden_runs(given.only)
    if given.serial:
        make_each(runs)
        return 0
    fresh, problems = make_all(runs)
    if given.write:
        storage.write_json(given.write, fresh)
        return 1 if problems else 0
    differing, where = compare(fresh, given.accept, given.only)
    today = interface()
    broken, gone = interface_problems(storage.read_json(INTERFACE), today) if INTERFACE.is_file() else ([], [])
    problems += [*differing, *broken, *([] if given.accept else gone)]
    if given.accept and not broken:
        storage.write_json(INTERFACE, today)
    for line in problems:
        print(f"golden: {line}")
    print(f"golden: {len(problems)} problems in {where}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
