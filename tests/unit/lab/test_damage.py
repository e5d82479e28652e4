"""Damage to run folders: a stopped run says in one line what to delete, a finished one is run again; equal bytes after.

What is damaged: checkpoints, metrics, config, manifest, lock; each record of a finished run; and any file at random, in
120 made-up cases, of which the variable GROUNDLAB_CASES sets more (half of them).
"""

import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from groundlab.core import seals, storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import run_folder

CASES = int(os.environ.get("GROUNDLAB_CASES", "60"))
BINARY = b"\x89PNG\r\n\xff\xfe\x00" * 9


def flip(file: Path) -> None:
    """One bit, in the middle; the size stays."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def become_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


ANY_FILE = {
    "flipped": flip,
    "cut": cut,
    "missing": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "binary": lambda file: file.write_bytes(BINARY),
    "a folder": become_a_folder,
    "an object": lambda file: file.write_text("{}"),
    "a list": lambda file: file.write_text("[]"),
}


def newest(folder: Path) -> Path:
    (place,) = (folder / "checkpoint").iterdir()
    return place


def index_with(**changes):
    """A checkpoint's index with other facts, sealed anew: as if the writer itself had gone wrong."""

    def damage(folder: Path) -> None:
        file = newest(folder) / "checkpoint.json"
        facts = {**json.loads(file.read_text()), **changes}
        storage.write_json(file, seals.sealed({key: value for key, value in facts.items() if value is not None}))

    return damage


def of(name: str, damage):
    return lambda folder: damage(folder / name)


def of_checkpoint(name: str, damage):
    return lambda folder: damage(newest(folder) / name)


def write(name: str, text: str):
    return lambda folder: (folder / name).write_text(text)


OTHER_SPEC = {"method": "always", "world": "SimpleDoorKey", "seed": 1, "settings": {"layouts": "0-4"}}
FATAL = {
    **{f"weights {name}": of_checkpoint("weights.bin", damage) for name, damage in ANY_FILE.items()},
    **{f"index {name}": of_checkpoint("checkpoint.json", damage) for name, damage in ANY_FILE.items()},
    "step is a word": index_with(step="x"),
    "step is negative": index_with(step=-1),
    "step is another": index_with(step=4),
    "step is missing": index_with(step=None),
    "size of the metrics is a word": index_with(metrics_bytes="x"),
    "size of the metrics is negative": index_with(metrics_bytes=-5),
    "size of the metrics is missing": index_with(metrics_bytes=None),
    "size of the metrics is too large": index_with(metrics_bytes=10**6),
    "index names a file outside": index_with(files={"../../config.yaml": "0" * 64}),
    "index names no files": index_with(files=None),
    "checkpoint of another run": index_with(spec=OTHER_SPEC),
    "index of many brackets": of_checkpoint("checkpoint.json", lambda file: file.write_text("[" * 100_000)),
    "checkpoint renamed": lambda folder: newest(folder).rename(folder / "checkpoint" / "7"),
    **{f"metrics {name}": of("metrics.jsonl", damage) for name, damage in ANY_FILE.items()},
    "config is no YAML": write("config.yaml", "a: ["),
    "config binary": of("config.yaml", ANY_FILE["binary"]),
    "config a folder": of("config.yaml", ANY_FILE["a folder"]),
    **{f"manifest {name}": of("manifest.json", damage) for name, damage in ANY_FILE.items() if name != "missing"},
    "manifest of many digits": write("manifest.json", '{"seed": ' + "9" * 5000 + "}"),
    "lock a folder": of(".lock", ANY_FILE["a folder"]),
}
HARMLESS = {
    "half a line after the checkpoint": lambda folder: storage.append_line(folder / "metrics.jsonl", {"iteration": 6}),
    "half a checkpoint": lambda folder: storage.write_atomic(folder / "checkpoint" / "partial" / "state.json", b"{"),
    "a folder that is no number": lambda folder: (folder / "checkpoint" / "²").mkdir(),
    "manifest missing": of("manifest.json", Path.unlink),
}


def follow_advice(line: str, folder: Path) -> Path:
    """Delete what an error line says, inside the folder; returns it."""
    found = re.search(r"checkpoint (\S+) is corrupt; delete that folder|delete (\S+) and", line)
    assert found and "\n" not in line and len(line) < 500, line
    place = Path(found[1] or found[2])
    assert place.is_relative_to(folder), line
    shutil.rmtree(place)
    return place


@pytest.mark.parametrize("damage", FATAL)
def test_damage_to_a_stopped_run_is_one_line_and_its_advice_gives_equal_bytes(
    damage, laboratory, stopped, finished, records, tmp_path
):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    FATAL[damage](folder)
    with pytest.raises(GroundlabError) as error:
        laboratory.run(folder)
    assert str(folder) in str(error.value)
    follow_advice(str(error.value), folder)
    laboratory.run(folder)
    assert records(folder) == records(finished)


@pytest.mark.parametrize("damage", HARMLESS)
def test_what_a_kill_may_leave_is_passed_over(damage, laboratory, stopped, finished, records, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    HARMLESS[damage](folder)
    laboratory.run(folder)
    assert records(folder) == records(finished) and not (folder / "checkpoint" / "partial").exists()


@pytest.mark.parametrize("name", seals.RECORDS)
@pytest.mark.parametrize("damage", ANY_FILE)
def test_a_finished_run_with_a_damaged_record_is_run_again(name, damage, laboratory, finished, records, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    ANY_FILE[damage](folder / name)
    assert run_folder.status_of(folder) == "unfinished"
    laboratory.run(folder)
    assert records(folder) == records(finished) and run_folder.status_of(folder) == "finished"
    assert f"starts again: {name} " in (folder / "log.txt").read_text()


def test_what_is_whole_is_not_made_again(laboratory, finished, tmp_path):
    """A lost evaluation is played again; no step of the training is done twice."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "evaluation.json").unlink()
    laboratory.run(folder, {step: lambda: pytest.fail("trained again") for step in range(1, 9)})
    assert run_folder.status_of(folder) == "finished"


@pytest.mark.parametrize("damage", [name for name in ANY_FILE if name != "missing"])
def test_a_finished_run_with_a_damaged_manifest_says_what_to_delete(damage, laboratory, finished, records, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    ANY_FILE[damage](folder / "manifest.json")
    with pytest.raises(GroundlabError, match=r"manifest\.json") as error:
        laboratory.run(folder)
    with pytest.raises(GroundlabError, match=re.escape(str(error.value))):
        run_folder.status_of(folder)
    assert follow_advice(str(error.value), folder) == folder
    laboratory.run(folder)
    assert records(folder) == records(finished)


def test_a_manifest_that_lost_its_seals_vouches_for_nothing(laboratory, finished, records, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for lost in ("seal", "records"):
        rest = {key: value for key, value in manifest.items() if key != lost}
        storage.write_json(folder / "manifest.json", rest if lost == "seal" else seals.sealed(rest))
        assert run_folder.status_of(folder) == "unfinished"
    laboratory.run(folder)
    assert records(folder) == records(finished)


def test_every_sealed_byte_of_a_finished_run_is_watched(laboratory, finished, tmp_path):
    """Any digit or letter of the manifest that changes, wherever it is, is seen."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    whole = (folder / "manifest.json").read_bytes()
    places = [place for place, byte in enumerate(whole) if chr(byte).isalnum()]
    for place in places[:: max(1, len(places) // 60)]:
        changed = bytearray(whole)
        changed[place] ^= 1
        (folder / "manifest.json").write_bytes(changed)
        try:
            assert run_folder.status_of(folder) != "finished", whole[place - 20 : place + 20]
        except GroundlabError as error:
            assert "manifest.json" in str(error)


def test_a_file_is_hashed_once_while_it_stays_as_it_is(finished, monkeypatch):
    counted = []
    monkeypatch.setattr(seals, "_SETTLED_NS", 0)
    monkeypatch.setattr(seals, "digest_bytes", lambda data: counted.append(data) or storage.digest_bytes(data))
    for _ in range(5):
        assert run_folder.status_of(finished) == "finished"
    assert len(counted) <= len(seals.RECORDS)


def hurt(folder: Path, rng: random.Random) -> str:
    """Do something to one file of a run; returns what."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in (".lock", "log.txt"))
    file = rng.choice(files)
    content = file.read_bytes()
    place = rng.randrange(len(content))
    acts = {
        "a bit flips": lambda: content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
        "it is cut": lambda: content[:place],
        "bytes are zero": lambda: content[:place] + bytes(len(content) - place),
        "bytes come in": lambda: content[:place] + rng.randbytes(5) + content[place:],
        "a part comes twice": lambda: content + content[place:],
        "it is of another file": lambda: rng.choice(files).read_bytes(),
    }
    act = rng.choice(sorted(acts))
    file.write_bytes(acts[act]())
    return f"{file.relative_to(folder)}: {act} at {place}"


@pytest.mark.parametrize("which", ["stopped", "finished"])
def test_random_damage_never_changes_a_result(which, laboratory, finished, records, tmp_path, request):
    source, told = request.getfixturevalue(which), 0
    for seed in range(CASES):
        folder, rng = tmp_path / str(seed), random.Random(seed)
        shutil.copytree(source, folder)
        what = hurt(folder, rng)
        for _ in range(3):  # the advice, once or for each file that it names
            try:
                laboratory.run(folder)
                break
            except GroundlabError as error:
                told += 1
                follow_advice(str(error), folder)
        assert records(folder) == records(finished), (seed, what)
        assert run_folder.status_of(folder) == "finished", (seed, what)
        assert storage.read_json(folder / "manifest.json")["records"], (seed, what)
    assert told > CASES // 20
