"""Records of published versions are packed: they read as before, keep their seals, and damage is seen."""

import shutil

import pytest

from groundlab.core import seals, storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import comparison, run_folder, versions

NAMES = ("metrics.jsonl", "evaluation.json")


@pytest.fixture
def version(finished, tmp_path):
    """A folder laid out as a version, with two equal runs; the first is packed."""
    for name in ("packed", "plain"):
        shutil.copytree(finished, tmp_path / name / "mediator" / "runs" / "always-0")
    versions.pack_records(tmp_path / "packed")
    return tmp_path


def _run(version, name):
    return version / name / "mediator" / "runs" / "always-0"


def test_packed_records_replace_plain_ones_and_read_alike(version):
    packed, plain = _run(version, "packed"), _run(version, "plain")
    assert not any((packed / name).exists() for name in NAMES)
    assert all((packed / f"{name}.gz").is_file() for name in NAMES)
    assert storage.read_json(packed / NAMES[1]) == storage.read_json(plain / NAMES[1])
    assert storage.read_lines(packed / NAMES[0]) == storage.read_lines(plain / NAMES[0])


def test_packing_changes_no_seal_and_no_comparison(version):
    packed, plain = _run(version, "packed"), _run(version, "plain")
    assert seals.digests_of(packed) == seals.digests_of(plain)
    assert run_folder.status_of(packed) == "finished"
    compared = comparison.compare(version / "packed", version / "plain")
    assert (len(compared.equal), compared.differing) == (1, [])


def test_packing_twice_gives_the_same_bytes(version):
    before = (_run(version, "packed") / "metrics.jsonl.gz").read_bytes()
    versions.pack_records(version / "plain")
    assert (_run(version, "plain") / "metrics.jsonl.gz").read_bytes() == before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", [0, 12, -3])
def test_a_byte_that_flips_in_a_packed_record_is_seen(version, name, where):
    file = _run(version, "packed") / f"{name}.gz"
    content = bytearray(file.read_bytes())
    content[where] ^= 0xFF
    file.write_bytes(bytes(content))
    assert name in run_folder.damage_of(file.parent, run_folder.read_manifest(file.parent))
    with pytest.raises(GroundlabError, match=name):
        comparison.compare(version / "packed", version / "plain")


def test_a_packed_record_that_is_cut_or_gone_is_seen(version):
    folder = _run(version, "packed")
    file = folder / "evaluation.json.gz"
    file.write_bytes(file.read_bytes()[:20])
    assert list(run_folder.damage_of(folder, run_folder.read_manifest(folder))) == ["evaluation.json"]
    file.unlink()
    assert run_folder.damage_of(folder, run_folder.read_manifest(folder)) == {"evaluation.json": "is missing"}


def test_a_kill_between_writing_and_removing_loses_nothing(version):
    folder = _run(version, "plain")
    storage.write_atomic(folder / "metrics.jsonl.gz", b"half")
    assert run_folder.status_of(folder) == "finished"
    versions.pack_records(version / "plain")
    assert run_folder.status_of(folder) == "finished" and not (folder / "metrics.jsonl").exists()
