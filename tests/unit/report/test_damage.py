"""Damage to a version of the results: `groundlab review` names the file and the repair, with exit code 2, always.

Exit code 1 means that an exact claim fails. Here nothing fails: whatever is wrong is wrong with the files.
"""

import json
import shutil
import sys
from pathlib import Path

import made_up
import pytest

from groundlab.core import manifests, seals, storage
from groundlab.core.errors import GroundlabError
from groundlab.report import judge, records

page = sys.modules["groundlab.report.review"]  # its name in the package is the function
RULE, TRAINED = "mediator/runs/always-SimpleDoorKey-s0-head0000", "mediator/runs/mediator-SimpleDoorKey-s1-head0000"
VERSION = ""


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def facts(**changes):
    """A manifest sealed again with other facts."""
    return lambda file: storage.write_json(file, seals.sealed({**json.loads(file.read_text()), **changes}))


def other_run(file: Path) -> None:
    shutil.copy(file.parents[3] / TRAINED / file.name, file)


def sealed_as_they_are(home: Path) -> None:
    """Seal runs and version again over whatever was done to them."""
    for run in (RULE, TRAINED):
        facts(records=seals.digests_of(home / run))(home / run / "manifest.json")
    made_up.seal_version(home)


def swap(home: Path) -> None:
    """Two whole runs at each other's place."""
    first, second = home / RULE, home / TRAINED
    first.rename(home / "aside")
    second.rename(first)
    (home / "aside").rename(second)


def forget_a_run(home: Path) -> None:
    version = json.loads((home / "manifest.json").read_text())
    facts(runs=version["runs"][1:])(home / "manifest.json")


UNREADABLE = [  # a file, and its bytes or what makes others of them
    (RULE, "evaluation.json", b"{}"),
    (RULE, "evaluation.json", cut),
    (TRAINED, "metrics.jsonl", b"[1]\n"),
    (RULE, "config.yaml", lambda content: content.replace(b"seed: 0", b"seed: abc")),
    (RULE, "config.yaml", lambda content: content.replace(b"always", b"alwais")),
    (RULE, "config.yaml", b"method: always\nworld: SimpleDoorKey\nseed: 0\nsettings: null\n"),
    (RULE, "config.yaml", b"\x89PNG\r\n\xff\xfe\x00"),
]
DAMAGED = [
    *UNREADABLE,
    (TRAINED, "metrics.jsonl", b""),
    (RULE, "manifest.json", b"{}"),
    (VERSION, "manifest.json", b""),
    (VERSION, "manifest.json", b"{}"),
    (VERSION, "manifest.json", b"[" * 100_000),
    (VERSION, "manifest.json", cut),
]
REPLACED = [  # a file or folder, and what is done to it
    (f"{RULE}/evaluation.json", Path.unlink),
    (f"{RULE}/evaluation.json", a_folder),
    (f"{RULE}/manifest.json", Path.unlink),
    (f"{RULE}/manifest.json", other_run),
    (f"{RULE}/manifest.json", facts(wall_seconds=0.1)),
    (f"{RULE}/manifest.json", facts(records=None)),
    (f"{RULE}/manifest.json", facts(status="unfinished")),
    (RULE, shutil.rmtree),
    (TRAINED, lambda folder: shutil.copytree(folder, f"{folder}7")),
    (VERSION, swap),
    (VERSION, forget_a_run),
    ("manifest.json", lambda file: file.write_text(file.read_text().replace("2026-01-01", "2026-01-02"))),
]


def write(home: Path, run: str, name: str, content) -> None:
    file = home / run / name
    file.write_bytes(content(file.read_bytes()) if callable(content) else content)


@pytest.fixture
def damaged(sealed_version, tmp_path, monkeypatch) -> Path:
    """A copy to be damaged; what is drawn of it does not matter here, nor what its made-up numbers miss exactly."""
    monkeypatch.setattr(page, "draw_all", lambda records: page.Gallery())
    inexact = lambda records: [each for each in judge(records) if each.claim.tolerance != "exact"]  # noqa: E731
    monkeypatch.setattr(page, "judge", inexact)
    return shutil.copytree(sealed_version, tmp_path / sealed_version.name)


@pytest.fixture
def reviewed(groundlab):
    """Judge a version by the command: reviewed(home) -> (exit code, stdout, stderr)."""
    return lambda home: groundlab("review", "--results", home)


def refused(answer: tuple[int, str, str], home: Path) -> None:
    code, _, error = answer
    assert code == 2 and error.count("\n") == 1 and len(error) < 500
    assert str(home) in error and "restore it (git checkout)" in error
    assert not (home / "claims.json").exists()


@pytest.mark.parametrize(("run", "name", "content"), DAMAGED)
def test_review_of_a_version_with_a_damaged_file_is_one_line_and_exit_code_2(run, name, content, damaged, reviewed):
    write(damaged, run, name, content)
    refused(reviewed(damaged), damaged)


@pytest.mark.parametrize(("place", "act"), REPLACED)
def test_a_file_or_a_run_that_is_gone_or_of_another_version_is_refused_alike(place, act, damaged, reviewed):
    act(damaged / place)
    refused(reviewed(damaged), damaged)


@pytest.mark.parametrize(("run", "name", "content"), UNREADABLE)
def test_records_that_were_sealed_broken_are_one_line_too(run, name, content, damaged, reviewed):
    """Seals say that a file is as it was written, not that it is right."""
    write(damaged, run, name, content)
    sealed_as_they_are(damaged)
    code, _, error = reviewed(damaged)
    assert (code, error.count("\n")) == (2, 1)


@pytest.mark.parametrize("name", ["review.html", "claims.json"])
def test_a_folder_in_the_place_of_a_page_is_one_line(name, damaged, reviewed):
    (damaged / name).mkdir()
    code, _, error = reviewed(damaged)
    assert code == 2 and error.count("\n") == 1 and name in error


def test_a_paper_that_was_taken_out_is_told_and_the_rest_is_judged(damaged, reviewed):
    shutil.copytree(damaged / "mediator", damaged / "glam")
    made_up.seal_version(damaged)
    shutil.rmtree(damaged / "glam")
    code, out, _ = reviewed(damaged)
    assert code == 0 and "note: glam is not judged: its 3 runs are no longer in this version" in out
    assert "glam is not judged" in (damaged / "review.html").read_text()


def test_a_failing_exact_claim_is_exit_code_1_and_a_failing_program_is_not(damaged, reviewed, monkeypatch):
    monkeypatch.setattr(page, "judge", judge)
    assert reviewed(damaged)[0] == 1
    monkeypatch.setattr(page, "draw_all", lambda records: 1 / 0)
    code, _, error = reviewed(damaged)
    assert code == 2 and "could not be judged (ZeroDivisionError)" in error.splitlines()[-1]
    monkeypatch.setattr(page, "judge", lambda *given: 1 / 0)
    monkeypatch.setattr(page, "draw_all", lambda records: {})
    assert reviewed(damaged)[0] == 2


def _row(**changes):
    def act(home):
        file = home / RULE / "evaluation.json"
        stored = json.loads(file.read_text())
        stored[0]["rows"][0].update(changes)
        file.write_text(json.dumps(stored))

    return act


def _record(**changes):
    def act(home):
        file = home / TRAINED / "metrics.jsonl"
        first, *rest = file.read_text().splitlines()
        file.write_text("\n".join([json.dumps({**json.loads(first), **changes}), *rest]) + "\n")

    return act


NONSENSE = {
    "success 7": (_row(success=7), "success is 7, not from 0 to 1"),
    "steps of 400 digits": (_row(steps=10**400), "steps is 1000"),
    "steps in words": (_row(steps="many"), "steps is 'many', no number"),
    "a row of another run": (_row(run="mine"), "run belongs to the run"),
    "a success in words": (_record(success="a"), "success is 'a', no number"),
    "a test in words": (_record(test={"a": "b"}), "AttributeError"),
    "an iteration twice": (_record(iteration=2), "iterations do not rise"),
    "another seed": (lambda home: facts(seed=7)(home / RULE / "manifest.json"), "seed is not that of manifest.json"),
}


@pytest.mark.parametrize("damage", NONSENSE)
def test_what_no_run_measures_is_refused_by_name_although_it_is_sealed(damage, damaged, reviewed):
    act, reason = NONSENSE[damage]
    act(damaged)
    sealed_as_they_are(damaged)
    code, _, error = reviewed(damaged)
    assert (code, error.count("\n")) == (2, 1)
    assert reason in error and "is not what a run writes" in error and "delete its folder" in error


def test_while_it_is_assembled_a_version_may_hold_papers_that_its_manifest_does_not_name(damaged):
    shutil.copytree(damaged / "mediator", damaged / "glam")
    with pytest.raises(GroundlabError, match="is no run of this version"):
        records.load(damaged)
    home = damaged.rename(damaged.with_name(f"{manifests.ASSEMBLING}{damaged.name}"))
    assert records.load(home).papers == ["glam", "mediator"]
