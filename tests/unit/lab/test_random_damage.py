"""Damage at random: a run ends with equal bytes, or says in one line what to delete.

120 made-up cases; the variable GROUNDLAB_CASES sets more (half of them).
"""

import os
import random
import re
import shutil
from pathlib import Path

import pytest

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import run_folder

CASES = int(os.environ.get("GROUNDLAB_CASES", "60"))


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


def follow_advice(line: str, folder: Path) -> None:
    found = re.search(r"checkpoint (\S+) is corrupt; delete that folder|delete (\S+) and", line)
    assert found and "\n" not in line and len(line) < 500, line
    place = Path(found[1] or found[2])
    assert place.is_relative_to(folder), line
    shutil.rmtree(place)


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
