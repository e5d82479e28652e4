"""Damage to a version of the results: `groundlab review` names the file and the repair, with exit code 2, always.

Exit code 1 means that an exact claim fails. Here nothing fails: whatever is wrong is wrong with the files.
"""

import json
import shutil
import sys
import zipfile
from pathlib import Path

import made_up
import pytest

from groundlab.report import judge

page = sys.modules["groundlab.report.review"]  # its name in the package is the function


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def written(content: bytes):
    return lambda file: file.write_bytes(content)


def other_record(file: Path) -> None:
    """A whole archive with another record in it."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content.replace(b"30", b"31"))


RULE = "mediator/runs/always-*.zip"
DAMAGED = [
    *((RULE, act) for act in (cut, other_record, written(b""), Path.unlink)),
    *(("version.json", act) for act in (cut, written(b"{}"), written(b"[" * 100_000), written(b'{"variants": [1]}'))),
]


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


@pytest.mark.parametrize(("place", "act"), DAMAGED)
def test_review_of_a_version_with_a_damaged_file_is_one_line_and_exit_code_2(place, act, damaged, reviewed):
    (file,) = damaged.glob(place)
    act(file)
    code, _, error = reviewed(damaged)
    assert code == 2 and error.count("\n") == 1 and len(error) < 800
    assert f"{file} is damaged or missing; git checkout {file}" in error
    assert not (damaged / "claims.json").exists()


def test_a_version_of_1_is_one_line_that_names_the_commit_that_reads_it(tmp_path, reviewed):
    (tmp_path / "manifest.json").write_text("{}")
    code, _, error = reviewed(tmp_path)
    assert code == 2 and error.count("\n") == 1 and "of 1.x; git checkout" in error


@pytest.mark.parametrize("name", ["review.html", "claims.json"])
def test_a_folder_in_the_place_of_a_page_is_one_line(name, damaged, reviewed):
    (damaged / name).mkdir()
    code, _, error = reviewed(damaged)
    assert code == 2 and error.count("\n") == 1 and name in error


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
    def change(run, records):
        stored = json.loads(records["evaluation.json"])
        stored[0]["rows"][0].update(changes)
        records["evaluation.json"] = json.dumps(stored).encode()

    return change


def _record(**changes):
    def change(run, records):
        first, *rest = records["metrics.jsonl"].decode().splitlines()
        records["metrics.jsonl"] = "\n".join([json.dumps({**json.loads(first), **changes}), *rest, ""]).encode()

    return change


def _written(name: str, content: bytes):
    return lambda run, records: records.update({name: content})


NONSENSE = {
    "success 7": (_row(success=7), "success is 7, not from 0 to 1"),
    "steps of 400 digits": (_row(steps=10**400), "steps is 1000"),
    "steps in words": (_row(steps="many"), "steps is 'many', no number"),
    "a row of another run": (_row(run="mine"), "run belongs to the run"),
    "a success in words": (_record(success="a"), "success is 'a', no number"),
    "a test in words": (_record(test={"a": "b"}), "AttributeError"),
    "an iteration twice": (_record(iteration=2), "iterations do not rise"),
    "no list": (_written("evaluation.json", b"{}"), "no list of evaluations"),
    "no JSON": (_written("evaluation.json", b"{"), "JSONDecodeError"),
    "no iteration": (_written("metrics.jsonl", b"[1]\n"), "line 1 names no iteration"),
}


@pytest.mark.parametrize("damage", NONSENSE)
def test_what_no_run_measures_is_refused_by_name_although_its_digest_holds(damage, damaged, reviewed):
    change, reason = NONSENSE[damage]
    made_up.rewrite(damaged, change)
    code, _, error = reviewed(damaged)
    assert (code, error.count("\n")) == (2, 1)
    assert reason in error and "is not what a run writes" in error and "make that run again" in error
