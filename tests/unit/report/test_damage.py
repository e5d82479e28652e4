"""Damage to a version of the results: `groundlab review` names the file and the repair, with exit code 2, always.

Exit code 1 means that an exact claim fails. Here nothing fails: whatever is wrong is wrong with the files.
"""

import gzip
import json
import os
import random
import shutil
import sys
from pathlib import Path

import made_up
import pytest

from groundlab.cli.runs import versions_in
from groundlab.core import manifests, seals, storage
from groundlab.core.errors import GroundlabError
from groundlab.report import judge, records, review

page = sys.modules["groundlab.report.review"]  # its name in the package is the function
BINARY = b"\x89PNG\r\n\xff\xfe\x00" * 9
LOST = object()
RULE, TRAINED = "mediator/runs/always-SimpleDoorKey-s0-head0000", "mediator/runs/mediator-SimpleDoorKey-s1-head0000"


def text(name: str, content: str | bytes, run: str = RULE):
    """The file of a run, or of the version where `run` is empty, with another content."""
    written = content.encode() if isinstance(content, str) else content
    return lambda home: (home / run / name).write_bytes(written)


def changed(name: str, act, run: str = RULE):
    """Its bytes as `act` makes them."""

    def damage(home: Path) -> None:
        file = home / run / name
        file.write_bytes(act(file.read_bytes()))

    return damage


def gone(name: str):
    def damage(home: Path) -> None:
        place = home / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    return damage


def facts(run: str = "", sealed: bool = False, **changes):
    """The manifest of a run, or of the version, with other facts, or without them (LOST). Sealed anew if asked."""

    def damage(home: Path) -> None:
        file = home / run / "manifest.json"
        new = {**json.loads(file.read_text()), **changes}
        new = {key: value for key, value in new.items() if value is not LOST}
        file.write_text(json.dumps(seals.sealed(new) if sealed else new))

    return damage


def sealed_as_they_are(home: Path) -> None:
    """Seal runs and version again over whatever was done to them."""
    for run in (RULE, TRAINED):
        facts(run, sealed=True, records=seals.digests_of(home / run))(home)
    made_up.seal_version(home)


def link_to_itself(home: Path) -> None:
    shutil.rmtree(home / RULE)
    (home / RULE).symlink_to(home / RULE)


def swap(home: Path) -> None:
    """Two whole runs at each other's place."""
    first, second = home / RULE, home / TRAINED
    first.rename(home / "aside")
    second.rename(first)
    (home / "aside").rename(second)


def add_a_run(home: Path) -> None:
    shutil.copytree(home / TRAINED, home / TRAINED.replace("s1", "s7"))


def forget_a_run(home: Path) -> None:
    version = json.loads((home / "manifest.json").read_text())
    facts(sealed=True, runs=version["runs"][1:])(home)


def a_folder(name: str):
    def damage(home: Path) -> None:
        (home / name).unlink()
        (home / name).mkdir()

    return damage


DAMAGE = {
    # each record of a run
    "evaluation {}": text("evaluation.json", "{}"),
    "evaluation cut": changed("evaluation.json", lambda content: content[:-30]),
    "evaluation missing": gone(f"{RULE}/evaluation.json"),
    "evaluation a folder": a_folder(f"{RULE}/evaluation.json"),
    "metrics half a last line": changed("metrics.jsonl", lambda content: content[:-20], TRAINED),
    "metrics lists": text("metrics.jsonl", "[1]\n", TRAINED),
    "metrics texts": text("metrics.jsonl", '"a"\n"b"\n', TRAINED),
    "metrics empty": text("metrics.jsonl", "", TRAINED),
    "metrics missing": gone(f"{TRAINED}/metrics.jsonl"),
    "config seed abc": changed("config.yaml", lambda content: content.replace(b"seed: 0", b"seed: abc")),
    "config unknown method": changed("config.yaml", lambda content: content.replace(b"always", b"alwais")),
    "config settings null": text("config.yaml", "method: always\nworld: SimpleDoorKey\nseed: 0\nsettings: null\n"),
    "config binary": text("config.yaml", BINARY),
    "config no YAML": text("config.yaml", "a: ["),
    # the manifest of a run
    "run's manifest {}": text("manifest.json", "{}"),
    "run's manifest missing": gone(f"{RULE}/manifest.json"),
    "run's manifest with another number": facts(RULE, wall_seconds=0.1),
    "run's manifest of another run": lambda home: shutil.copy(home / TRAINED / "manifest.json", home / RULE),
    "run's manifest without seal": facts(RULE, seal=LOST),
    "run's manifest without records": facts(RULE, sealed=True, records=LOST),
    "run sealed again": lambda home: made_up.seal_run(home / RULE, wall_seconds=0.1),
    "run not finished": facts(RULE, sealed=True, status="unfinished"),
    # the folders of runs
    "run missing": gone(RULE),
    "run a link to itself": link_to_itself,
    "runs swapped": swap,
    "run added": add_a_run,
    "run forgotten": forget_a_run,
    # the manifest of the version
    **{f"manifest {name}": text("manifest.json", name, "") for name in ("{}", "")},
    "manifest binary": text("manifest.json", BINARY, ""),
    "manifest cut": changed("manifest.json", lambda content: content[: len(content) // 2], ""),
    "manifest of 100,000 brackets": text("manifest.json", "[" * 100_000, ""),
    "manifest without runs": facts(runs=LOST),
    "manifest runs x": facts(sealed=True, runs="x"),
    "manifest scale huge": facts(sealed=True, scale="huge"),
    "manifest git x": facts(sealed=True, git="x"),
    "manifest created 3": facts(sealed=True, created=3),
    "manifest wall_seconds x": lambda home: facts(
        sealed=True, runs=[{**json.loads((home / "manifest.json").read_text())["runs"][0], "wall_seconds": "x"}]
    )(home),
    "manifest another day": facts(created="2026-01-02T00:00:00+00:00"),
    "manifest without seal": facts(seal=LOST),
}


@pytest.fixture
def damaged(sealed_version, tmp_path, monkeypatch) -> Path:
    """A copy to be damaged; what is drawn of it does not matter here, nor what its made-up numbers miss exactly."""
    monkeypatch.setattr(page, "draw_all", lambda records: page.Gallery())
    inexact = lambda records: page.Verdicts(each for each in judge(records) if each.claim.tolerance != "exact")  # noqa: E731
    monkeypatch.setattr(page, "judge", inexact)
    home = tmp_path / sealed_version.name
    shutil.copytree(sealed_version, home)
    return home


@pytest.fixture
def reviewed(groundlab):
    """Judge a version by the command: reviewed(home) -> (exit code, stdout, stderr)."""
    return lambda home: groundlab("review", "--results", home)


@pytest.mark.parametrize("damage", DAMAGE)
def test_review_of_a_damaged_version_is_one_line_and_exit_code_2(damage, damaged, reviewed):
    DAMAGE[damage](damaged)
    code, _, error = reviewed(damaged)
    assert code == 2
    assert error.count("\n") == 1 and len(error) < 500
    assert str(damaged) in error and "restore it (git checkout)" in error
    assert not (damaged / "claims.json").exists()


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


SEALED_AS_IT_IS = {
    name: act
    for name, act in DAMAGE.items()
    if name.startswith(("evaluation {}", "evaluation cut", "metrics ", "config ")) and "missing" not in name
}


@pytest.mark.parametrize("damage", SEALED_AS_IT_IS)
def test_records_that_were_sealed_broken_are_one_line_too(damage, damaged, reviewed):
    """Seals say that a file is as it was written, not that it is right: what cannot be read is still told."""
    SEALED_AS_IT_IS[damage](damaged)
    sealed_as_they_are(damaged)
    code, _, error = reviewed(damaged)
    readable = damage in ("metrics half a last line", "metrics empty")
    assert code == 0 if readable else (code, error.count("\n")) == (2, 1)


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
    "success NaN": (_row(success=float("nan")), "success is nan"),
    "steps of 400 digits": (_row(steps=10**400), "steps is 1000"),
    "steps infinite": (_row(steps=float("-inf")), "steps is -inf"),
    "steps in words": (_row(steps="many"), "steps is 'many', no number"),
    "a row of another run": (_row(run="mine"), "run belongs to the run"),
    "a success in words": (_record(success="a"), "success is 'a', no number"),
    "tests as a list": (_record(test=[1]), "AttributeError"),
    "a test in words": (_record(test={"a": "b"}), "AttributeError"),
    "an iteration twice": (_record(iteration=2), "iterations do not rise"),
    "iteration -1": (_record(iteration=-1), "iterations do not rise"),
    "another seed": (lambda home: facts(RULE, sealed=True, seed=7)(home), "seed is not that of manifest.json"),
}


@pytest.mark.parametrize("damage", NONSENSE)
def test_what_no_run_measures_is_refused_by_name_although_it_is_sealed(damage, damaged, reviewed):
    act, reason = NONSENSE[damage]
    act(damaged)
    sealed_as_they_are(damaged)
    code, _, error = reviewed(damaged)
    assert (code, error.count("\n")) == (2, 1)
    assert reason in error and "is not what a run writes" in error and "delete its folder" in error


def test_a_packed_record_that_unfolds_to_more_than_was_written_is_not_unfolded(damaged, reviewed, monkeypatch):
    file = damaged / RULE / "evaluation.json"
    file.with_name(file.name + ".gz").write_bytes(gzip.compress(bytes(30_000_000)))
    file.unlink()
    read, packed = storage.read_bytes, []
    monkeypatch.setattr(storage, "read_bytes", lambda path: packed.append(storage.stored(path).suffix) or read(path))
    code, _, error = reviewed(damaged)
    assert code == 2 and "has 30,000,000 bytes, not the" in error and ".gz" not in packed


def test_a_broken_manifest_beside_is_named_before_the_newest_version_is_looked_for(damaged):
    (damaged.parent / "other").mkdir()
    (damaged.parent / "other" / "manifest.json").write_text("{}")
    with pytest.raises(GroundlabError, match=r"other/manifest\.json is no manifest \(key 'git' is missing"):
        versions_in(damaged.parent)


def test_while_it_is_assembled_a_version_may_hold_papers_that_its_manifest_does_not_name(damaged):
    shutil.copytree(damaged / "mediator", damaged / "glam")
    with pytest.raises(GroundlabError, match="is no run of this version"):
        records.load(damaged)
    home = damaged.rename(damaged.with_name(f"{manifests.ASSEMBLING}{damaged.name}"))
    assert records.load(home).papers == ["glam", "mediator"]


def test_any_change_of_any_file_is_seen_in_60_made_up_cases_more_with_groundlab_cases(sealed_version, tmp_path):
    """A bit, a cut or an insertion anywhere in a record or a manifest, but for white space at a manifest's end."""
    home = tmp_path / sealed_version.name
    shutil.copytree(sealed_version, home)
    files = sorted(file for file in home.rglob("*") if file.is_file())
    for seed in range(int(os.environ.get("GROUNDLAB_CASES", "60"))):
        rng = random.Random(seed)
        file = rng.choice(files)
        content = file.read_bytes()
        place, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
        flip = content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
        file.write_bytes(rng.choice([flip, content[:place], content[:place] + b"0" + content[place:]]))
        try:
            manifests.check_runs(home)
            assert file.name == "manifest.json", (seed, file, place)
            assert json.loads(file.read_bytes()) == json.loads(content), (seed, file, place)
        except GroundlabError as error:
            line = str(error)
            assert "\n" not in line and len(line) < 500 and file.parent.name in line, (seed, line)
        file.write_bytes(content)


def test_collected_runs_without_a_version_are_checked_one_by_one(damaged):
    (damaged / "manifest.json").unlink()
    assert len(records.load(damaged).runs) == 3
    storage.append_line(damaged / TRAINED / "metrics.jsonl", {"iteration": 11})
    with pytest.raises(GroundlabError, match=r"metrics\.jsonl has .* bytes, not the"):
        review(damaged)
