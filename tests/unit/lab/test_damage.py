"""Damage to run folders: a stopped run says in one line what to delete, a finished one is run again to equal bytes."""

import json
import re
import shutil
from pathlib import Path

import pytest

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.run import RECORDS
from groundlab.lab import run_folder


def flip(file: Path) -> None:
    """One bit, in the middle; the size stays."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def become_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


ANY_FILE = {
    "flipped": flip,
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-7]),
    "missing": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "binary": lambda file: file.write_bytes(b"\x89PNG\r\n\xff\xfe\x00" * 9),
    "a folder": become_a_folder,
    "an object": lambda file: file.write_text("{}"),
}
CHECKPOINT = "checkpoint/5/checkpoint.json"
OTHER_SPEC = {"method": "always", "world": "SimpleDoorKey", "seed": 1, "settings": {"layouts": "0-4"}}


def index_with(**changes):
    """A checkpoint's index with other facts: as if the writer itself had gone wrong."""

    def damage(file: Path) -> None:
        storage.write_json(file, {**json.loads(file.read_text()), **changes})

    return damage


STOPPED = [
    *((name, what) for name in ("checkpoint/5/weights.bin", "metrics.jsonl") for what in ANY_FILE.items()),
    *((CHECKPOINT, (what, act)) for what, act in ANY_FILE.items() if what != "flipped"),
    *(("manifest.json", (what, act)) for what, act in ANY_FILE.items() if what not in ("missing", "flipped")),
    *(("config.yaml", (what, ANY_FILE[what])) for what in ("binary", "a folder")),
    (CHECKPOINT, ("another step", index_with(step=4))),
    (CHECKPOINT, ("too large metrics", index_with(metrics_bytes=10**6))),
    (CHECKPOINT, ("a file outside", index_with(files={"../../config.yaml": "0" * 64}))),
    (CHECKPOINT, ("another run", index_with(spec=OTHER_SPEC))),
]
HARMLESS = {
    "half a line after the checkpoint": lambda folder: storage.append_line(folder / "metrics.jsonl", {"iteration": 6}),
    "half a checkpoint": lambda folder: storage.write_atomic(folder / "checkpoint" / "partial" / "state.json", b"{"),
    "a folder without a number": lambda folder: (folder / "checkpoint" / "²").mkdir(),
    "manifest missing": lambda folder: (folder / "manifest.json").unlink(),
}


def follow_advice(line: str, folder: Path) -> None:
    """Delete what an error line says, inside the folder."""
    found = re.search(r"checkpoint (\S+) is corrupt; delete that folder|delete (\S+) and", line)
    assert found and "\n" not in line and len(line) < 500, line
    place = Path(found[1] or found[2])
    assert place.is_relative_to(folder), line
    shutil.rmtree(place)


@pytest.mark.parametrize(("name", "damage"), STOPPED, ids=lambda value: value if isinstance(value, str) else value[0])
def test_damage_to_a_stopped_run_is_one_line_and_its_advice_gives_equal_bytes(
    name, damage, laboratory, stopped, finished, records, tmp_path
):
    folder = shutil.copytree(stopped, tmp_path / "run")
    damage[1](folder / name)
    with pytest.raises(GroundlabError) as error:
        laboratory.run(folder)
    follow_advice(str(error.value), folder)
    laboratory.run(folder)
    assert records(folder) == records(finished)


@pytest.mark.parametrize("damage", HARMLESS)
def test_what_a_kill_may_leave_is_passed_over(damage, laboratory, stopped, finished, records, tmp_path):
    folder = shutil.copytree(stopped, tmp_path / "run")
    HARMLESS[damage](folder)
    laboratory.run(folder)
    assert records(folder) == records(finished) and not (folder / "checkpoint" / "partial").exists()


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("damage", [name for name in ANY_FILE if name != "flipped"])
def test_a_finished_run_with_a_damaged_record_is_run_again(name, damage, laboratory, finished, records, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    ANY_FILE[damage](folder / name)
    assert run_folder.status_of(folder) == "unfinished"
    laboratory.run(folder)
    assert records(folder) == records(finished) and run_folder.status_of(folder) == "finished"


def test_a_lost_evaluation_is_played_again_without_training(laboratory, finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / "evaluation.json").unlink()
    laboratory.run(folder, {step: lambda: pytest.fail("trained again") for step in range(1, 9)})
    assert run_folder.status_of(folder) == "finished"


@pytest.mark.parametrize("damage", [name for name in ANY_FILE if name not in ("missing", "flipped")])
def test_a_finished_run_with_a_damaged_manifest_says_what_to_delete(damage, laboratory, finished, records, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    ANY_FILE[damage](folder / "manifest.json")
    with pytest.raises(GroundlabError, match=r"manifest\.json") as error:
        run_folder.status_of(folder)
    follow_advice(str(error.value), folder)
    laboratory.run(folder)
    assert records(folder) == records(finished)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_of_the_old_size_with_another_bit_is_found_where_it_is_read(name, finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    manifest = run_folder.read_manifest(folder)
    assert set(run_folder.read_records(folder, manifest)) == set(RECORDS)
    flip(folder / name)
    with pytest.raises(GroundlabError, match=rf"{name} has changed since it was written; delete {folder}"):
        run_folder.read_records(folder, manifest)
