"""The whole command, in processes: from configs to a version with executed pages, and all the ways it can end."""

import shutil
import signal
import subprocess
import time
from importlib import import_module

import pytest
import yaml

from groundlab import lab
from groundlab.core.versions import Version, versions_below
from groundlab.lab import reproduce

SLOWEST_START = 300.0
OTHER_RULE = {"method": "random", "worlds": ["BabyAI-GoToLocal-v0"], "settings": {"layouts": "0-1"}}
PARAMETERS = "scale = 'quick'\nseeds = None\nfolder = None"
LONG = {"iterations": 150, "trajectories": 1, "epochs": 1, "layouts": "0-4"}


def test_one_command_makes_a_version_with_pages_and_the_second_time_makes_what_is_missing(laboratory, rule_entry):
    code, out, error = laboratory.reproduce()
    assert code == 0, error
    (version,) = laboratory.versions()
    assert f"review page: {version / 'review.html'}" in out and (version / "claims.json").is_file()
    assert Version(version).facts["command"] == "groundlab reproduce --scale smoke"
    page = version / "mediator" / "executed" / "02_mediator.ipynb"
    assert str(laboratory.root) not in page.read_text(), "a page that others open names no folder of this machine"
    assert f"smoke {version.relative_to(laboratory.root)}" in page.read_text()
    assert 'href="mediator/executed/02_mediator.ipynb"' in (version / "review.html").read_text()
    page.unlink()
    code, out, _ = laboratory.reproduce()
    assert (code, laboratory.versions()) == (0, [version]) and page.is_file()
    assert f"nothing to do: {version}" in out


def test_a_published_version_never_stands_for_ones_own_and_is_what_that_is_compared_with(laboratory, rule_entry):
    """What a clone brings, at the default scale: the command executes every run all the same."""
    laboratory.write_config([rule_entry], scale="quick")
    laboratory.commit()
    assert laboratory.reproduce(scale="quick")[0] == 0
    (published,) = laboratory.versions("quick")
    lab.publish(published.name, laboratory.results)
    git = ["git", "-C", str(laboratory.root), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "add", f"results/{published.name}", "results/reference.json"], check=True)
    subprocess.run([*git, "commit", "-qm", "published"], check=True)
    shutil.rmtree(laboratory.results / ".runs")

    code, out, error = laboratory.reproduce(scale="quick", dry_run=True)
    assert code == 0 and "1 of 1 runs would be executed" in out, error
    code, out, error = laboratory.reproduce(scale="quick")
    assert code == 0 and "mediator: 1 run finished" in out, error
    assert f"beside {published.name}:\n1 runs are equal to the byte, 0 differ\n" in out
    (own,) = set(laboratory.versions("quick")) - {published}
    code, out, _ = laboratory.reproduce(scale="quick")
    assert code == 0 and f"nothing to do: {own}" in out and "name a new folder: --results FOLDER" in out


def test_papers_come_shortest_first_and_notebooks_in_the_order_of_their_config(laboratory, rule_entry):
    """The second notebook finds the first one executed, and the verdicts of all papers."""
    first, second = "03_second_by_name.ipynb", "02_mediator.ipynb"
    laboratory.write_longer_paper(OTHER_RULE)
    laboratory.write_config([rule_entry], notebooks=[first, second])
    none = "assert Path(folder, 'claims.json').is_file() and Path(folder, 'worlds', 'runs').is_dir()"
    there = "assert Path(folder, 'mediator', 'executed', {!r}).is_file()"
    for name, seen in ((first, none), (second, there.format(first)), ("00_worlds.ipynb", none)):
        laboratory.write_notebook(name, PARAMETERS, ["from pathlib import Path", seen])
    code, out, error = laboratory.reproduce(papers=["worlds", "mediator"])
    assert code == 0, error
    (version,) = laboratory.versions()
    assert {run["paper"] for run in Version(version).runs()} == {"worlds", "mediator"}
    assert {f"notebooks/{first}", f"notebooks/{second}"} <= Version(version).facts["inputs"].keys()
    assert out.index("mediator: 1 run finished") < out.index("worlds: 1 run finished")


def test_without_pages_the_runs_are_the_end_and_without_runs_nothing_is_started(laboratory, capsys):
    given = {"papers": ["mediator"], "scale": "smoke", "results": laboratory.results}
    assert reproduce(**given, executor="none") == 75
    plan = lab.plan("mediator", scale="smoke", results=laboratory.results)
    assert len(plan.pending()) == len(plan.runs), "none is started"
    for run in plan.runs:
        lab.execute_run(run.spec, plan.folder_of(run))
    assert reproduce(**given, executor="none", pages=False) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "without --no-pages the same command makes tables, figures and pages" in said
    assert laboratory.versions() == []


def test_a_failed_run_and_a_failed_page_of_one_paper_leave_the_runs_of_the_next(laboratory, rule_entry):
    (laboratory.root / "ledger.jsonl").write_text("not json\n")
    recorded = {"planner": "recorded", "ledger": str(laboratory.root / "ledger.jsonl"), "layouts": "0-4"}
    laboratory.write_config([rule_entry, {**rule_entry, "worlds": ["KeyInBox"], "settings": recorded}])
    laboratory.write_longer_paper(OTHER_RULE)
    laboratory.write_notebook("02_mediator.ipynb", PARAMETERS, ["raise ValueError('no such table')"])
    code, out, error = laboratory.reproduce(workers=1)
    assert code == 2 and "ValueError: no such table" in error.splitlines()[-1]
    assert "mediator: 1 run finished, 1 failed" in out and "worlds: 1 run finished, 0 failed" in out
    (version,) = laboratory.versions()
    assert (version / "review.html").is_file(), "the results are there without that page"
    runs = Version(version).planned
    told = sorted(f"{run['paper']} {run['status']}" for run in runs)
    assert told == ["mediator failed", "mediator finished", "worlds finished"]
    (failed,) = [run for run in runs if run["status"] == "failed"]
    assert "ledger" in failed["error"] and failed["records"] == {}


def test_an_exact_claim_that_does_not_hold_makes_the_exit_code_1(laboratory):
    claim = {"id": "a", "paper": "mediator", "locus": "l", "statement": "s", "tolerance": "exact", "source": "t"}
    claim |= {"scales": ["smoke"], "published": {"steps": "1"}}
    claim |= {"select": {"method": "always", "world": "SimpleDoorKey"}}
    claims = {"claims": [claim]}
    (laboratory.root / "configs" / "mediator" / "claims.yaml").write_text(yaml.safe_dump(claims))
    code, out, _ = laboratory.reproduce()
    assert (
        code == 1
        and "1 could be tested: 0 matching a printed number, 0 supported, 0 inconclusive, 1 contradicted." in out
    )


def _wait_for(laboratory, process, files: str) -> None:
    """Until a reproduction in another process has written such a file."""
    deadline = time.monotonic() + SLOWEST_START
    while not list(laboratory.results.glob(files)) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)


def test_a_reproduction_killed_with_all_its_books_open_continues_with_the_same_command(laboratory, training_entry):
    laboratory.write_config([{**training_entry, "seeds": 1, "settings": LONG}])
    process = laboratory.start(scale="smoke", results=str(laboratory.results))
    _wait_for(laboratory, process, ".runs/*/checkpoint/[0-9]*")
    process.kill()
    assert laboratory.finish(process)[0] == -signal.SIGKILL
    code, _, error = laboratory.reproduce()
    assert code == 0, error
    (log,) = laboratory.results.glob(".runs/*/log.txt")
    assert "resumed at iteration" in log.read_text()
    assert len(laboratory.versions()) == 1


def test_a_stop_leaves_no_version_and_says_how_to_go_on(laboratory, training_entry):
    laboratory.write_config([{**training_entry, "seeds": 1, "settings": {**LONG, "iterations": 20000}}])
    process = laboratory.start(scale="smoke", results=str(laboratory.results))
    _wait_for(laboratory, process, ".runs/*/timing.jsonl")
    process.send_signal(signal.SIGTERM)
    code, out, error = laboratory.finish(process)
    assert code == 75, error
    assert "mediator: 0 runs finished, 0 failed, 1 left to do" in out and not laboratory.versions()
    assert "unfinished: the same command continues here" in out
    assert any("stopped at iteration" in log.read_text() for log in laboratory.results.glob(".runs/*/log.txt"))


@pytest.fixture
def evening(laboratory, monkeypatch) -> float:
    """Hours that are over as soon as a run is finished, however slow the machine is."""

    def is_over(until: float | None) -> bool:
        manifests = laboratory.results.glob(".runs/*/manifest.json")
        return until is not None and any('"status": "finished"' in file.read_text() for file in manifests)

    for name in ("executor", "reproduce"):
        monkeypatch.setattr(import_module(f"groundlab.lab.{name}"), "is_over", is_over)
    return 1.0


def test_evidence_grows_over_evenings_and_nothing_runs_twice(laboratory, rule_entry, training_entry, evening):
    """An evening that ends makes a version of what is finished; the next one, elsewhere, takes it over."""
    slow = {**training_entry, "seeds": 1, "settings": {**LONG, "iterations": 20000}}
    laboratory.write_config([{**rule_entry, "estimate": {"seconds": 999, "megabytes": 1}}, slow])
    code, out, error = laboratory.reproduce(hours=evening, workers=1)
    assert code == 75, error
    (first,) = laboratory.versions()
    assert f"1 runs are missing: the same command with --continue {first.name}" in out
    assert [run["status"] for run in Version(first).planned] == ["finished", "missing"]
    totals = Version(first).facts["totals"]
    assert totals | {"finished": 1, "failed": 0, "missing": 1} == totals

    laboratory.write_config([rule_entry, {**slow, "settings": LONG}])
    elsewhere = laboratory.root / "elsewhere"
    code, out, error = laboratory.reproduce(results=str(elsewhere), continue_from=str(first))
    assert code == 0 and f"1 finished runs taken from {first}" in out, error
    (second,) = versions_below(elsewhere / ".scratch")
    (rule,) = Version(first).runs()
    assert rule["history"] in [run["history"] for run in second.runs()], "it ran again"
    assert second.facts["totals"]["missing"] == 0


def test_an_unfinished_version_is_not_taken_for_the_whole_one(laboratory, rule_entry, training_entry):
    laboratory.write_config([rule_entry, {**training_entry, "seeds": 1, "settings": LONG}])
    plan = lab.plan("mediator", scale="smoke", results=laboratory.results)
    lab.execute_run(plan.runs[0].spec, plan.folder_of(plan.runs[0]))
    assert laboratory.reproduce(hours=0)[0] == 75
    (unfinished,) = laboratory.versions()
    code, out, error = laboratory.reproduce()
    assert code == 0 and "nothing to do" not in out, error
    assert len({*laboratory.versions()} - {unfinished}) == 1


def test_hours_in_which_nothing_ends_make_no_version(laboratory):
    code, out, _ = laboratory.reproduce(hours=0)
    assert code == 75 and "nothing was finished in this time" in out and not laboratory.versions()
